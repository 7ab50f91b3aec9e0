"""The comparison on data that can be worked out by hand, and its invariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.attention import compare
from gazeattn.attention.comparing import check_arguments
from gazeattn.attention.comparison import ALIGNMENT_COLUMNS, SUMMARY_COLUMNS
from gazeattn.errors import DataError, UnknownNameError

NAN = float("nan")
WORDS = ["The", "wolf", "ran"]
LONG = [f"word{'x' * (i % 5)}{i}" for i in range(12)]
QUICK: dict[str, Any] = {
    "measures": ["total_reading_time"],
    "baselines": ["uniform", "length", "random"],
    "n_permutations": 99,
    "n_bootstrap": 100,
}


def two_readers(**more: Any) -> list[dict[str, Any]]:
    base = {"stimulus": "s", "words": WORDS}
    return [
        {"participant": "a", "values": [100, 300, 200], **base, **more},
        {"participant": "b", "values": [200, 300, 100], **base, **more},
    ]


def random_readings(
    readers: str = "ab", texts: int = 3, n: int = 12, seed: int = 0
) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    shared = [rng.random(n) * 300 for _ in range(texts)]
    return [
        {
            "participant": r,
            "stimulus": f"s{k}",
            "words": [f"{w}{k}" for w in LONG[:n]],
            "values": shared[k] + rng.random(n) * 200,
        }
        for k in range(texts)
        for r in readers
    ]


def method(seed: int) -> Any:
    def weights(units: Any) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([seed, len(units), sum(map(ord, "".join(units.texts)))])
        heads = rng.random((2, 3, len(units))).astype(np.float32)
        return heads.mean(axis=(0, 1)), heads

    return weights


def only(frame: pd.DataFrame, **where: Any) -> pd.DataFrame:
    for column, value in where.items():
        frame = frame[frame[column].isna() if value is None else frame[column] == value]
    return frame


def test_two_readers_three_words_by_hand(dataset_maker: Any, lm_maker: Any) -> None:
    lm = lm_maker({"raw": lambda u: np.array([1.0, 3, 2])})
    c = compare(dataset_maker(two_readers()), lm, methods=["raw"], **QUICK | {"controls": []})
    rows = only(c.alignment, method="raw", metric="spearman")
    mean = only(rows, level="mean").iloc[0]
    # shares: a (1/6, 3/6, 2/6), b (2/6, 3/6, 1/6), mean (1/4, 1/2, 1/4): ranks 1.5, 3, 1.5
    assert mean["value"] == pytest.approx(np.sqrt(3) / 2)
    # readers' ranks 1 3 2 and 2 3 1: r = 1 - 6 * 2 / (3 * 8) = 1/2
    assert mean["ceiling"] == pytest.approx(0.5) and np.isnan(mean["ceiling_upper"])
    assert "two readers" in mean["ceiling_reason"]
    # six arrangements of 1.5 3 1.5: rho with 1 3 2 is 0.87 (twice), 0 (twice), -0.87 (twice)
    assert mean["p"] == pytest.approx(2 * 2 / 6)
    assert (mean["n_words"], mean["n_lost"]) == (3, 0) and pd.isna(mean["participant"])
    one = only(rows, level="reader", participant="a").iloc[0]
    assert one["value"] == pytest.approx(1) and one["p"] == pytest.approx(2 / 6)
    two = only(rows, level="reader", participant="b").iloc[0]
    assert two["value"] == pytest.approx(0.5) and two["ceiling"] == pytest.approx(0.5)
    s = only(c.summary, method="raw", metric="spearman", layer=None)
    assert only(s, level="reader")["value"].item() == pytest.approx(0.75)
    assert only(s, level="reader")["relative"].item() == pytest.approx(1.5)
    assert only(s, level="mean")["p"].item() == pytest.approx(2 / 3)
    # cosine of (1 3 2) and (1/4, 1/2, 1/4): (1/4 + 3/2 + 1/2) / sqrt(14 * 3/8)
    cosine = only(c.alignment, method="raw", metric="cosine", level="mean")["value"].item()
    assert cosine == pytest.approx(2.25 / np.sqrt(14 * 0.375))


def test_frames_have_the_agreed_columns_and_types(dataset_maker: Any, lm_maker: Any) -> None:
    c = compare(
        dataset_maker(random_readings()), lm_maker({"raw": method(1)}), methods=["raw"], **QUICK
    )
    assert tuple(c.alignment.columns) == ALIGNMENT_COLUMNS
    assert tuple(c.summary.columns) == SUMMARY_COLUMNS
    for frame in (c.alignment, c.summary):
        assert frame["layer"].dtype == "Int64" and frame["head"].dtype == "Int64"
        for column in ("dataset", "measure", "method", "kind", "metric", "level", "convention"):
            assert frame[column].dtype == "str", column
    keys = ["trial", "level", "measure", "method", "layer", "head", "metric"]
    assert not c.alignment.duplicated(keys).any()
    # 3 texts + 6 trials, one method and three baselines, seven metrics and the partial one
    own = c.alignment[c.alignment["layer"].isna()]
    assert len(own) == 9 * 4 * 8
    # 2 layers with 3 heads each, at level mean, in one metric
    parts = c.alignment[c.alignment["layer"].notna()]
    assert len(parts) == 3 * (2 + 6) and set(parts["level"]) == {"mean"}
    assert set(c.profiles["kind"]) == {"human", "model", "baseline"}
    assert len(c.profiles) == 12 * (3 * 2 + 3 + 3 * 4)
    assert c.transitions["count"].sum() == 6 * 11
    assert (c.alignment["value"].isna() == c.alignment["reason"].notna()).all()
    no_bound = c.alignment["ceiling"].isna() | c.alignment["ceiling_upper"].isna()
    assert (no_bound == c.alignment["ceiling_reason"].notna()).all()


def test_a_model_that_is_the_mean_reader_agrees_fully(dataset_maker: Any, lm_maker: Any) -> None:
    readings = random_readings()
    by_text: dict[str, list[np.ndarray]] = {}
    for r in readings:
        shares = np.asarray(r["values"]) / np.sum(r["values"])
        by_text.setdefault(r["words"][0], []).append(shares)
    lm = lm_maker({"raw": lambda u: np.mean(by_text[u.texts[0]], axis=0)})
    c = compare(dataset_maker(readings), lm, methods=["raw"], **QUICK)
    s = only(c.summary, method="raw", level="mean").set_index("metric")["value"]
    for metric in ("spearman", "kendall", "pearson", "cosine", "topk_overlap", "kappa_topk"):
        assert s[metric] == pytest.approx(1), metric
    assert s["partial_spearman"] == pytest.approx(1)
    assert s["js_divergence"] == pytest.approx(0, abs=1e-12)
    assert only(c.summary, method="raw", metric="spearman", level="mean")["p"].item() <= 0.02


def test_constants_are_undefined_in_correlations_and_defined_elsewhere(
    dataset_maker: Any, lm_maker: Any
) -> None:
    almost = 1 / 12 + np.array([0, 1e-10] * 6)
    lm = lm_maker({"raw": lambda u: np.full(12, 0.3), "rollout": lambda u: almost})
    c = compare(dataset_maker(random_readings()), lm, methods=["raw", "rollout"], **QUICK)
    for name in ("raw", "rollout", "uniform"):
        rows = only(c.alignment, method=name)
        for metric in ("spearman", "kendall", "pearson", "topk_overlap", "partial_spearman"):
            found = only(rows, metric=metric)
            assert found["value"].isna().all() and found["p"].isna().all()
            assert found["reason"].str.contains("constant").all(), metric
        for metric in ("cosine", "js_divergence"):
            found = only(rows, metric=metric)
            assert found["value"].notna().all(), metric
            assert (found["p"] == 1).all()
    s = only(c.summary, method="uniform", metric="spearman", level="mean").iloc[0]
    assert np.isnan(s["value"]) and s["n_trials"] == 0 and s["n_undefined"] == 3


def test_a_constant_human_profile_is_undefined_too(dataset_maker: Any, lm_maker: Any) -> None:
    d = dataset_maker([{"participant": "a", "stimulus": "s", "words": LONG, "values": [7.0] * 12}])
    c = compare(d, lm_maker({"raw": method(1)}), methods=["raw"], **QUICK)
    rows = only(c.alignment, method="raw", metric="spearman", layer=None)
    assert rows["value"].isna().all()
    assert rows["reason"].str.contains("human profile is constant").all()


def test_missing_words_are_left_out_pairwise_and_counted(dataset_maker: Any, lm_maker: Any) -> None:
    weights = np.arange(12.0)
    weights[[0, 5]] = NAN
    values = np.arange(12.0) * 10
    values[[5, 7]] = NAN
    d = dataset_maker([{"participant": "a", "stimulus": "s", "words": LONG, "values": values}])
    lm = lm_maker({"raw": lambda u: weights})
    c = compare(d, lm, methods=["raw"], **QUICK | {"controls": []})
    row = only(c.alignment, method="raw", metric="spearman", level="reader").iloc[0]
    assert row["value"] == pytest.approx(1) and (row["n_words"], row["n_lost"]) == (9, 3)
    lost = c.lost.to_frame()
    assert lost[lost["reason"] == "raw: words without a score"]["count"].item() == 2


@pytest.mark.parametrize("values", [[0.0] * 12, [NAN] * 12])
def test_empty_trials_are_missing_with_a_reason_and_counted(
    values: list[float], dataset_maker: Any, lm_maker: Any
) -> None:
    readings = random_readings(texts=1)
    words = readings[0]["words"]
    readings.append(
        {"participant": "c", "stimulus": "s0", "words": words, "values": values, "path": []}
    )
    readings.append(
        {"participant": "c", "stimulus": "s9", "words": words[:5], "values": values[:5], "path": []}
    )
    c = compare(dataset_maker(readings), lm_maker({"raw": method(1)}), methods=["raw"], **QUICK)
    mine = only(c.alignment, participant="c", metric="spearman", method="raw")
    assert len(mine) == 2 and mine["value"].isna().all()
    assert mine["reason"].str.startswith("human profile:").all()
    s = only(c.summary, method="raw", metric="spearman", level="reader").iloc[0]
    assert (s["n_trials"], s["n_undefined"], s["n_readers"]) == (2, 2, 2)
    assert only(c.alignment, trial="s9", level="mean")["value"].isna().all()
    assert (c.lost.to_frame()["step"] == "human profiles").any()
    # the empty reader is in nobody's ceiling
    alone = compare(
        dataset_maker(random_readings(texts=1)),
        lm_maker({"raw": method(1)}),
        methods=["raw"],
        **QUICK,
    )
    for frame, other in ((c, alone),):
        a = only(frame.alignment, stimulus="s0", level="mean", method="raw", metric="spearman")
        b = only(other.alignment, level="mean", method="raw", metric="spearman")
        np.testing.assert_allclose(a["ceiling"], b["ceiling"])
        np.testing.assert_allclose(a["value"], b["value"])


def test_one_word_texts_are_undefined_not_an_error(dataset_maker: Any, lm_maker: Any) -> None:
    d = dataset_maker([{"participant": "a", "stimulus": "s", "words": ["Hi"], "values": [5]}])
    c = compare(d, lm_maker({"raw": method(1)}), methods=["raw"], **QUICK)
    rows = only(c.alignment, method="raw", metric="spearman")
    assert rows["value"].isna().all() and rows["reason"].notna().all()
    assert "no attention method of fake-lm could be compared" in c.answer


def test_a_single_reader_has_no_ceiling_and_says_why(dataset_maker: Any, lm_maker: Any) -> None:
    c = compare(
        dataset_maker(random_readings("a")), lm_maker({"raw": method(1)}), methods=["raw"], **QUICK
    )
    assert c.alignment["ceiling"].isna().all()
    assert c.alignment["ceiling_reason"].str.contains("1 reader").all()
    assert c.summary["relative"].isna().all()
    assert c.answer.startswith("1 reader, information seeking:")
    assert "not known" in c.answer


def test_three_readers_have_both_bounds_without_the_reader_in_its_own_reference(
    dataset_maker: Any, lm_maker: Any
) -> None:
    rng = np.random.default_rng(2)
    words = [f"w{i}" for i in range(200)]
    noise = [
        {"participant": r, "stimulus": "s", "words": words, "values": rng.random(200)}
        for r in "abcde"
    ]
    c = compare(dataset_maker(noise), lm_maker({"raw": method(1)}), methods=["raw"], **QUICK)
    row = only(c.alignment, method="raw", metric="spearman", level="mean", layer=None).iloc[0]
    assert abs(row["ceiling"]) < 0.15 and row["ceiling_upper"] > 0.3
    assert pd.isna(row["ceiling_reason"])


def test_repeated_readings_of_one_person_never_stand_on_both_sides(
    dataset_maker: Any, lm_maker: Any
) -> None:
    values = np.arange(12.0) + 1
    base = {"stimulus": "s", "words": LONG}
    d = dataset_maker(
        [
            {"participant": "a", "trial": "a1", "values": values, **base},
            {"participant": "a", "trial": "a2", "values": values, **base},
            {"participant": "b", "trial": "b1", "values": values[::-1].copy(), **base},
        ]
    )
    c = compare(d, lm_maker({"raw": method(1)}), methods=["raw"], **QUICK)
    rows = only(c.alignment, method="raw", metric="spearman", layer=None)
    np.testing.assert_allclose(rows["ceiling"], -1)
    # a counts once: the mean of 1..12 and 12..1 is flat
    mean = only(rows, level="mean").iloc[0]
    assert np.isnan(mean["value"]) and "constant" in mean["reason"]


def _same(a: pd.DataFrame, b: pd.DataFrame, keys: list[str], skip: tuple[str, ...] = ()) -> None:
    a = a.drop(columns=list(skip)).sort_values(keys).reset_index(drop=True)
    b = b.drop(columns=list(skip)).sort_values(keys).reset_index(drop=True)
    pd.testing.assert_frame_equal(a, b, check_exact=False, rtol=0, atol=1e-12)


KEYS = ["level", "trial", "measure", "method", "layer", "head", "metric"]
SUMMARY_KEYS = ["level", "measure", "method", "layer", "head", "metric"]


def test_the_order_of_trials_does_not_matter(dataset_maker: Any, lm_maker: Any) -> None:
    readings = random_readings("abc")
    mixed = [readings[i] for i in np.random.default_rng(1).permutation(len(readings))]
    lm = lm_maker({"raw": method(1)})
    a = compare(dataset_maker(readings), lm, methods=["raw"], **QUICK)
    b = compare(dataset_maker(mixed), lm, methods=["raw"], **QUICK)
    _same(a.alignment, b.alignment, KEYS)
    _same(a.summary, b.summary, SUMMARY_KEYS)
    assert a.answer == b.answer


def test_other_methods_metrics_and_measures_change_nothing(
    dataset_maker: Any, lm_maker: Any
) -> None:
    readings = random_readings()
    for r in readings:
        gaze = np.array(r["values"])
        gaze[2] = NAN
        r["total_reading_time"], r["gaze_duration"] = r.pop("values"), gaze
    lm = lm_maker({"raw": method(1), "rollout": method(2)})
    a = compare(dataset_maker(readings), lm, methods=["raw"], **QUICK)
    b = compare(
        dataset_maker(readings),
        lm,
        methods=["rollout", "raw"],
        **QUICK
        | {
            "measures": ["gaze_duration", "total_reading_time"],
            "baselines": ["position", "random", "uniform", "length", "frequency"],
            "metrics": ["js_divergence", "spearman", "total_variation", *DEFAULT_REST],
        },
    )

    def same_rows(x: pd.DataFrame, y: pd.DataFrame) -> pd.DataFrame:
        return y[
            y["method"].isin(set(x["method"]))
            & y["measure"].isin(set(x["measure"]))
            & y["metric"].isin(set(x["metric"]))
        ]

    # q of own rows is about the family of methods that was asked for
    _same(a.alignment, same_rows(a.alignment, b.alignment), KEYS, ("q",))
    _same(a.summary, same_rows(a.summary, b.summary), SUMMARY_KEYS, ("q",))
    heads = a.alignment["head"].notna()
    others = same_rows(a.alignment, b.alignment)
    _same(a.alignment[heads], others[others["head"].notna()], KEYS)


DEFAULT_REST = ["kendall", "pearson", "cosine", "topk_overlap", "kappa_topk"]


def test_the_seed_decides_and_nothing_else(dataset_maker: Any, lm_maker: Any) -> None:
    d, lm = dataset_maker(random_readings()), lm_maker({"raw": method(1)})
    a = compare(d, lm, methods=["raw"], seed=1, **QUICK)
    np.random.default_rng().random()
    b = compare(d, lm, methods=["raw"], seed=1, **QUICK)
    pd.testing.assert_frame_equal(a.alignment, b.alignment)
    pd.testing.assert_frame_equal(a.summary, b.summary)
    other = compare(d, lm, methods=["raw"], seed=2, **QUICK)
    x = only(a.summary, method="raw", metric="spearman", layer=None)
    y = only(other.summary, method="raw", metric="spearman", layer=None)
    np.testing.assert_array_equal(x["value"], y["value"])
    assert (x["low"].to_numpy() != y["low"].to_numpy()).any()


def test_layouts_differ_but_the_text_is_one(dataset_maker: Any, lm_maker: Any) -> None:
    readings = random_readings(texts=2)
    for i, r in enumerate(readings):
        r["layout"] = f"layout{i}"
    lm = lm_maker({"raw": method(1)})
    c = compare(dataset_maker(readings), lm, methods=["raw"], **QUICK)
    assert len(lm.seen) == 2
    assert set(only(c.alignment, level="mean")["trial"]) == {"layout0", "layout2"}
    assert c.info["dataset"]["n_texts"] == 2


def test_different_word_lists_of_a_stimulus_are_compared_apart_and_noted(
    dataset_maker: Any, lm_maker: Any
) -> None:
    a, b = two_readers()
    b["words"] = ["The", "wolf", "runs"]
    b["layout"] = "other"
    c = compare(dataset_maker([a, b]), lm_maker({"raw": method(1)}), methods=["raw"], **QUICK)
    assert only(c.alignment, level="mean")["trial"].nunique() == 2
    assert c.lost.to_frame()["reason"].str.contains("different word lists").any()


def test_the_question_becomes_the_context(dataset_maker: Any, lm_maker: Any) -> None:
    a, b = two_readers()
    a["question"], b["question"] = "Who ran?", "Who slept?"
    lm = lm_maker({"raw": method(1)})
    compare(dataset_maker([a, b]), lm, methods=["raw"], **QUICK)
    assert [q for _, q in lm.seen] == [None]
    lm.seen.clear()
    c = compare(dataset_maker([a, b]), lm, methods=["raw"], question=True, **QUICK)
    assert sorted(q for _, q in lm.seen) == ["Who ran?", "Who slept?"]
    assert only(c.alignment, level="mean")["trial"].nunique() == 2
    assert c.alignment["ceiling"].isna().all()


def test_conditions_stay_apart(dataset_maker: Any, lm_maker: Any) -> None:
    a, b = two_readers()
    b["condition"] = "ordinary"
    c = compare(dataset_maker([a, b]), lm_maker({"raw": method(1)}), methods=["raw"], **QUICK)
    assert set(c.alignment["condition"]) == {"information seeking", "ordinary"}
    assert any("conditions" in n for n in c.info["notes"])


def test_baselines_that_the_model_cannot_give_are_left_out_with_a_record(
    dataset_maker: Any, lm_maker: Any
) -> None:
    settings = QUICK | {"baselines": ["length", "surprisal"]}
    d = dataset_maker(random_readings())
    c = compare(d, lm_maker({"raw": method(1)}), methods=["raw"], **settings)
    assert "surprisal" not in set(c.summary["method"])
    assert c.lost.to_frame()["reason"].str.contains("surprisal: .*lm_head").any()
    lm = lm_maker({"raw": method(1)}, surprisal=lambda u: np.arange(len(u)) ** 2.0)
    c = compare(d, lm, methods=["raw"], **settings)
    assert only(c.summary, method="surprisal")["kind"].unique().tolist() == ["baseline"]


def test_fisher_z_and_selection_and_switches(dataset_maker: Any, lm_maker: Any) -> None:
    d, lm = dataset_maker(random_readings()), lm_maker({"raw": method(1)})
    plain = compare(d, lm, methods=["raw"], **QUICK)
    z = compare(d, lm, methods=["raw"], average="fisher_z", **QUICK)
    values = only(plain.alignment, method="raw", metric="pearson", level="mean")["value"]
    found = only(z.summary, method="raw", metric="pearson", level="mean")["value"].item()
    assert found == pytest.approx(np.tanh(np.arctanh(values).mean()))
    cosine = {"method": "raw", "metric": "cosine", "level": "mean"}
    assert (
        only(z.summary, **cosine)["value"].item() == only(plain.summary, **cosine)["value"].item()
    )
    few = compare(d, lm, methods=["raw"], trials=["a_s0", "b_s0"], **QUICK)
    assert set(few.alignment["stimulus"]) == {"s0"}
    first = compare(d, lm, methods=["raw"], max_texts=2, **QUICK)
    assert set(first.alignment["stimulus"]) == {"s0", "s1"}
    assert first.lost.count("comparison", "dropped") == 2
    bare = compare(d, lm, methods=["raw"], **QUICK | {"n_permutations": 0, "n_bootstrap": 0})
    assert bare.summary[["p", "q", "low", "high", "chance"]].isna().all(axis=None)
    assert bare.summary["value"].notna().any()
    none = compare(d, lm, methods=[], **QUICK)
    assert set(none.summary["kind"]) == {"baseline"}


def test_intervals_hold_the_value_and_are_rows_of_the_texts(
    dataset_maker: Any, lm_maker: Any
) -> None:
    d, lm = dataset_maker(random_readings(texts=6)), lm_maker({"raw": method(1)})
    s = compare(d, lm, methods=["raw"], **QUICK).summary.dropna(subset=["low"])
    assert (
        len(s) and (s["low"] <= s["value"] + 1e-9).all() and (s["value"] <= s["high"] + 1e-9).all()
    )
    both = only(s, method="raw", metric="spearman", layer=None).set_index("level")
    assert both.loc["mean", "n_trials"] == 6 and both.loc["reader", "n_trials"] == 12
    assert (both["n_readers"] == 2).all() and (both["n_texts"] == 6).all()


@pytest.mark.parametrize(
    ("argument", "value", "near"),
    [
        ("measures", ["gaze_durations"], "gaze_duration"),
        ("methods", ["rolout"], "rollout"),
        ("baselines", ["lenght"], "length"),
        ("metrics", ["spearmann"], "spearman"),
        ("head_metrics", ["kendal"], "kendall"),
        ("controls", ["freqency"], "frequency"),
        ("level", "readers", "reader"),
        ("average", "fisher", "fisher_z"),
    ],
)
def test_unknown_names_are_found_before_any_work(
    argument: str, value: Any, near: str, lm_maker: Any
) -> None:
    with pytest.raises(UnknownNameError, match=near):
        check_arguments(**{argument: value})
    with pytest.raises(UnknownNameError, match=near):
        compare("no_such_data_set_is_looked_for", lm_maker({}), **{argument: value})


def test_unknown_trials_and_empty_requests(dataset_maker: Any, lm_maker: Any) -> None:
    d, lm = dataset_maker(random_readings()), lm_maker({"raw": method(1)})
    with pytest.raises(UnknownNameError, match="a_s0"):
        compare(d, lm, methods=["raw"], trials=["a_so"], **QUICK)
    with pytest.raises(DataError, match="nothing to compare"):
        compare(d, lm, methods=["raw"], trials=[], **QUICK)
    with pytest.raises(DataError, match="no metric"):
        compare(d, lm, metrics=[], measures=["skip"])
    with pytest.raises(DataError, match="topk"):
        compare(d, lm, topk=0)


def test_progress_is_told(dataset_maker: Any, lm_maker: Any) -> None:
    seen: list[tuple[str, int, int | None]] = []
    compare(
        dataset_maker(random_readings()),
        lm_maker({"raw": method(1)}),
        methods=["raw"],
        progress=lambda *a: seen.append(a),
        **QUICK,
    )
    names = list(dict.fromkeys(s[0] for s in seen))
    assert names[0] == "computing reading measures" and "model attention" in names
    assert all(t is None or d <= t for _, d, t in seen)


def test_table_and_text_of_the_result(dataset_maker: Any, lm_maker: Any) -> None:
    lm = lm_maker({"raw": method(1), "rollout": method(2)})
    c = compare(dataset_maker(random_readings()), lm, methods=["raw", "rollout"], **QUICK)
    t = c.table()
    assert set(t["method"]) == {"raw", "rollout", "uniform", "length", "random"}
    assert t["value"].dropna().is_monotonic_decreasing
    assert "spearman" in c.info["conventions"] and "raw" in str(c)
    assert c.info["model_lost"]["raw"]["mass_start"] == 0.25
    assert c.info["dataset"]["n_readers"] == 2 and c.info["lm"]["name"] == "fake-lm"
