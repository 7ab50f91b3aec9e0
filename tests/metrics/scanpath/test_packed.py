"""Scanpaths side by side: tables by name, units that are stated, doubts about seconds."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath import (
    Clusters,
    dtw,
    fixation_edit_distance,
    in_milliseconds,
    multimatch,
    pairwise,
    scanmatch,
    semantic_fixation_edit_distance,
    semantic_sequence_score,
    sequence_score,
)
from gazeattn.metrics.scanpath._packed import as_path, pack
from gazeattn.registry import metrics

PATH = np.array([[10.0, 10, 200], [400, 300, 250], [700, 500, 220]])
SIZE = (800, 600)
CLUSTERS = Clusters(PATH[:, :2], SIZE)
LABELS = np.ones((600, 800), dtype=int)


def test_a_table_is_read_by_the_names_of_its_columns() -> None:
    table = pd.DataFrame({"duration": [200.0, 300], "x": [1, 2], "y": [3, 4], "eye": ["l", "r"]})
    assert as_path(table).tolist() == [[1, 3, 200], [2, 4, 300]]
    assert dtw(table, [[1, 3], [2, 4]]) == 0
    assert as_path(table[["y", "x"]]).tolist() == [[1, 3], [2, 4]]
    with pytest.raises(DataError, match="without x and y"):
        as_path(table[["duration", "x"]])


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("us", 1000), ("ms", 1)])
def test_durations_of_a_stated_unit_give_the_same(unit: str, factor: float) -> None:
    other = PATH * [1, 1, factor]
    same = multimatch(in_milliseconds(other, unit), PATH, size=SIZE)
    assert same.duration == pytest.approx(1)
    with pytest.raises(UnknownNameError, match="ms"):
        in_milliseconds(PATH, "msec")


def test_durations_that_look_like_seconds_are_doubted() -> None:
    seconds = PATH * [1, 1, 0.001]
    for call in (
        lambda: multimatch(seconds, PATH, size=SIZE),
        lambda: multimatch(PATH, seconds, size=SIZE),
        lambda: scanmatch(PATH, seconds, size=SIZE, time_bin=0.05),
        lambda: sequence_score(seconds, PATH, clusters=CLUSTERS, size=SIZE, bin_ms=0.05),
        lambda: fixation_edit_distance(PATH, seconds, clusters=CLUSTERS, size=SIZE, bin_ms=0.05),
        lambda: semantic_sequence_score(seconds, PATH, labels=LABELS, size=SIZE, bin_ms=0.05),
        lambda: semantic_fixation_edit_distance(
            seconds, PATH, labels=LABELS, size=SIZE, bin_ms=0.05
        ),
        lambda: pairwise([seconds] * 2, metric="multimatch", size=SIZE),
        lambda: pairwise([PATH], [seconds], "scanmatch", size=SIZE, time_bin=0.05),
    ):
        with pytest.warns(UserWarning, match="look like seconds") as told:
            call()
        assert len(told) == 1
        assert told[0].filename == __file__


@pytest.mark.parametrize("metric", ["dtw", "hausdorff", "tde", "scanmatch", "levenshtein", "stde"])
def test_metrics_that_ignore_durations_do_not_doubt_them(metric: str) -> None:
    seconds = PATH * [1, 1, 0.001]
    options: dict[str, Any] = {} if metric in ("dtw", "hausdorff", "tde") else {"size": SIZE}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairwise([seconds] * 2, metric=metric, **options)
        metrics.get(metric).obj(seconds, seconds, **options)
        pack([seconds])


def test_a_metric_in_the_place_of_the_second_paths_is_noticed() -> None:
    with pytest.raises(DataError, match="metric="):
        pairwise([PATH, PATH], "dtw")


def test_tables_lose_no_durations_by_their_name() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0], "duration_ms": [100.0, 200.0]})
    assert as_path(frame).tolist() == [[1, 3, 100], [2, 4, 200]]
    for name in ("dur", "FixDuration", "duration_s"):
        with pytest.raises(DataError, match=name):
            as_path(frame.rename(columns={"duration_ms": name}))
    assert as_path(frame.drop(columns="duration_ms")).shape == (2, 2)
    both = frame.assign(duration=[1.0, 2.0])
    assert as_path(both)[:, 2].tolist() == [1, 2]
