"""Teacher-forced scores and divergences against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import DataError
from gazeattn.models.scanpath.base import ScanpathModel, log_density_of, one_batch
from gazeattn.models.scanpath.evaluation import (
    PairScorer,
    PairScores,
    divergence,
    draw,
    stimulus_seed,
    teacher_forced,
)

SIZE = (40.0, 20.0)


def people(paths: dict[tuple[str, str], list], stimuli: tuple[str, ...] = ("s",)) -> Scanpaths:
    """Return scanpaths from (participant, stimulus) -> rows of x, y, ms."""
    values = np.concatenate([np.asarray(p, dtype=float) for p in paths.values()])
    lengths = [len(p) for p in paths.values()]
    ids = np.array(["/".join(k) for k in paths], dtype=object)
    return Scanpaths(
        *values.T,
        np.concatenate([[0], np.cumsum(lengths)]),
        ids,
        np.array([k[0] for k in paths], dtype=object),
        np.array([k[1] for k in paths], dtype=object),
        {s: Stimulus(s, SIZE) for s in stimuli},
    )


class Fixed(ScanpathModel):
    """Four cells with weights 4, 2, 1, 1 and samples in the middle of the first."""

    def log_density(self, batch: ScanpathBatch, grid: tuple[int, int]) -> torch.Tensor:
        weights = torch.tensor([[4.0, 2.0], [1.0, 1.0]])
        maps = log_density_of(weights)
        return maps.expand(*batch.mask.shape, 2, 2)

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[np.ndarray]:
        jitter = torch.rand(n, generator=generator).double().numpy()
        return [np.array([[10 + j, 5.0], [12.0, 6.0], [30.0, 15.0]]) for j in jitter]


def test_scores_of_single_fixations_by_hand() -> None:
    paths = people({("a", "s"): [(5, 5, 100), (25, 15, 100)], ("b", "s"): [(25, 5, 90)]})
    found = teacher_forced(Fixed(), paths, (2, 2))
    assert found["index"].tolist() == [0, 1, 0]
    assert np.allclose(np.exp(found["log_p"]), [0.5, 0.125, 0.25])
    assert np.allclose(found["bits"], [1, -1, 0])  # against a quarter
    spread = np.std([0.5, 0.25, 0.125, 0.125])
    assert np.allclose(found["nss"], np.array([0.25, -0.125, 0.0]) / spread)
    # of the three other cells: three are lower; one is equal and none lower; two are lower
    assert np.allclose(found["auc"], [1, 0.5 / 3, 2 / 3])


def test_a_fixation_off_the_stimulus_has_no_cell() -> None:
    with pytest.raises(DataError, match="off their stimulus"):
        teacher_forced(Fixed(), people({("a", "s"): [(40, 5, 100)]}), (2, 2))


def test_maps_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(DataError, match="wrong shape"):
        teacher_forced(Fixed(), people({("a", "s"): [(5, 5, 100)]}), (3, 2))


def test_samples_of_a_stimulus_do_not_depend_on_the_others() -> None:
    row = [(5, 5, 100), (6, 6, 100)]
    both = people({("a", "s"): row, ("a", "t"): row}, ("s", "t"))
    alone = people({("a", "t"): row}, ("t",))
    first, second = draw(Fixed(), both, 3, 0), draw(Fixed(), alone, 3, 0)
    assert all((a == b).all() for a, b in zip(first["t"], second["t"], strict=True))
    other = draw(Fixed(), alone, 3, 1)
    assert any((a != b).any() for a, b in zip(first["t"], other["t"], strict=True))
    assert stimulus_seed(0, "s") != stimulus_seed(1, "s") != stimulus_seed(1, "t")


def test_pairs_are_of_different_people_on_one_stimulus() -> None:
    rng = np.random.default_rng(0)
    rows = {
        (p, s): np.c_[rng.uniform(0, 40, 6), rng.uniform(0, 20, 6), rng.uniform(80, 300, 6)]
        for p in "abc"
        for s in "st"
    }
    paths = people(rows, ("s", "t"))
    scorer = PairScorer(paths)
    found = scorer(draw(Fixed(), paths, 2, 0), durations=False)
    assert set(found) == {"multimatch", "scanmatch", "recurrence", "tde", "sequence_score"}
    one = found["multimatch"]
    assert len(one.human) == 6 and len(one.model) == 12  # 3 pairs and 2 x 3, on 2 stimuli
    assert one.human_stimulus.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.bincount(one.model_stimulus).tolist() == [6, 6]
    from gazeattn.metrics.scanpath import multimatch

    first, second = rows["a", "s"], rows["b", "s"]
    expected = np.mean(np.asarray(multimatch(first, second, size=SIZE))[:4])
    assert np.isclose(one.human[0], expected)


def test_divergence_of_equal_scores_is_nought_and_of_others_by_hand() -> None:
    human = np.array([0.0, 1.0, 1.0, 0.0])
    people_ = np.array([[0, 1], [2, 3], [0, 2], [1, 3]])
    where = np.zeros(4, dtype=int)
    same = PairScores(human, human.copy(), where, where, people_)
    assert divergence(same, draws=0).value == pytest.approx(0, abs=1e-8)
    model = np.array([0.0, 1.0, 1.0, 1.0])
    other = PairScores(human, model, where, where, people_)
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    assert divergence(other, draws=0).value == pytest.approx(expected, abs=1e-6)
    empty = PairScores(human, np.full(4, np.nan), where, where, people_)
    assert np.isnan(divergence(empty, draws=0).value)


def test_the_floor_is_what_people_get_against_people() -> None:
    rng = np.random.default_rng(1)
    i, j = np.triu_indices(15, 1)
    stimuli = 60
    human = rng.normal(size=(stimuli, len(i))).ravel()
    pairs = np.concatenate([np.stack([i, j], 1) + 15 * k for k in range(stimuli)])
    of_human = np.repeat(np.arange(stimuli), len(i))
    of_model = np.repeat(np.arange(stimuli), 150)
    perfect = rng.normal(size=len(of_model))
    good = divergence(PairScores(human, perfect, of_human, of_model, pairs), draws=200)
    assert good.low <= good.value <= good.high
    assert good.matched == pytest.approx(good.floor, rel=0.6)
    bad = divergence(PairScores(human, perfect + 1, of_human, of_model, pairs), draws=0)
    assert bad.matched > 3 * bad.floor


def test_one_batch_takes_paths_with_and_without_durations() -> None:
    batch = one_batch(Stimulus("s", SIZE), [np.array([[4.0, 5.0]]), np.array([[20.0, 10.0, 90.0]])])
    assert torch.allclose(batch.xy[:, 0], torch.tensor([[0.1, 0.25], [0.5, 0.5]]))
    assert batch.duration[0, 0].isnan() and batch.duration[1, 0] == 90
