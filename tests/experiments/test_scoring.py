"""Scores of small tables with values worked out by hand, damaged input, and real scanpaths."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments import scoring_pairs as pairs
from gazeattn.experiments.scoring import (
    EXTRA,
    Settings,
    paths_of,
    per_stimulus,
    score_files,
    score_paths,
    summarise,
)
from gazeattn.experiments.scoring_inputs import read_columns, read_size
from gazeattn.metrics.scanpath import hausdorff
from gazeattn.results import RESULT_COLUMNS

HUMAN: Any = {
    "s1": {"A": [(0, 0)], "B": [(3, 4)]},
    "s2": {"A": [(0, 0)], "B": [(0, 2)], "C": [(0, 6)]},
}
NAMES = ("x", "y", "duration")
MODEL: Any = {"s1": {"M": [(0, 4)], "N": [(6, 8)]}, "s2": {"M": [(0, 8)]}}


def table(paths: Any, **more: Any) -> pd.DataFrame:
    rows = [
        {"stimulus": s, "participant": p, "index": k, **dict(zip(NAMES, f, strict=False))}
        for s, people in paths.items()
        for p, path in people.items()
        for k, f in enumerate(path)
    ]
    return pd.DataFrame(rows).assign(**more)


def scored(human: pd.DataFrame, model: pd.DataFrame, *names: str, **how: Any) -> Any:
    sides = paths_of(human), paths_of(model, role="model")
    return score_paths(*sides, names or ["hausdorff"], Settings(**how))


def reasons(lost: Any) -> dict[str, int]:
    return {f"{x.step}: {x.reason}": x.count for x in lost}


# values ------------------------------------------------------------------------------------------


def test_means_by_hand_with_unequal_numbers_of_scanpaths() -> None:
    found = scored(table(HUMAN), table(MODEL))
    row: Any = summarise(found).iloc[0]
    # s1: M is 4 and 3 from A and B, N is 10 and 5; s2: M is 8, 6 and 2 from A, B and C
    s1, s2 = (3.5 + 7.5) / 2, 16 / 3
    assert row["value"] == pytest.approx((s1 + s2) / 2)
    assert (row["low"], row["high"]) == (pytest.approx(s2), pytest.approx(s1))
    # s1: A and B are 5 apart; s2: 2, 6 and 4, so A 4, B 3, C 5
    assert row["ceiling"] == pytest.approx((5 + 4) / 2)
    assert row["gap"] == pytest.approx((s1 - 5 + s2 - 4) / 2)
    # the other stimulus: M 4, 2, 2; N 10, sqrt 72, sqrt 40; and M 8, 5
    other = (8 / 3 + (10 + math.sqrt(72) + math.sqrt(40)) / 3) / 2
    assert row["shuffled"] == pytest.approx((other + 6.5) / 2)
    assert (row["n"], row["pairs"], row["ceiling_pairs"], row["shuffled_pairs"]) == (2, 7, 4, 8)
    assert row["better"] == "lower" and row["undefined"] == 0


def test_rows_are_per_scanpath_with_the_people_averaged() -> None:
    rows = scored(table(HUMAN), table(MODEL)).rows
    assert len(rows) == 3 + 5 + 3
    at: Any = rows[rows["kind"] == "ceiling"].set_index(["stimulus", "participant"])["value"]
    assert at["s2", "A"] == 4 and at["s2", "B"] == 3 and at["s2", "C"] == 5
    assert list(per_stimulus(rows).loc["ceiling"]) == [5, 4]


def test_ceiling_never_pairs_a_person_with_themselves() -> None:
    human = table({"s": {"A": [(0, 0)], "B": [(0, 8)]}}).assign(trial="1")
    again = table({"s": {"A": [(0, 2)]}}).assign(trial="2")
    found = scored(pd.concat([human, again]), table({"s": {"M": [(1, 1)]}}))
    rows = found.rows[found.rows["kind"] == "ceiling"]
    # A's two viewings meet B only: 8 and 6; B meets both
    assert sorted(rows["value"]) == [6, 7, 8]


def test_order_of_an_asymmetric_metric_is_model_first_and_both_ways_for_people() -> None:
    human = table({"s": {"A": [(0, 0), (9, 9)], "B": [(0, 0)]}})
    model = table({"s": {"M": [(9, 9)]}})
    found = scored(
        human, model, "time_delay_embedding", parameters={"time_delay_embedding": {"k": 1}}
    )
    assert found.counts["time_delay_embedding"]["ceiling"][0] == 2
    by: Any = found.rows.set_index(["kind", "participant"])["value"]
    # every window of the second looks for its nearest in the first
    far = math.sqrt(162)
    assert by["ceiling", "A"] == 0 and by["ceiling", "B"] == pytest.approx(far / 2)
    assert by["model", "M"] == pytest.approx((far / 2 + far) / 2)  # the model is the first


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), max_size=12))
@settings(deadline=None, max_examples=60)
def test_pairs_across_are_all_pairs_of_one_code(a: list[int], b: list[int]) -> None:
    i, j = pairs.pairs_across(np.array(a, dtype=int), np.array(b, dtype=int))
    expected = {(k, n) for k, x in enumerate(a) for n, y in enumerate(b) if x == y}
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == expected
    assert len(i) == len(expected)


@pytest.mark.parametrize("n", [2, 3, 10, 57])
def test_other_stimulus_is_never_the_same_and_each_once(n: int) -> None:
    for seed in range(5):
        other = pairs.other_stimulus(n, seed)
        assert sorted(other) == list(range(n)) and (other != np.arange(n)).all()


def test_order_of_rows_does_not_matter_and_index_decides() -> None:
    rng = np.random.default_rng(4)
    paths = {
        s: {p: [tuple(v) for v in rng.uniform(0, 90, (5, 2))] for p in "ABC"} for s in ("a", "b")
    }
    human, model = table(paths), table({s: {"M": p["A"][::-1]} for s, p in paths.items()})
    expected = summarise(scored(human, model, "dtw"))
    mixed = human.sample(frac=1, random_state=1), model.sample(frac=1, random_state=2)
    pd.testing.assert_frame_equal(summarise(scored(*mixed, "dtw")), expected)


# what is undefined, left out or missing ----------------------------------------------------------


def test_missing_durations_leave_the_duration_part_undefined_and_counted() -> None:
    human = table({"s": {p: [(0, 0, 100), (k, 9, 200), (9, k, 300)] for k, p in enumerate("ABC")}})
    model = table({"s": {"M": [(1, 0), (5, 9), (9, 5)]}})
    for timeless in (model, model.assign(duration=np.nan)):
        found = scored(human, timeless, "multimatch", size=(10, 10))
        row: Any = summarise(found).set_index("metric")
        assert row.loc["multimatch.duration", "undefined"] == 3
        assert math.isnan(row.loc["multimatch.duration", "value"])
        assert math.isfinite(row.loc["multimatch.shape", "value"])
        assert math.isfinite(row.loc["multimatch.duration", "ceiling"])
        counted = [n for k, n in reasons(found.lost).items() if k.startswith("multimatch, model")]
        assert sum(counted) == 3


@pytest.mark.parametrize("short", [1, 2])
def test_short_scanpaths_are_undefined_for_multimatch_and_counted(short: int) -> None:
    rng = np.random.default_rng(0)
    full = {p: [tuple(v) for v in rng.uniform(1, 9, (5, 2))] for p in "ABC"}
    model = {"M": full["A"][::-1], "N": full["B"][:short]}
    found = scored(table({"s": full}), table({"s": model}), "multimatch", size=(10, 10))
    row: Any = summarise(found).set_index("metric").loc["multimatch.shape"]
    assert (row["pairs"], row["undefined"]) == (6, 3)
    by: Any = found.rows[
        (found.rows["metric"] == "multimatch.shape") & (found.rows["kind"] == "model")
    ]
    by = by.set_index("participant")
    assert math.isnan(by.loc["N", "value"]) and by.loc["N", "undefined"] == 3
    assert row["value"] == pytest.approx(by.loc["M", "value"])


def test_fixations_without_a_position_are_left_out_and_counted_an_empty_path_stays() -> None:
    human = table({"s": {"A": [(0, 0), (math.nan, 5), (4, 0)], "B": [(math.nan, math.nan)]}})
    sides = paths_of(human)
    assert [len(p) for p in sides.paths] == [2, 0]
    found = scored(human, table({"s": {"M": [(0, 0)]}}))
    row: Any = summarise(found).iloc[0]
    assert row["value"] == hausdorff([(0, 0)], [(0, 0), (4, 0)]) == 4
    assert (row["pairs"], row["undefined"]) == (2, 1)
    counted = reasons(found.lost)
    assert counted["human: fixations without a position left out of their scanpath"] == 2
    assert counted["human: scanpaths without a fixation"] == 1


def test_stimuli_of_one_side_are_counted_and_one_stimulus_has_no_baseline() -> None:
    human = table({**HUMAN, "only": {"A": [(1, 1)]}})
    found = scored(human, table({"s1": MODEL["s1"], "more": {"M": [(2, 2)]}}))
    counted = reasons(found.lost)
    assert counted["human: scanpaths of stimuli that the other side does not have"] == 4
    assert counted["model: scanpaths of stimuli that the other side does not have"] == 1
    row: Any = summarise(found).iloc[0]
    assert math.isnan(row["shuffled"]) and row["shuffled_n"] == 0
    assert math.isnan(row["low"]) and row["value"] == pytest.approx(5.5)


def test_one_person_per_stimulus_has_no_ceiling() -> None:
    found = scored(
        table({"s": {"A": [(0, 0)]}, "t": {"B": [(0, 0)]}}), table(MODEL | {"s": {"M": [(1, 0)]}})
    )
    row: Any = summarise(found).iloc[0]
    assert math.isnan(row["ceiling"]) and math.isnan(row["gap"]) and row["value"] == 1
    assert reasons(found.lost)["ceiling: stimuli that one person saw: no human ceiling there"] == 1


def test_copies_of_human_scanpaths_are_noted() -> None:
    found = scored(table(HUMAN), table({"s1": {"M": HUMAN["s1"]["A"]}, "s2": MODEL["s2"]}))
    note = "model: scanpaths equal to a human one of the same stimulus: copies raise the score"
    assert reasons(found.lost)[note] == 1


def test_a_model_without_participants_and_trials() -> None:
    model = table(MODEL).drop(columns="participant")
    one = model[model["x"] == 0]
    assert len(paths_of(one, role="model")) == 2
    with pytest.raises(DataError, match="same index"):
        paths_of(model, role="model")
    two = paths_of(model.assign(trial=["1", "2", "1"]), role="model")
    assert len(two) == 3 and two.keys["participant"].isna().all()


# wrong input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["multimach", "Scan_Match", "levenstein"])
def test_names_of_metrics_are_suggested(name: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        scored(table(HUMAN), table(MODEL), name)


@pytest.mark.parametrize("name", ["nss", "spearman", "amplitude_distance"])
def test_metrics_of_other_things_are_named(name: str) -> None:
    with pytest.raises(DataError, match="no metric of scanpaths"):
        scored(table(HUMAN), table(MODEL), name)


@pytest.mark.parametrize(
    ("name", "need"),
    [
        ("multimatch", "--size"),
        ("scanmatch", "--size"),
        ("levenshtein", "--size"),
        ("sequence_score", "--clusters"),
        ("cross_recurrence", "--option radius"),
        ("semantic_sequence_score", "labels"),
    ],
)
def test_what_a_metric_needs_is_named_before_anything_is_computed(name: str, need: str) -> None:
    with pytest.raises(DataError, match=need):
        scored(table(HUMAN), table(MODEL), name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.rename(columns={"stimulus": "stimuli"}), "Is it 'stimuli'"),
        (lambda t: t.drop(columns="x"), "no column 'x'"),
        (lambda t: t.drop(columns="participant"), "no column 'participant'"),
        (lambda t: t.assign(index=0, participant="A"), "same index"),
        (lambda t: t.assign(duration=-1.0), "negative duration"),
        (lambda t: t.assign(x="left"), "x"),
        (lambda t: t.assign(y=np.inf), "y"),
        (lambda t: t.assign(stimulus=[None, *t["stimulus"][1:]]), "stimulus"),
        (lambda t: t.assign(trial=[None, *["1"] * (len(t) - 1)]), "trial"),
    ],
)
def test_damaged_tables_are_refused(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        paths_of(change(table(HUMAN)))


def test_names_that_differ_by_their_ending_are_explained() -> None:
    model = table({"s1.jpg": MODEL["s1"], "s2.jpg": MODEL["s2"]})
    with pytest.raises(DataError, match="differ by file endings"):
        scored(table(HUMAN), model)


def test_options_go_to_the_metrics_that_have_them() -> None:
    entries = pairs.find_metrics(["multimatch", "heatmatch", "cross_recurrence"], "scanpath")
    found = pairs.parse_options(
        entries, ["radius=40", "multimatch.grouping=published", "grid=50,40"]
    )
    assert found == {
        "multimatch": {"grouping": "published"},
        "heatmatch": {"grid": (50, 40)},
        "cross_recurrence": {"radius": 40},
    }
    with pytest.raises(UnknownNameError, match="did you mean 'radius'"):
        pairs.parse_options(entries, ["raduis=40"])
    with pytest.raises(UnknownNameError, match="multimatch"):
        pairs.parse_options(entries, ["multimach.grouping=x"])


def test_aliases_are_the_metrics_that_they_name() -> None:
    entries = pairs.find_metrics(["tde", "time_delay_embedding", "stde", "dtw", "tde"], "scanpath")
    names = ["time_delay_embedding", "scaled_time_delay_embedding", "dtw"]
    assert [e.name for e in entries] == names
    for option in ("tde.k=2", "time_delay_embedding.k=2"):
        assert pairs.parse_options(entries, [option])["time_delay_embedding"] == {"k": 2}
    assert pairs.parse_options(entries, {"stde.norm": "l1"})[names[1]] == {"norm": "l1"}
    with pytest.raises(UnknownNameError, match="scasim"):
        pairs.parse_options(entries, ["scasim.k=2"])  # a metric, but none of these


def test_fixations_off_the_stimulus_are_counted_once(recwarn: Any) -> None:
    size: Any = {"s1": (10, 10), "s2": (10, 7)}
    human = {"s1": {"A": [(0, 0)], "B": [(3, 4)]}, "s2": {"A": [(0, 9)], "B": [(-1, 2), (4, 9)]}}
    found = scored(table(human), table(MODEL), "scanmatch", "levenshtein", size=size)
    off = {k: n for k, n in reasons(found.lost).items() if "off the stimulus" in k}
    # people: three of s2; model: that of s2
    assert sorted(off.values()) == [4, 4] and {k.partition(":")[0] for k in off} == {
        "scanmatch", "levenshtein",
    }  # fmt: skip
    assert not [w for w in recwarn if "off the stimulus" in str(w.message)]


def test_a_part_without_a_direction_is_neither_better_nor_worse(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    people = {s: {p: rng.uniform(0, 9, (5, 2)).tolist() for p in "ABC"} for s in ("a", "b", "c")}
    model = table({s: {"M": rng.uniform(0, 9, (5, 2)).tolist()} for s in people})
    found = scored(
        table(people), model, "cross_recurrence", parameters={"cross_recurrence": {"radius": 4}}
    )
    better = summarise(found).set_index("metric")["better"]
    assert better["cross_recurrence.corm"] == "neither"
    assert set(better.drop("cross_recurrence.corm")) == {"higher"}
    write(tmp_path, human=table(people), model=model)
    _, page = score_files(
        tmp_path / "human.csv", tmp_path / "model.csv", metrics=["cross_recurrence"],
        options=["radius=20"], to=tmp_path / "out",
    )  # fmt: skip
    text = page.read_text(encoding="utf-8")
    assert "3 scores have a human ceiling" in text
    assert text.count("this part is no measure of likeness") == 1
    assert "10^" not in text  # values that cancel are 0


def test_sizes(tmp_path: Path) -> None:
    assert read_size("800,600") == read_size("800x600") == (800, 600)
    file = tmp_path / "sizes.csv"
    file.write_text("stimulus,width,height\n1,800,600\n2,640,480\n")
    assert read_size(file) == {"1": (800, 600), "2": (640, 480)}
    file.write_text("stimulus,width,height\n1,800,600\n1,640,480\n")
    with pytest.raises(DataError, match="two sizes"):
        read_size(file)
    with pytest.raises(DataError, match="WIDTH,HEIGHT"):
        read_size("big")


def test_maps_of_columns() -> None:
    assert read_columns("stimulus=image, x=FX") == {"stimulus": "image", "x": "FX"}
    assert read_columns("") == {}
    with pytest.raises(UnknownNameError, match="did you mean 'stimulus'"):
        read_columns("stimulis=image")
    for text in ("stimulus", "stimulus=", "x=a,x=b"):
        with pytest.raises(DataError, match="OURS=THEIRS"):
            read_columns(text)


def test_each_stimulus_has_its_own_size() -> None:
    same = {"s1": HUMAN["s1"], "s2": HUMAN["s1"]}
    model = table({"s1": MODEL["s1"], "s2": MODEL["s1"]})
    found = scored(table(same), model, "scanmatch", size={"s1": (10, 10), "s2": (1000, 1000)})
    at: Any = per_stimulus(found.rows).loc["model"]
    assert at["s1"] < at["s2"]  # in a large picture all fixations share a bin
    with pytest.raises(DataError, match="no size for a stimulus"):
        scored(table(same), model, "scanmatch", size={"s1": (10, 10)})


# files -------------------------------------------------------------------------------------------


def write(folder: Path, **tables: pd.DataFrame) -> None:
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet", index=False)


def test_files_of_both_kinds_give_the_same_tables_and_a_page(tmp_path: Path) -> None:
    write(tmp_path, human=table(HUMAN), model=table(MODEL))
    rows, page = score_files(
        tmp_path / "human.csv",
        tmp_path / "model.parquet",
        metrics=["hausdorff", "scanmatch"],
        size=(10, 10),
        to=tmp_path / "out",
        label="<script>alert(1)</script>",
    )
    assert list(rows.columns) == [*RESULT_COLUMNS, *EXTRA]
    assert sorted(p.name for p in page.parent.iterdir()) == [
        "lost.csv", "paths.csv", "paths.parquet", "report.html", "scores.csv", "scores.parquet",
    ]  # fmt: skip
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script&gt;" in text
    command = text.partition('aria-label="Command that repeats the scores"><code>')[2]
    assert command.startswith("gazeattn score ") and "hausdorff scanmatch</code>" in command
    assert '<td class="prose">' in text  # conventions wrap
    assert text.count("</svg>") == 2
    assert "http-equiv" in text and text.count("<svg") == 2
    kept = pd.read_parquet(page.parent / "scores.parquet")
    assert kept["value"].tolist() == rows["value"].tolist()
    paths = pd.read_csv(page.parent / "paths.csv")
    assert set(paths["kind"]) == {"model", "ceiling", "shuffled"} and len(paths) == 2 * 11
    with pytest.raises(DataError, match="overwrite"):
        score_files(tmp_path / "human.csv", tmp_path / "model.csv", metrics=["dtw"],
                    to=tmp_path / "out")  # fmt: skip
    files = tmp_path / "human.parquet", tmp_path / "model.csv"
    again, _ = score_files(*files, metrics=["hausdorff"], to=tmp_path / "out", overwrite=True)
    assert again["value"].iloc[0] == rows["value"].iloc[0]
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(DataError, match="not empty"):
        score_files(tmp_path / "human.csv", tmp_path / "model.csv", metrics=["dtw"],
                    to=tmp_path / "out", overwrite=True)  # fmt: skip


def test_other_names_of_columns(tmp_path: Path) -> None:
    write(tmp_path, human=table(HUMAN).rename(columns={"stimulus": "image", "x": "FX"}),
          model=table(MODEL))  # fmt: skip
    files = tmp_path / "human.csv", tmp_path / "model.csv"
    columns = {"stimulus": "image", "x": "FX"}
    rows, _ = score_files(*files, metrics=["hausdorff"], to=tmp_path / "o", human_columns=columns)
    assert rows["ceiling"].iloc[0] == pytest.approx(4.5)


@pytest.mark.parametrize("name", ["onestop_sampel", "cat200"])
def test_data_sets_by_name_are_suggested(name: str, tmp_path: Path) -> None:
    write(tmp_path, model=table(MODEL))
    with pytest.raises(UnknownNameError, match="did you mean"):
        score_files(name, tmp_path / "model.csv", metrics=["dtw"], to=tmp_path / "o")


def test_clusters_are_fitted_to_people(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    paths = {
        s: {p: [tuple(v) for v in rng.uniform(0, 90, (6, 2))] for p in "ABCD"} for s in ("a", "b")
    }
    write(
        tmp_path,
        human=table(paths),
        model=table({s: {"M": p["A"][::-1]} for s, p in paths.items()}),
    )
    how: dict[str, Any] = {"metrics": ["sequence_score"], "to": tmp_path / "o", "clusters": "fit"}
    files = tmp_path / "human.csv", tmp_path / "model.csv"
    rows, _ = score_files(*files, size=(100, 100), **how)
    assert 0 <= rows["value"].iloc[0] <= 1 and "clusters per stimulus" in rows["convention"].iloc[0]
    with pytest.raises(DataError, match="size"):
        score_files(*files, **(how | {"to": tmp_path / "p"}))


# real scanpaths ----------------------------------------------------------------------------------


def test_osie_odd_observers_as_the_model_lie_near_the_ceiling(
    shared_data: Path, tmp_path: Path
) -> None:
    every = pd.read_parquet(shared_data / "osie" / "fixations.parquet")
    every = every[every["image"].isin(every["image"].unique()[:6])]
    odd = every["subject"] % 2 == 1
    write(tmp_path, human=every[~odd], model=every[odd])
    columns = {"stimulus": "image", "participant": "subject", "duration": "duration_ms"}
    rows, page = score_files(
        tmp_path / "human.parquet",
        tmp_path / "model.csv",
        metrics=["multimatch", "scanmatch", "dtw"],
        size=(800, 600),
        to=tmp_path / "out",
        human_columns=columns,
        model_columns=columns,
    )
    row: Any = rows.set_index("metric")
    assert (row["pairs"] == 6 * 8 * 7).all() and (row["ceiling_pairs"] == 6 * 21).all()
    people: Any = row.loc["scanmatch"]
    assert abs(people["gap"]) < 0.05 < people["value"] - people["shuffled"]
    assert row.loc["dtw", "value"] < row.loc["dtw", "shuffled"]
    assert (rows["low"] <= rows["value"]).all() and (rows["value"] <= rows["high"]).all()
    assert page.stat().st_size < 400_000


def test_people_of_a_data_set_by_name(shared_data: Path, tmp_path: Path) -> None:
    every = pd.read_parquet(shared_data / "osie" / "fixations.parquet")
    every = every[every["image"].isin(every["image"].unique()[:3]) & (every["subject"] == 1)]
    model = every.rename(columns={"image": "stimulus"}).assign(x=lambda t: t["x"] + 5)
    write(tmp_path, model=model.assign(stimulus=model["stimulus"].str.removesuffix(".jpg")))
    rows, _ = score_files("osie", tmp_path / "model.csv", metrics=["hausdorff"],
                          root=shared_data / "osie", to=tmp_path / "o")  # fmt: skip
    assert rows["dataset"].iloc[0] == "osie" and rows["pairs"].iloc[0] == 3 * 15


# what a newcomer gives -------------------------------------------------------------------------


def test_duplicate_rows_are_named_with_an_index_and_doubted_without() -> None:
    human = table({"s": {"A": [(0, 0), (9, 9)], "B": [(1, 2), (3, 4), (3, 4)]}})
    with pytest.raises(DataError, match="duplicate rows"):
        paths_of(pd.concat([human, human.iloc[:1]]))
    other = human.iloc[:1].assign(x=5)
    with pytest.raises(DataError, match="same index"):
        paths_of(pd.concat([human, other]))
    plain = human.drop(columns="index")
    lost = reasons(paths_of(plain).lost)
    assert [n for r, n in lost.items() if "equal to the one before" in r] == [1]
    assert not any("repeats" in r for r in lost)
    lost = reasons(paths_of(pd.concat([plain, plain])).lost)
    assert [n for r, n in lost.items() if "repeats" in r] == [2]
    assert not any("doubt" in r for r in reasons(paths_of(human).lost))


def test_decimal_comma_is_an_option(tmp_path: Path) -> None:
    text = "stimulus;participant;index;x;y\ns;A;0;1,5;2\ns;B;0;4,5;6\n"
    (tmp_path / "h.csv").write_text(text)
    (tmp_path / "m.csv").write_text(text)
    how: Any = {"metrics": ["euclidean"], "draws": 10}
    found, _ = score_files(
        tmp_path / "h.csv", tmp_path / "m.csv", to=tmp_path / "o", decimal=",", **how
    )
    assert found["ceiling"].iloc[0] == pytest.approx(5)  # 3 and 4 apart
    with pytest.raises(DataError, match="--decimal ,"):
        score_files(tmp_path / "h.csv", tmp_path / "m.csv", to=tmp_path / "p", **how)


def test_ids_that_became_decimal_numbers_are_explained() -> None:
    one, other = table({"1001": {"A": [(0, 0)]}}), table({"1001.0": {"M": [(0, 0)]}})
    with pytest.raises(DataError, match="whole numbers"):
        scored(one, other, "dtw")


@pytest.mark.parametrize("name", ["Scanmatch", "STDE", "MultiMatch", "time-delay-embedding"])
def test_case_and_dashes_of_metric_names_do_not_matter(name: str) -> None:
    found = pairs.find_metrics([name], "scanpath")
    assert found[0].name in {"scanmatch", "scaled_time_delay_embedding", "stde", "multimatch",
                             "time_delay_embedding"}  # fmt: skip


def test_errors_of_a_metric_name_the_stimulus() -> None:
    human = table({"a": {"A": [(0, 0), (5, 5)]}, "b": {"A": [(1, 1), (500, 5)]}})
    model = table({"a": {"M": [(0, 0)]}, "b": {"M": [(0, 0)]}})
    parameters = {"scanmatch": {"outside": "raise"}}
    with pytest.raises(DataError, match=r"stimulus 'b'.*--option outside=drop"):
        scored(human, model, "scanmatch", size=(100, 100), parameters=parameters)


def test_a_threshold_that_looks_like_seconds_is_a_doubt_in_the_log() -> None:
    timed = [(0, 0, 200), (30, 40, 300), (90, 9, 250)]
    human, model = table({"s": {"A": timed, "B": timed[::-1]}}), table({"s": {"M": timed}})
    for threshold, n in ((0.3, 1), (300.0, 0), (0.0, 0)):
        given = {"multimatch": {"duration_threshold": threshold}}
        lost = reasons(scored(human, model, "multimatch", size=(99, 99), parameters=given).lost)
        assert sum("doubt: duration_threshold is below 10 ms" in r for r in lost) == n
