"""Pure functions that measure agreement, with the statistics around them."""

from __future__ import annotations

from gazeattn.metrics import agreement, statistics

__all__ = ["agreement", "statistics"]
