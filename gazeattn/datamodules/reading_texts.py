"""Texts as tokens of a language model, and as its vectors, computed once per text.

A text, and where there is one its question, become ``[start] text [end] question [end]``. Which
token belongs to which word and to which part is stated per token, never searched for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gazeattn.errors import DataError
from gazeattn.lm import LanguageModel
from gazeattn.lm.tokens import WORD, encode_words
from gazeattn.storage import atomic_path, data_root

SPECIAL, TEXT, QUESTION = 0, 1, 2
FOLDER = "texts"
VERSION = "1"
"""Part of every key; goes up when the same text gives other vectors."""


@dataclass(frozen=True)
class Tokens:
    """One text with its question.

    Attributes
    ----------
    ids : ndarray, shape (n_tokens,), int64
    word_of : ndarray, shape (n_tokens,), int64
        Number of the word of the text; -1 for specials and the question.
    part : ndarray, shape (n_tokens,), int8
        `SPECIAL`, `TEXT` or `QUESTION`.
    vectors : ndarray, shape (n_tokens, width), float32, or None
        Last hidden states of the model.
    cut : int
        Words that have no token because the text is too long.
    """

    ids: NDArray[np.int64]
    word_of: NDArray[np.int64]
    part: NDArray[np.int8]
    vectors: NDArray[np.float32] | None = None
    cut: int = 0

    def __len__(self) -> int:
        return len(self.ids)


class TextEncoder:
    """Makes tokens and vectors of texts with one language model.

    Parameters
    ----------
    name
        See `gazeattn.LanguageModel.load`: ``"minilm"``, a hub id or a folder.
    root
        Data folder; vectors are kept in ``texts`` in it.
    limit
        Tokens of a text with its question; longer texts lose their end, counted in `Tokens.cut`.
        None: nothing is cut, and vectors of long texts come from overlapping windows.
    """

    def __init__(
        self,
        name: str = "minilm",
        root: str | os.PathLike[str] | None = None,
        limit: int | None = None,
    ) -> None:
        self.name, self.root, self.limit = name, root, limit
        self._lm: LanguageModel | None = None

    @property
    def lm(self) -> LanguageModel:
        """The model, loaded when it is first needed."""
        if self._lm is None:
            self._lm = LanguageModel.load(self.name, root=self.root)
            self._lm.model.eval().requires_grad_(False)
        return self._lm

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return int(self.lm.model.config.hidden_size)

    def tokens(self, words: Sequence[str], question: str | None = None) -> Tokens:
        """Return the tokens of a text and its question.

        Raises
        ------
        DataError
            Question and specials alone pass the limit.
        """
        whole = encode_words(self.lm.tokenizer, list(words))
        text = np.flatnonzero((whole.role == WORD) | (whole.word_of >= 0))
        first = int(text[0]) if len(text) else 1
        last = int(text[-1]) + 1 if len(text) else first
        head, body, tail = np.arange(first), np.arange(first, last), np.arange(last, len(whole))
        asked = np.zeros(0, dtype=np.int64)
        if question:
            own = encode_words(self.lm.tokenizer, question.split())
            asked = own.input_ids[own.role == WORD]
        ends = len(head) + len(tail) * (2 if question else 1)
        cut = 0
        if self.limit is not None and len(body) + len(asked) + ends > self.limit:
            room = self.limit - len(asked) - ends
            if room < 1:
                raise DataError(
                    "question and special tokens leave no room for the text",
                    expected=f"fewer than {self.limit} tokens", found=len(asked) + ends,
                )  # fmt: skip
            kept = body[:room]
            # a word whose tokens are only partly there is gone as a whole
            torn = whole.word_of[body[room]]
            kept = kept[(whole.word_of[kept] != torn) | (torn < 0)]
            before, after = whole.word_of[body], whole.word_of[kept]
            cut = len(np.unique(before[before >= 0])) - len(np.unique(after[after >= 0]))
            body = kept
        rows = np.concatenate([head, body, tail])
        end = whole.input_ids[tail]
        ids = np.concatenate([whole.input_ids[rows], asked, end if question else end[:0]])
        word_of = np.concatenate([whole.word_of[rows], np.full(len(ids) - len(rows), -1)])
        part = np.full(len(ids), SPECIAL, dtype=np.int8)
        part[len(head) : len(head) + len(body)] = TEXT
        part[len(rows) : len(rows) + len(asked)] = QUESTION
        return Tokens(ids.astype(np.int64), word_of.astype(np.int64), part, None, int(cut))

    def with_vectors(self, tokens: Tokens) -> Tokens:
        """Return tokens with their vectors, from the cache or computed and kept there."""
        path = data_root(self.root) / FOLDER / f"{self._key(tokens)}.npy"
        if path.is_file():
            try:
                vectors = np.load(path, allow_pickle=False)
                if vectors.shape == (len(tokens), self.width):
                    return replace(tokens, vectors=vectors.astype(np.float32))
            except (OSError, ValueError, EOFError):
                pass  # damaged: computed again
        vectors = self._compute(tokens)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as target, open(target, "wb") as file:
            np.save(file, vectors.astype(np.float16), allow_pickle=False)
        return replace(tokens, vectors=vectors.astype(np.float16).astype(np.float32))

    def __call__(
        self,
        pairs: Iterable[tuple[Sequence[str], str | None]],
        *,
        vectors: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Tokens]:
        """Return tokens of many texts, each distinct one made once."""
        known: dict[Any, Tokens] = {}
        wanted = [(tuple(words), question) for words, question in pairs]
        distinct = list(dict.fromkeys(wanted))
        for done, key in enumerate(distinct, 1):
            found = self.tokens(*key)
            known[key] = self.with_vectors(found) if vectors else found
            if progress is not None:
                progress(done, len(distinct))
        return [known[key] for key in wanted]

    def _key(self, tokens: Tokens) -> str:
        info = self.lm.info
        model = info.get("sha") or info["name"]
        digest = hashlib.sha256(f"{VERSION}|{model}|".encode())
        digest.update(tokens.ids.tobytes())
        return digest.hexdigest()[:32]

    def _compute(self, tokens: Tokens) -> NDArray[np.float32]:
        """Run the model over the tokens, in windows that overlap by half where they are many."""
        import torch

        most = self.lm.info.get("context_length") or len(tokens)
        n, model = len(tokens), self.lm.model
        most = min(int(most), n)
        begins = list(range(0, max(n - most, 0) + 1, max(most // 2, 1)))
        if begins[-1] + most < n:
            begins.append(n - most)
        out = np.zeros((n, self.width), dtype=np.float32)
        margin = np.full(n, -1)
        for begin in begins:
            rows = np.arange(begin, begin + most)
            ids = torch.from_numpy(tokens.ids[rows])[None]
            with torch.inference_mode():
                states = model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
            edge = np.minimum(rows - begin, begin + most - 1 - rows)
            edge = np.where((rows < most // 2) & (begin == 0), most, edge)  # the start is no edge
            better = edge > margin[rows]
            out[rows[better]] = states.float().numpy()[better]
            margin[rows[better]] = edge[better]
        return out
