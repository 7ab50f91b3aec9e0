"""What every registered metric of two scanpaths keeps to, whatever it computes."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import gazeattn.metrics.scanpath as room
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.metrics.scanpath import fit_clusters, grid_strings, pairwise, scanmatch_strings
from gazeattn.metrics.scanpath.pairwise import undefined_reason
from gazeattn.registry import Registry, metrics

SIZE = (800, 600)
LABELS = np.repeat(np.repeat(np.arange(12).reshape(3, 4), 20, axis=0), 20, axis=1)
_random = np.random.default_rng(0)
CLUSTERS = fit_clusters([_random.uniform(0, 1, (60, 2)) * SIZE], size=SIZE, bandwidth=150)
GIVEN: dict[str, Any] = {
    "size": SIZE,
    "clusters": CLUSTERS,
    "labels": LABELS,
    "radius": 60.0,
    "distance": 60.0,
    "unit_size": 1 / 30,
}
OF_THE_PICTURE = {"clusters", "labels"}
"""Parameters with a rule of their own: the nearest cluster, one more label."""

NAMES = [e.name for e in metrics if e.info.get("task") == "scanpath"]
every = pytest.mark.parametrize("name", NAMES)


def parameters(name: str) -> dict[str, Any]:
    wanted = inspect.signature(metrics.get(name).obj).parameters.values()
    given = {p.name: GIVEN[p.name] for p in wanted if p.default is p.empty and p.name in GIVEN}
    return {**given, "grid": (12, 16)} if name == "heatmatch" else given


def options(name: str) -> list[dict[str, Any]]:
    """Return the parameters of a metric, and variants that look at durations or treat places."""
    own = inspect.signature(metrics.get(name).obj).parameters
    first = parameters(name)
    out = [first]
    for bins in ("time_bin", "bin_ms"):
        if bins in own:
            out.append({**first, bins: 50.0})
    for flag, value in (("normalised", True), ("normalise", "durations"), ("convention", None)):
        if flag in own:
            known = metrics.get(name).info.get("conventions", ()) if value is None else (value,)
            out += [{**first, flag: v} for v in known]
    if "outside" in own:
        out += [{**first, "outside": v} for v in metrics.get(name).info["outside"] if v != "raise"]
    return out


def sized() -> list[str]:
    """Return the metrics that use the size of the stimulus and no picture of their own."""
    names = []
    for name in NAMES:
        own = set(inspect.signature(metrics.get(name).obj).parameters)
        if "size" in own and not own & OF_THE_PICTURE:
            names.append(name)
    return names


with_size = pytest.mark.parametrize("name", sized())
PATH = np.array([[10.0, 10, 200], [400, 300, 250], [700, 500, 220], [120, 480, 180]])
OTHER = np.array([[30.0, 90, 150], [420, 310, 300], [650, 550, 120], [300, 100, 90], [9, 9, 80]])
OFF = np.array([[10.0, 10, 200], [800, 300, 250], [700, 500, 220], [-0.5, 480, 180], [90, 90, 99]])
"""Second fixation exactly at the edge, fourth left of it."""

POOR: dict[str, np.ndarray] = {
    "empty": np.zeros((0, 3)),
    "empty, untimed": np.zeros((0, 2)),
    "one": PATH[:1],
    "two": PATH[:2],
    "constant": np.repeat(PATH[1:2], 5, axis=0),
    "untimed": PATH[:, :2],
    "one duration missing": np.where(np.arange(12).reshape(4, 3) == 5, np.nan, PATH),
    "all durations missing": PATH * [1, 1, np.nan],
    "durations of 0": PATH * [1, 1, 0],
    "partly off": OFF,
    "far off": np.add(PATH, [1e5, 0, 0]),
    "very far off": np.add(PATH, [-1e7, 3e7, 0]),
    "all off, constant": np.repeat([[-900.0, 2000, 100]], 4, axis=0),
    "usual": PATH,
    "other": OTHER,
}


def values(name: str, a: Any, b: Any, /, **params: Any) -> np.ndarray:
    return np.atleast_1d(np.asarray(metrics.get(name).obj(a, b, **params), dtype=float))


@every
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_value_is_missing_without_a_reason(name: str) -> None:
    labels, paths = list(POOR), list(POOR.values())
    for params in options(name):
        table = pairwise(paths, paths, name, **params).reshape(len(paths), len(paths), -1)
        assert not np.isinf(table).any()
        gaps = np.asarray(np.isnan(table).any(axis=-1))
        np.testing.assert_array_equal(gaps, gaps.T)
        for i, a in enumerate(paths):
            for j, b in enumerate(paths):
                reason = undefined_reason(name, a, b, **params)
                case = f"{labels[i]} / {labels[j]}, {params}: {table[i, j]}, {reason!r}"
                assert bool(reason) == gaps[i, j], case
                assert "is undefined for these two" not in reason, case
                if len(a) == len(b) == 0:
                    assert np.isnan(table[i, j]).all(), case
                    assert "empty" in reason or "0 fix" in reason, case


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_places_that_are_not_finite_are_refused(name: str, bad: float) -> None:
    broken = PATH.copy()
    broken[2, 0] = bad
    params = parameters(name)
    for a, b in ((broken, PATH), (PATH, broken)):
        with pytest.raises(DataError, match="finite"):
            metrics.get(name).obj(a, b, **params)
        with pytest.raises(DataError, match="finite"):
            undefined_reason(name, a, b, **params)
        with pytest.raises(DataError, match="finite"):
            pairwise([a], [b], name, **params)


# -- fixations off the stimulus -------------------------------------------------------------------


@with_size
def test_every_metric_with_a_size_takes_outside(name: str) -> None:
    entry = metrics.get(name)
    known = entry.info["outside"]
    assert known == entry.info["kernel"].outside
    assert {"clip", "drop", "undefined", "raise"} <= set(known)
    for function in (entry.obj, entry.info["kernel"]):
        assert inspect.signature(function).parameters["outside"].default is None


@with_size
@pytest.mark.parametrize("edge", [[800, 300], [400, 600], [-1e-9, 300], [400, -0.2], [1e4, -1e4]])
def test_fixations_off_the_stimulus(name: str, edge: list[float]) -> None:
    entry, params = metrics.get(name), parameters(name)
    a = np.insert(PATH, 2, [*edge, 210], axis=0)
    clipped = a.copy()
    clipped[2, 0] = min(max(edge[0], 0), np.nextafter(800, 0))
    clipped[2, 1] = min(max(edge[1], 0), np.nextafter(600, 0))
    default = entry.info["outside"][0]
    for swap in (False, True):

        def both(path: np.ndarray, swap: bool = swap, **more: Any) -> np.ndarray:
            pair = (OTHER, path) if swap else (path, OTHER)
            return values(name, *pair, **params, **more)

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a stated choice needs no warning
            assert np.isnan(both(a, outside="undefined")).all()
            np.testing.assert_array_equal(both(a, outside="drop"), both(PATH))
            at_border = both(clipped, outside="clip")
            np.testing.assert_array_equal(both(a, outside="clip"), at_border)
            kept = both(a, outside=default)
            with pytest.raises(DataError, match="outside"):
                both(a, outside="raise")
        with pytest.warns(UserWarning, match="off the stimulus") as told:
            np.testing.assert_array_equal(both(a), kept)
        assert len(told) == 1 and str(told[0].message).startswith(name)
    reason = undefined_reason(name, a, OTHER, outside="undefined", **params)
    assert "outside the stimulus: 1" in reason


@with_size
def test_fixations_on_the_border_pixels_are_on_the_stimulus(name: str) -> None:
    inside = [[0, 0, 90], [799.9, 599.9, 90], [0, 599.9, 90], [799.9, 0, 90]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [
            values(name, inside, PATH, **parameters(name), outside=how)
            for how in metrics.get(name).info["outside"]
        ]
    if name.startswith(("levenshtein", "damerau")):
        assert not np.isnan(found).any()
    else:
        np.testing.assert_array_equal(found, [found[0]] * len(found))


@with_size
def test_pairwise_counts_once(name: str) -> None:
    params = parameters(name)
    with pytest.warns(UserWarning, match="2 fixations off the stimulus") as told:
        pairwise([PATH, OFF, OTHER], metric=name, **params)
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairwise([PATH, OFF], metric=name, pairs=([0], [0]), **params)  # not of those used
        for how in metrics.get(name).info["outside"]:
            log = LossLog()
            if how == "raise":
                with pytest.raises(DataError, match="scanpath 1 has"):
                    pairwise([PATH, OFF], metric=name, outside=how, losses=log, **params)
                continue
            pairwise([PATH, OFF], [OFF], metric=name, outside=how, losses=log, **params)
            (loss,) = log
            assert (loss.step, loss.count, loss.unit) == (name, 4, "fixations")
            kinds = {"keep": "note", "clip": "repaired", "drop": "dropped"}
            assert loss.kind == kinds.get(how, "undefined")
        log = LossLog()
        pairwise([PATH, OTHER], metric=name, losses=log, **params)
        assert len(log) == 0


@with_size
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_treated_pairs_equal_the_single_function(name: str) -> None:
    paths = [OFF, PATH, POOR["far off"], POOR["empty"], OTHER, POOR["one"]]
    for how in metrics.get(name).info["outside"][:-1]:
        params = {**parameters(name), "outside": how}
        found = pairwise(paths, paths, name, **params).reshape(36, -1)
        single = [values(name, a, b, **params) for a in paths for b in paths]
        np.testing.assert_allclose(found, single, rtol=1e-12, atol=1e-12)


def test_what_is_left_out_is_in_the_reason() -> None:
    gone = POOR["all off, constant"]
    reason = undefined_reason("mannan", gone, PATH, size=SIZE, outside="drop")
    assert "0 fixations" in reason and "left out: 4" in reason


def test_strings_of_treated_paths() -> None:
    assert grid_strings([OFF], size=SIZE, outside="drop")[0].tolist() == [0, 24, 0]
    assert scanmatch_strings([OFF], size=SIZE, outside="drop")[0].tolist() == [0, 82, 13]
    for write in (grid_strings, scanmatch_strings):
        with pytest.raises(UnknownNameError):
            write([OFF], size=SIZE, outside="undefined")


# -- ranges ---------------------------------------------------------------------------------------


@every
def test_values_lie_in_the_stated_ranges(name: str) -> None:
    info = metrics.get(name).info
    columns, parts = info.get("columns"), info.get("part_bounds", ())
    assert tuple(p.name for p in parts) == tuple(columns or ())
    bounds = [(p.low, p.high) for p in parts] or [info["bounds"]]
    assert min(b[0] for b in bounds) == info["bounds"][0]
    assert max(b[1] for b in bounds) == info["bounds"][1]
    rng = np.random.default_rng(8)
    corners = np.array([[0, 0], [799.9, 0], [0, 599.9], [799.9, 599.9]])
    paths = []
    for n in [1, 2, 3, 4, 6, 9, 14] * 3:
        places = np.where(rng.random((n, 1)) < 0.4, corners[rng.integers(0, 4, n)],
                          rng.uniform(0, 1, (n, 2)) * SIZE)  # fmt: skip
        paths.append(np.column_stack([places, rng.integers(0, 600, n)]))
    for params in options(name):
        found = pairwise(paths, paths, name, **params).reshape(-1, len(bounds))
        for k, (low, high) in enumerate(bounds):
            known = found[~np.isnan(found[:, k]), k]
            assert len(known) and low - 1e-12 <= known.min() and known.max() <= high + 1e-12


def test_multimatch_off_the_stimulus_leaves_its_range_with_a_warning_only() -> None:
    a, b = np.add(PATH, [5000, 0, 0]), PATH
    with pytest.warns(UserWarning, match="may leave 0 to 1"):
        assert values("multimatch", a, b, size=SIZE).min() < 0
    for how in ("clip", "drop"):
        found = values("multimatch", a, b, size=SIZE, outside=how)
        assert np.isnan(found).all() or (0 <= found.min() and found.max() <= 1)


def test_ranges_are_shown_per_part() -> None:
    shown = [str(p) for p in metrics.get("cross_recurrence").info["part_bounds"]]
    assert shown == [
        "recurrence 0 to 100",
        "determinism 0 to 100",
        "laminarity 0 to 100",
        "corm -100 to 100 (no direction)",
    ]


# -- names ----------------------------------------------------------------------------------------


def test_every_name_of_a_registered_function_finds_it() -> None:
    entries = {e.obj: e for e in metrics}
    for public in room.__all__:
        function = getattr(room, public)
        if inspect.isfunction(function) and function in entries:
            assert metrics.get(public) is entries[function], public
            assert public in metrics


@pytest.mark.parametrize(
    ("alias", "name", "params"),
    [
        ("tde", "time_delay_embedding", {}),
        ("stde", "scaled_time_delay_embedding", {"size": SIZE}),
        ("mannan_similarity", "mannan_similarity", {"size": SIZE}),
    ],
)
def test_aliases(alias: str, name: str, params: dict[str, Any]) -> None:
    assert metrics.get(alias).name == name and alias in metrics
    assert metrics.names().count(name) == 1 and (alias == name or alias not in metrics.names())
    found = pairwise([PATH, OTHER], metric=alias, **params)
    assert found[0, 1] == metrics.get(name).obj(PATH, OTHER, **params)
    assert undefined_reason(alias, PATH[:0], OTHER, **params)


def test_the_command_line_takes_aliases_and_shows_ranges(capsys: pytest.CaptureFixture) -> None:
    from gazeattn.cli import main
    from gazeattn.experiments.scoring_pairs import find_metrics

    for alias in ("tde", "stde", "mannan_similarity"):
        assert main(["metrics", alias]) == 0
        assert metrics.get(alias).name in capsys.readouterr().out
        assert find_metrics([alias], "scanpath") == [metrics.get(alias)]
    assert main(["metrics", "cross_recurrence"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "corm -100 to 100" in shown and "determinism 0 to 100" in shown


def test_no_name_stands_for_two_things() -> None:
    known = Registry("thing")
    known.register("a", aliases=("b",))(object)
    for name, aliases in (("b", ()), ("c", ("a",)), ("c", ("b",))):
        with pytest.raises(Exception, match="twice"):
            known.register(name, aliases=aliases)(int)
    known.register("a", aliases=("b",))(object)  # a module that is read again
    assert known.get("b").name == "a"


def test_unknown_names_are_answered_with_metrics_of_two_scanpaths() -> None:
    for wrong, right in (("tdee", "tde"), ("multimach", "multimatch"), ("scan_match", "scanmatch")):
        with pytest.raises(UnknownNameError, match=right) as told:
            pairwise([PATH], metric=wrong, size=SIZE)
        assert set(told.value.known) == {*NAMES, "tde", "stde"}
        assert set(told.value.suggestions) <= {*NAMES, "tde", "stde"}
    for other in ("spearman", "scanpath_ratio", "zzz"):  # metrics of other things, and nothing
        with pytest.raises(UnknownNameError, match="scanpath metric") as told:
            pairwise([PATH], metric=other, size=SIZE)
        assert set(told.value.known) == {*NAMES, "tde", "stde"}


# -- random paths ---------------------------------------------------------------------------------


def test_mannan_similarity_of_many_pairs() -> None:
    paths = [PATH, OTHER, PATH[:1], PATH[:0], PATH]
    found = pairwise(paths, None, "mannan_similarity", size=SIZE, draws=50, seed=4)
    one = metrics.get("mannan_similarity").obj
    for k, a in enumerate(paths):
        for m, b in enumerate(paths):
            single = one(a, b, size=SIZE, draws=50, seed=4)
            np.testing.assert_allclose(found[k, m], single, rtol=1e-12)
            np.testing.assert_allclose(found[m, k], single, rtol=1e-12)
    assert found[0, 0] == found[0, 4] == 100.0 and np.isnan(found[3]).all()
    assert one(PATH, OTHER, size=SIZE, seed=1) != one(PATH, OTHER, size=SIZE, seed=2)


def test_doubtful_units_are_said_once_and_stand_in_the_log() -> None:
    rng = np.random.default_rng(0)
    shares = [np.c_[rng.random((6, 2)), np.full(6, 0.2)] for _ in range(2)]
    with pytest.warns(UserWarning, match="look like shares"):
        pairwise(shares, metric="scanmatch", size=(800, 600))
    log = LossLog()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairwise(shares, metric="multimatch", size=(800, 600), losses=log)
    reasons = [x.reason for x in log if x.kind == "note"]
    assert any("seconds" in r for r in reasons) and any("shares" in r for r in reasons)
    whole = [np.c_[rng.uniform(0, 600, (6, 2)), np.full(6, 200.0)] for _ in range(2)]
    log = LossLog()
    pairwise(whole, metric="multimatch", size=(800, 600), losses=log)
    assert not len(log)
