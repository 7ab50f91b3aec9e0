"""Metrics in training loops: batches, resets and processes change nothing."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics import agreement
from gazeattn.metrics.streaming import streaming

RNG = np.random.default_rng(3)
ITEMS = [(RNG.random(12), RNG.random(12)) for _ in range(11)]
EXPECTED = float(np.mean([agreement.spearman(a, b) for a, b in ITEMS]))


def update(metric, items) -> None:
    metric.update([a for a, _ in items], [b for _, b in items])


@pytest.mark.parametrize("cuts", [[11], [1] * 11, [4, 7], [10, 1]])
def test_any_cut_into_batches_gives_the_same(cuts: list[int]) -> None:
    metric, start = streaming("spearman"), 0
    for size in cuts:
        update(metric, ITEMS[start : start + size])
        start += size
    assert float(metric.compute()) == pytest.approx(EXPECTED, abs=1e-12)
    assert int(metric.n) == 11


def test_reset_carries_nothing_over_and_nothing_is_a_warning() -> None:
    metric = streaming("spearman")
    with pytest.warns(UserWarning):
        assert np.isnan(float(metric.compute()))
    update(metric, ITEMS[:5])
    metric.reset()
    update(metric, ITEMS[5:])
    expected = np.mean([agreement.spearman(a, b) for a, b in ITEMS[5:]])
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-12)


def test_undefined_items_are_counted_and_do_not_pull_the_mean() -> None:
    metric = streaming("spearman")
    update(metric, [*ITEMS, (np.ones(12), ITEMS[0][1])])
    assert float(metric.compute()) == pytest.approx(EXPECTED, abs=1e-12)
    assert int(metric.undefined) == 1


def test_scores_outside_0_and_1_are_not_rescaled_by_the_batch() -> None:
    maps = [RNG.normal(size=(8, 9)) * 5 for _ in range(3)]
    fixations = [np.array([[1.0, 2.0], [7.0, 3.0]])] * 3
    one_by_one, at_once = streaming("nss"), streaming("nss")
    for a, b in zip(maps, fixations, strict=True):
        one_by_one.update([a], [b])
    at_once.update(maps, fixations)
    assert float(one_by_one.compute()) == float(at_once.compute())


def test_tensors_and_parts() -> None:
    paths = [np.column_stack([RNG.random(5) * 800, RNG.random(5) * 600, RNG.random(5) * 300])] * 2
    metric = streaming("multimatch", "shape", size=(800, 600))
    metric.update([torch.tensor(p) for p in paths], paths)
    assert float(metric.compute()) == pytest.approx(1)
    with pytest.raises(DataError, match="several values"):
        streaming("multimatch", size=(800, 600))
    with pytest.raises(UnknownNameError, match="shape"):
        streaming("multimatch", "shap", size=(800, 600))
    with pytest.raises(UnknownNameError, match="spearman"):
        streaming("spearmann")
    with pytest.raises(DataError, match="as many references"):
        streaming("spearman").update(ITEMS[0], [ITEMS[0][0]])


def _share(rank: int, folder: str) -> None:
    """Take every second item (6 and 5) and write the common mean."""
    os.environ.update(MASTER_ADDR="127.0.0.1")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    metric = streaming("spearman")
    update(metric, ITEMS[rank::2])
    Path(folder, f"{rank}.txt").write_text(repr(float(metric.compute())))
    torch.distributed.destroy_process_group()


def test_two_processes_with_unequal_shares_give_the_value_of_one(tmp_path: Path) -> None:
    context = mp.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = [(r, str(tmp_path)) for r in range(2)]
        workers = [context.Process(target=_share, args=a, daemon=True) for a in arguments]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
    values = [float((tmp_path / f"{r}.txt").read_text()) for r in range(2)]
    assert values == pytest.approx([EXPECTED, EXPECTED], abs=1e-12)


def test_it_can_be_stored_and_sent_with_its_state() -> None:
    metric = streaming("spearman")
    update(metric, ITEMS[:4])
    again = pickle.loads(pickle.dumps(metric))
    update(again, ITEMS[4:])
    assert float(again.compute()) == pytest.approx(EXPECTED, abs=1e-12)
    assert int(metric.n) == 4


def test_wrong_parameters_are_said_before_training() -> None:
    with pytest.raises(UnknownNameError, match="size"):
        streaming("scanmatch", sise=(8, 6))
    with pytest.raises(DataError, match="size="):
        streaming("scanmatch")
    with pytest.raises(UnknownNameError, match="9"):
        streaming("multimatch", 9, size=(8, 6))
