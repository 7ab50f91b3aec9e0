"""Words to tokens: which token belongs to which word, by character offsets or by pieces."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gazeattn.errors import CapabilityError, DataError

WORD, START, SPECIAL, CONTEXT, GAP = 0, 1, 2, 3, 4
"""Values of `Encoded.role`."""

CONTEXT_SEPARATOR = "\n"
"""Stands between the context and the first word."""

StartRule = Literal["auto", "tokenizer"] | bool

# Default_Ignorable_Code_Point of the Unicode character database: nothing is drawn for these.
_IGNORABLE = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)


@dataclass(frozen=True)
class Encoded:
    """One text, ready for the model.

    Attributes
    ----------
    input_ids : ndarray, shape (n_tokens,), int64
    word_of : ndarray, shape (n_tokens,), int64
        Number of the word that each token belongs to; -1 for tokens of no word.
    role : ndarray, shape (n_tokens,), int8
        0 word, 1 start token, 2 other special token, 3 context (text before the words),
        4 gap (a token of no word, for example white space alone).
    tokens : tuple of str
        The token list that is used, as the tokenizer writes it.
    n_words : int
    unscored : tuple of int
        Words without any token.
    how : dict
        Tokenizer, alignment rule (``"offsets"`` or ``"pieces"``), start-token rule and counts.
    """

    input_ids: np.ndarray
    word_of: np.ndarray
    role: np.ndarray
    tokens: tuple[str, ...]
    n_words: int
    unscored: tuple[int, ...]
    how: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.input_ids)

    def take(self, keep: np.ndarray) -> Encoded:
        """Return the tokens at the positions `keep`; word numbers stay those of the whole text."""
        keep = np.asarray(keep, dtype=np.int64)
        word_of = self.word_of[keep]
        return replace(
            self,
            input_ids=self.input_ids[keep],
            word_of=word_of,
            role=self.role[keep],
            tokens=tuple(self.tokens[i] for i in keep),
            unscored=_without_token(word_of, self.n_words),
        )


def _without_token(word_of: np.ndarray, n_words: int) -> tuple[int, ...]:
    present = np.zeros(n_words, dtype=bool)
    present[word_of[word_of >= 0]] = True
    return tuple(int(i) for i in np.flatnonzero(~present))


def is_visible(text: str) -> bool:
    """Return whether a reader could see anything of `text`.

    White space, control characters and code points for which nothing is drawn (zero-width
    space and joiner, variation selectors, ...) are not visible.
    """
    for char in text:
        if char.isspace() or unicodedata.category(char) == "Cc":
            continue
        code = ord(char)
        if not any(low <= code <= high for low, high in _IGNORABLE):
            return True
    return False


def encode_words(
    tokenizer: Any,
    words: Sequence[str],
    *,
    context: str | None = None,
    add_start: StartRule = "auto",
    separator: str = " ",
    max_tokens: int | None = None,
) -> Encoded:
    """Tokenise words as one text and say which token belongs to which word.

    The words are joined with `separator` and tokenised once. A token belongs to the word with
    which its characters overlap most, the first one where two are equal; the blank before a
    word is nobody's, so that a token ``" word"`` belongs to ``word`` and a token of white space
    alone to no word. Words in which nothing is visible (empty, white space or zero-width
    characters only) are not given to the model and are unscored.

    Text that spells a special token of the tokenizer is text, not a special token.

    Parameters
    ----------
    tokenizer
        A tokenizer of `transformers`.
    words
        The words in reading order; punctuation may be glued to them, white space and line
        breaks may stand inside them.
    context
        Text put before the words, with a line break between; its tokens belong to no word.
    add_start
        ``"auto"``: what the tokenizer adds by itself, else the beginning-of-text token (the
        end-of-text token where there is none, no token where there is neither, or where the
        tokenizer is made for an encoder: it has a mask token). ``"tokenizer"``: only what the
        tokenizer adds. True: as ``"auto"``, but a missing one raises. False: no start token;
        the specials of an encoder (``[CLS] ... [SEP]``) stay.
    separator
        Stands between the words: one blank, or nothing for scripts without blanks.
    max_tokens
        Raise where the text takes more tokens, specials included.

    Returns
    -------
    Encoded

    Raises
    ------
    DataError
        `words` is one string, a word is not a string, or the text is longer than `max_tokens`.
    CapabilityError
        The tokenizer gives neither usable offsets nor pieces that make up the same token ids,
        or there is no start token although one is asked for.
    """
    texts, replaced = _checked(words)
    shown = np.array([is_visible(t) for t in texts], dtype=bool)
    if context is not None:
        context, n = _scalar_text(context)
        replaced += n
    head = context + CONTEXT_SEPARATOR if context and is_visible(context) else ""
    used = [t for t, s in zip(texts, shown, strict=True) if s]
    text = head + separator.join(used)
    lengths = np.array([len(t) for t in used], dtype=np.int64)
    starts = len(head) + np.concatenate(([0], np.cumsum(lengths + len(separator))))[: len(used)]
    spans = np.stack([starts, starts + lengths], axis=1).astype(np.int64)

    ids, offsets = _encode_body(tokenizer, text)
    ids, respelt = _specials_as_text(tokenizer, ids)
    tokens = [str(t) for t in tokenizer.convert_ids_to_tokens(ids.tolist())]
    how: dict[str, Any] = {
        "tokenizer": getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__,
        "alignment": "offsets",
        "separator": separator,
    }
    across = 0
    fault = (
        "the tokenizer gives no offsets"
        if offsets is None
        else _fault(tokenizer, text, ids, tokens, offsets, spans, used)
    )
    if offsets is not None and not fault:
        local, across = _by_overlap(offsets, spans)
        before = offsets[:, 1] <= len(head)
        how["characters_dropped"] = _uncovered(text, offsets, len(head))
    else:
        local, before = _by_pieces(tokenizer, text, ids, tokens, spans, len(head), fault)
        how.update(alignment="pieces", alignment_reason=fault)

    number = np.flatnonzero(shown)
    word_of = np.where(local >= 0, number[np.maximum(local, 0)] if len(number) else -1, -1)
    role = np.where(local >= 0, WORD, np.where(before & bool(head), CONTEXT, GAP))

    first, last, kind, rule = _frame(tokenizer, add_start)
    all_ids = np.concatenate([first, ids, last]).astype(np.int64)
    word_of = np.concatenate([np.full(len(first), -1), word_of, np.full(len(last), -1)])
    role = np.concatenate([np.full(len(first), kind), role, np.full(len(last), SPECIAL)])
    ends = [[str(t) for t in tokenizer.convert_ids_to_tokens(x.tolist())] for x in (first, last)]
    if max_tokens is not None and len(all_ids) > max_tokens:
        raise DataError(
            "the text is longer than the model's context",
            expected=f"at most {max_tokens} tokens",
            found=f"{len(all_ids)} tokens for {len(texts)} words",
            hint="Use long_text='window' (overlapping windows) or long_text='cut'",
        )
    unknown = getattr(tokenizer, "unk_token_id", None)
    how.update(
        start=rule,
        context_tokens=int((role == CONTEXT).sum()),
        gap_tokens=int((role == GAP).sum()),
        unknown_tokens=0 if unknown is None else int(((all_ids == unknown) & (role == WORD)).sum()),
        tokens_across_words=across,
        words_not_visible=int((~shown).sum()),
        specials_respelt=respelt,
        surrogates_replaced=replaced,
    )
    word_of = word_of.astype(np.int64)
    return Encoded(
        input_ids=all_ids,
        word_of=word_of,
        role=role.astype(np.int8),
        tokens=(*ends[0], *tokens, *ends[1]),
        n_words=len(texts),
        unscored=_without_token(word_of, len(texts)),
        how=how,
    )


def _checked(words: Sequence[str]) -> tuple[list[str], int]:
    if isinstance(words, str | bytes):
        raise DataError(
            "words must be a sequence of strings, not one string",
            found=repr(words[:30]),
            hint="Split it first, for example text.split()",
        )
    texts, replaced = [], 0
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise DataError("a word is not a string", row=i, expected="str", found=repr(word))
        text, n = _scalar_text(word)
        texts.append(text)
        replaced += n
    return texts, replaced


def _scalar_text(text: str) -> tuple[str, int]:
    """Replace lone surrogates, which no tokenizer can encode, by U+FFFD; count them."""
    n = sum("\ud800" <= c <= "\udfff" for c in text)
    return (
        ("".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text), n) if n else (text, 0)
    )


def _plain_ids(tokenizer: Any, text: str) -> np.ndarray:
    """Return the ids of `text` alone: no specials are added and none is read in the text."""
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)
    return np.asarray(ids["input_ids"], dtype=np.int64).reshape(-1)


def _encode_body(tokenizer: Any, text: str) -> tuple[np.ndarray, np.ndarray | None]:
    if not text:
        return np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64)
    if getattr(tokenizer, "is_fast", False):
        try:
            out = tokenizer(
                text,
                add_special_tokens=False,
                split_special_tokens=True,
                return_offsets_mapping=True,
                verbose=False,
            )
            offsets = out["offset_mapping"]
        except (NotImplementedError, KeyError):
            return _plain_ids(tokenizer, text), None
        ids = np.asarray(out["input_ids"], dtype=np.int64).reshape(-1)
        return ids, np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    return _plain_ids(tokenizer, text), None


def _specials_as_text(tokenizer: Any, ids: np.ndarray) -> tuple[np.ndarray, int]:
    """Make special ids that plain vocabulary look-up found in the text unknown tokens.

    Vocabularies of whole words can hold ``<s>`` as an entry, and then the text ``<s>`` would
    act as a second start token.
    """
    unknown = getattr(tokenizer, "unk_token_id", None)
    special = set(getattr(tokenizer, "all_special_ids", ())) - {unknown}
    hit = np.isin(ids, list(special))
    if not hit.any():
        return ids, 0
    if unknown is None:
        at = int(np.flatnonzero(hit)[0])
        raise CapabilityError(
            "the text spells the special token "
            f"{tokenizer.convert_ids_to_tokens(int(ids[at]))!r} and the tokenizer has no other "
            "way to write it (no unknown token, no smaller pieces)"
        )
    return np.where(hit, unknown, ids), int(hit.sum())


def _bare(token: str) -> str:
    """Strip the marks that tokenizers use for blanks and for parts of words."""
    return token.removeprefix("##").removesuffix("</w>").strip("\u0120\u2581\u010a\u0109 \t\n\r")


def _fault(
    tokenizer: Any,
    text: str,
    ids: np.ndarray,
    tokens: list[str],
    offsets: np.ndarray,
    spans: np.ndarray,
    used: list[str],
) -> str:
    """Return why the offsets cannot be used, or an empty string."""
    start, end = offsets[:, 0], offsets[:, 1]
    if len(offsets) != len(ids):
        return f"{len(offsets)} offsets for {len(ids)} tokens"
    if len(ids) and ((start < 0).any() or (end > len(text)).any() or (end < start).any()):
        return "offsets lie outside the text"
    if (np.diff(start) < 0).any():
        return "offsets run backwards"
    bare = [_bare(t) for t in tokens]
    empty = np.flatnonzero(start == end)
    if any(bare[i] for i in empty):
        return "tokens with text have zero-width offsets"
    said = [
        (text[s:e].strip().lower(), b.lower())
        for s, e, b in zip(start.tolist(), end.tolist(), bare, strict=True)
        if b.isascii() and b.isalnum() and text[s:e].isascii()
    ]
    if said and 2 * sum(a != b for a, b in said) > len(said):
        return "offsets point at other characters than those of the tokens"
    local, across = _by_overlap(offsets, spans)
    if across:
        first, last = _reach(offsets, spans)
        for i in np.flatnonzero(last > first):
            inside = tokenizer.decode([int(ids[i])]).strip()
            if len(inside) < 2 or (not any(c.isspace() for c in inside) and _gapped(spans)):
                return "the offsets of one token cover several words"
        return ""
    for w in _without_token(local, len(spans)):
        if len(_plain_ids(tokenizer, used[w])):
            return "no token covers a word that has tokens of its own"
    return ""


def _uncovered(text: str, offsets: np.ndarray, head: int) -> int:
    """Count visible characters of the words that lie in no token's span."""
    edge = np.zeros(len(text) + 1, dtype=np.int64)
    np.add.at(edge, offsets[:, 0], 1)
    np.add.at(edge, offsets[:, 1], -1)
    bare = np.flatnonzero(np.cumsum(edge)[: len(text)] == 0)
    return sum(is_visible(text[i]) for i in bare[bare >= head])


