"""Scanpaths as batches: what is kept, what is counted, and that padding never matters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from gazeattn.datamodules import collate, scanpaths_of
from gazeattn.datamodules.scanpaths import BatchSampler
from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.splits import split
from gazeattn.errors import DataError
from gazeattn.losses import LossLog


def made(rows: list[tuple[str, float, float, float]], stimuli: dict | None = None) -> GazeDataset:
    """Return a data set of trials a..., on pictures of 100 x 50."""
    table = pd.DataFrame(rows, columns=["trial", "x", "y", "duration"])
    table["participant"] = table["trial"].str[0]
    table["stimulus"] = "p" + table["trial"].str[1]
    table["index"] = table.groupby("trial").cumcount()
    trials = table.drop_duplicates("trial")[["trial", "participant", "stimulus"]]
    sizes = {s: {"size": (100, 50)} for s in trials["stimulus"].unique()}
    return GazeDataset(
        name="made",
        fixations=table,
        words=pd.DataFrame(),
        trials=trials.reset_index(drop=True),
        stimuli=sizes if stimuli is None else stimuli,
        info={},
    )


ROWS = [("a1", 10, 10, 100.0), ("a1", 20, 25, 200.0), ("b1", 99, 49, 50.0), ("a2", 0, 0, np.nan)]


def test_positions_become_shares_of_the_stimulus() -> None:
    batch = collate(scanpaths_of(made(ROWS)))
    assert batch.trial == ["a1", "b1", "a2"]
    assert batch.mask.tolist() == [[True, True], [True, False], [True, False]]
    assert torch.allclose(batch.xy[0], torch.tensor([[0.1, 0.2], [0.2, 0.5]]))
    assert torch.allclose(batch.xy[1, 0], torch.tensor([0.99, 0.98]))
    assert batch.xy[1, 1].tolist() == [0, 0]  # padding
    assert batch.duration[0].tolist() == [100, 200]
    assert batch.duration[1:, 1].isnan().all()
    assert batch.duration[2, 0].isnan()  # missing stays missing
    assert batch.which.tolist() == [0, 0, 1]


@pytest.mark.parametrize("point", [(100.0, 10.0), (-0.1, 10.0), (10.0, 50.0), (10.0, -3.0)])
def test_what_is_off_the_stimulus_is_counted_and_not_moved(point: tuple[float, float]) -> None:
    rows = [*ROWS, ("b1", *point, 80.0)]
    lost = LossLog()
    paths = scanpaths_of(made(rows), lost=lost)
    assert paths.lengths.tolist() == [2, 1, 1]
    assert [x.count for x in lost if "off the stimulus" in x.reason] == [1]
    kept = scanpaths_of(made(rows), outside="keep")
    assert kept.lengths.tolist() == [2, 2, 1]
    assert (kept.x[3], kept.y[3]) == point
    with pytest.raises(DataError, match="off their stimulus"):
        scanpaths_of(made(rows), outside="raise")


def test_missing_positions_and_short_scanpaths_are_counted() -> None:
    lost = LossLog()
    rows = [*ROWS, ("b2", np.nan, 3.0, 10.0)]
    paths = scanpaths_of(made(rows), shortest=2, lost=lost)
    assert paths.trial.tolist() == ["a1"]
    counts = {x.reason: x.count for x in lost}
    assert counts["fixations without a position"] == 1
    assert counts["scanpaths without a fixation"] == 1
    assert counts["scanpaths with fewer than 2 fixations"] == 2


def test_a_stimulus_without_size_and_nothing_left_are_errors() -> None:
    with pytest.raises(DataError, match="has no size"):
        scanpaths_of(made(ROWS, stimuli={"p1": {"size": (100, 50)}}))
    with pytest.raises(DataError, match="no scanpath is left"):
        scanpaths_of(made(ROWS), shortest=9)


def test_take_keeps_paths_and_drops_unused_stimuli() -> None:
    paths = scanpaths_of(made(ROWS))
    chosen = paths.take([2, 0])
    assert chosen.trial.tolist() == ["a2", "a1"]
    assert chosen.path(1).tolist() == paths.path(0).tolist()
    assert paths.take(np.array([True, True, False])).stimuli.keys() == {"p1"}


def test_batches_hold_every_scanpath_once_and_depend_on_seed_and_epoch() -> None:
    rows = [(f"{p}{s}", 5.0 + k, 5.0, 100.0) for p in "abcdefg" for s in "123" for k in range(3)]
    paths = scanpaths_of(made(rows))
    sampler = BatchSampler(paths, 4, seed=0)
    first = list(sampler)
    assert sorted(i for b in first for i in b) == list(range(21))
    assert len(first) == len(sampler) == 6
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(BatchSampler(paths, 4, seed=1)) != first
    whole = list(BatchSampler(paths, 1, seed=0, by_stimulus=True))
    assert sorted(len({paths.stimulus[i] for i in b}) for b in whole) == [1, 1, 1]
    assert all(len(b) == 7 for b in whole)


def test_real_images_split_without_leak(shared_data) -> None:
    dataset = load("osie", root=shared_data / "osie")
    paths = scanpaths_of(dataset)
    assert len(paths) == 9900 and len(paths.x) == 92503
    divided = split(dataset, by="text", shares=(0.7, 0.15, 0.15), seed=0)
    names = [set(paths.part(divided, p).stimuli) for p in ("train", "val", "test")]
    assert [len(n) for n in names] == [462, 99, 99]
    assert not names[0] & names[1] and not names[0] & names[2] and not names[1] & names[2]
