"""Surprisal of words: how unexpected a word is to a language model, in bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from gazeattn.errors import CapabilityError
from gazeattn.lm.tokens import GAP, WORD, Encoded

_BLANKS = frozenset("\u0120\u2581\u010a\u0109 \t\n\r")

CHUNK = 512
"""Positions whose logits are computed at a time."""

LEFT_RULE = (
    "-log2 p(word | everything before it), summed over the word's tokens; white space that is a "
    "token of its own counts with the word after it; the first word is conditional on the start "
    "token"
)
BOUNDARY_RULE = (
    "; the blank before a word counts as the end of the word before it, the end of the last word "
    "as any word opener or special token"
)
MASKED_RULE = (
    "pseudo-surprisal: -log2 p of each token of the word with all tokens of the word masked and "
    "the rest of the text visible, summed over the word's tokens"
)


def surprisal(
    model: Any,
    encoded: Sequence[Encoded],
    *,
    kind: str = "causal",
    mask_id: int | None = None,
    chunk: int = CHUNK,
    batch_size: int = 8,
    openers: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Return the surprisal of each word in bits.

    The logits of a text (tokens x vocabulary) are never held at once: `chunk` positions are
    computed at a time.

    Parameters
    ----------
    model
        A causal language model, or a masked one with its head.
    encoded
        Texts from `gazeattn.lm.tokens.encode_words`, none longer than the model's context.
    kind
        ``"causal"``: Smith and Levy (2013), The effect of word predictability on reading time
        is logarithmic, Cognition 128. ``"masked"``: Salazar et al. (2020), Masked language model
        scoring, ACL, with all pieces of a word masked at once as in Kauf and Ivanova (2023), A
        better way to do masked language model scoring, ACL.
    mask_id
        Id of the mask token, for ``"masked"``.
    chunk
        Positions whose logits are held at a time.
    batch_size
        Masked copies of a text that are run at a time, for ``"masked"``.
    openers : ndarray, shape (vocabulary,), bool, or None
        Tokens that begin a new word (see `word_openers`). Given, the blank before a word counts
        as the end of the word before it: the surprisal of "a word ends here" moves from each
        word to the one before (Oh and Schuler 2024, Leading whitespaces of language models'
        subword vocabulary pose a confound for calculating word probabilities, EMNLP; Pimentel
        and Meister 2024, How to compute the probability of a word, EMNLP).

    Returns
    -------
    list of ndarray, shape (n_words,), float64
        NaN for words without a token, and for a first word that nothing precedes.

    Raises
    ------
    CapabilityError
        The model has no language-model head.
    """
    if model.get_output_embeddings() is None:
        raise CapabilityError(
            f"surprisal needs a language-model head, which {type(model).__name__} does not have: "
            "an encoder without a masked-language-model head gives no word probabilities"
        )
    if kind == "causal":
        return [_causal(model, e, chunk, openers) for e in encoded]
    if mask_id is None:
        raise CapabilityError("pseudo-surprisal needs a tokenizer with a mask token")
    return [_masked(model, e, mask_id, chunk, batch_size) for e in encoded]


def sum_words(values: np.ndarray, encoded: Encoded) -> np.ndarray:
    """Add token values up to words; white space alone counts with the word after it.

    Parameters
    ----------
    values : ndarray, shape (n_tokens,)
        NaN makes the word's sum NaN.
    """
    n = len(encoded)
    word = encoded.word_of
    place = np.where(word >= 0, np.arange(n), n)
    after = np.minimum.accumulate(place[::-1])[::-1]
    joined = np.where((encoded.role == GAP) & (after < n), word[np.minimum(after, n - 1)], word)
    take = joined >= 0
    out = np.full(encoded.n_words, np.nan)
    sums = np.bincount(joined[take], weights=values[take], minlength=encoded.n_words)
    present = np.zeros(encoded.n_words, dtype=bool)
    present[word[encoded.role == WORD]] = True
    out[present] = sums[present]
    return out


def word_openers(tokenizer: Any, size: int) -> np.ndarray:
    """Return which of `size` token ids begin a new word: a blank first, or the end of the text.

    Raises
    ------
    CapabilityError
        The tokenizer does not write blanks into its tokens.
    """
    names = tokenizer.convert_ids_to_tokens(list(range(min(size, len(tokenizer)))))
    opens = np.zeros(size, dtype=bool)
    opens[: len(names)] = [str(t)[:1] in _BLANKS for t in names]
    if not opens.any():
        raise CapabilityError(
            "boundary='leading_space' needs a tokenizer whose tokens begin with the blank before "
            f"a word, which {type(tokenizer).__name__} is not"
        )
    special = [i for i in getattr(tokenizer, "all_special_ids", ()) if 0 <= i < size]
    opens[special] = True
    return opens


def _causal(model: Any, encoded: Encoded, chunk: int, openers: np.ndarray | None) -> np.ndarray:
    n = len(encoded)
    scored = np.flatnonzero((encoded.role == WORD) | (encoded.role == GAP))
    scored = scored[scored >= 1]
    if not len(scored):
        return np.full(encoded.n_words, np.nan)
    ids = torch.as_tensor(encoded.input_ids, device=model.device)[None]
    opens = None if openers is None else torch.as_tensor(openers, device=model.device)
    bits = np.full(n, np.nan)
    ends = np.full(n, np.nan)  # bits of "a new word begins after this token"
    last = n if openers is not None else n - 1
    for at, part in log_probabilities(model, ids, int(scored[0]) - 1, last, chunk):
        if opens is not None:
            end = part.masked_fill(~opens, -torch.inf).logsumexp(-1)
            ends[at : at + len(part)] = -end.double().cpu().numpy() / math.log(2)
        target = ids[0, at + 1 : at + 1 + len(part)]
        picked = part[: len(target)].gather(1, target[:, None])[:, 0]
        bits[at + 1 : at + 1 + len(target)] = -picked.double().cpu().numpy() / math.log(2)
    if openers is not None:
        bits = _move_ends(bits, ends, encoded, openers)
    return sum_words(bits, encoded)


