"""What every attention head does: figures from texts and from two probes, and a label."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

from gazeattn.errors import CapabilityError, DataError
from gazeattn.lm._plan import MIN_MASS, AttentionOptions, Plan, Rows
from gazeattn.lm.batches import Batch
from gazeattn.lm.capture import Session, base_of, capture, has_interface
from gazeattn.lm.tokens import Encoded

LABELS = ("induction", "retrieval", "previous", "first", "delimiter", "local", "broad", "mixed")
TEXT_FIGURES = ("previous", "self", "first", "delimiter", "entropy", "distance")
PROBE_FIGURES = ("induction", "retrieval")
FIGURES = (*TEXT_FIGURES, *PROBE_FIGURES)


@dataclass(frozen=True)
class Thresholds:
    """From which value on a head has a label; several may hold, `LABELS` gives their order.

    Attributes
    ----------
    retrieval
        Share of the needle's tokens copied (0.1: Wu et al., 2024, Retrieval head).
    induction
        Mean attention on the token after the earlier occurrence (Olsson et al., 2022,
        In-context learning and induction heads).
    previous, first, delimiter
        Mean attention on the previous token, the first token, and punctuation (Clark et al.,
        2019, What does BERT look at?).
    local
        Mean distance in tokens up to which a head is local; the first token is left out.
    broad
        Entropy over the logarithm of the number of visible tokens; the first token is left out.
    """

    retrieval: float = 0.1
    induction: float = 0.3
    previous: float = 0.5
    first: float = 0.5
    delimiter: float = 0.3
    local: float = 5.0
    broad: float = 0.8


class HeadObserver:
    """Sums over the rows of texts, block by block.

    Parameters
    ----------
    is_query : Tensor, shape (n_tokens,), bool
        Rows that count.
    is_first : Tensor, shape (n_tokens,), bool
        The token that takes attention that has nowhere else to go.
    is_delimiter : Tensor, shape (n_tokens,), bool
    copied : Tensor, shape (n_tokens,), int, optional
        For each row the key whose token it is to bring out next, -1 where there is none.
    searched : Tensor, shape (n_tokens,), bool, optional
        Keys among which the largest weight of a row with `copied` is looked for.

    Attributes
    ----------
    sums : dict of str to list of Tensor
        Sums over rows, (heads,) per layer.
    counts : dict of str to list of Tensor
        Numbers of rows.
    hits : list of Tensor
        Per layer, whether the largest weight lies on the copied key, (heads, n_tokens).
    """

    def __init__(
        self,
        is_query: torch.Tensor,
        is_first: torch.Tensor,
        is_delimiter: torch.Tensor,
        copied: torch.Tensor | None = None,
        searched: torch.Tensor | None = None,
    ) -> None:
        self.query, self.first = is_query, is_first
        self.delimiter = is_delimiter & ~is_first
        self.copied, self.searched = copied, searched
        self.sums: dict[str, list[torch.Tensor]] = {}
        self.counts: dict[str, list[torch.Tensor]] = {}
        self.hits: list[torch.Tensor] = []
        self._new = True

    def begin(
        self, layer: int, values: torch.Tensor | None, projection: torch.Tensor | None
    ) -> None:
        """Start a layer."""
        self._new = True

    def _add(self, name: str, values: torch.Tensor, counted: torch.Tensor) -> None:
        total = torch.where(counted, values, 0.0).double().sum(-1).cpu()
        number = counted.expand(values.shape).double().sum(-1).cpu()
        if name not in self.sums:
            self.sums[name], self.counts[name] = [], []
        if len(self.sums[name]) < self._layer + 1:
            self.sums[name].append(torch.zeros_like(total))
            self.counts[name].append(torch.zeros_like(number))
        self.sums[name][-1] += total
        self.counts[name][-1] += number

    def rows(self, attention: torch.Tensor, rows: Rows, scratch: torch.Tensor) -> None:
        """Take a block of rows."""
        if self._new:
            shape = (len(attention), len(self.query))
            self.hits.append(torch.zeros(shape, dtype=torch.bool, device=attention.device))
            self._new = False
        at = torch.arange(rows.start, rows.stop, device=attention.device)
        key = torch.arange(rows.keys, device=attention.device)
        query = self.query[at]
        own = attention.gather(-1, at.expand(len(attention), -1)[..., None])[..., 0]
        before = (at - 1).clamp_min(0)
        previous = attention.gather(-1, before.expand(len(attention), -1)[..., None])[..., 0]
        # next to the first token, attention to it would count twice
        self._add("previous", previous, query & (at > 0) & ~self.first[before])
        self._add("self", own, query)
        self._add("first", attention @ self.first[: rows.keys].float(), query)
        self._add("delimiter", attention @ self.delimiter[: rows.keys].float(), query)
        rest = (~self.first[: rows.keys]).float()
        mass = attention @ rest
        there = query & (mass >= MIN_MASS)
        mass = mass.clamp_min(MIN_MASS)
        torch.mul(attention, (at[:, None] - key).abs() * rest, out=scratch)
        self._add("distance", scratch.sum(-1) / mass, there)
        torch.clamp_min(attention, 1e-37, out=scratch)
        entropy = mass.log() - (scratch.log_().mul_(attention) @ rest) / mass
        seen = rest.sum().expand(len(at))
        if rows.causal:
            seen = rest.cumsum(0)[at]
        elif rows.visible is not None:
            seen = rows.visible.float() @ rest
        share = entropy.clamp_min(0) / seen.clamp_min(2).log()
        self._add("entropy", share, there & (seen >= 2))
        if self.copied is not None:
            self._copies(attention, at)

    def _copies(self, attention: torch.Tensor, at: torch.Tensor) -> None:
        assert self.copied is not None
        target = self.copied[at]
        asked = target >= 0
        if not bool(asked.any()):
            return
        index = target.clamp_min(0).expand(len(attention), -1)[..., None]
        self._add("induction", attention.gather(-1, index)[..., 0], asked)
        if self.searched is not None:
            hidden = ~self.searched[: attention.shape[-1]]
            best = attention.masked_fill(hidden, -1.0).argmax(-1)
            self.hits[-1][:, at] = (best == target) & asked

    def end(self, layer: int) -> None:
        """Finish the layer."""

    @property
    def _layer(self) -> int:
        return len(self.hits) - 1

    def means(self, name: str) -> np.ndarray:
        """Return the mean over rows, shape (n_layers, n_heads), NaN where no row counts."""
        total, number = torch.stack(self.sums[name]), torch.stack(self.counts[name])
        return torch.where(number > 0, total / number.clamp_min(1), torch.nan).numpy()


def is_delimiter(text: str) -> bool:
    """Whether a token holds nothing but punctuation (and white space)."""
    letters = text.strip()
    return bool(letters) and all(unicodedata.category(c).startswith("P") for c in letters)


def text_figures(lm: Any, texts: Sequence[Encoded], chunk: int | None = None) -> dict[str, Any]:
    """Return what every head does on texts.

    Parameters
    ----------
    lm
        Has ``model`` and ``tokenizer``.
    texts
        Encoded texts, each within the model's context.
    chunk
        Query rows in memory at a time; chosen where None.

    Returns
    -------
    dict
        Each of `TEXT_FIGURES`: ndarray (n_layers, n_heads), means over all rows of all texts;
        ``n_rows``.
    """
    if not texts:
        raise DataError("the catalogue of heads needs at least one text")
    seen = []
    for encoded in texts:
        plan = Plan(encoded, AttentionOptions(), next(lm.model.parameters()).device)
        ids = [int(i) for i in encoded.input_ids]
        marks = torch.tensor([is_delimiter(lm.tokenizer.decode([i])) for i in ids])
        first = torch.as_tensor(encoded.role) == 1
        if not bool(first.any()):
            first = torch.arange(len(ids)) == 0
        at = plan.device
        query = plan.is_word & ~first.to(at)
        observer = HeadObserver(query, first.to(at), marks.to(at))
        _observe(lm, encoded, observer, chunk)
        seen.append(observer)
    found: dict[str, Any] = {}
    for name in TEXT_FIGURES:
        total = sum(torch.stack(o.sums[name]) for o in seen)
        number = sum(torch.stack(o.counts[name]) for o in seen)
        assert isinstance(total, torch.Tensor) and isinstance(number, torch.Tensor)
        found[name] = torch.where(number > 0, total / number.clamp_min(1), torch.nan).numpy()
    found["n_rows"] = int(sum(o.query.sum() for o in seen))
    return found


def induction_score(
    lm: Any, length: int = 50, repeats: int = 4, seed: int = 0, chunk: int | None = None
) -> np.ndarray:
    """Return the mean attention from a repeated token to the token after its first occurrence.

    The text is a start token and the same random tokens twice, so that nothing but the
    repetition tells what comes next (Olsson et al., 2022).

    Returns
    -------
    ndarray, shape (n_layers, n_heads)
    """
    rng = np.random.default_rng(seed)
    start, pool = _start(lm), ordinary_tokens(lm)
    scores = []
    for _ in range(repeats):
        part = rng.choice(pool, size=min(length, len(pool)), replace=False)
        ids = np.concatenate([start, part, part])
        n, s = len(part), len(start)
        copied = np.full(len(ids), -1)
        copied[s + n :] = np.arange(s + 1, s + n + 1)
        scores.append(_probe(lm, ids, copied, None, chunk).means("induction"))
    return np.mean(scores, 0)


def retrieval_score(
    lm: Any,
    length: int = 200,
    needle: int = 10,
    repeats: int = 6,
    seed: int = 0,
    chunk: int | None = None,
) -> tuple[np.ndarray, float]:
    """Return the share of a needle's tokens that each head copies (Wu et al., 2024).

    A cue and a needle of random tokens stand at a random place among other random tokens; the
    cue comes again at the end, followed by the needle. A token counts as copied by a head where
    the model's most likely next token is the needle's and the head's largest weight in the
    context (without the start token) lies on that token within the needle. Repeats in which the
    model brings out less than half of the needle do not count.

    Returns
    -------
    ndarray, shape (n_layers, n_heads)
        NaN where no repeat counts.
    float
        Share of needle tokens that the model brought out, over all repeats.

    Raises
    ------
    CapabilityError
        The model has no language-model head.
    """
    if not dict(lm.info).get("lm_head"):
        raise CapabilityError("the retrieval score needs a model with a language-model head")
    rng = np.random.default_rng(seed)
    start, pool = _start(lm), ordinary_tokens(lm)
    cue = 5
    if len(pool) < length + needle + cue:
        length = max(0, len(pool) - needle - cue)
    scores, shares = [], []
    for _ in range(repeats):
        drawn = rng.choice(pool, size=length + needle + cue, replace=False)
        hay, asked, answer = np.split(drawn, [length, length + cue])
        place = int(rng.integers(0, length + 1))
        context = np.concatenate([start, hay[:place], asked, answer, hay[place:]])
        ids = np.concatenate([context, asked, answer])
        at = len(start) + place + cue  # of the needle
        rows = np.arange(len(context) + cue - 1, len(ids) - 1)
        copied, searched = np.full(len(ids), -1), np.zeros(len(ids), dtype=bool)
        copied[rows] = at + np.arange(needle)
        searched[len(start) : len(context)] = True
        said = _next_tokens(lm, ids)[rows] == answer
        shares.append(said.mean())
        if said.mean() < 0.5:
            continue
        seen = _probe(lm, ids, copied, searched, chunk)
        hits = torch.stack(seen.hits).cpu().numpy()[..., rows]
        scores.append((hits & said).mean(-1))
    shape = (int(lm.info["n_layers"]), int(lm.info["n_heads"]))
    return np.mean(scores, 0) if scores else np.full(shape, np.nan), float(np.mean(shares))


def ordinary_tokens(lm: Any) -> np.ndarray:
    """Return the ids of the tokens that are words or parts of words."""
    size = int(lm.model.get_input_embeddings().weight.shape[0])
    special = set(lm.tokenizer.all_special_ids)
    texts = lm.tokenizer.convert_ids_to_tokens(list(range(min(size, len(lm.tokenizer)))))
    good = [i for i, t in enumerate(texts) if i not in special and t and t[-1:].isalpha()]
    if len(good) < 2:
        raise DataError("the model's vocabulary has no words to draw from")
    return np.asarray(good)


def _start(lm: Any) -> np.ndarray:
    for name in ("bos_token_id", "cls_token_id", "eos_token_id"):
        found = getattr(lm.tokenizer, name, None)
        if found is not None:
            return np.asarray([int(found)])
    return np.zeros(0, dtype=int)


def _made(ids: np.ndarray) -> Any:
    """Return what `Batch` needs of a text that is made of tokens."""
    return SimpleNamespace(input_ids=[int(i) for i in ids])


def _probe(
    lm: Any, ids: np.ndarray, copied: np.ndarray, searched: np.ndarray | None, chunk: int | None
) -> HeadObserver:
    device = next(lm.model.parameters()).device
    n = len(ids)
    none = torch.zeros(n, dtype=torch.bool, device=device)
    first = none.clone()
    first[0] = True
    observer = HeadObserver(
        ~none & ~first,
        first,
        none,
        torch.as_tensor(copied, device=device),
        None if searched is None else torch.as_tensor(searched, device=device),
    )
    _observe(lm, _made(ids), observer, chunk)
    return observer


@torch.no_grad()
def _observe(lm: Any, encoded: Any, observer: HeadObserver, chunk: int | None) -> None:
    base = base_of(lm.model)
    if not has_interface(lm.model):
        raise CapabilityError(
            f"the catalogue of heads needs a model whose attention function can be exchanged; "
            f"{type(lm.model).__name__} only returns its maps"
        )
    batch = Batch(base, [encoded])
    session = Session([observer], batch.spans, chunk)
    training = lm.model.training
    lm.model.eval()
    try:
        with capture(lm.model, session):
            base(**batch.inputs)
    finally:
        lm.model.train(training)


@torch.no_grad()
def _next_tokens(lm: Any, ids: np.ndarray) -> np.ndarray:
    batch = Batch(base_of(lm.model), [_made(ids)])
    return np.asarray(lm.model(**batch.inputs).logits[0].argmax(-1).cpu())


def label_heads(
    figures: Mapping[str, np.ndarray], thresholds: Thresholds | None = None
) -> pd.DataFrame:
    """Label every head.

    Parameters
    ----------
    figures
        `FIGURES` to arrays (n_layers, n_heads); a figure that is absent or NaN gives no label.
    thresholds

    Returns
    -------
    DataFrame
        ``layer, head``, the figures, ``label`` (the first of `LABELS` that holds) and
        ``labels`` (all that hold, separated by spaces).
    """
    limit = asdict(thresholds or Thresholds())
    shape = next(np.shape(v) for v in figures.values())
    known = {k: np.asarray(figures.get(k, np.full(shape, np.nan)), float) for k in FIGURES}
    if any(v.shape != shape or len(shape) != 2 for v in known.values()):
        found = {k: v.shape for k, v in known.items()}
        raise DataError("figures of heads differ in shape", expected=shape, found=found)
    holds = {k: known[k] >= limit[k] for k in LABELS[:5]}
    holds["local"] = known["distance"] <= limit["local"]
    holds["broad"] = known["entropy"] >= limit["broad"]
    layer, head = np.indices(shape)
    every = np.stack([holds[k].ravel() for k in LABELS[:-1]], 1)
    names = np.asarray(LABELS[:-1])
    frame = pd.DataFrame({"layer": layer.ravel(), "head": head.ravel()})
    for name in FIGURES:
        frame[name] = known[name].ravel()
    frame["label"] = [names[row][0] if row.any() else "mixed" for row in every]
    frame["labels"] = [" ".join(names[row]) if row.any() else "mixed" for row in every]
    return frame
