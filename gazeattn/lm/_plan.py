"""What counts as key and as query of one text, and how token sums become word scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from gazeattn.errors import CapabilityError, DataError, UnknownNameError

if TYPE_CHECKING:
    from gazeattn.lm.tokens import Encoded

MIN_MASS = 1e-6
"""A row that leaves less attention than this on scored tokens has no score."""

CHOICES: dict[str, tuple[str, ...]] = {
    "sink": ("start_token", "first_word", "keep"),
    "causal": ("visible_mean", "none"),
    "subword": ("sum_mean",),
    "entropy_unit": ("normalised", "nats", "bits"),
    "distance_unit": ("words", "tokens"),
    "gradient_sign": ("positive", "absolute"),
    "target": ("auto", "next_token", "pooled_norm"),
    "padding_side": ("right", "left"),
    "baseline": ("mean", "zero"),
    "attribution_sign": ("signed", "absolute"),
}


@dataclass(frozen=True)
class AttentionOptions:
    """Conventions of the attention methods; all of them are written into every profile.

    Attributes
    ----------
    sink : {"start_token", "first_word", "keep"}
        ``"start_token"``: the start token takes the attention that has nowhere else to go; it
        is excluded as key and query and its mass is reported. ``"first_word"``: for texts
        without a start token; the first word is excluded as a key and has no score.
        ``"keep"``: the mass on the start token stays in the rows, so that word scores are
        shares of all attention but that on other special tokens.
        In all three, special tokens, context and gaps are neither keys nor queries.
    causal : {"visible_mean", "none"}
        ``"visible_mean"``: what a word receives is divided by the number of words that can see
        it. ``"none"``: divided by the number of all words.
    subword : {"sum_mean"}
        Sum over the tokens of the word that is looked at, mean over those of the word that
        looks.
    renormalise
        Divide each row by what is left on scored tokens after the exclusion. Rows with less
        than 1e-6 left are missing.
    include_self
        Count the attention of a word to itself.
    layers, heads
        Layers and heads to use (negative numbers count from the end); all where None.
    chunk
        Query rows that are in memory at a time; chosen from the text length where None.
    entropy_unit : {"normalised", "nats", "bits"}
        ``"normalised"``: divided by the logarithm of the number of visible keys.
    distance_unit : {"words", "tokens"}
    gradient_sign : {"positive", "absolute"}
        Which part of attention times gradient is summed.
    target : {"auto", "next_token", "pooled_norm"}
        What the gradient methods differentiate; ``"auto"`` takes the next-token
        log-probabilities where the model has them.
    padding_side : {"right", "left"}
        Where shorter texts of a batch are padded. Scores do not depend on it.
    flow_words
        Words that attention flow starts from; all where None, in texts of up to 64 tokens.
    flow_seconds
        Estimated time of attention flow above which it is refused.
    waad_window
        Distance in tokens at which WAAD stops counting.
    fai_from, fai_to
        Distance in tokens of the later queries that FAI averages over.
    head_share
        Share of all heads that count as local (WAAD) and as global (FAI).
    baseline : {"mean", "zero"}
        Embedding that stands for an absent word in attribution methods: the mean of all input
        embeddings, or zero.
    attribution_sign : {"signed", "absolute"}
        Whether word attributions keep their sign.
    attribution_steps
        Points on the path of integrated gradients.
    attribution_samples
        Random draws of gradient SHAP, and perturbed texts of LIME and Kernel SHAP; by default 64
        draws, and twice the number of words plus 256 perturbed texts.
    attribution_tokens
        Tokens that go through the model at a time; results do not depend on it.
    attribution_seed
        Seed of the random draws.
    masked_lm
        Folder or registered name of the masked language model of ``mlm_masking``.
    """

    sink: str = "start_token"
    causal: str = "visible_mean"
    subword: str = "sum_mean"
    renormalise: bool = True
    include_self: bool = True
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    chunk: int | None = None
    entropy_unit: str = "normalised"
    distance_unit: str = "words"
    gradient_sign: str = "positive"
    target: str = "auto"
    padding_side: str = "right"
    flow_words: tuple[int, ...] | None = None
    flow_seconds: float = 600.0
    waad_window: int = 10
    fai_from: int = 10
    fai_to: int = 50
    head_share: float = 0.3
    baseline: str = "mean"
    attribution_sign: str = "signed"
    attribution_steps: int = 50
    attribution_samples: int | None = None
    attribution_tokens: int = 2048
    attribution_seed: int = 0
    masked_lm: str | None = None

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(f"{name} rule", str(getattr(self, name)), known)
        if self.chunk is not None and self.chunk < 1:
            raise DataError("chunk is a number of query rows", expected=">= 1", found=self.chunk)
        for name in ("attribution_steps", "attribution_samples", "attribution_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"{name} is a number", expected=">= 1", found=value)
        if not 0 < self.head_share <= 1:
            raise DataError("head_share is a share", expected="0 < x <= 1", found=self.head_share)
        if not 0 <= self.fai_from <= self.fai_to:
            found = f"{self.fai_from} to {self.fai_to}"
            raise DataError("fai_from and fai_to are distances", expected="from <= to", found=found)
        if self.waad_window < 1:
            raise DataError("waad_window is a distance", expected=">= 1", found=self.waad_window)
        for name in ("layers", "heads", "flow_words"):
            value = getattr(self, name)
            if value is None:
                continue
            value = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
            if not value:
                raise DataError(f"{name} selects nothing", hint="Leave it out to use all")
            object.__setattr__(self, name, value)


def pick(selection: tuple[int, ...] | None, n: int, what: str) -> list[int]:
    """Return the selected numbers out of ``range(n)``, or raise for one that does not exist."""
    if selection is None:
        return list(range(n))
    for i in selection:
        if not -n <= i < n:
            raise DataError(f"no such {what}", expected=f"0 to {n - 1}", found=i)
    return [i % n for i in selection]


@dataclass
class Rows:
    """Where a block of attention rows lies.

    Attributes
    ----------
    start, stop : int
        Query rows, counted from the first real token.
    keys : int
        Columns ``0 .. keys - 1`` are present; the columns after them are not visible.
    causal : bool
        Every query sees all keys up to itself and none after it.
    lower : bool
        No query sees a key after it (causal, or causal with a window). Blocks then come from
        the last rows to the first.
    visible : Tensor or None
        Boolean, shape (stop - start, keys), where the pattern is neither causal nor full.
    """

    start: int
    stop: int
    keys: int
    causal: bool
    lower: bool
    visible: torch.Tensor | None = None
    _words: torch.Tensor | None = None


class Plan:
    """Keys, queries and word numbers of one text on one device.

    Attributes
    ----------
    query_weight : Tensor, shape (n_tokens,)
        1 / number of tokens of the query's word; 0 for tokens that are no query.
    scored : Tensor, shape (n_tokens,), bool
        Keys that belong to a word with a score.
    in_row : Tensor, shape (n_tokens,), float32
        Keys whose mass a row is divided by.
    kinds : dict of str to Tensor
        Indicator columns (float32) of every kind of key that is excluded.
    few : dict of str to list of int
        Positions of the kinds with one or two keys, which are faster to add one by one.
    """

    def __init__(self, encoded: Encoded, options: AttentionOptions, device: Any = "cpu") -> None:
        self.options = options
        self.n_tokens, self.n_words = len(encoded.input_ids), int(encoded.n_words)
        word_of = torch.as_tensor(encoded.word_of).to(torch.int64)
        role = torch.as_tensor(encoded.role).to(torch.int64)
        if len(word_of) != self.n_tokens or len(role) != self.n_tokens:
            raise DataError(
                "one word number and one role per token are needed",
                expected=self.n_tokens,
                found=f"{len(word_of)} and {len(role)}",
            )
        is_word = (role == 0) & (word_of >= 0)
        if bool((word_of >= self.n_words).any()):
            raise DataError(
                "a token belongs to a word that does not exist",
                expected=f"word < {self.n_words}",
                found=int(word_of.max()),
            )
        per_word = torch.bincount(word_of[is_word], minlength=self.n_words)
        weight = torch.zeros(self.n_tokens)
        weight[is_word] = 1.0 / per_word[word_of[is_word]].float()
        scored = is_word.clone()
        kinds = {
            "start_token": role == 1,
            "special": role == 2,
            "context": role == 3,
            "gap": (role == 4) | ((role == 0) & (word_of < 0)),
        }
        if options.sink == "first_word" and bool(is_word.any()):
            first = word_of[is_word].min()
            kinds["first_word"] = is_word & (word_of == first)
            scored &= word_of != first
        in_row = scored | kinds["start_token"] if options.sink == "keep" else scored
        self.has_start = bool(kinds["start_token"].any())
        self.word_of = word_of.to(device)
        self.is_word = is_word.to(device)
        self.query_weight = weight.to(device)
        self.scored = scored.to(device)
        self.in_row = in_row.float().to(device)
        self.kinds = {k: v.float().to(device) for k, v in kinds.items() if bool(v.any())}
        found = {k: torch.nonzero(v).flatten().tolist() for k, v in kinds.items()}
        self.few = {k: at for k, at in found.items() if 0 < len(at) <= 2}
        self.device = self.word_of.device
        self._is_query = is_word.numpy()

    def has_queries(self, rows: Rows) -> bool:
        """Whether any of the rows belongs to a word."""
        return bool(self._is_query[rows.start : rows.stop].any())

    @cached_property
    def key_word(self) -> torch.Tensor:
        """Word number of each key; `n_words` for keys without a score."""
        return torch.where(self.scored, self.word_of, self.n_words)

    @cached_property
    def has_key(self) -> torch.Tensor:
        """Whether each word has a scored key, shape (n_words,)."""
        found = torch.zeros(self.n_words + 1, dtype=torch.bool, device=self.device)
        found[self.key_word] = True
        return found[: self.n_words]

    @cached_property
    def first_key(self) -> torch.Tensor:
        """Position of each word's first scored key; `n_tokens` where it has none."""
        first = torch.full((self.n_words + 1,), self.n_tokens, device=self.device)
        at = torch.arange(self.n_tokens, device=self.device)
        return first.scatter_reduce(0, self.key_word, at, "amin")[: self.n_words]

    @cached_property
    def keys_up_to(self) -> torch.Tensor:
        """Number of keys that count in a row, from the first token up to each token."""
        return self.in_row.cumsum(0)

    def same_word(self, rows: Rows) -> torch.Tensor:
        """Where query and key belong to one word, shape (rows, keys), bool."""
        query = torch.where(self.is_word, self.word_of, -1)[rows.start : rows.stop]
        return query[:, None] == torch.where(self.is_word, self.word_of, -2)[None, : rows.keys]

    def visible_words(self, rows: Rows) -> torch.Tensor:
        """Which words each query can see at least a part of, shape (rows, n_words), float32."""
        if rows._words is not None:
            return rows._words
        q = rows.stop - rows.start
        if rows.visible is not None:
            seen = torch.zeros(q, self.n_words + 1, device=self.device)
            seen.index_add_(1, self.key_word[: rows.keys], rows.visible.float())
            words = (seen[:, : self.n_words] > 0).float()
        elif rows.causal:
            at = torch.arange(rows.start, rows.stop, device=self.device)
            words = (self.first_key[None, :] <= at[:, None]).float()
        else:
            words = self.has_key.float().expand(q, -1)
        if not self.options.include_self:
            own = self.word_of[rows.start : rows.stop]
            words = words * (own[:, None] != torch.arange(self.n_words, device=self.device))
        rows._words = words
        return words

    def visible_keys(self, rows: Rows) -> torch.Tensor:
        """Number of keys that count in each row, shape (rows,)."""
        if rows.visible is not None:
            count = rows.visible.float() @ self.in_row[: rows.keys]
        elif rows.causal:
            count = self.keys_up_to[rows.start : rows.stop]
        else:
            count = self.in_row.sum().expand(rows.stop - rows.start)
        if self.options.include_self:
            return count
        same = self.same_word(rows)
        if rows.visible is not None:
            same = same & rows.visible
        elif rows.causal:
            at = torch.arange(rows.start, rows.stop, device=self.device)
            same = same & (torch.arange(rows.keys, device=self.device) <= at[:, None])
        return count - same.float() @ self.in_row[: rows.keys]

    def sum_keys(self, tokens: torch.Tensor) -> torch.Tensor:
        """Sum key tokens to words, shape (..., n_tokens) to (..., n_words)."""
        shape = (*tokens.shape[:-1], self.n_words + 1)
        total = torch.zeros(shape, dtype=tokens.dtype, device=tokens.device)
        return total.index_add_(-1, self.key_word, tokens)[..., : self.n_words]

    def mean_queries(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mean over the tokens of each word that have a value, NaN where none has."""
        group = torch.where(self.is_word, self.word_of, self.n_words)
        shape = (*tokens.shape[:-1], self.n_words + 1)
        total = torch.zeros(shape, dtype=tokens.dtype, device=tokens.device)
        count = torch.zeros_like(total)
        there = torch.isfinite(tokens)
        total.index_add_(-1, group, torch.where(there, tokens, 0.0))
        count.index_add_(-1, group, there.to(tokens.dtype))
        mean = torch.where(count > 0, total / count.clamp_min(1), torch.nan)
        return mean[..., : self.n_words]


def check_sink(plan: Plan, causal: bool) -> None:
    """Raise where the start token is to take the sink but the text has none."""
    if causal and plan.options.sink == "start_token" and not plan.has_start:
        raise CapabilityError(
            "sink='start_token' needs a text that begins with a start token; encode it with one, "
            "or use sink='first_word'"
        )
