"""Metrics in training loops: batches, resets and processes change nothing."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from torchmetrics import MetricCollection

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics import agreement, saliency
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


# -- the shuffled AUC takes the fixations of other images with every update ----------------------

SHAPE = (12, 16)
MAPS = [RNG.random(SHAPE) for _ in range(6)]
SEEN = [RNG.random((n, 2)) * [16, 12] for n in (4, 7, 1, 5, 3, 6)]
OTHERS = [[s for k, s in enumerate(SEEN) if k != i] for i in range(6)]
SHUFFLED = [saliency.shuffled_auc(m, s, o) for m, s, o in zip(MAPS, SEEN, OTHERS, strict=True)]


@pytest.mark.parametrize("cuts", [[6], [1] * 6, [4, 2]])
def test_shuffled_auc_in_batches_equals_the_function(cuts: list[int]) -> None:
    metric, start = streaming("shuffled_auc"), 0
    for size in cuts:
        part = slice(start, start + size)
        metric.update(MAPS[part], SEEN[part], OTHERS[part])
        start += size
    assert float(metric.compute()) == pytest.approx(np.mean(SHUFFLED), abs=1e-12)
    assert int(metric.n) == 6
    many = saliency.score_many("shuffled_auc", MAPS, SEEN)
    assert float(metric.compute()) == pytest.approx(many.mean, abs=1e-12)


def test_shuffled_auc_is_stored_reset_and_takes_tensors() -> None:
    metric = streaming("shuffled_auc", outside="drop")
    metric.update(MAPS[:2], SEEN[:2], OTHERS[:2])
    again = pickle.loads(pickle.dumps(metric))
    grads = [torch.tensor(m, requires_grad=True) for m in MAPS[2:]]
    others = [[torch.tensor(f) for f in o] for o in OTHERS[2:]]
    again.update(torch.stack(grads), [torch.tensor(s) for s in SEEN[2:]], other_fixations=others)
    assert float(again.compute()) == pytest.approx(np.mean(SHUFFLED), abs=1e-12)
    assert int(metric.n) == 2
    again.reset()
    again.update(MAPS[3:], SEEN[3:], OTHERS[3:])
    assert float(again.compute()) == pytest.approx(np.mean(SHUFFLED[3:]), abs=1e-12)
    again.load_state_dict(again.state_dict())
    assert float(metric(MAPS[2:3], SEEN[2:3], OTHERS[2:3])) == pytest.approx(SHUFFLED[2])
    assert int(metric.n) == 3


def test_shuffled_auc_with_one_pool_and_in_a_collection() -> None:
    pool = np.concatenate(SEEN[3:])
    metric = streaming("shuffled_auc", other_fixations=pool)
    metric.update(MAPS[:3], SEEN[:3])
    expected = [saliency.shuffled_auc(m, s, pool) for m, s in zip(MAPS[:3], SEEN[:3], strict=True)]
    assert float(metric.compute()) == pytest.approx(np.mean(expected), abs=1e-12)
    both = MetricCollection({"s": streaming("shuffled_auc"), "n": streaming("nss")})
    both.update(MAPS, SEEN, other_fixations=OTHERS)
    found = both.compute()
    assert float(found["s"]) == pytest.approx(np.mean(SHUFFLED), abs=1e-12)
    nss = np.mean([saliency.nss(m, s) for m, s in zip(MAPS, SEEN, strict=True)])
    assert float(found["n"]) == pytest.approx(nss, abs=1e-12)


def test_shuffled_auc_needs_one_entry_per_item() -> None:
    metric = streaming("shuffled_auc")
    with pytest.raises(DataError, match="as many other_fixations"):
        metric.update(MAPS, SEEN, OTHERS[:2])
    with pytest.raises(DataError, match="one entry per item"):
        metric.update(MAPS, SEEN, None)
    metric.update(MAPS[:1], SEEN[:1], [[]])
    assert int(metric.undefined) == 1
    parts: list[Any] = [True, 1.5, "x", 0]
    for part in parts:
        with pytest.raises(UnknownNameError):
            streaming("shuffled_auc", part)


def test_every_kind_of_tensor_is_read_the_same_way() -> None:
    a, b = torch.rand(12, requires_grad=True), torch.rand(12).to(torch.bfloat16)
    metric = streaming("spearman")
    metric.update([a], [b])
    expected = agreement.spearman(a.detach().numpy(), b.float().numpy())
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(DataError, match="meta"):
        metric.update([torch.ones(12, device="meta")], [b])
    # the functions themselves take them, too
    assert agreement.spearman(a, b) == expected
