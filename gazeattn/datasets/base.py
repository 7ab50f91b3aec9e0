"""The object that every corpus becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from gazeattn.errors import CapabilityError
from gazeattn.profiles import Units
from gazeattn.tables import LossLog


@dataclass
class GazeDataset:
    """Checked tables of one corpus and where they come from.

    Attributes
    ----------
    name : str
    fixations, words, trials : DataFrame
        See `gazeattn.tables` for columns and units.
    samples : DataFrame or None
        Raw gaze where the corpus has it.
    stimuli : dict
        Stimulus id to a dict of facts (text, image path, size in pixels).
    info : dict
        ``citation, licence, version, url, checksums, description, unverified`` and what the
        report's first sentence needs: ``readers_note`` (e.g. "information seeking").
    reports : dict
        Published tables of the same trials that measures are checked against, e.g.
        ``{"eyelink": <interest-area report>}`` with the columns trial, word and IA_*.
    lost : LossLog
        What was dropped, repaired or left undefined on the way in.
    """

    name: str
    fixations: pd.DataFrame
    words: pd.DataFrame
    trials: pd.DataFrame
    samples: pd.DataFrame | None = None
    stimuli: dict[str, dict[str, Any]] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    reports: dict[str, pd.DataFrame] = field(default_factory=dict)
    lost: LossLog = field(default_factory=LossLog)

    @property
    def capabilities(self) -> dict[str, Any]:
        """What this corpus has: ``has_xy, has_time, has_words, has_images, labels``."""
        f = self.fixations
        return {
            "has_xy": {"x", "y"} <= set(f) and bool(f["x"].notna().any()),
            "has_time": "duration" in f and bool(f["duration"].notna().any()),
            "has_words": len(self.words) > 0,
            "has_images": any("image" in s for s in self.stimuli.values()),
            "labels": tuple(self.info.get("labels", ())),
        }

    def require(self, *needs: str, by: str) -> None:
        """Raise `CapabilityError` unless every named capability is there."""
        have = self.capabilities
        lacking = [n for n in needs if not have.get(n)]
        if lacking:
            raise CapabilityError(
                f"{by} needs {', '.join(lacking)}, which data set {self.name!r} does not have"
            )

    @property
    def participants(self) -> list[str]:
        """Reader ids, sorted."""
        return sorted(self.trials["participant"].unique())

    def units(self, layout: str) -> Units:
        """Return the words of a layout as units."""
        rows = self.words[self.words["layout"] == layout]
        stimulus = str(rows["stimulus"].iloc[0]) if len(rows) else layout
        return Units(tuple(rows["word"]), tuple(rows["text"]), stimulus)

    def measures(self, convention: str = "first_pass") -> pd.DataFrame:
        """Return word measures, one row per participant, trial and word.

        See `gazeattn.reading.measures.word_measures` for the two conventions,
        ``"first_pass"`` and ``"eyelink"``.
        """
        from gazeattn.reading.measures import word_measures

        self.require("has_words", by="measures")
        return word_measures(self.fixations, self.words, self.trials, convention=convention)