def _move_ends(
    bits: np.ndarray, ends: np.ndarray, encoded: Encoded, openers: np.ndarray
) -> np.ndarray:
    """Move the bits of each word's opening blank from its first token to the word before."""
    text = (encoded.role == WORD) | (encoded.role == GAP)
    filled = np.where(encoded.role == GAP, -2, encoded.word_of)
    first = text & (np.r_[-3, filled[:-1]] != filled)
    first &= ~((np.r_[-3, filled[:-1]] == -2) & (filled >= 0))  # the gap was the opening
    opening = np.flatnonzero(first & openers[encoded.input_ids])
    final = np.flatnonzero((encoded.word_of >= 0) & (np.r_[filled[1:], -3] != filled))
    out = bits.copy()
    out[opening] -= ends[opening - 1]
    out[final] += ends[final]
    return out


def log_probabilities(
    model: Any, ids: torch.Tensor, begin: int, end: int, chunk: int
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield ``(position, log-probabilities (n, vocabulary))`` for positions `begin` to `end`.

    The model's trunk runs once; its own head (with whatever scaling, soft capping or bias it
    has) runs on chunks of the states.
    """
    with torch.no_grad():
        states = model.base_model(
            input_ids=ids, attention_mask=torch.ones_like(ids), **_no_cache(model)
        )
        head = _head(model, ids, states)
    for at in range(begin, end, chunk):
        with torch.no_grad():  # left before each yield: the mode is not the caller's
            part = torch.log_softmax(head(at, min(at + chunk, end)).float(), dim=-1)
        yield at, part


def _no_cache(model: Any) -> dict[str, bool]:
    return {"use_cache": False} if hasattr(model.config, "use_cache") else {}


def _head(model: Any, ids: torch.Tensor, states: Any) -> Callable[[int, int], torch.Tensor]:
    """Return a function from a range of positions to logits, checked on the first positions."""
    hidden = states[0]

    def own(at: int, stop: int) -> torch.Tensor:
        return _through_head(model, ids[:, at:stop], states, hidden[:, at:stop])[0]

    def whole(at: int, stop: int) -> torch.Tensor:
        keep = torch.arange(at, stop, device=ids.device)
        return model(input_ids=ids, logits_to_keep=keep, **_no_cache(model)).logits[0]

    def full(at: int, stop: int) -> torch.Tensor:
        return model(input_ids=ids, **_no_cache(model)).logits[0, at:stop]

    few = min(4, ids.shape[1])
    truth = model(input_ids=ids[:, :few], **_no_cache(model)).logits[0]
    exact = truth.dtype in (torch.float32, torch.float64)
    rtol, atol = (1e-3, 1e-3) if exact else (5e-2, 2e-1)
    for way in (own, whole):
        try:
            got = way(0, few)
        except (TypeError, ValueError, AttributeError, RuntimeError):
            continue
        if got.shape == truth.shape and torch.allclose(got, truth, rtol=rtol, atol=atol):
            return way
    return full


def _through_head(model: Any, ids: torch.Tensor, states: Any, hidden: torch.Tensor) -> Any:
    """Run the model's own forward with given states in place of its trunk.

    This keeps every model's own last steps (logit scale, soft capping, bias) without a list of
    them here.
    """
    trunk = model.base_model
    given = dict(states)
    given["last_hidden_state"] = hidden
    output = type(states)(**given)
    had = "forward" in vars(trunk)
    before = vars(trunk).get("forward")
    trunk.forward = lambda *args, **kwargs: output
    try:
        return model(input_ids=ids, **_no_cache(model)).logits
    finally:
        if had:
            trunk.forward = before
        else:
            del trunk.forward


def _masked(model: Any, encoded: Encoded, mask_id: int, chunk: int, batch_size: int) -> np.ndarray:
    word = encoded.word_of
    present = np.unique(word[word >= 0])
    ids = torch.as_tensor(encoded.input_ids, device=model.device)
    owner = torch.as_tensor(word, device=model.device)
    out = np.full(encoded.n_words, np.nan)
    with torch.no_grad():
        for i in range(0, len(present), batch_size):
            some = torch.as_tensor(present[i : i + batch_size], device=model.device)
            hidden_here = owner[None] == some[:, None]
            batch = torch.where(hidden_here, mask_id, ids[None].expand(len(some), -1))
            states = model.base_model(input_ids=batch, attention_mask=torch.ones_like(batch))
            row, column = hidden_here.nonzero(as_tuple=True)
            picked = torch.empty(len(row), dtype=torch.float64, device=model.device)
            for at in range(0, len(row), chunk):
                r, c = row[at : at + chunk], column[at : at + chunk]
                logits = _through_head(model, batch[r, c][None], states, states[0][r, c][None])[0]
                log_p = torch.log_softmax(logits.float(), dim=-1)
                picked[at : at + chunk] = log_p.gather(1, ids[c][:, None])[:, 0].double()
            sums = torch.zeros(len(some), dtype=torch.float64, device=model.device)
            sums.index_add_(0, row, picked)
            out[present[i : i + batch_size]] = (-sums / math.log(2)).cpu().numpy()
    return out
