"""A tiny data set and a language model with fixed profiles, so that numbers can be worked out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset
from gazeattn.errors import CapabilityError
from gazeattn.profiles import AttentionProfile, Units
from gazeattn.tables import MEASURES


@dataclass
class FakeDataset(GazeDataset):
    """A data set whose measures are given, not computed."""

    given: pd.DataFrame = field(default_factory=pd.DataFrame)

    def measures(self, convention: str = "first_pass") -> pd.DataFrame:
        return self.given.copy()


def make_dataset(
    readings: list[dict[str, Any]], *, name: str = "fake", info: dict[str, Any] | None = None
) -> FakeDataset:
    """Build a data set from readings.

    Each reading has participant, stimulus, words (texts), optionally layout, condition, question,
    trial, and one list per measure; `values` is short for total_reading_time.
    """
    rows, trials, words, fixations = [], [], [], []
    layouts: set[str] = set()
    for r in readings:
        trial = r.get("trial", f"{r['participant']}_{r['stimulus']}")
        layout = r.get("layout", r["stimulus"])
        texts = r["words"]
        trials.append(
            {
                "participant": r["participant"],
                "trial": trial,
                "stimulus": r["stimulus"],
                "layout": layout,
                "condition": r.get("condition", "information seeking"),
                "question": r.get("question"),
            }
        )
        given = {m: r[m] for m in MEASURES if m in r}
        given.setdefault("total_reading_time", r.get("values"))
        for i, text in enumerate(texts):
            row = {
                "participant": r["participant"],
                "trial": trial,
                "stimulus": r["stimulus"],
                "word": str(i),
                "index": i,
                "text": text,
            }
            for m in MEASURES:
                row[m] = given[m][i] if given.get(m) is not None else np.nan
            rows.append(row)
        if layout not in layouts:
            layouts.add(layout)
            words += [
                {
                    "layout": layout,
                    "stimulus": r["stimulus"],
                    "word": str(i),
                    "index": i,
                    "text": t,
                    "line": 0,
                    "left": 10.0 * i,
                    "top": 0.0,
                    "right": 10.0 * i + 10,
                    "bottom": 10.0,
                }
                for i, t in enumerate(texts)
            ]
        for k, i in enumerate(r.get("path", range(len(texts)))):
            fixations.append(
                {
                    "participant": r["participant"],
                    "trial": trial,
                    "stimulus": r["stimulus"],
                    "index": k,
                    "x": 10.0 * i + 5,
                    "y": 5.0,
                    "word": str(i),
                    "onset": 200.0 * k,
                    "duration": 200.0,
                }
            )
    frame = pd.DataFrame(rows)
    for m in MEASURES:
        frame[m] = frame[m].astype("float64")
    columns = ["participant", "trial", "stimulus", "index", "x", "y", "word", "onset", "duration"]
    return FakeDataset(
        name,
        pd.DataFrame(fixations, columns=columns),
        pd.DataFrame(words),
        pd.DataFrame(trials),
        info={"readers_note": "information seeking", **(info or {})},
        given=frame,
    )


class FakeLM:
    """A model whose profiles are a function of the text.

    `profiles` maps a method to a function of the units that returns weights, or a pair of
    weights and per-head weights (layers, heads, words).
    """

    def __init__(
        self,
        profiles: dict[str, Any],
        *,
        surprisal: Any = None,
        name: str = "fake-lm",
    ) -> None:
        self.profiles, self._surprisal = profiles, surprisal
        self.info = {"name": name, "licence": "none", "citation": "none"}
        self.capabilities = {
            "causal": True,
            "lm_head": surprisal is not None,
            "mlm_head": False,
            "offsets": True,
        }
        self.seen: list[tuple[str, str | None]] = []

    def attend(
        self, texts: list[Units], methods: list[str], contexts: Any = None, **options: Any
    ) -> list[dict[str, AttentionProfile]]:
        contexts = contexts or [None] * len(texts)
        self.seen += [(u.key, c) for u, c in zip(texts, contexts, strict=True)]
        out = []
        for units, _ in zip(texts, contexts, strict=True):
            found = {}
            for m in methods:
                made = self.profiles[m](units)
                weights, heads = made if isinstance(made, tuple) else (made, None)
                found[m] = AttentionProfile(
                    units, weights, "model", m, {"method": m}, {"mass_start": 0.25}, heads
                )
            out.append(found)
        return out

    def surprisal(self, units: Units, context: str | None = None) -> AttentionProfile:
        if self._surprisal is None:
            raise CapabilityError("surprisal needs lm_head, which 'fake-lm' does not have")
        return AttentionProfile(units, self._surprisal(units), "model", "surprisal")


@pytest.fixture
def dataset_maker() -> Any:
    return make_dataset


@pytest.fixture
def lm_maker() -> Any:
    return FakeLM
