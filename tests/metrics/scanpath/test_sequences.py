"""Sequence score and fixation edit distance: golden values, by hand, properties, traps."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.metrics.scanpath._packed import pack
from gazeattn.metrics.scanpath.clusters import Clusters
from gazeattn.metrics.scanpath.pairwise import pairwise, undefined_reason
from gazeattn.metrics.scanpath.semantic import (
    semantic_fixation_edit_distance,
    semantic_fixation_edit_distance_many,
    semantic_fixation_edit_distance_pairs,
    semantic_sequence_score,
    semantic_sequence_score_many,
    semantic_sequence_score_pairs,
)
from gazeattn.metrics.scanpath.sequences import (
    fixation_edit_distance,
    fixation_edit_distance_many,
    fixation_edit_distance_pairs,
    sequence_reason,
    sequence_score,
    sequence_score_many,
    sequence_score_pairs,
)
from gazeattn.registry import metrics

LINE = Clusters(np.array([[50, 50], [150, 50], [250, 50], [350, 50]], float), (400, 100))
SIZE = (400, 100)
LABELS = np.repeat(np.arange(4), 100)[None, :].repeat(100, axis=0)
FOUR = (sequence_score, fixation_edit_distance)


def path(symbols: str, duration: float | list[float] | None = None) -> np.ndarray:
    """Return a scanpath whose clusters (and labels) are the letters a to d."""
    places = np.array([[50 + 100 * (ord(s) - 97), 50] for s in symbols], dtype=float)
    places = places.reshape(-1, 2)
    if duration is None:
        return places
    return np.column_stack([places, np.broadcast_to(np.asarray(duration, float), len(places))])


@pytest.fixture(scope="module")
def case(golden: Any) -> dict[str, Any]:
    data = golden("A_seqscore.json")
    maps = golden.arrays("A_seqscore_maps.npz")
    groups = {}
    for g in data["groups"]:
        size = (g["width"], g["height"])
        block = g["label_block"]
        full = maps[g["label_map"]].repeat(block, axis=0).repeat(block, axis=1)
        groups[g["group"]] = {
            "size": size,
            "clusters": Clusters(g["cluster_centers"], size),
            "labels": full[: size[1], : size[0]],
            "truncate": g["truncate"],
            "paths": {
                k: np.column_stack(
                    [v["x"], v["y"]] + ([v["dur_ms"]] if v.get("dur_ms") is not None else [])
                )
                for k, v in g["scanpaths"].items()
            },
            "raw": g,
        }
    return {"cases": data["cases"], "groups": groups, "tolerance": data["tolerance"]}


def test_golden_strings(case: dict[str, Any]) -> None:
    from gazeattn.metrics.scanpath.semantic import labels_at

    for g in case["groups"].values():
        for name, p in g["paths"].items():
            assert (
                g["clusters"].assign(p, size=g["size"]).tolist()
                == (g["raw"]["cluster_strings"][name])
            )
            at, inside = labels_at(g["labels"], p[:, 0], p[:, 1], g["size"])
            assert inside.all() and at.tolist() == g["raw"]["semantic_strings"][name]


def test_golden_pairs(case: dict[str, Any]) -> None:
    checked = 0
    for c in case["cases"]:
        if c["kind"] != "pair":
            continue
        g = case["groups"][c["group"]]
        a, b = g["paths"][c["a"]], g["paths"][c["b"]]
        by_cluster: dict[str, Any] = {"clusters": g["clusters"], "size": g["size"]}
        by_label: dict[str, Any] = {"labels": g["labels"], "size": g["size"]}
        found = {
            "sequence_score": sequence_score(a, b, **by_cluster),
            "fed": fixation_edit_distance(a, b, **by_cluster),
            "semantic_sequence_score": semantic_sequence_score(a, b, **by_label),
            "semfed": semantic_fixation_edit_distance(a, b, **by_label),
        }
        if "sequence_score_time50" in c["expected"]:
            found["sequence_score_time50"] = sequence_score(a, b, **by_cluster, bin_ms=50)
            found["fed_time50"] = fixation_edit_distance(a, b, **by_cluster, bin_ms=50)
        assert found == pytest.approx(c["expected"], abs=case["tolerance"]), c["id"]
        checked += 1
    assert checked >= 100


def test_golden_one_against_the_rest(case: dict[str, Any]) -> None:
    checked = 0
    for c in case["cases"]:
        if c["kind"] != "one_vs_rest":
            continue
        g = case["groups"][c["group"]]
        ours = g["paths"][c["prediction"]]
        theirs = [g["paths"][r] for r in c["references"]]
        options: dict[str, Any] = {
            "clusters": g["clusters"],
            "size": g["size"],
            "truncate": c["truncate"],
        }
        semantic: dict[str, Any] = {
            "labels": g["labels"],
            "size": g["size"],
            "truncate": c["truncate"],
        }
        whole = sequence_score_many(ours, theirs, **options, truncate_references=False)
        found = {
            "mean_truncate_gt": sequence_score_many(ours, theirs, **options).mean,
            "mean": whole.mean,
            "max": whole.best,
            "sss_mean_truncate_gt": semantic_sequence_score_many(ours, theirs, **semantic).mean,
            "fed_mean_truncate_gt": fixation_edit_distance_many(ours, theirs, **options).mean,
        }
        assert found == pytest.approx(c["expected"], abs=case["tolerance"]), c["id"]
        checked += 1
    assert checked >= 20


@pytest.mark.parametrize("bin_ms", [None, 50.0, 17.0])
def test_pairs_equal_single(case: dict[str, Any], bin_ms: float | None) -> None:
    g = case["groups"]["osie_1001"]
    paths = [*list(g["paths"].values())[:4], np.zeros((0, 3)), np.array([[1.0, 2.0, 30.0]])]
    packed = pack(paths)
    i, j = (v.ravel() for v in np.indices((len(paths), len(paths))))
    shuffled = np.random.default_rng(0).permutation(len(i))
    by: dict[str, Any] = {"clusters": g["clusters"], "size": g["size"], "bin_ms": bin_ms}
    lab: dict[str, Any] = {"labels": g["labels"], "size": g["size"], "bin_ms": bin_ms}
    for one, pairs, options in (
        (sequence_score, sequence_score_pairs, by),
        (fixation_edit_distance, fixation_edit_distance_pairs, by),
        (semantic_sequence_score, semantic_sequence_score_pairs, lab),
        (semantic_fixation_edit_distance, semantic_fixation_edit_distance_pairs, lab),
    ):
        expected = [one(paths[p], paths[q], **options) for p, q in zip(i, j, strict=True)]
        np.testing.assert_array_equal(pairs(packed, packed, i, j, **options), expected)
        np.testing.assert_array_equal(
            pairs(packed, pack(paths), i[shuffled], j[shuffled], **options),
            np.array(expected)[shuffled],
        )
        # only some paths, so that the others are not looked up
        np.testing.assert_array_equal(
            pairs(packed, packed, np.array([3, 5]), np.array([1, 4]), **options),
            np.array(expected).reshape(6, 6)[[3, 5], [1, 4]],
        )


# -- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "score", "edits"),
    [
        ("abcd", "abcd", 1.0, 0),
        ("abcd", "acd", 3 / 4, 1),
        ("abca", "acba", 3 / 4, 2),
        ("aabb", "bbaa", 2 / 4, 4),
        ("a", "b", 0.0, 1),
        ("abab", "b", 1 / 4, 3),
        ("abcabba", "cbabac", 4 / 7, 4),
    ],
)
def test_by_hand(a: str, b: str, score: float, edits: int) -> None:
    for first, second in ((a, b), (b, a)):
        options: dict[str, Any] = {"clusters": LINE, "size": SIZE}
        semantic: dict[str, Any] = {"labels": LABELS, "size": SIZE}
        assert sequence_score(path(first), path(second), **options) == score
        assert fixation_edit_distance(path(first), path(second), **options) == edits
        assert semantic_sequence_score(path(first), path(second), **semantic) == score
        assert semantic_fixation_edit_distance(path(first), path(second), **semantic) == edits
        longer = max(len(a), len(b))
        assert fixation_edit_distance(
            path(first), path(second), **options, normalised=True
        ) == pytest.approx(edits / longer)


def test_by_hand_time_bins() -> None:
    # a for 120 ms and b for 60 ms at 50 ms: "aab"; b for 99 ms: "b"
    a, b = path("ab", [120.0, 60.0]), path("b", 99.0)
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE}
    assert sequence_score(a, b, **options, bin_ms=50) == pytest.approx(1 / 3)
    assert fixation_edit_distance(a, b, **options, bin_ms=50) == 2
    # the cut counts fixations, not bins
    assert sequence_score(a, b, **options, bin_ms=50, truncate=1) == 0.0
    assert fixation_edit_distance(a, b, **options, bin_ms=50, truncate=1) == 2


def test_duration_a_hair_below_a_full_bin_counts() -> None:
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE, "bin_ms": 50}
    short = [(2.3 - 2.15) * 1000, (0.25 - 0.2) * 1000, (1.8 - 1.6) * 1000, np.nextafter(1e4, 0)]
    for ours in short:
        exact = round(float(ours))
        assert ours < exact  # or the test tests nothing
        assert fixation_edit_distance(path("a", ours), path("a", exact), **options) == 0
    # but what is short of a bin stays short
    assert fixation_edit_distance(path("a", 149.99), path("a", 150.0), **options) == 1


def test_many_by_hand() -> None:
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE}
    found = sequence_score_many(path("abc"), [path("abc"), path("ad"), path("")], **options)
    np.testing.assert_allclose(found.values, [1.0, 1 / 3, 0.0])
    assert (found.mean, found.best, found.n, found.n_missing) == (pytest.approx(4 / 9), 1.0, 3, 0)
    cut = sequence_score_many(path("abc"), [path("abc")], **options, truncate=2)
    assert cut.mean == 1.0
    whole = sequence_score_many(
        path("abc"), [path("abc")], **options, truncate=2, truncate_references=False
    )
    assert whole.mean == pytest.approx(2 / 3)
    far = fixation_edit_distance_many(path("abc"), [path("abc"), path("d")], **options)
    assert (far.mean, far.best) == (1.5, 0.0)
    far = semantic_fixation_edit_distance_many(path("abc"), [path("d")], labels=LABELS, size=SIZE)
    assert far.best == 3.0
    gone = sequence_score_many(path("", []), [path("", []), path("a", 100.0)], **options)
    assert (gone.n, gone.n_missing, gone.mean) == (1, 1, 0.0)
    none = sequence_score_many(path("ab"), [path("a", 100.0)], **options, bin_ms=50)
    assert np.isnan(none.mean) and np.isnan(none.best) and none.n_missing == 1
    with pytest.raises(DataError, match="no reference"):
        sequence_score_many(path("ab"), [], **options)


# -- what is empty, missing or wrong --------------------------------------------------------------


@pytest.mark.parametrize("other", ["a", "abcd", "aaaaaaaaaa" * 9])
def test_empty_against_empty_is_missing_and_one_empty_is_0(other: str) -> None:
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE}
    semantic: dict[str, Any] = {"labels": LABELS, "size": SIZE}
    empties: list[Any] = [[], np.zeros((0, 2)), np.zeros((0, 3))]
    for empty in empties:
        assert np.isnan(sequence_score(empty, empty, **options))
        assert np.isnan(fixation_edit_distance(empty, empty, **options))
        assert np.isnan(fixation_edit_distance(empty, empty, **options, normalised=True))
        assert np.isnan(semantic_sequence_score(empty, empty, **semantic))
        assert np.isnan(semantic_fixation_edit_distance(empty, empty, **semantic))
        assert sequence_reason(empty, empty) == "both scanpaths are empty"
        for a, b in ((empty, path(other)), (path(other), empty)):
            assert sequence_score(a, b, **options) == 0.0
            assert semantic_sequence_score(a, b, **semantic) == 0.0
            assert fixation_edit_distance(a, b, **options) == len(other)
            assert fixation_edit_distance(a, b, **options, normalised=True) == 1.0
            assert sequence_reason(a, b) == ""


def test_empty_strings_through_time_bins() -> None:
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE, "bin_ms": 50}
    short, long = path("ab", 49.0), path("ab", 50.0)
    assert np.isnan(sequence_score(short, short, **options))
    assert np.isnan(sequence_score(short, path("", []), **options))
    assert "fills a time bin" in sequence_reason(short, short, **options)
    assert sequence_score(short, long, **options) == sequence_score(long, short, **options) == 0.0


@pytest.mark.parametrize("missing", [path("abc"), path("abc", [100.0, np.nan, 100.0])])
def test_missing_durations_are_missing_in_both_orders(missing: np.ndarray) -> None:
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE}
    timed = path("abc", 100.0)
    for name, one in (("s", sequence_score), ("f", fixation_edit_distance)):
        assert np.isnan(one(missing, timed, **options, bin_ms=50)), name
        assert np.isnan(one(timed, missing, **options, bin_ms=50)), name
        assert not np.isnan(one(timed, missing, **options)), name
    assert "first scanpath lacks durations" in sequence_reason(missing, timed, bin_ms=50)
    assert "second scanpath lacks" in sequence_reason(timed, missing, bin_ms=50)
    assert "first and second scanpaths lack" in sequence_reason(missing, missing, bin_ms=50)
    # cut away, it is not needed; and one path without durations does not spoil the others
    assert sequence_score(timed, path("ab", [100, np.nan]), **options, bin_ms=50, truncate=1) == 1
    packed = pack([timed, missing, timed])
    found = sequence_score_pairs(
        packed, packed, np.array([0, 0]), np.array([1, 2]), **options, bin_ms=50
    )
    assert np.isnan(found[0]) and found[1] == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"truncate": 0},
        {"truncate": -1},
        {"truncate": 1.5},
        {"bin_ms": 0},
        {"bin_ms": -5.0},
        {"bin_ms": np.nan},
        {"size": (0, 100)},
        {"size": (400, np.nan)},
        {"size": (400,)},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE, **wrong}
    for one in FOUR:
        with pytest.raises(DataError):
            one(path("ab", 100.0), path("ab", 100.0), **options)


def test_clusters_of_another_kind_are_refused() -> None:
    with pytest.raises(DataError, match="Clusters of the image"):
        sequence_score(path("a"), path("a"), clusters=np.zeros((2, 2)), size=SIZE)  # type: ignore[arg-type]


def test_durations_that_cannot_be_ms_are_refused() -> None:
    with pytest.raises(DataError, match="milliseconds"):
        sequence_score(path("a", 1e12), path("a", 1.0), clusters=LINE, size=SIZE, bin_ms=1.0)


# -- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1, 0.5, 2, 1.5625, 800 / 512])
def test_scores_do_not_depend_on_the_pixels_of_the_fixations(factor: float) -> None:
    a, b = path("abcabba") + np.array([3.0, 4.0]), path("cbabac") + np.array([-9.0, 30.0])
    size = (400 * factor, 100 * factor)
    assert sequence_score(a * factor, b * factor, clusters=LINE, size=size) == 4 / 7
    assert semantic_sequence_score(a * factor, b * factor, labels=LABELS, size=size) == 4 / 7


@pytest.mark.parametrize("size", [(400, 400), (100, 400), (400, 110), (420, 100)])
def test_another_shape_of_the_image_is_refused(size: tuple[float, float]) -> None:
    with pytest.raises(DataError, match="another shape"):
        sequence_score(path("a"), path("a"), clusters=LINE, size=size)
    with pytest.raises(DataError, match="another shape"):
        semantic_sequence_score(path("a"), path("a"), labels=LABELS, size=size)


def test_sizes_are_needed() -> None:
    with pytest.raises(TypeError, match="size"):
        sequence_score(path("a"), path("a"), clusters=LINE)  # type: ignore[call-arg]


# -- labels ---------------------------------------------------------------------------------------


def test_fixations_outside_the_map_share_one_symbol() -> None:
    options: dict[str, Any] = {"labels": LABELS, "size": SIZE}
    outside = [[[-0.1, 5.0]], [[400.0, 5.0]], [[5.0, -3.0]], [[5.0, 100.0]]]
    for place in outside:
        assert semantic_sequence_score(place, outside[0], **options) == 1.0
        for label in "abcd":
            assert semantic_sequence_score(place, path(label), **options) == 0.0
            assert semantic_sequence_score(path(label), place, **options) == 0.0
    assert semantic_sequence_score([[399.9, 99.9]], path("d"), **options) == 1.0
    assert semantic_sequence_score([[0.0, 0.0]], path("a"), **options) == 1.0


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64, np.float32, np.float64])
def test_kind_of_the_map_does_not_matter(kind: type) -> None:
    labels: Any = (LABELS * 60).astype(kind)
    assert semantic_sequence_score(path("abca"), path("acba"), labels=labels, size=SIZE) == 0.75
    signed = np.where(LABELS == 1, -1, LABELS)
    assert semantic_sequence_score(path("abca"), path("acba"), labels=signed, size=SIZE) == 0.75


@pytest.mark.parametrize(
    "labels",
    [LABELS[0], LABELS + 0.5, np.where(LABELS == 1, np.nan, LABELS), LABELS.astype(str), [[]]],
)
def test_maps_that_are_no_labels_are_refused(labels: Any) -> None:
    with pytest.raises(DataError, match="label"):
        semantic_sequence_score(path("a"), path("a"), labels=labels, size=SIZE)


# -- properties -----------------------------------------------------------------------------------


letters = st.text("abcd", min_size=1, max_size=12)


@given(letters, letters, letters)
@settings(max_examples=80, deadline=None)
def test_properties(a: str, b: str, c: str) -> None:
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE}

    def far(x: str, y: str) -> float:
        return fixation_edit_distance(path(x), path(y), **options)

    score = sequence_score(path(a), path(b), **options)
    assert 0 <= score <= 1 and score == sequence_score(path(b), path(a), **options)
    assert sequence_score(path(a), path(a), **options) == 1.0 and far(a, a) == 0
    assert far(a, b) == far(b, a) and (far(a, b) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= far(a, b) <= max(len(a), len(b))
    assert far(a, c) <= far(a, b) + far(b, c)
    single = sequence_score(path(a).astype(np.float32), path(b).astype(np.float32), **options)
    assert single == score


def test_translation_and_names_of_clusters_do_not_matter(case: dict[str, Any]) -> None:
    g = case["groups"]["osie_1042"]
    a, b = list(g["paths"].values())[:2]
    options: dict[str, Any] = {"size": g["size"]}
    centers = g["clusters"].centers
    expected = sequence_score(a, b, clusters=g["clusters"], **options)
    turned = Clusters(centers[::-1], g["size"])
    assert sequence_score(a, b, clusters=turned, **options) == expected
    moved = Clusters(centers + np.array([64.0, -32.0]), g["size"])
    shift = np.array([64.0, -32.0, 0.0])
    assert sequence_score(a + shift, b + shift, clusters=moved, **options) == expected


@pytest.mark.parametrize(
    ("name", "highest", "higher"),
    [
        ("sequence_score", 1.0, True),
        ("semantic_sequence_score", 1.0, True),
        ("fixation_edit_distance", np.inf, False),
        ("semantic_fixation_edit_distance", np.inf, False),
    ],
)
def test_registered(name: str, highest: float, higher: bool) -> None:
    info = metrics.get(name).info
    assert (info["task"], info["bounds"]) == ("scanpath", (0.0, highest))
    assert info["higher_is_better"] is higher and info["symmetric"] is True
    assert info["citation"] and info["formula"] and info["convention"] and info["description"]
    assert info["kernel"].__name__ == f"{name}_pairs"


def test_through_pairwise(case: dict[str, Any]) -> None:
    g = case["groups"]["osie_1201"]
    paths = list(g["paths"].values())[:6]
    every: list[tuple[str, dict[str, Any]]] = [
        ("sequence_score", {"clusters": g["clusters"], "bin_ms": 50}),
        ("fixation_edit_distance", {"clusters": g["clusters"], "normalised": True}),
        ("semantic_sequence_score", {"labels": g["labels"]}),
        ("semantic_fixation_edit_distance", {"labels": g["labels"], "truncate": 4}),
    ]
    for name, options in every:
        one = metrics.get(name).obj
        found = pairwise(paths, metric=name, workers=2, size=g["size"], **options)
        expected = [[one(a, b, size=g["size"], **options) for b in paths] for a in paths]
        np.testing.assert_array_equal(found, expected)
        # what other processes need to do the same
        again = pickle.loads(pickle.dumps((metrics.get(name).info["kernel"], options)))
        packed, k = pack(paths), np.arange(6)
        np.testing.assert_array_equal(
            again[0](packed, packed, k, k[::-1], size=g["size"], **again[1]),
            np.array(expected)[k, k[::-1]],
        )


def test_reasons_through_pairwise() -> None:
    options: dict[str, Any] = {"clusters": LINE, "size": SIZE}
    assert undefined_reason("sequence_score", [], [], **options) == "both scanpaths are empty"
    assert undefined_reason("sequence_score", [], path("a"), **options) == ""
    reason = undefined_reason("fixation_edit_distance", path("a"), path("b"), **options, bin_ms=50)
    assert "lack durations" in reason
    with pytest.raises(DataError, match="clusters"):
        pairwise([path("a")], metric="sequence_score", size=SIZE)
