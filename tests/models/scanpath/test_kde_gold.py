"""The gold standard: mixture, leaving out, fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gazeattn.datamodules import Scanpaths, Stimulus, collate
from gazeattn.errors import DataError
from gazeattn.metrics.saliency.gold import cross_validated_bandwidth
from gazeattn.models.scanpath.kde_gold import KDEGold, mixture_weights


def people(
    at: dict[tuple[str, str], list[tuple[float, float]]], size: tuple[float, float] = (100.0, 50.0)
) -> Scanpaths:
    """Return scanpaths by (stimulus, participant)."""
    keys = list(at)
    xy = np.array([p for k in keys for p in at[k]], dtype=np.float64).reshape(-1, 2)
    starts = np.cumsum([0, *(len(at[k]) for k in keys)]).astype(np.int64)
    trial, who, what = (
        np.array(v, dtype=object)
        for v in (["-".join(k) for k in keys], [k[1] for k in keys], [k[0] for k in keys])
    )
    stimuli = {k[0]: Stimulus(k[0], size) for k in keys}
    return Scanpaths(xy[:, 0], xy[:, 1], np.full(len(xy), 200.0), starts, trial, who, what, stimuli)


def crowd(images: int = 8, seed: int = 0, sigma: float = 4.0) -> Scanpaths:
    """Return 6 people each of whom makes 8 fixations about two places of each picture."""
    rng = np.random.default_rng(seed)
    found = {}
    for i in range(images):
        places = rng.uniform([15, 10], [85, 40], (2, 2))
        for p in range(6):
            xy = places[rng.integers(0, 2, 8)] + sigma * rng.standard_normal((8, 2))
            found[f"i{i}", f"p{p}"] = [tuple(v) for v in np.clip(xy, 0, [99.9, 49.9])]
    return people(found)


def test_weights_by_hand() -> None:
    # 3 of 4 data come from the first of two densities that exclude each other
    parts = np.array([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 4.0]])
    weights, mean = mixture_weights(parts)
    assert weights.tolist() == pytest.approx([0.75, 0.25])
    assert mean == pytest.approx((3 * np.log(1.5) + np.log(1.0)) / 4)
    assert mixture_weights(np.ones((5, 3)))[1] == pytest.approx(0)


def model_with(paths: Scanpaths, **options: object) -> KDEGold:
    model = KDEGold(bandwidth=1.0, weights=[0.2, 0.1], **options)  # type: ignore[arg-type]
    model.fit_statistics(crowd())
    model.observe(paths)
    return model


def test_the_mixture_by_hand() -> None:
    paths = people({("a", "p"): [(10, 25)], ("a", "q"): [(90, 25)], ("a", "r"): [(90, 10)]})
    model = model_with(paths)
    stimulus = paths.stimuli["a"]
    centre = model.centre.map_of(stimulus, (1, 2))[0]
    found = model.maps_of(stimulus, ["p", "q", None], (1, 2))[:, 0]
    # without p both fixations are in the right half; without q one of two is; else two of three
    for row, left in enumerate((0.0, 0.5, 1 / 3)):
        expected = 0.7 * torch.tensor([left, 1 - left]) + 0.2 * centre + 0.1 / 2
        assert found[row].tolist() == pytest.approx(expected.tolist())


def test_a_trial_does_not_see_its_participant() -> None:
    paths = crowd(images=2, seed=3)
    model = model_with(paths)
    batch = collate(paths)
    old = model.log_density(batch, (5, 10))
    mine = paths.participant[paths.of] == "p2"
    moved = Scanpaths(
        np.where(mine, 1.0, paths.x), np.where(mine, 1.0, paths.y), paths.duration, paths.starts,
        paths.trial, paths.participant, paths.stimulus, paths.stimuli,
    )  # fmt: skip
    model.observe(moved)
    new = model.log_density(batch, (5, 10))
    is_mine = torch.tensor([p == "p2" for p in batch.participant])
    assert torch.equal(old[is_mine], new[is_mine])
    assert float((old[~is_mine] - new[~is_mine]).abs().amax((1, 2, 3)).min()) > 1e-3


def test_samples_can_leave_out_a_participant() -> None:
    paths = people({("a", "p"): [(10, 25)] * 3, ("a", "q"): [(90, 25)] * 3})
    model = KDEGold(bandwidth=0.5, weights=[0.0, 1e-9])
    model.fit_statistics(crowd())
    model.observe(paths)
    stimulus = paths.stimuli["a"]
    drawn = np.concatenate(model.sample(stimulus, 20, torch.Generator(), leave_out="p"))
    assert drawn[:, 0].min() > 80
    drawn = np.concatenate(model.sample(stimulus, 20, torch.Generator()))
    assert drawn[:, 0].min() < 20 < 80 < drawn[:, 0].max()


def test_one_person_alone_is_counted_and_predicted_from_other_pictures() -> None:
    paths = people({("a", "p"): [(10, 25), (12, 20)]})
    model = model_with(paths)
    found = model.log_density(collate(paths), (1, 2)).exp()[0, 0, 0]
    centre = model.centre.map_of(paths.stimuli["a"], (1, 2))[0]
    expected = (0.2 * centre + 0.05) / 0.3
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert [loss.count for loss in model.lost] == [1]


def test_an_unseen_picture_is_an_error() -> None:
    model = model_with(crowd())
    with pytest.raises(DataError, match="observe"):
        model.log_density(collate(people({("new", "p"): [(1, 1)]})), (2, 2))


def test_the_bandwidth_agrees_with_the_gold_standard_of_the_metrics() -> None:
    paths = crowd(images=12)
    model = KDEGold(weights=[1e-9, 0.01])  # no centre bias, as there
    model.fit_statistics(paths)
    owner, name = paths.participant[paths.of], paths.stimulus[paths.of]
    at = np.stack([paths.x, paths.y], axis=1)
    best, _ = cross_validated_bandwidth(
        [at[name == n] for n in paths.stimuli],
        [owner[name == n] for n in paths.stimuli],
        (100, 50),
        bandwidths=np.geomspace(1, 10, 40),
    )
    assert model.chosen is not None
    assert model.chosen[0] == pytest.approx(best, rel=0.15)
    # kernels at 48 fixations about places with sigma 4 are narrower than 4
    assert 1.0 < model.chosen[0] < 4.0


def test_it_beats_the_centre_bias_and_its_fit_is_no_worse_than_others() -> None:
    train, new = crowd(images=12), crowd(images=4, seed=9)
    model = KDEGold()
    model.fit_statistics(train)
    model.observe(new)
    batch = collate(new)
    cell = (batch.xy[..., 1] * 25).long() * 50 + (batch.xy[..., 0] * 50).long()
    gold = model.log_density(batch, (25, 50)).flatten(2).gather(2, cell[..., None])
    centre = model.centre.log_density(batch, (25, 50)).flatten(2).gather(2, cell[..., None])
    assert float((gold - centre).mean()) > 0.5
    assert model.log_likelihood is not None and model.chosen is not None
    for wrong in (0.5, 2.0):
        other = KDEGold(bandwidth=model.chosen[0] * wrong)
        other.fit_statistics(train)
        assert other.log_likelihood is not None
        assert other.log_likelihood < model.log_likelihood


def test_people_who_were_alone_cannot_be_fitted() -> None:
    alone = people({("a", "p"): [(1, 1)], ("b", "q"): [(2, 2)]})
    with pytest.raises(DataError, match="two people"):
        KDEGold().fit_statistics(alone)
