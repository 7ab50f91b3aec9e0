"""Language models: loading, words and tokens, attention, surprisal.

Importing this package registers the built-in models; torch is imported when one is loaded. The
attention methods are registered by `gazeattn.lm.methods`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gazeattn.lm.loading import find_model, load_model
from gazeattn.lm.tokens import Encoded, encode_words

if TYPE_CHECKING:
    from gazeattn.lm.model import LanguageModel

__all__ = ["Encoded", "LanguageModel", "encode_words", "find_model", "load_model"]


def __getattr__(name: str) -> Any:
    if name == "LanguageModel":
        from gazeattn.lm.model import LanguageModel

        return LanguageModel
    raise AttributeError(f"module 'gazeattn.lm' has no attribute {name!r}")
