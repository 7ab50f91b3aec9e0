"""Prompts with code: where the code stands, whatever is around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gazeattn.datamodules.code_prompts import code_prompt
from gazeattn.errors import CapabilityError, DataError

CODE = "def f(a):\n    return a\n"


class Letters:
    """A tokenizer with one token per character."""

    is_fast = True

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        return {"input_ids": [ord(c) for c in text],
                "offset_mapping": [(k, k + 1) for k in range(len(text))]}  # fmt: skip


def test_by_hand() -> None:
    found = code_prompt(Letters(), CODE, before="Say {language}:", after=" !")
    text = "".join(map(chr, found.ids))
    assert text == "Say python:def f(a):\n    return a !"
    assert "".join(text[k] for k in np.flatnonzero(found.code)) == CODE.rstrip()
    assert found.start == len(text) - 1 and found.whole
    inside = found.offsets[found.code]
    assert inside.tolist() == [[k, k + 1] for k in range(len(CODE.rstrip()))]
    assert not found.offsets[~found.code].any()
    cut = code_prompt(Letters(), CODE, longest=4, before="", after="!")
    assert "".join(map(chr, cut.ids)) == "def !" and not cut.whole


def test_prompts_that_are_none() -> None:
    with pytest.raises(DataError, match="no token"):
        code_prompt(Letters(), "  \n")
    slow = Letters()
    slow.is_fast = False  # type: ignore[misc]
    with pytest.raises(CapabilityError):
        code_prompt(slow, CODE)
