"""Many pairs at once: shapes, order, memory, engines, progress, reasons."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.metrics.scanpath import _engines
from gazeattn.metrics.scanpath._packed import Packed, pack
from gazeattn.metrics.scanpath.multimatch import multimatch
from gazeattn.metrics.scanpath.pairwise import pairs_within, pairwise, undefined_reason
from gazeattn.metrics.scanpath.scanmatch import scanmatch
from gazeattn.metrics.scanpath.strings import levenshtein
from gazeattn.registry import metrics, register_metric

module = importlib.import_module("gazeattn.metrics.scanpath.pairwise")  # not the function
SIZE = (800, 600)
SINGLE = {"multimatch": multimatch, "scanmatch": scanmatch, "levenshtein": levenshtein}


def random_paths(n, seed, longest=14):
    rng = np.random.default_rng(seed)
    return [
        np.column_stack([rng.uniform(0, 1, (k, 2)) * SIZE, rng.integers(20, 500, k)])
        for k in rng.integers(0, longest, n)
    ]


def gap_of_sizes(a, b, *, scale=1.0):
    """A metric without a form for many pairs, and without symmetry."""
    return scale * (len(a) - 2 * len(b))


@pytest.fixture
def simple_metric():
    name = "gap_of_sizes"
    register_metric(name, task="scanpath", symmetric=False, bounds=(-np.inf, np.inf))(gap_of_sizes)
    yield name
    del metrics._entries[name]


@pytest.mark.parametrize("name", SINGLE)
def test_all_pairs_of_two_lists(name):
    a, b = random_paths(7, 0), random_paths(5, 1)
    found = pairwise(a, b, name, size=SIZE)
    expected = [[SINGLE[name](p, q, size=SIZE) for q in b] for p in a]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert found.shape == ((7, 5, 5) if name == "multimatch" else (7, 5))


@pytest.mark.parametrize("name", SINGLE)
def test_all_pairs_of_one_list(name):
    a = random_paths(9, 2)
    found = pairwise(a, metric=name, size=SIZE)
    np.testing.assert_array_equal(found, pairwise(a, a, name, size=SIZE))
    np.testing.assert_array_equal(found, np.swapaxes(found, 0, 1))


def test_symmetric_metrics_are_computed_once(monkeypatch):
    counted = []
    metric = metrics.get("levenshtein")
    kernel = metric.info["kernel"]

    def counting(A, B, i, j, **parameters):
        counted.append(len(i))
        return kernel(A, B, i, j, **parameters)

    monkeypatch.setitem(metric.info, "kernel", counting)
    pairwise(random_paths(10, 3), metric="levenshtein", size=SIZE)
    assert sum(counted) == 55


def test_a_rule_that_is_not_symmetric_is_computed_in_both_orders():
    rng = np.random.default_rng(0)
    a = [np.column_stack([rng.integers(0, 3, (14, 2)), rng.integers(1, 99, 14)]) for _ in range(30)]
    options = {"size": (4, 4), "ties": "multimatch_gaze"}
    found = pairwise(a, metric="multimatch", **options)
    expected = [[multimatch(p, q, **options) for q in a] for p in a]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert not np.array_equal(found, np.swapaxes(found, 0, 1))


def test_chosen_pairs():
    a, b = random_paths(6, 4), random_paths(4, 5)
    full = pairwise(a, b, "multimatch", size=SIZE)
    i, j = [5, 0, 5, 2], np.array([3, 3, 0, 1], dtype=np.uint8)
    np.testing.assert_array_equal(pairwise(a, b, "multimatch", pairs=(i, j), size=SIZE), full[i, j])
    assert pairwise(a, b, "scanmatch", pairs=([], []), size=SIZE).shape == (0,)
    assert pairwise(a, b, "multimatch", pairs=([], []), size=SIZE).shape == (0, 5)


def test_no_paths_and_empty_paths():
    assert pairwise([], metric="multimatch", size=SIZE).shape == (0, 0, 5)
    assert pairwise([], random_paths(3, 0), "levenshtein", size=SIZE).shape == (0, 3)
    empty = np.zeros((0, 2))
    assert np.isnan(pairwise([empty, empty], metric="multimatch", size=SIZE)).all()
    assert pairwise([empty], [[[1, 1]]], "levenshtein", size=SIZE).tolist() == [[1.0]]


def test_mixed_kinds_of_paths():
    a = [[[1, 2], [300, 4], [5, 600]], np.array([[1, 2, 30], [300, 4, 60], [5, 9, 90]], "f4"), []]
    found = pairwise(a, metric="multimatch", size=SIZE)
    assert np.isnan(found[0, 1, 4]) and np.isfinite(found[0, 1, :4]).all()
    assert found[1, 1].tolist() == [1.0] * 5 and np.isnan(found[2]).all()


def test_packed_paths_are_taken_as_they_are():
    a = random_paths(5, 6)
    np.testing.assert_array_equal(
        pairwise(pack(a), metric="scanmatch", size=SIZE), pairwise(a, metric="scanmatch", size=SIZE)
    )
    ours, theirs = module._packed(a), pack(a)
    for field in ("x", "y", "duration", "length", "timed"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))
    ours, theirs = module._packed([p[:, :2] for p in a]), pack([p[:, :2] for p in a])
    np.testing.assert_array_equal(ours.duration, theirs.duration)
    assert not ours.timed


@pytest.mark.parametrize("bad", [[1, np.nan, 5], [np.inf, 1, 5], [1, 1, -5], [1, 1, np.inf]])
def test_a_bad_path_is_named(bad):
    paths = random_paths(4, 7)
    paths[2] = np.array([[1.0, 2, 3], bad])
    with pytest.raises(DataError, match="scanpath 2"):
        pairwise(paths, metric="multimatch", size=SIZE)


# -- parts and engines ----------------------------------------------------------------------------


def test_parts_hold_every_pair_once_and_waste_little():
    rng = np.random.default_rng(0)
    for longest in (3, 22, 200):
        na, nb = rng.integers(0, longest, (2, 30000))
        parts = module._parts(na, nb, module.PAIRS)
        assert sorted(np.concatenate(parts).tolist()) == list(range(30000))
        padded = sum(len(p) * max(1, na[p].max()) * max(1, nb[p].max()) for p in parts)
        needed = (np.maximum(na, 1) * np.maximum(nb, 1)).sum()
        assert padded < 1.25 * needed + module._WORTH * len(parts)
        assert max(len(p) for p in parts) <= module.PAIRS


def test_one_very_long_path_is_not_padded_onto_all():
    widths = []

    def kernel(A: Packed, B: Packed, i, j):
        widths.append((A.x.shape[1], len(i)))
        return np.zeros(len(i))

    register_metric("widths", task="scanpath", symmetric=True, kernel=kernel)(kernel)
    try:
        pairwise([*random_paths(100, 8), np.ones((3000, 2))], metric="widths")
    finally:
        del metrics._entries["widths"]
    assert sum(n for w, n in widths if w >= 3000) <= 2 * 101
    assert sum(n for w, n in widths if w < 20) > 4000


def needs_cluster(name, needed):
    return pytest.param(
        name,
        marks=[
            pytest.mark.skipif(
                importlib.util.find_spec(needed) is None, reason=f"{needed} is not installed"
            ),
            pytest.mark.slow,
        ],
    )


@pytest.mark.parametrize(
    "engine",
    [
        None,
        "threads",
        pytest.param("processes", marks=pytest.mark.slow),
        needs_cluster("dask", "distributed"),
        needs_cluster("ray", "ray"),
    ],
)
def test_results_do_not_depend_on_the_engine(engine, monkeypatch):
    monkeypatch.setattr(module, "_PARALLEL", 10)
    monkeypatch.setattr(module, "PAIRS", 64)
    a = random_paths(40, 9)
    for name in SINGLE if engine in (None, "threads") else ("multimatch",):
        alone = pairwise(a, metric=name, size=SIZE, workers=1)
        for workers in (2, 3):
            shared = pairwise(a, metric=name, size=SIZE, workers=workers, engine=engine)
            np.testing.assert_array_equal(shared, alone)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="no dask")
def test_a_dask_client_that_is_open_is_used_and_left_open(monkeypatch):
    import distributed

    a = random_paths(12, 10)
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    with distributed.LocalCluster(dashboard_address=None, **options) as cluster:
        with distributed.Client(cluster) as client:
            found = pairwise(a, metric="scanmatch", size=SIZE, engine="dask")
            assert client.submit(abs, -3).result() == 3
            with pytest.raises(DataError):  # what a worker raises arrives
                pairwise(a, metric="scanmatch", size=SIZE, engine="dask", gap=1.0)
    np.testing.assert_array_equal(found, pairwise(a, metric="scanmatch", size=SIZE))


@pytest.mark.parametrize(("engine", "library"), [("dask", "distributed"), ("ray", "ray")])
def test_an_engine_that_is_not_installed(engine, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(CapabilityError, match=library):
        pairwise(random_paths(3, 0), metric="scanmatch", size=SIZE, engine=engine)


def test_an_error_in_a_thread_ends_the_job():
    def kernel(A, B, i, j):
        raise DataError("broken")

    register_metric("broken", task="scanpath", symmetric=True, kernel=kernel)(kernel)
    try:
        with pytest.raises(DataError, match="broken"):
            pairwise(random_paths(20, 1), metric="broken", engine="threads", workers=2)
    finally:
        del metrics._entries["broken"]


def test_few_parts_are_in_flight():
    waiting, most = [], []

    class Slow:
        workers = 2

        def submit(self, call, *arguments):
            waiting.append((call, arguments))
            most.append(len(waiting))
            return len(most)

        def first(self, handles):
            waiting.pop()
            return handles[:1]

        def result(self, handle):
            return handle

    keys = [k for k, _ in _engines.run(Slow(), abs, ((k, (k,)) for k in range(50)))]
    assert sorted(keys) == list(range(50)) and max(most) <= 4


def test_metric_without_kernel(simple_metric):
    a, b = random_paths(4, 11), random_paths(3, 12)
    found = pairwise(a, b, simple_metric, scale=2.0, workers=1)
    np.testing.assert_array_equal(found, [[2 * (len(p) - 2 * len(q)) for q in b] for p in a])
    square = pairwise(a, metric=simple_metric)
    assert square[0, 1] == len(a[0]) - 2 * len(a[1])
    assert square[1, 0] == len(a[1]) - 2 * len(a[0])


def test_progress(capsys):
    seen = []
    a = random_paths(30, 13)
    pairwise(a, metric="scanmatch", size=SIZE, progress=lambda done, n: seen.append((done, n)))
    assert seen[0] == (0, 465) and seen[-1] == (465, 465)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    pairwise(a, metric="scanmatch", size=SIZE, progress=True)
    assert "scanmatch" in capsys.readouterr().out


@pytest.mark.slow
def test_a_million_pairs_stay_below_two_gib():
    script = """
        import resource, numpy as np
        from gazeattn.metrics.scanpath.pairwise import pairwise
        rng = np.random.default_rng(0)
        a = [np.column_stack([rng.uniform(0, 600, (k, 2)), rng.integers(20, 500, k)])
             for k in rng.integers(3, 14, 1000)]
        steps = []
        r = pairwise(a, a[:], "multimatch", size=(800, 600), progress=lambda d, n: steps.append(d))
        assert r.shape == (1000, 1000, 5) and np.isfinite(r).all() and len(steps) > 100
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 2 * 1024**2  # KiB


