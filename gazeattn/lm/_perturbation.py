"""Attribution by perturbation: occlusion, replacement, LIME and Kernel SHAP over words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gazeattn.errors import CapabilityError
from gazeattn.lm._method import Method, MethodResult, Run
from gazeattn.lm._scoring import Scorer, scorer_of, word_result
from gazeattn.lm.tokens import Encoded
from gazeattn.registry import register_attention

MANY = 256
"""Perturbed texts beside two per word, where no number is given."""


def coalitions(n: int, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coalitions of `n` players for Kernel SHAP and their weights.

    All proper coalitions with the Shapley kernel's weights where `samples` is enough for them;
    else draws from the kernel, each with its complement, of equal weight.

    Parameters
    ----------
    n
    samples
        At least 2.
    seed

    Returns
    -------
    present : ndarray, shape (n_coalitions, n), bool
    weights : ndarray, shape (n_coalitions,)
    """
    if n < 2:
        return np.zeros((0, n), dtype=bool), np.zeros(0)
    if n < 60 and 2**n - 2 <= samples:
        number = np.arange(1, 2**n - 1)
        present = (number[:, None] >> np.arange(n)) & 1 == 1
        size = present.sum(1)
        choose = np.array([math.comb(n, k) for k in range(n + 1)], dtype=np.float64)
        return present, (n - 1) / (choose[size] * size * (n - size))
    draw = np.random.default_rng(seed)
    sizes = np.arange(1, n)
    p = 1.0 / (sizes * (n - sizes))
    half = (samples + 1) // 2
    size = draw.choice(sizes, half, p=p / p.sum())
    rank = draw.random((half, n)).argsort(1).argsort(1)
    first = rank < size[:, None]
    return np.concatenate([first, ~first]), np.ones(2 * half)


def shapley(
    present: np.ndarray, weights: np.ndarray, values: np.ndarray, empty: float, full: float
) -> np.ndarray:
    """Solve the weighted least squares of Kernel SHAP; the result adds up to ``full - empty``.

    Returns
    -------
    ndarray, shape (n,)
        Lundberg and Lee (2017), A unified approach to interpreting model predictions, NeurIPS.
    """
    n = present.shape[1]
    if n == 1:
        return np.array([full - empty])
    z = present.astype(np.float64)
    # the last player is what is left of the sum
    x = z[:, :-1] - z[:, -1:]
    y = values - empty - z[:, -1] * (full - empty)
    root = np.sqrt(weights)[:, None]
    first = np.linalg.lstsq(x * root, y * root[:, 0], rcond=None)[0]
    return np.append(first, full - empty - first.sum())


def lime(
    present: np.ndarray, values: np.ndarray, width: float = 0.25, ridge: float = 1e-3
) -> np.ndarray:
    """Return the coefficients of a weighted ridge regression on masks, shape (n,).

    Ribeiro et al. (2016), "Why should I trust you?", KDD. The distance of a mask is one minus
    its cosine with the full text; the weight is ``exp(-d^2 / width^2)``; the intercept is not
    shrunk.
    """
    z = present.astype(np.float64)
    distance = 1 - np.sqrt(z.mean(1))
    w = np.exp(-((distance / width) ** 2))
    middle = (w @ z) / w.sum()
    x, y = z - middle, values - (w @ values) / w.sum()
    gram = (x * w[:, None]).T @ x + ridge * np.eye(z.shape[1])
    return np.linalg.solve(gram, (x * w[:, None]).T @ y)


class _Perturbing(Method):
    """Numbers per word from perturbed texts."""

    evaluates = True
    name = ""

    def words(self, lm: Any, scorer: Scorer) -> tuple[torch.Tensor, dict[str, Any], dict[str, Any]]:
        """Return attributions, shape (n_words,), conventions and losses."""
        raise NotImplementedError

    def evaluate(self, lm: Any, run: Run) -> None:
        """Run the model for one text."""
        run.found[self.name] = self.words(lm, scorer_of(lm, run))

    def finish(self, run: Run) -> MethodResult:
        """Return the result for one text."""
        word, how, lost = run.found[self.name]
        return word_result(run, word, {"subword": "a word's tokens change together", **how}, lost)


class _Masked(_Perturbing):
    """Words are put to the baseline embedding, many texts at a time."""

    def present(self, n: int, scorer: Scorer) -> tuple[np.ndarray, np.ndarray]:
        """Return masks of the `n` words with a score, and their weights."""
        raise NotImplementedError

    def solve(
        self, present: np.ndarray, weights: np.ndarray, values: np.ndarray, none: float, full: float
    ) -> np.ndarray:
        """Return the attribution of each word with a score."""
        raise NotImplementedError

    def words(self, lm: Any, scorer: Scorer) -> tuple[torch.Tensor, dict[str, Any], dict[str, Any]]:
        """Return attributions, shape (n_words,), conventions and losses."""
        plan, options = scorer.plan, scorer.plan.options
        at = torch.nonzero(plan.has_key).flatten().cpu()
        word = torch.full((plan.n_words,), torch.nan, dtype=torch.float64)
        if len(at) == 0:
            return word, {}, {}
        masks, weights = self.present(len(at), scorer)
        masks = np.concatenate([masks, np.zeros((1, len(at)), bool), np.ones((1, len(at)), bool)])
        rows = torch.zeros(len(masks), plan.n_words, dtype=torch.bool)
        rows[:, at] = torch.from_numpy(masks)
        values = scorer.masks(rows).numpy()
        none, full = float(values[-2]), float(values[-1])
        found = self.solve(masks[:-2], weights, values[:-2], none, full)
        word[at] = torch.from_numpy(found)
        how = {
            "baseline": options.baseline,
            "perturbed_texts": len(masks),
            "seed": options.attribution_seed,
        }
        lost = {"target_change": full - none, "completeness_gap": float(found.sum()) - full + none}
        return word, how, lost


