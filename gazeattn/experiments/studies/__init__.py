"""Published studies, done again: one file per study, each a function registered by its name."""

from __future__ import annotations
