"""What all metrics of two scanpaths share: kernels, undefined cases, symmetry, invariances."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.pairwise import pairwise, undefined_reason
from gazeattn.registry import metrics

for _module in ("distances", "embedding", "heatmatch", "recurrence", "scasim", "warping"):
    import_module(f"gazeattn.metrics.scanpath.{_module}")

SIZE = (800.0, 600.0)
# parameters, fewest fixations, value of a path against itself, how values follow a scale of 2
CASES: list[tuple[str, dict[str, Any], int, float | None, str]] = [
    ("dtw", {}, 1, 0.0, "grows"),
    ("discrete_frechet", {}, 1, 0.0, "grows"),
    ("hausdorff", {}, 1, 0.0, "grows"),
    ("euclidean", {}, 1, 0.0, "grows"),
    ("euclidean", {"convention": "sum_truncated"}, 1, 0.0, "grows"),
    ("euclidean", {"convention": "frobenius"}, 1, 0.0, "grows"),
    ("mannan", {"size": SIZE}, 1, 0.0, "size"),
    ("mannan", {"size": SIZE, "convention": "rAm1n"}, 1, 0.0, "size"),
    ("eyenalysis", {}, 1, 0.0, "grows"),
    ("disc_overlap", {"radius": 60.0}, 1, 1.0, "radius"),
    ("time_delay_embedding", {"k": 1}, 1, 0.0, "grows"),
    ("time_delay_embedding", {}, 3, 0.0, "grows"),
    ("time_delay_embedding", {"k": 2, "norm": "l1", "reduce": "max"}, 2, 0.0, "grows"),
    ("scaled_time_delay_embedding", {"size": SIZE}, 1, 1.0, "size"),
    ("scaled_time_delay_embedding", {"size": SIZE, "norm": "l1"}, 1, 1.0, "size"),
    ("cross_recurrence", {"radius": 90.0}, 1, None, "radius"),
    ("cross_recurrence", {"radius": 90.0, "convention": "fixatons"}, 1, None, "radius"),
    (
        "scasim",
        {"size": SIZE, "distance": 60.0, "unit_size": 1 / 30, "normalise": "durations"},
        1,
        0.0,
        "",
    ),
    ("heatmatch", {"size": SIZE, "grid": (6, 8)}, 2, 1.0, ""),
]
IDS = [f"{name}-{'-'.join(map(str, p.values()))}" for name, p, *_ in CASES]
each = pytest.mark.parametrize(("name", "parameters", "fewest", "same", "scale"), CASES, ids=IDS)


def _paths(seed: int = 0, lengths: tuple[int, ...] = (5, 9, 3, 12, 7, 3, 5)) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        np.c_[rng.uniform(0, 800, n), rng.uniform(0, 600, n), rng.uniform(60, 500, n)]
        for n in lengths
    ]


@each
def test_kernel_equals_the_single_function(name, parameters, fewest, same, scale) -> None:
    entry = metrics.get(name)
    paths, others = _paths(1), _paths(2, (4, 3, 11, 6))
    rng = np.random.default_rng(3)
    i, j = rng.integers(0, len(paths), 40), rng.integers(0, len(others), 40)
    got = entry.info["kernel"](pack(paths), pack(others), i, j, **parameters)
    columns = entry.info["columns"]
    assert got.shape == ((40,) if columns is None else (40, len(columns)))
    single = [
        np.asarray(entry.obj(paths[p], others[q], **parameters)) for p, q in zip(i, j, strict=True)
    ]
    np.testing.assert_allclose(got, single, rtol=1e-12, atol=1e-12)
    order = rng.permutation(40)
    again = entry.info["kernel"](pack(paths), pack(others), i[order], j[order], **parameters)
    np.testing.assert_allclose(again, got[order], rtol=1e-12, atol=1e-12)
    none = np.zeros(0, dtype=int)
    assert entry.info["kernel"](pack(paths), pack(others), none, none, **parameters).shape == (
        0,
        *got.shape[1:],
    )


@each
def test_pairwise_equals_the_single_function(name, parameters, fewest, same, scale) -> None:
    entry = metrics.get(name)
    paths = [*_paths(11, (5, 2, 9, 40, 7)), np.zeros((0, 3))]
    got = pairwise(paths, None, name, workers=1, **parameters)
    for p, a in enumerate(paths):
        for q, b in enumerate(paths):
            single = np.asarray(entry.obj(a, b, **parameters))
            np.testing.assert_allclose(got[p, q], single, rtol=1e-12, atol=1e-12)
            reason = undefined_reason(name, a, b, **parameters)
            assert bool(reason) == np.isnan(single).any()


@each
def test_short_and_empty_paths_are_undefined_in_both_orders(
    name, parameters, fewest, same, scale
) -> None:
    entry = metrics.get(name)
    (whole,) = _paths(4, (9,))
    for n in range(fewest + 2):
        short = whole[:n]
        for pair in ((short, whole), (whole, short), (short, short), (short.tolist(), whole)):
            values = np.atleast_1d(entry.obj(*pair, **parameters)).astype(float)
            reason = entry.info["reason"](*pair, **parameters)
            if n < fewest:
                assert np.isnan(values).all(), (n, values)
                assert reason
            else:
                assert bool(reason) == np.isnan(values).any(), (n, values, reason)
    # an empty path beside a full one changes nothing for the others
    batch = pack([whole[:0], whole, whole[: fewest + 1]])
    i, j = np.array([0, 1, 2]), np.array([1, 2, 1])
    values = entry.info["kernel"](batch, batch, i, j, **parameters)
    assert np.isnan(values[0]).all()
    np.testing.assert_allclose(
        values[1], np.asarray(entry.obj(whole, whole[: fewest + 1], **parameters)), rtol=1e-12
    )


@each
def test_identity_and_bounds(name, parameters, fewest, same, scale) -> None:
    entry = metrics.get(name)
    low, high = entry.info["bounds"]
    paths = _paths(5)
    for a in paths:
        if same is not None:
            np.testing.assert_allclose(entry.obj(a, a, **parameters), same, rtol=1e-12, atol=1e-12)
        for b in paths:
            values = np.atleast_1d(entry.obj(a, b, **parameters)).astype(float)
            values = values[~np.isnan(values)]
            assert ((values >= low) & (values <= high)).all()
            if entry.info["symmetric"]:
                np.testing.assert_allclose(
                    entry.obj(b, a, **parameters), entry.obj(a, b, **parameters), rtol=1e-12
                )


@pytest.mark.parametrize(
    ("name", "parameters", "fewest", "same", "scale"),
    [c for c in CASES if c[0] not in ("scasim", "heatmatch")],  # tied to the place on the screen
    ids=[i for i in IDS if not i.startswith(("scasim", "heatmatch"))],
)
def test_translation_and_scale(name, parameters, fewest, same, scale) -> None:
    entry = metrics.get(name)
    a, b = _paths(6, (8, 6))
    want = np.asarray(entry.obj(a, b, **parameters))
    shift = np.array([1234.5, -77.25, 0])
    np.testing.assert_allclose(entry.obj(a + shift, b + shift, **parameters), want, rtol=1e-9)
    doubled = dict(parameters)
    if scale in ("size", "radius"):
        doubled[scale] = (
            2 * parameters["radius"] if scale == "radius" else tuple(2 * v for v in SIZE)
        )
    factor = 2.0 if scale == "grows" else 1.0
    twice = np.array([2.0, 2.0, 1.0])
    np.testing.assert_allclose(
        entry.obj(a * twice, b * twice, **doubled), want * factor, rtol=1e-12
    )


@each
def test_float32_and_other_containers(name, parameters, fewest, same, scale) -> None:
    entry = metrics.get(name)
    a, b = (np.round(p) for p in _paths(7, (8, 6)))  # whole numbers are exact in float32
    want = np.asarray(entry.obj(a, b, **parameters))
    for form in (
        lambda p: p.astype(np.float32),
        lambda p: p.astype(np.int64),
        lambda p: p.tolist(),
        lambda p: np.asfortranarray(p),
        lambda p: np.repeat(p, 2, axis=0)[::2],
    ):
        np.testing.assert_array_equal(np.asarray(entry.obj(form(a), form(b), **parameters)), want)


@each
def test_inputs_stay_as_they_are(name, parameters, fewest, same, scale) -> None:
    a, b = _paths(8, (8, 6))
    before = a.copy(), b.copy()
    metrics.get(name).obj(a, b, **parameters)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@each
def test_durations_play_a_part_in_scasim_alone(name, parameters, fewest, same, scale) -> None:
    entry = metrics.get(name)
    a, b = _paths(9, (8, 6))
    bare = np.asarray(entry.obj(a[:, :2], b[:, :2], **parameters))
    if name == "scasim":
        assert math.isnan(bare)
    else:
        np.testing.assert_array_equal(bare, np.asarray(entry.obj(a, b, **parameters)))


@each
def test_what_the_register_says(name, parameters, fewest, same, scale) -> None:
    info = metrics.get(name).info
    assert info["task"] == "scanpath"
    for key in ("description", "formula", "convention"):
        assert info[key]
    assert isinstance(info["higher_is_better"], bool) and isinstance(info["symmetric"], bool)
    assert metrics.get(name).obj.__doc__
