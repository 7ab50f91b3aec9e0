"""Call graph attention: tables of our own in the layout of the files, and the real ones."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.call_graph_attention import chronological
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.losses import LossLog

COLUMNS = (
    "participant session trial order start_ms duration_ms x y target file line column token "
    "syntactic_category function_kind function_start_line function_end_line xpath pupil_left_mm "
    "pupil_right_mm published_order"
).split()
XPATH = "\"//src:unit[@filename='p/A.java']/src:name[@pos:start='{0}:{1}' and @pos:end='{0}:{2}']\""


def _row(start: float, order: int, published: int, token: str = "draw", **more: object) -> dict:
    on_code = more.get("file", "p/A.java") != ""
    row = dict.fromkeys(COLUMNS, "") | {
        "participant": 4,
        "session": 1,
        "trial": 1,
        "order": order,
        "start_ms": start,
        "duration_ms": 200,
        "x": 100.5,
        "y": 200.0,
        "target": "A.java" if on_code else "p.txt",
        "file": "p/A.java" if on_code else "",
        "line": 3,
        "column": 5,
        "token": token,
        "xpath": XPATH.format(3, 5, 8) if on_code else "",
        "pupil_left_mm": 2.0,
        "pupil_right_mm": 3.0,
        "published_order": published,
    }
    return row | more


def _trial(**more: object) -> dict:
    return {
        "participant": 4,
        "study": 1,
        "session": 1,
        "trial": 1,
        "project": "p",
        "target_class": "A",
        "target_method": "draw",
        "n_fixations": 4,
        "confidence": "5",
        "accuracy": "",
        "completeness": "4",
        "conciseness": "4",
        "clarity": "4",
    } | more


def _write(folder: Path, rows: list[dict], trials: list[dict]) -> GazeDataset:
    body = ",".join(COLUMNS) + "\n"
    body += "".join(",".join(str(r[c]) for c in COLUMNS) + "\n" for r in rows)
    (folder / "fixations_P4.csv.gz").write_bytes(gzip.compress(body.encode()))
    pd.DataFrame(trials).to_csv(folder / "trials.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("call_graph_attention", root=folder)


ROWS = [
    _row(0.0, 0, 4, token="null"),
    _row(300.0, 1, 3, token="WHITESPACE", pupil_left_mm=0),
    _row(600.0, 2, 2, token="", file="", pupil_left_mm=0, pupil_right_mm="0.0"),
    _row(900.0, 3, 1, token="draw", duration_ms=20000),
]


def test_words_are_nodes_and_blanks_are_none(tmp_path: Path) -> None:
    ds = _write(tmp_path, ROWS, [_trial()])
    f = ds.fixations
    assert f["word"].isna().tolist() == [False, True, True, False]
    assert ds.words["text"].tolist() == ["draw", "null"]  # null is a word
    assert ds.words["word"].tolist() == ["p/A.java|3:5-3:8|draw", "p/A.java|3:5-3:8|null"]
    assert f["area"].tolist() == ["A.java", "A.java", "p.txt", "A.java"]
    assert f["long_duration"].tolist() == [False, False, False, True]
    assert "xpath" not in f and list(ds.trials["stimulus"]) == ["p.A.draw"]
    assert pd.isna(ds.trials["accuracy"][0]) and ds.trials["confidence"][0] == 5


def test_a_pupil_of_zero_is_missing(tmp_path: Path) -> None:
    f = _write(tmp_path, ROWS, [_trial()]).fixations
    assert f["pupil_left"].isna().tolist() == [False, True, True, False]
    assert f["pupil"].tolist()[:2] == [2.5, 3.0] and pd.isna(f["pupil"][2])


@pytest.mark.parametrize("turn", [1, -1])
def test_newest_first_comes_out_in_the_order_of_time(tmp_path: Path, turn: int) -> None:
    ds = _write(tmp_path, ROWS[::turn], [_trial()])
    assert ds.fixations["onset"].tolist() == [0, 300, 600, 900]
    assert ds.fixations["index"].tolist() == [0, 1, 2, 3]
    assert ds.fixations["published_order"].tolist() == [4, 3, 2, 1]
    assert ds.trials["stored_newest_first"].tolist() == [True]
    moved = [x.count for x in ds.lost if "sorted by time" in x.reason]
    assert moved == ([] if turn == 1 else [4])


def test_one_study_of_two_runs_backwards(tmp_path: Path) -> None:
    later = [_row(r["start_ms"], r["order"], 5 - r["published_order"], session=2) for r in ROWS]
    ds = _write(tmp_path, [*ROWS, *later], [_trial(), _trial(session=2, study=2)])
    assert ds.trials["stored_newest_first"].tolist() == [True, False]
    assert ds.info["counts"]["fixations_study_1"] == ds.info["counts"]["fixations_study_2"] == 4


@given(st.permutations(range(6)), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_any_order_of_rows_is_put_in_the_order_of_time(rows: list[int], times: list[int]) -> None:
    table = pd.DataFrame(
        {
            "trial": pd.Series(["t"] * 6, dtype="str"),
            "onset": np.array(times, dtype=float)[rows],
            "published_order": np.array(rows, dtype=float),
        }
    )
    out = chronological(table, LossLog())
    assert out["onset"].is_monotonic_increasing and out["index"].tolist() == list(range(6))
    assert sorted(out["published_order"]) == list(range(6))
    for _, same in out.groupby("onset"):  # equal times keep the order of the rows
        at = [rows.index(int(k)) for k in same["published_order"]]
        assert at == sorted(at)


def test_gaps_in_the_published_order_are_no_matter(tmp_path: Path) -> None:
    rows = [r | {"published_order": k} for r, k in zip(ROWS, (90, 40, 39, 2), strict=True)]
    ds = _write(tmp_path, rows, [_trial()])
    assert ds.fixations["index"].tolist() == [0, 1, 2, 3] and ds.trials["stored_newest_first"][0]


def test_fewer_fixations_than_stated_are_noted(tmp_path: Path) -> None:
    ds = _write(tmp_path, ROWS[:2], [_trial()])
    assert any("another number of fixations" in x.reason and x.count == 1 for x in ds.lost)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"session": 3}, "trials.csv does not list"),
        ({"start_ms": ""}, "no time"),
        ({"x": "abc"}, "'abc'"),
    ],
)
def test_damaged_rows(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _write(tmp_path, [ROWS[0], ROWS[1] | change], [_trial()])


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(MissingAssetError, match=r"trials\.csv"):
        load("call_graph_attention", root=tmp_path)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load("call_graph_attention", root=shared_data / "call_graph_attention")


def test_real_counts(real: GazeDataset) -> None:
    assert len(real.fixations) == 129037 and len(real.trials) == 312
    assert len(real.participants) == 8 and len(real.stimuli) == 40
    counts = real.info["counts"]
    assert counts["fixations_study_1"] == 52884 and counts["fixations_study_2"] == 76153
    assert counts["projects"] == 5 and counts["on_sheets"] == 41762
    assert counts["above_10000_ms"] == 215 and counts["above_60000_ms"] == 17
    d, f = real.fixations["duration"], real.fixations
    assert (d.min(), d.max()) == (80, 311221)
    limits = [round(f[c].agg(m), 1) for c in "xy" for m in ("min", "max")]
    assert limits == [40.8, 1885.5, 97.0, 1005.7]
    assert len(real.reports["summaries"]) == 317 and len(real.reports["call_graph"]) == 4044
    t = real.trials
    assert t["confidence"].isna().sum() == 1 and t["accuracy"].isna().sum() == 1
    assert t["summary"].isna().sum() == 1
    assert not real.words["word"].str.contains("<NA>").any()


def test_real_order_is_that_of_time(real: GazeDataset, shared_data: Path) -> None:
    table = pd.read_csv(shared_data / "call_graph_attention" / "trials.csv")
    both = real.trials.assign(
        trial=real.trials["number"].astype(int),
        session=real.trials["session"].astype(int),
        participant=real.trials["participant"].astype(int),
    ).merge(table, on=["participant", "session", "trial"], suffixes=("", "_t"), validate="1:1")
    assert (both["stored_newest_first"].astype(int) == both["stored_newest_first_t"]).all()
    assert both["stored_newest_first"].sum() == 157
    step = real.fixations.groupby("trial")["onset"].diff().dropna()
    assert (step >= 0).all()
    gap = step >= real.fixations.groupby("trial")["duration"].shift().loc[step.index]
    assert round(gap.mean(), 3) == 0.998