def _gapped(spans: np.ndarray) -> bool:
    return len(spans) > 1 and bool((spans[1:, 0] > spans[:-1, 1]).all())


def _reach(offsets: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last word that each token touches (last < first: none)."""
    first = np.searchsorted(spans[:, 1], offsets[:, 0], side="right")
    last = np.searchsorted(spans[:, 0], offsets[:, 1], side="left") - 1
    return first, np.where(offsets[:, 1] > offsets[:, 0], last, first - 1)


def _by_overlap(offsets: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, int]:
    """Assign tokens to the word with the largest overlap, ties to the first."""
    first, last = _reach(offsets, spans)
    local = np.where(last >= first, first, -1)
    several = np.flatnonzero(last > first)
    for i in several:  # rare: a token over a word boundary
        part = spans[first[i] : last[i] + 1]
        overlap = np.minimum(part[:, 1], offsets[i, 1]) - np.maximum(part[:, 0], offsets[i, 0])
        local[i] = first[i] + int(np.argmax(overlap))
    return local, len(several)


def _by_pieces(
    tokenizer: Any,
    text: str,
    ids: np.ndarray,
    tokens: list[str],
    spans: np.ndarray,
    head: int,
    fault: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Assign tokens by tokenising the words one by one, checked against the ids of the text."""
    edges = [head, *spans[:, 1].tolist()] if head else spans[:, 1].tolist()
    ends = _piece_ends(tokenizer, text, ids, edges)
    if ends is None:
        ends = _prefix_ends(tokenizer, text, ids, edges)
    if ends is None:
        raise CapabilityError(
            f"words cannot be matched to tokens: {fault or 'offsets are unusable'}, and the "
            "words tokenised one by one do not make up the tokens of the text "
            f"({type(tokenizer).__name__})"
        )
    piece = np.searchsorted(np.asarray(ends), np.arange(len(ids)), side="right")
    local = piece - 1 if head else piece
    before = local < 0
    blank = np.array([not _bare(t) for t in tokens], dtype=bool)
    local = np.where(before | blank | (local >= len(spans)), -1, local)
    return local, before


def _piece_ends(tokenizer: Any, text: str, ids: np.ndarray, edges: list[int]) -> list[int] | None:
    """Return the token number after each piece, the pieces tokenised with and without a blank."""
    ends, at, begin = [], 0, 0
    for edge in edges:
        piece = text[begin:edge]
        for form in dict.fromkeys((piece, piece.lstrip(), piece.strip())):
            got = _plain_ids(tokenizer, form)
            if np.array_equal(ids[at : at + len(got)], got):
                at += len(got)
                break
        else:
            return None
        ends.append(at)
        begin = edge
    return ends if at == len(ids) else None


def _prefix_ends(tokenizer: Any, text: str, ids: np.ndarray, edges: list[int]) -> list[int] | None:
    ends = []
    for edge in edges:
        got = _plain_ids(tokenizer, text[:edge])
        if not np.array_equal(ids[: len(got)], got):
            return None
        ends.append(len(got))
    return ends if ends and ends[-1] == len(ids) else None


def _frame(tokenizer: Any, add_start: StartRule) -> tuple[np.ndarray, np.ndarray, int, str]:
    """Return the ids before and after the text, the role of the former, and the rule in words."""
    first, last = added_specials(tokenizer)
    encoder = getattr(tokenizer, "cls_token_id", None) in first and bool(first)
    name = tokenizer.convert_ids_to_tokens
    as_ids = lambda x: np.asarray(x, dtype=np.int64)  # noqa: E731
    if encoder:
        return as_ids(first), as_ids(last), SPECIAL, "specials of the tokenizer"
    if add_start is False:
        return as_ids([]), as_ids(last), START, "none (asked for)"
    if first:
        return as_ids(first), as_ids(last), START, f"{name(first[0])} added by the tokenizer"
    if add_start == "tokenizer":
        return as_ids([]), as_ids(last), START, "none (the tokenizer adds none)"
    masked = getattr(tokenizer, "mask_token_id", None) is not None
    for kind in ("bos_token_id", "eos_token_id"):
        start = getattr(tokenizer, kind, None)
        if start is not None and (add_start is True or not masked):
            rule = f"{name(int(start))} prepended, the tokenizer adds none"
            return as_ids([start]), as_ids(last), START, rule
    if add_start is True:
        raise CapabilityError("the tokenizer has no start token (neither bos nor eos is set)")
    return as_ids([]), as_ids(last), START, "none (the tokenizer has none)"


def added_specials(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer puts before and after a text by itself."""
    for probe in ("a", "the", "1"):
        bare = _plain_ids(tokenizer, probe).tolist()
        full = np.asarray(tokenizer(probe, verbose=False)["input_ids"]).reshape(-1).tolist()
        for i in range(len(full) - len(bare) + 1):
            if bare and full[i : i + len(bare)] == bare:
                return full[:i], full[i + len(bare) :]
    raise CapabilityError(
        f"the special tokens that {type(tokenizer).__name__} adds cannot be told from the text's"
    )
