"""Our own network: sequence and set of fixations, beside aggregates."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.models.reading.gaze_set import GazeSet, _part

from . import made_fixations as made
from .made_texts import out_of, poisoned

# what is random in training is off: crops, hidden fixations, dropout
PLAIN = partial(GazeSet, width=16, crop=1.0, pretrain=0.0)
CHOICE = GazeSet.choice({"sets": ["speed", "counts"]})


@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
def test_contract() -> None:
    inputs, widths = made.inputs_of(made.odd_readings(), CHOICE)
    torch.manual_seed(0)
    model = PLAIN(made.target(), widths, dropout=0.0)
    n = len(inputs)
    together = out_of(model, inputs, range(n))
    assert together.shape == (n, 2) and float(together.std(0).max()) > 1e-4
    for i in range(n):
        torch.testing.assert_close(out_of(model, inputs, [i])[0], together[i], atol=1e-5, rtol=0)
    batch = collate_reading(inputs)
    torch.testing.assert_close(model(poisoned(batch)), model(batch))
    model.train()
    model.training_loss(poisoned(batch))["loss"].backward()
    used = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert all(bool(torch.isfinite(g).all()) for g in used.values())
    # only the parts for hidden fixations are not used once labels count
    idle = {n for n, p in model.named_parameters() if p.grad is None}
    assert idle == {"unknown", "fill.weight", "fill.bias"}


def test_learns_order_and_a_set_cannot(tmp_path: Path) -> None:
    trials, y = made.by_order()
    choice = GazeSet.choice({"fixation": ["duration", "word_share"], "gaze": [], "text": []})
    data = made.inputs_of(trials, choice, y)
    ordered = partial(PLAIN, aggregates=False)
    made.check_learns(ordered, *data, tmp_path / "ordered", epochs=60)
    with pytest.raises(AssertionError, match="right"):
        made.check_learns(partial(ordered, layers=0), *data, tmp_path / "set", epochs=15)


def test_branches_can_be_left_out() -> None:
    inputs, widths = made.inputs_of(made.odd_readings(), CHOICE)
    for options in ({"aggregates": False}, {"fixation_branch": False}):
        torch.manual_seed(0)
        model = PLAIN(made.target(), widths, dropout=0.0, **options)
        out = out_of(model, inputs, range(len(inputs)))
        assert bool(torch.isfinite(out).all()) and float(out.std(0).max()) > 1e-4
    # without the branch of fixations, their features say nothing
    batch = collate_reading(inputs)
    changed = collate_reading(inputs)
    changed.fixations = changed.fixations + 5
    torch.testing.assert_close(model.eval()(batch), model(changed))


def test_crops_are_contiguous_and_long_enough() -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([1, 2, 7, 40])
    mask = torch.arange(40)[None] < lengths[:, None]
    seen = []
    for _ in range(200):
        part = _part(mask, 0.5)
        assert not bool((part & ~mask).any())
        size = part.sum(1)
        assert bool((size >= (lengths * 0.5).ceil().clamp_min(1)).all())
        edges = (part[:, 1:] != part[:, :-1]).sum(1)
        assert bool((edges <= 2).all())
        seen.append(part)
    share = torch.stack(seen).float().mean(0)[3]
    assert 0.08 < float(share.min()) and float(share[0]) < float(share[20])


def test_hidden_fixations_are_learned_first() -> None:
    """Before labels count, the loss is that of hidden fixations, and it needs no label."""
    trials, y = made.by_duration()
    inputs, widths = made.inputs_of(trials, CHOICE, [np.nan] * len(y))
    torch.manual_seed(0)
    model = GazeSet(made.target(), widths, width=16, dropout=0.0, crop=1.0, hidden=0.5).train()
    batch = collate_reading(inputs)
    first = model.training_loss(batch)
    assert set(first) == {"loss", "filled"}
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(60):
        optimiser.zero_grad()
        loss = model.training_loss(batch)["loss"]
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.6 * float(first["loss"].detach())
    assert model.eval().training_loss(batch) == {}  # validation has labels only