def _samples(n: int, scorer: Scorer) -> int:
    return max(2, scorer.plan.options.attribution_samples or 2 * n + MANY)


@register_attention(
    "shap",
    description="Kernel SHAP over words at a baseline embedding",
    citation="Lundberg and Lee (2017), A unified approach to interpreting predictions, NeurIPS",
    family="perturbation",
)
class KernelShap(_Masked):
    """Shapley values: exact in short texts, else from sampled coalitions and complements."""

    name = "shap"

    def present(self, n: int, scorer: Scorer) -> tuple[np.ndarray, np.ndarray]:
        """Return coalitions and weights."""
        return coalitions(n, _samples(n, scorer), scorer.plan.options.attribution_seed)

    def solve(
        self, present: np.ndarray, weights: np.ndarray, values: np.ndarray, none: float, full: float
    ) -> np.ndarray:
        """Return Shapley values."""
        return shapley(present, weights, values, none, full)


@register_attention(
    "lime",
    description="LIME: weighted linear model of random word masks",
    citation="Ribeiro et al. (2016), Why should I trust you?, KDD",
    family="perturbation",
)
class Lime(_Masked):
    """Ridge regression; the number of absent words is uniform."""

    name = "lime"

    def present(self, n: int, scorer: Scorer) -> tuple[np.ndarray, np.ndarray]:
        """Return random masks."""
        draw = np.random.default_rng(scorer.plan.options.attribution_seed)
        m = _samples(n, scorer)
        absent = draw.integers(1, n + 1, m)
        rank = draw.random((m, n)).argsort(1).argsort(1)
        return rank >= absent[:, None], np.ones(m)

    def solve(
        self, present: np.ndarray, weights: np.ndarray, values: np.ndarray, none: float, full: float
    ) -> np.ndarray:
        """Return the coefficients; the full text is one of the rows."""
        rows = np.concatenate([present, np.ones((1, present.shape[1]), bool)])
        return lime(rows, np.append(values, full))


@register_attention(
    "occlusion_blank",
    description="Fall of the target with the word at a baseline embedding",
    citation="Zeiler and Fergus (2014), Visualizing convolutional networks, ECCV",
    family="perturbation",
)
class OcclusionBlank(_Masked):
    """One word at a time, positions kept."""

    name = "occlusion_blank"

    def present(self, n: int, scorer: Scorer) -> tuple[np.ndarray, np.ndarray]:
        """Return masks without one word."""
        return ~np.eye(n, dtype=bool), np.ones(n)

    def solve(
        self, present: np.ndarray, weights: np.ndarray, values: np.ndarray, none: float, full: float
    ) -> np.ndarray:
        """Return the fall of the target."""
        return full - values


class _Edited(_Perturbing):
    """Words are deleted or replaced as tokens, many texts at a time."""

    rule = ""

    def fills(self, lm: Any, scorer: Scorer) -> dict[int, list[int]]:
        """Return the new tokens of each word; words that are left out are deleted."""
        return {}

    def words(self, lm: Any, scorer: Scorer) -> tuple[torch.Tensor, dict[str, Any], dict[str, Any]]:
        """Return attributions, shape (n_words,), conventions and losses."""
        plan, encoded = scorer.plan, scorer.encoded
        fills = self.fills(lm, scorer)
        at = torch.nonzero(plan.has_key).flatten().tolist()
        pairs = [edit(encoded, w, fills.get(w, [])) for w in at]
        word = torch.full((plan.n_words,), torch.nan, dtype=torch.float64)
        word[at] = scorer.edited([e for e, _ in pairs], [o for _, o in pairs])
        lost = {"words_unchanged": sum(_same(encoded, e) for e, _ in pairs)}
        return word, {"replacement": self.rule, "perturbed_texts": len(at)}, lost


def _same(a: Encoded, b: Encoded) -> bool:
    return np.array_equal(a.input_ids, b.input_ids)


