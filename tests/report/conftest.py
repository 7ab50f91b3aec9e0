"""A generated comparison that has every part of a real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.attention.comparison import ALIGNMENT_COLUMNS, SUMMARY_COLUMNS, Comparison
from gazeattn.datasets.base import GazeDataset
from gazeattn.tables import LossLog

WORDS = (
    "The river had risen in the night and now it carried branches past the mill . Nobody "
    "crossed the bridge before noon , when the water fell and the baker came back with bread "
    "for everyone who waited on the other side of the slow brown stream"
).split()
MEASURES = ("total_reading_time", "gaze_duration", "skip")
METRICS = ("spearman", "js_divergence", "partial_spearman")
METHODS = ("raw", "rollout", "value_norm", "entropy")
BASELINES = ("uniform", "random", "length", "frequency", "surprisal")


def make_dataset(
    texts: dict[str, Sequence[str]], readers: Sequence[str], **keep: bool
) -> GazeDataset:
    """Set every text in lines of 480 pixels and let every reader read it once."""
    rng = np.random.default_rng(7)
    words, fixations, trials = [], [], []
    for stimulus, items in texts.items():
        x, line = 40.0, 0
        for i, text in enumerate(items):
            width = 12.0 * (min(len(text), 20) + 1)
            if x + width > 640:
                x, line = 40.0, line + 1
            top = 60.0 + 48 * line
            words.append(
                {"layout": stimulus, "stimulus": stimulus, "word": str(i), "index": i,
                 "text": text, "line": line, "left": x, "top": top, "right": x + width,
                 "bottom": top + 40}
            )  # fmt: skip
            x += width
        boxes = pd.DataFrame([w for w in words if w["layout"] == stimulus])
        for reader in readers:
            trial = f"{reader}-{stimulus}"
            trials.append(
                {"participant": reader, "trial": trial, "stimulus": stimulus, "layout": stimulus,
                 "condition": "hunting"}
            )  # fmt: skip
            at = 0
            for k in range(int(1.3 * len(items))):
                box = boxes.iloc[at]
                off = k % 17 == 16
                fixations.append(
                    {"participant": reader, "trial": trial, "stimulus": stimulus, "index": k,
                     "x": (box.left + box.right) / 2 + rng.normal(0, 5),
                     "y": box.top + 20 + rng.normal(0, 5) + 300 * off,
                     "word": np.nan if off else box.word,
                     "duration": float(rng.integers(80, 500)), "onset": 250.0 * k}
                )  # fmt: skip
                at = int(np.clip(at + rng.choice([1, 1, 1, 2, -1, 0]), 0, len(items) - 1))
    w = pd.DataFrame(words)
    f = pd.DataFrame(fixations)
    if keep.get("boxes") is False:
        w = w.drop(columns=["left", "top", "right", "bottom", "line"])
    if keep.get("positions") is False:
        f = f.drop(columns=["x", "y"])
    return GazeDataset(
        "rivers",
        f,
        w,
        pd.DataFrame(trials),
        info={"licence": "CC BY 4.0", "citation": "A. Writer (2020)."},
    )


def make_comparison(
    dataset: GazeDataset,
    *,
    layers: int = 4,
    heads: int = 3,
    measures: Sequence[str] = MEASURES,
    metrics: Sequence[str] = METRICS,
    undefined: bool = False,
    ceiling: float = 0.5,
) -> Comparison:
    """Return a comparison with plausible, fixed numbers."""
    rng = np.random.default_rng(3)
    stimuli = list(dict.fromkeys(dataset.words["stimulus"]))
    readers = dataset.participants
    profiles: list[dict[str, Any]] = []
    for stimulus in stimuli:
        rows = dataset.words[dataset.words["stimulus"] == stimulus]

        def add(
            kind: str, name: str, weights: np.ndarray, who: object, trial: str,
            stimulus: str = stimulus, rows: pd.DataFrame = rows,
        ) -> None:  # fmt: skip
            profiles.extend(
                {"dataset": dataset.name, "stimulus": stimulus, "trial": trial,
                 "participant": who, "kind": kind, "name": name, "index": i, "unit": u,
                 "text": t, "weight": w}
                for i, (u, t, w) in enumerate(zip(rows["word"], rows["text"], weights, strict=True))
            )  # fmt: skip

        n = len(rows)
        for measure in measures:
            weights = rng.gamma(2.0, 1.0, n)
            if measure == "gaze_duration":
                weights[::6] = np.nan
            add("human", measure, weights / np.nansum(weights), np.nan, stimulus)
            for reader in readers:
                add("human", measure, weights / np.nansum(weights), reader, f"{reader}-{stimulus}")
        for method in METHODS:
            weights = rng.gamma(1.5, 1.0, n)
            if method == "rollout":
                weights[0] = np.nan
            add("model", method, weights, np.nan, stimulus)
        for name in BASELINES:
            add(
                "baseline",
                name,
                np.ones(n) if name == "uniform" else rng.random(n),
                np.nan,
                stimulus,
            )

    alignment: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for measure in measures:
        for metric in metrics:
            for name in (*METHODS, *BASELINES):
                kind = "baseline" if name in BASELINES else "model"
                gone = undefined or name == "uniform"
                reason = "the profile is constant" if gone else np.nan
                values = (
                    np.full(len(stimuli), np.nan) if gone else rng.normal(0.25, 0.1, len(stimuli))
                )
                for stimulus, value in zip(stimuli, values, strict=True):
                    alignment.append(
                        {"dataset": dataset.name, "stimulus": stimulus, "trial": stimulus,
                         "level": "mean", "measure": measure, "method": name, "kind": kind,
                         "metric": metric, "value": value, "ceiling": ceiling, "n_words": 40,
                         "n_lost": 3, "reason": reason}
                    )  # fmt: skip
                mean = np.nan if gone else float(np.mean(values))
                base = {
                    "dataset": dataset.name, "measure": measure, "method": name, "kind": kind,
                    "metric": metric, "level": "mean", "ceiling": ceiling,
                    "ceiling_upper": np.nan, "chance": 0.0 if not gone else np.nan,
                    "n_trials": 0 if gone else len(stimuli), "n_texts": len(stimuli),
                    "n_readers": len(readers), "n_undefined": len(stimuli) if gone else 0,
                }  # fmt: skip
                relative = mean / ceiling if ceiling > 0 else np.nan
                summary.append(
                    {**base, "value": mean, "low": mean - 0.08, "high": mean + 0.07,
                     "relative": relative, "p": np.nan if gone else 0.0004,
                     "q": np.nan if gone else 0.012}
                )  # fmt: skip
                if kind == "baseline" or metric != "spearman" or gone or layers == 0:
                    continue
                for layer in range(layers):
                    for head in (None, *range(1 if name == "rollout" else heads)):
                        value = float(rng.normal(0.2, 0.15))
                        summary.append(
                            {**base, "layer": layer, "head": head, "value": value,
                             "low": value - 0.1, "high": value + 0.1, "p": 0.01,
                             "q": float(rng.random() ** 3)}
                        )  # fmt: skip
    whole = {"layer": "Int64", "head": "Int64"}
    moves = []
    for stimulus in stimuli:
        n = int((dataset.words["stimulus"] == stimulus).sum())
        for i in range(n - 1):
            moves.append((stimulus, i, i + 1, 2))
            if i % 5 == 4:
                moves.append((stimulus, i, i - 3, 1))
    log = LossLog()
    log.add("fixations", "dropped", "off screen", 3, "fixations", ["r1-a"])
    log.add("measures", "undefined", "no first pass", 14, "words")
    return Comparison(
        answer="2 readers, information seeking: on 2 texts the attention of tiny agrees at 0.31. "
        "Against permuted words, p = 0.001.",
        alignment=pd.DataFrame(alignment, columns=list(ALIGNMENT_COLUMNS)).astype(whole),
        summary=pd.DataFrame(summary, columns=list(SUMMARY_COLUMNS)).astype(whole),
        profiles=pd.DataFrame(profiles).astype({"participant": "object"}),
        transitions=pd.DataFrame(
            [
                {"dataset": dataset.name, "stimulus": s, "trial": f"{readers[0]}-{s}",
                 "participant": readers[0], "source": a, "target": b, "count": c}
                for s, a, b, c in moves
            ],
            columns=["dataset", "stimulus", "trial", "participant", "source", "target", "count"],
        ),
        lost=log,
        info={
            "dataset": {"name": dataset.name, "licence": "CC BY 4.0", "n_readers": len(readers),
                        "n_texts": len(stimuli), "readers_note": "information seeking",
                        "citation": "A. Writer (2020). Rivers. https://example.org/rivers."},
            "lm": {"name": "tiny", "licence": "Apache-2.0", "citation": "B. Maker (2024)."},
            "conventions": {"subword": "Pieces of a word are added up.", "sink": "A start token."},
            "settings": {"measures": list(measures), "metrics": list(metrics), "level": "mean",
                         "methods": list(METHODS), "controls": ["length", "frequency"]},
            "model_lost": {"raw": {"start_token_mass": 0.62, "special_mass": 0.0},
                           "rollout": {"start_token_mass": 0.41, "special_mass": 0.01}},
        },
    )  # fmt: skip


@pytest.fixture(scope="session")
def dataset_factory() -> Callable[..., GazeDataset]:
    def make(
        texts: dict[str, Sequence[str]] | None = None,
        readers: Sequence[str] = ("r1", "r2"),
        **keep: bool,
    ) -> GazeDataset:
        return make_dataset(texts or {"a": WORDS, "b": WORDS[::-1]}, readers, **keep)

    return make


@pytest.fixture(scope="session")
def comparison_factory() -> Callable[..., Comparison]:
    return make_comparison