# -- what is refused, and reasons -----------------------------------------------------------------


def test_what_is_refused(simple_metric):
    a = random_paths(3, 0)
    with pytest.raises(UnknownNameError, match="multimatch"):
        pairwise(a, metric="multimach", size=SIZE)
    with pytest.raises(UnknownNameError):  # a metric, but not of scanpaths
        pairwise(a, metric="spearman")
    with pytest.raises(DataError, match="size"):
        pairwise(a, metric="multimatch")
    with pytest.raises(UnknownNameError, match="grouping"):
        pairwise(a, metric="multimatch", size=SIZE, groupings="none")
    with pytest.raises(UnknownNameError):
        pairwise(a, metric="multimatch", size=SIZE, engine="sparks")
    for workers in (0, -1, True):
        with pytest.raises(DataError):
            pairwise(a, metric="multimatch", size=SIZE, workers=workers)
    for pairs in (([0], [3]), ([-1], [0]), ([0.5], [0]), ([0, 1], [0]), ([0],), ([[0]], [[0]])):
        with pytest.raises(DataError):
            pairwise(a, metric="multimatch", size=SIZE, pairs=pairs)


def test_pairs_within():
    i, j = pairs_within(["b", "a", "b", None, "a", "b"])
    assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 2), (0, 5), (1, 4), (2, 5)]
    i, j = pairs_within([1.0, np.nan, np.nan, 1.0])
    assert (i.tolist(), j.tolist()) == ([0], [3])
    for none in ([], [1, 2, 3]):
        assert [len(v) for v in pairs_within(none)] == [0, 0]
    with pytest.raises(DataError):
        pairs_within([[1], [2]])
    i, j = pairs_within(np.repeat(np.arange(100), 15))
    assert len(i) == 10500 and (i < j).all() and (i // 15 == j // 15).all()
    assert len(set(zip(i.tolist(), j.tolist(), strict=True))) == 10500


def test_reasons():
    empty, path = np.zeros((0, 2)), [[1, 1], [2, 2], [3, 9]]
    assert "both" in undefined_reason("levenshtein", empty, empty, size=SIZE)
    assert undefined_reason("levenshtein", empty, path, size=SIZE) == ""
    assert "0 fixations" in undefined_reason("multimatch", empty, path, size=SIZE)
    assert "duration" in undefined_reason("multimatch", path, path, size=SIZE)
    with pytest.raises(UnknownNameError):
        undefined_reason("multimach", path, path, size=SIZE)

    def always(a, b):
        return np.nan

    register_metric("always", task="scanpath")(always)
    try:
        assert "first scanpath is empty" in undefined_reason("always", empty, path)
        assert "first and the second" in undefined_reason("always", empty, empty)
        assert "always is undefined" in undefined_reason("always", path, path)
    finally:
        del metrics._entries["always"]
