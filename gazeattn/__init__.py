"""Human and model attention on text, code and images: data, models, alignment metrics."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LAZY = {
    "load": "gazeattn.datasets",
    "GazeDataset": "gazeattn.datasets",
    "LanguageModel": "gazeattn.lm",
    "compare": "gazeattn.attention",
    "Comparison": "gazeattn.attention",
    "AttentionProfile": "gazeattn.profiles",
    "Units": "gazeattn.profiles",
}

__all__ = [
    "AttentionProfile",
    "Comparison",
    "GazeDataset",
    "LanguageModel",
    "Units",
    "__version__",
    "compare",
    "load",
]

if TYPE_CHECKING:
    from gazeattn.attention import Comparison, compare
    from gazeattn.datasets import GazeDataset, load
    from gazeattn.lm import LanguageModel
    from gazeattn.profiles import AttentionProfile, Units


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `gazeattn --help` does not wait for torch."""
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gazeattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
