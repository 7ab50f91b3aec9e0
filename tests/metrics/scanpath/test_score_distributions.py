"""KL of human-human and human-model scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics.scanpath import distances  # noqa: F401  registers the metrics used here
from gazeattn.metrics.scanpath.distances import disc_overlap, hausdorff
from gazeattn.metrics.scanpath.embedding import time_delay_embedding
from gazeattn.metrics.scanpath.score_distributions import pair_scores, score_distribution_kl


def test_by_hand() -> None:
    # edges 0, 1, 2: two bins; people 3/4 and 1/4, model 1/2 and 1/2
    human, model = [0, 0.5, 0.9, 2], [0.1, 1.5]
    want = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert score_distribution_kl(model, human, edges=3) == pytest.approx(want, abs=1e-9)
    # an empty model bin costs its share times about ln(1 / eps)
    got = score_distribution_kl([0.1, 0.2], [0, 0.5, 0.9, 2], edges=3, eps=1e-6)
    want = 0.75 * math.log(0.75 * (1 + 2e-6) / (1 + 1e-6)) + 0.25 * math.log(
        0.25 * (1 + 2e-6) / 1e-6
    )
    assert got == pytest.approx(want, rel=1e-12)


def test_conventions_and_equal_sets() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=500), rng.normal(0.5, size=400)
    assert score_distribution_kl(one, one) == pytest.approx(0, abs=1e-7)
    assert score_distribution_kl(one, one, convention="smoothed") == pytest.approx(0, abs=1e-12)
    assert score_distribution_kl(other, one) > score_distribution_kl(one, one)
    assert score_distribution_kl(other, one) != score_distribution_kl(one, other)  # directed
    assert score_distribution_kl(other, one) == pytest.approx(
        score_distribution_kl(other, one, convention="smoothed"), rel=1e-4
    )


def test_order_and_shift_and_scale_play_no_part() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.random(60), rng.random(50)
    want = score_distribution_kl(other, one, edges=9)
    assert score_distribution_kl(rng.permutation(other), rng.permutation(one), edges=9) == want
    assert score_distribution_kl(other * 4 + 8, one * 4 + 8, edges=9) == pytest.approx(want)


def test_undefined_scores_are_left_out_not_counted_as_0() -> None:
    human, model = [0.2, 0.4, math.nan, 0.9], [math.nan, 0.3, 0.8]
    assert score_distribution_kl(model, human, edges=4) == score_distribution_kl(
        [0.3, 0.8], [0.2, 0.4, 0.9], edges=4
    )
    for ours, theirs in (([], [1]), ([1], []), ([math.nan], [1]), ([1], [math.nan])):
        assert math.isnan(score_distribution_kl(ours, theirs))


def test_one_score_everywhere() -> None:
    assert score_distribution_kl([1, 1], [1]) == 0
    assert score_distribution_kl([1, 1], [1], limits=(0, 2)) == pytest.approx(0, abs=1e-7)
    assert score_distribution_kl([0, 0], [1], limits=(0, 1)) == pytest.approx(
        -math.log(1e-10), rel=1e-6
    )


def test_limits() -> None:
    one, other = [0.1, 0.3, 0.7], [0.2, 0.4]
    assert score_distribution_kl(other, one, limits=(0.1, 0.7)) == score_distribution_kl(other, one)
    with pytest.raises(DataError, match="limits"):
        score_distribution_kl(other, one, limits=(0.2, 1))
    with pytest.raises(DataError, match="infinite"):
        score_distribution_kl([math.inf], one)
    with pytest.raises(UnknownNameError):
        score_distribution_kl(other, one, convention="tpp")
    with pytest.raises(DataError, match="edges"):
        score_distribution_kl(other, one, edges=1)


def test_pairs_by_hand() -> None:
    rng = np.random.default_rng(2)
    human = [rng.uniform(0, 100, (n, 2)) for n in (4, 5, 3, 6, 2)]
    model = [rng.uniform(0, 100, (n, 2)) for n in (3, 4, 5)]
    got = pair_scores(
        model,
        human,
        model_stimulus=["y", "x", "z"],
        human_stimulus=["x", "y", "x", "x", "y"],
        metric="hausdorff",
    )
    assert got.human_pairs.tolist() == [[0, 2], [0, 3], [1, 4], [2, 3]]
    assert got.model_pairs.tolist() == [[0, 1], [0, 4], [1, 0], [1, 2], [1, 3]]
    for (i, j), value in zip(got.human_pairs, got.human, strict=True):
        assert value == hausdorff(human[i], human[j])
    for (i, j), value in zip(got.model_pairs, got.model, strict=True):
        assert value == hausdorff(model[i], human[j])
    assert got.kl() == score_distribution_kl(got.model, got.human)


@pytest.mark.parametrize("people", [["p", "q", "p"], [1, 2, 1], [("a", 1), ("b", 1), ("a", 1)]])
def test_a_person_is_no_pair_with_itself(people) -> None:
    paths = [[[0, 0], [5, 5]], [[9, 9], [2, 1]], [[0, 0], [5, 5]]]
    got = pair_scores(
        paths[:1],
        paths,
        model_stimulus=["s"],
        human_stimulus=["s"] * 3,
        human_participant=people,
        metric="hausdorff",
    )
    assert got.human_pairs.tolist() == [[0, 1], [1, 2]]


def test_parts_undefined_and_parameters() -> None:
    human = [[[0, 0], [50, 0]], [[10, 0], [60, 5]], [[7, 7]]]
    model = [[[5, 0], [55, 0]], []]
    labels = {"model_stimulus": ["s", "s"], "human_stimulus": ["s"] * 3}
    got = pair_scores(model, human, **labels, metric="disc_overlap", radius=30)
    assert got.columns == ("fdiss", "precision", "recall") and got.model.shape == (6, 3)
    assert got.undefined() == {"human": 0, "model": 3}
    np.testing.assert_allclose(got.model[0], disc_overlap(model[0], human[0], radius=30))
    kl = got.kl(edges=5)
    assert kl["recall"] == score_distribution_kl(got.model[:, 2], got.human[:, 2], edges=5)
    got = pair_scores(model, human, **labels, metric="time_delay_embedding", k=2)
    assert got.undefined() == {"human": 2, "model": 4}
    # the model comes first: the stretches of the person are looked for in its path
    assert got.model[1] == time_delay_embedding(model[0], human[1], k=2)


def test_wrong_input_is_named() -> None:
    path = [[[0, 0], [1, 1]]]
    with pytest.raises(UnknownNameError, match="scanpath metric"):
        pair_scores(path, path, model_stimulus=[1], human_stimulus=[1], metric="spearman")
    with pytest.raises(UnknownNameError, match="hausdorff"):
        pair_scores(path, path, model_stimulus=[1], human_stimulus=[1], metric="hausdorf")
    with pytest.raises(DataError, match="human_stimulus"):
        pair_scores(path, path, model_stimulus=[1], human_stimulus=[1, 2], metric="hausdorff")
    for missing in (None, float("nan")):
        with pytest.raises(DataError, match="missing label"):
            pair_scores(
                path, path, model_stimulus=[1], human_stimulus=[missing], metric="hausdorff"
            )
        with pytest.raises(DataError, match="human_participant"):
            pair_scores(
                path,
                path,
                model_stimulus=[1],
                human_stimulus=[1],
                human_participant=[missing],
                metric="hausdorff",
            )
