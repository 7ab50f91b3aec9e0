"""Clusters of fixations: building, assigning, sizes, files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.metrics.scanpath.clusters import (
    FACTORS,
    FACTORS_NARROW,
    Clusters,
    fit_clusters,
    load_clusters,
    save_clusters,
)

SIZE = (512.0, 384.0)


def blobs(n_paths: int = 6, seed: int = 0) -> list[np.ndarray]:
    """Return scanpaths that jump between three places of an image."""
    rng = np.random.default_rng(seed)
    places = np.array([[100.0, 100.0], [400.0, 100.0], [250.0, 300.0]])
    return [places[(np.arange(9) + n) % 3] + rng.normal(0, 5, (9, 2)) for n in range(n_paths)]


def test_golden_centers(golden: Any) -> None:
    """Where the golden group holds all its fixations, the centres come out as recorded."""
    equal = 0
    for g in golden("A_seqscore.json")["groups"]:
        size = (g["width"], g["height"])
        paths = [np.column_stack([v["x"], v["y"]]) for v in g["scanpaths"].values()]
        if len(paths) < 15:
            continue
        found = fit_clusters(paths, size=size, bandwidth=g["bandwidth"])
        np.testing.assert_allclose(found.centers, g["cluster_centers"], atol=1e-9)
        assert found.bandwidth == g["bandwidth"] and found.recipe == "fixed bandwidth"
        equal += 1
    assert equal >= 3


@pytest.mark.parametrize("kind", ["scattered", "whole pixels", "few places", "two rows"])
def test_clusters_are_those_of_scikit_learn_to_the_bit(kind: str) -> None:
    from sklearn.cluster import MeanShift, estimate_bandwidth

    rng = np.random.default_rng(7)
    for n in (2, 3, 11, 31, 64, 130):
        points = rng.uniform(0, 380, (n, 2))
        if kind == "whole pixels":
            points = np.round(points / 10)
        elif kind == "few places":
            points = np.round(points / 100) * 40
        elif kind == "two rows":
            points[:, 1] = 50.0 * (np.arange(n) % 2)
        for bandwidth in (1.0, 10.0, 50.0, 150.0):
            found = fit_clusters([points], size=SIZE, bandwidth=bandwidth)
            theirs = MeanShift(bandwidth=bandwidth).fit(points).cluster_centers_
            np.testing.assert_array_equal(found.centers, theirs)
        if n > 11:
            for quantile in (0.1, 0.3, 1.0):
                one = fit_clusters([points], size=SIZE, factors=[1], quantile=quantile)
                estimate = estimate_bandwidth(points, quantile=quantile)
                assert one.bandwidth == pytest.approx(estimate, rel=1e-9)


def test_three_blobs_are_three_clusters() -> None:
    paths = blobs()
    found = fit_clusters(paths, size=SIZE)
    assert len(found) == 3
    for center in ([100, 100], [400, 100], [250, 300]):
        assert np.hypot(*(found.centers - center).T).min() < 3
    # 6 scanpaths with 8 steps each, all between clusters
    assert found.rate == pytest.approx(48 / 3)
    assert (found.n_fixations, found.n_left_out) == (54, 0)
    assert (
        found.assign(paths[0], size=SIZE).reshape(3, 3).tolist()
        == [found.assign(paths[0][:3], size=SIZE).tolist()] * 3
    )


def test_bandwidth_of_the_highest_rate_is_kept() -> None:
    from sklearn.cluster import estimate_bandwidth

    paths = blobs(seed=4)
    estimate = estimate_bandwidth(np.concatenate(paths))
    rates = []
    for factor in FACTORS:
        one = fit_clusters(paths, size=SIZE, bandwidth=factor * estimate)
        labels = [one.assign(p, size=SIZE) for p in paths]
        within = sum(int((s[1:] == s[:-1]).sum()) for s in labels)
        rates.append((48 - 2 * within) / len(one))
        assert one.rate == rates[-1]
    best = fit_clusters(paths, size=SIZE)
    assert best.bandwidth == FACTORS[int(np.argmax(rates))] * estimate
    assert best.rate == max(rates) and "0.25/0.5/1/1.5/2/3/4" in best.recipe
    narrow = fit_clusters(paths, size=SIZE, factors=FACTORS_NARROW)
    assert "0.2/0.5/0.8/1/1.2/1.5/1.8" in narrow.recipe


def test_fixations_outside_the_image_are_left_out_and_counted() -> None:
    paths = blobs()
    outside = [[-1.0, 5.0], [512.0, 5.0], [5.0, 384.0], [5.0, -0.1]]
    found = fit_clusters([*paths, np.array(outside)], size=SIZE, bandwidth=60)
    assert found.n_left_out == 4 and found.n_fixations == 54
    np.testing.assert_array_equal(
        found.centers, fit_clusters(paths, size=SIZE, bandwidth=60).centers
    )


def test_order_of_the_scanpaths_does_not_matter() -> None:
    paths = blobs()
    a, b = fit_clusters(paths, size=SIZE), fit_clusters(paths[::-1], size=SIZE)
    assert len(a) == len(b) and a.rate == b.rate
    order = np.lexsort(a.centers.T), np.lexsort(b.centers.T)
    np.testing.assert_allclose(a.centers[order[0]], b.centers[order[1]])


def test_few_fixations() -> None:
    for paths in ([[[5.0, 6.0]]], [[[5.0, 6.0]] * 4, [[5.0, 6.0]]], [[[5.0, 6.0]], []]):
        found = fit_clusters(paths, size=SIZE)
        assert found.centers.tolist() == [[5.0, 6.0]]
    assert len(fit_clusters([[[5, 6], [300, 200]]], size=SIZE, bandwidth=20)) == 2
    nothing: list[Any] = [[], [[]], [[[-5.0, 6.0]]]]
    for paths in nothing:
        with pytest.raises(DataError, match="nothing to cluster"):
            fit_clusters(paths, size=SIZE)
    with pytest.raises(DataError, match="State the bandwidth"):
        fit_clusters([[[5, 6], [300, 200]]], size=SIZE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bandwidth": 0},
        {"bandwidth": -1},
        {"bandwidth": np.nan},
        {"factors": []},
        {"factors": [1, 0]},
        {"factors": [np.inf]},
        {"quantile": 0},
        {"quantile": 1.1},
        {"size": (0, 5)},
        {"size": (5,)},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        fit_clusters(blobs(), **{"size": SIZE, **wrong})


@pytest.mark.parametrize(
    "centers", [np.zeros((0, 2)), np.zeros((3, 3)), np.zeros(2), [[np.nan, 1.0]]]
)
def test_centres_that_are_none(centers: Any) -> None:
    with pytest.raises(DataError):
        Clusters(centers, SIZE)


# -- one image size -------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [(800, 600), (1024, 768), (256, 192), (512, 384), (1280, 960)])
def test_clusters_belong_to_one_image_size(other: tuple[float, float]) -> None:
    """Fixations at another size of the same image give the same symbols, never others."""
    paths = blobs()
    clusters = fit_clusters(paths, size=SIZE)
    factor = np.array(other) / np.array(SIZE)
    for p in paths:
        expected = clusters.assign(p, size=SIZE)
        assert clusters.assign(p * factor, size=other).tolist() == expected.tolist()
    # 300, 300 is in the lower blob at 512 x 384, and in none there at 800 x 600
    assert clusters.size == SIZE


@pytest.mark.parametrize("other", [(600, 800), (512, 512), (800, 384), (1680, 1050)])
def test_image_of_another_shape_is_refused(other: tuple[float, float]) -> None:
    clusters = fit_clusters(blobs(), size=SIZE)
    with pytest.raises(DataError, match="another shape") as error:
        clusters.assign([[1.0, 2.0]], size=other)
    assert "512 x 384" in str(error.value)


def test_the_nearest_centre_and_the_first_of_equals() -> None:
    clusters = Clusters(np.array([[0, 0], [10, 0], [10, 0]], float), SIZE)
    points: list[list[float]] = [[4.9, 0], [5.0, 0.0], [5.1, 0], [1e6, -1e6], [-5, 3]]
    assert clusters.assign(points, size=SIZE).tolist() == [0, 0, 1, 1, 0]
    assert clusters.assign([], size=SIZE).tolist() == []


def test_assigning_many_points_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from gazeattn.metrics.scanpath import clusters as module

    rng = np.random.default_rng(1)
    points = rng.random((500, 2)) * SIZE
    made = Clusters(rng.random((7, 2)) * SIZE, SIZE)
    distance = np.hypot(*(points[:, None] - made.centers).transpose(2, 0, 1))
    assert made.assign(points, size=SIZE).tolist() == distance.argmin(axis=1).tolist()
    monkeypatch.setattr(module, "_BLOCK", 50)
    assert made.assign(points, size=SIZE).tolist() == distance.argmin(axis=1).tolist()


# -- files ----------------------------------------------------------------------------------------


def test_file_keeps_size_and_all_facts(tmp_path: Path) -> None:
    one = fit_clusters(blobs(), size=SIZE)
    one.save(tmp_path / "one.npz")
    again = Clusters.load(tmp_path / "one.npz")
    np.testing.assert_array_equal(again.centers, one.centers)
    for name in ("size", "bandwidth", "rate", "n_fixations", "n_left_out", "recipe"):
        assert getattr(again, name) == getattr(one, name)
    assert again == one and again.fingerprint == one.fingerprint and hash(again) == hash(one)
    assert again.convention == one.convention
    assert one.convention.startswith(f"3 clusters {one.fingerprint} at 512 x 384, bandwidth ")
    given = Clusters(np.array([[1, 2]], float), (80, 60))
    assert given != one
    assert given.fingerprint != Clusters(np.array([[1, 2]], float), (160, 120)).fingerprint
    save_clusters({"a/b.jpg": one, "ü": given}, tmp_path / "all.npz")
    found = load_clusters(tmp_path / "all.npz")
    assert list(found) == ["a/b.jpg", "ü"]
    assert found["a/b.jpg"] == one and found["ü"] == given and np.isnan(found["ü"].bandwidth)
    with pytest.raises(DataError, match="several images"):
        Clusters.load(tmp_path / "all.npz")
    with pytest.raises(DataError, match="no clusters"):
        save_clusters({}, tmp_path / "none.npz")


def test_centres_cannot_be_changed_from_outside() -> None:
    values = np.array([[1.0, 2.0]])
    made = Clusters(values, SIZE)
    values[:] = 0
    assert made.centers.tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="read-only"):
        made.centers[0, 0] = 3


def test_files_that_are_no_clusters(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros((3, 2)))
    np.save(tmp_path / "pickled.npy", np.array({"a": 1}, dtype=object), allow_pickle=True)
    np.savez(tmp_path / "pickled.npz", format=np.array({"a": 1}, dtype=object))
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "empty.npz").write_bytes(b"")
    fit_clusters(blobs(), size=SIZE).save(tmp_path / "good.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "good.npz").read_bytes()[:700])
    with np.load(tmp_path / "good.npz") as file:
        parts = {k: file[k] for k in file.files}
    np.savez(tmp_path / "lacks.npz", **{k: v for k, v in parts.items() if k != "size"})
    np.savez(tmp_path / "counts.npz", **{**parts, "count": parts["count"] + 1})
    bad = ["other.npz", "array.npy", "pickled.npy", "pickled.npz", "text.npz", "empty.npz"]
    for name in [*bad, "cut.npz", "lacks.npz", "counts.npz"]:
        with pytest.raises(DataError, match=name):
            load_clusters(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load_clusters(tmp_path / "absent.npz")


def test_import_is_light() -> None:
    code = (
        "import sys, gazeattn.metrics.scanpath.semantic;"
        "print([m for m in ('sklearn', 'torch', 'statsmodels') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
