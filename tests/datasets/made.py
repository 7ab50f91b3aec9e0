"""Tiny corpora in their published layouts, made here: ``MADE[name](folder)`` writes one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

MADE: dict[str, Callable[[Path], None]] = {}

for _path in sorted(Path(__file__).parent.glob("made_*.py")):
    MADE |= import_module(f".{_path.stem}", __package__).MAKERS