def edit(encoded: Encoded, word: int, new: list[int]) -> tuple[Encoded, torch.Tensor]:
    """Put the tokens `new` in the place of a word.

    Returns
    -------
    encoded : Encoded
    origin : Tensor, shape (n_tokens,)
        Position of each token in the text before; -1 for new tokens.
    """
    own = (encoded.word_of == word) & (encoded.role == 0)
    keep = np.flatnonzero(~own)
    first = int(np.searchsorted(keep, np.flatnonzero(own)[0]))
    origin = np.insert(keep, first, np.full(len(new), -1)) if new else keep
    old = encoded.take(keep)
    if not new:
        return old, torch.from_numpy(origin)

    def put(values: np.ndarray, what: Any) -> np.ndarray:
        return np.insert(values, first, what)

    # the new tokens' own predictions are no part of the target, so they need no name
    changed = replace(
        old,
        input_ids=put(old.input_ids, new),
        word_of=put(old.word_of, [word] * len(new)),
        role=put(old.role, [0] * len(new)),
        tokens=(*old.tokens[:first], *("" for _ in new), *old.tokens[first:]),
    )
    return changed, torch.from_numpy(origin)


@register_attention(
    "occlusion",
    description="Fall of the target when the word is deleted",
    citation="Li et al. (2016), Understanding neural networks through representation erasure",
    family="perturbation",
)
class Occlusion(_Edited):
    """The word's tokens are taken out, one word at a time."""

    name = "occlusion"
    rule = "deleted"


@register_attention(
    "occlusion_fill",
    description="Fall of the target when the model's own most likely token takes the word's place",
    citation="Kou et al. (2024), Do large language models pay similar attention, FSE (with an MLM)",
    family="perturbation",
)
class OcclusionFill(_Edited):
    """The most likely next token after the words before, from one pass over the text."""

    name = "occlusion_fill"
    rule = "the model's own most likely token given the words before"

    @torch.no_grad()
    def fills(self, lm: Any, scorer: Scorer) -> dict[int, list[int]]:
        """Return one token per word; a first word that nothing precedes is deleted."""
        if scorer.target != "next_token":
            raise CapabilityError(
                "occlusion_fill needs a decoder with a language-model head and target='next_token'"
            )
        plan = scorer.plan
        at = torch.nonzero(plan.has_key & (plan.first_key > 0)).flatten()
        hidden = scorer.base(inputs_embeds=scorer.embeddings[None], **scorer.extra)[0][0]
        parts = hidden[plan.first_key[at] - 1].split(256)
        best = [t for h in parts for t in scorer.head(h).argmax(-1).tolist()]
        return {int(w): [t] for w, t in zip(at.tolist(), best, strict=True)}


@register_attention(
    "mlm_masking",
    description="Fall of the target when a masked language model fills the word's place",
    citation="Kou et al. (2024), Do large language models pay similar attention, FSE",
    family="perturbation",
)
class MlmMasking(_Edited):
    """One masked word at a time; the best single token of a masked language model goes in.

    The masked language model is ``masked_lm``, or the explained model where it is one itself.
    """

    name = "mlm_masking"
    rule = "the most likely token of a masked language model"

    @torch.no_grad()
    def fills(self, lm: Any, scorer: Scorer) -> dict[int, list[int]]:
        """Return the new tokens of each word."""
        filler = self._filler(lm, scorer)
        encoded, plan = scorer.encoded, scorer.plan
        at = torch.nonzero(plan.has_key).flatten().tolist()
        owned = [encoded.input_ids[encoded.word_of == w].tolist() for w in range(plan.n_words)]
        texts = [lm.tokenizer.decode(ids).strip() or "?" for ids in owned]
        other = encoded if filler is lm else filler.encode(texts)
        mask = filler.tokenizer.mask_token_id
        if mask is None:
            raise CapabilityError("mlm_masking needs a tokenizer with a mask token")
        found: dict[int, list[int]] = {}
        chosen = [w for w in at if (other.word_of == w).any()]
        ids = torch.as_tensor(other.input_ids)
        device = next(filler.model.parameters()).device
        rows = max(1, plan.options.attribution_tokens // len(ids))
        for start in range(0, len(chosen), rows):
            part = chosen[start : start + rows]
            own = torch.stack([torch.as_tensor(other.word_of == w) for w in part])
            masked = torch.where(own, mask, ids).to(device)
            place = own.int().argmax(1).to(device)
            logits = filler.model(input_ids=masked).logits
            best = logits[torch.arange(len(part), device=device), place].argmax(-1).tolist()
            for w, token in zip(part, best, strict=True):
                found[w] = [token] if filler is lm else self._translate(lm, filler, token, owned[w])
        return found

    def _filler(self, lm: Any, scorer: Scorer) -> Any:
        name = scorer.plan.options.masked_lm
        if name is None and lm.info.get("mlm_head"):
            return lm
        if name is None:
            raise CapabilityError(
                "mlm_masking needs a masked language model: give its folder or hub id as "
                "masked_lm, or use occlusion or occlusion_fill"
            )
        from gazeattn.lm.model import LanguageModel

        filler = LanguageModel.load(name)
        if not filler.info.get("mlm_head"):
            raise CapabilityError(f"{name} has no masked-language-model head")
        return filler

    def _translate(self, lm: Any, filler: Any, token: int, old: list[int]) -> list[int]:
        text = filler.tokenizer.decode([token]).strip()
        blank = " " if lm.tokenizer.decode(old).startswith(" ") else ""
        return list(lm.tokenizer(blank + text, add_special_tokens=False)["input_ids"])
