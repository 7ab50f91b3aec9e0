"""Code comprehension: reports of our own in both published layouts, and the real ones."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.code_comprehension import final_names, read_areas
from gazeattn.errors import DataError, MissingAssetError

SHORT = [
    "RECORDING_SESSION_LABEL",
    "TRIAL_INDEX",
    "CURRENT_FIX_DURATION",
    "CURRENT_FIX_INDEX",
    "CURRENT_FIX_INTEREST_AREAS",
    "CURRENT_FIX_INTEREST_AREA_ID",
    "CURRENT_FIX_PUPIL",
    "CURRENT_FIX_NEAREST_INTEREST_AREA",
    "CURRENT_FIX_NEAREST_INTEREST_AREA_DISTANCE",
    "CURRENT_FIX_X",
    "CURRENT_FIX_Y",
    "CS_SUBJ_DIFFICULTY",
    "KEY_STROKE",
    "correct_option",
    "code_snippet_id",
    "track_id",
]
LONG = [*SHORT, "TIME_TO_ANSWER", "CURRENT_FIX_BLINK_AROUND", "NEXT_SAC_AMPLITUDE"]


def _row(
    person="P1", trial=1, index=1, area="1", x=15.0, y=5.0, snippet="A1", **more: object
) -> dict:
    return {
        "RECORDING_SESSION_LABEL": person,
        "TRIAL_INDEX": trial,
        "CURRENT_FIX_DURATION": 200,
        "CURRENT_FIX_INDEX": index,
        "CURRENT_FIX_INTEREST_AREAS": "[ ]" if area == "." else f"[ {area}]",
        "CURRENT_FIX_INTEREST_AREA_ID": area,
        "CURRENT_FIX_PUPIL": 400,
        "CURRENT_FIX_NEAREST_INTEREST_AREA": "2",
        "CURRENT_FIX_NEAREST_INTEREST_AREA_DISTANCE": "0.5",
        "CURRENT_FIX_X": x,
        "CURRENT_FIX_Y": y,
        "CS_SUBJ_DIFFICULTY": 3,
        "KEY_STROKE": "a",
        "correct_option": "a",
        "code_snippet_id": snippet,
        "track_id": 1,
        "TIME_TO_ANSWER": 5000,
        "CURRENT_FIX_BLINK_AROUND": "NONE",
        "NEXT_SAC_AMPLITUDE": "1.5",
        **more,
    }


def _report(
    folder: Path, name: str, rows: list[dict], columns: list[str], pack: bool = True
) -> None:
    (folder / "fixation_reports").mkdir(exist_ok=True)
    text = "\t" + "\t".join(columns) + "\n"
    for number, row in enumerate(rows):
        text += "\t".join([str(number), *(str(row[c]) for c in columns)]) + "\n"
    path = folder / "fixation_reports" / (name + (".gz" if pack else ""))
    path.write_bytes(gzip.compress(text.encode()) if pack else text.encode())


def _areas(folder: Path, snippet: str, *lines: str, bom: str = "\ufeff") -> Path:
    (folder / "interest_areas").mkdir(exist_ok=True)
    path = folder / "interest_areas" / f"IA-{snippet}.ias"
    path.write_text(bom + "# set of areas\n" + "".join(f"{x}\n" for x in lines), encoding="utf-8")
    return path


AREAS = (
    "RECTANGLE\t1\t10.0\t0.0\t20.0\t10.0\tdef",
    "RECTANGLE\t2\t20.0\t0.0\t40.0\t10.0\tf(x):",
    "RECTANGLE\t3\t15.0\t20.0\t40.0\t30.0\treturn",
)


def _load(folder: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("code_comprehension", root=folder)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    rows = [
        _row(),
        _row(index=2, area="2", x=25.0),
        _row(index=3, area=".", x=1500.0, CURRENT_FIX_BLINK_AROUND="AFTER", NEXT_SAC_AMPLITUDE="."),
        _row(trial=3, snippet="A9", area=".", KEY_STROKE=".", correct_option=".", TIME_TO_ANSWER=-1)
        | {
            "CURRENT_FIX_NEAREST_INTEREST_AREA": ".",
            "CURRENT_FIX_NEAREST_INTEREST_AREA_DISTANCE": ".",
        },
        _row(trial=4, snippet="10-117-V2", area="1", KEY_STROKE="d"),
    ]
    _report(tmp_path, "fix_report_P1.txt", rows, LONG)
    again = [_row(KEY_STROKE=".", x=-5.0), _row(index=2, area="3", y=25.0, KEY_STROKE=".")]
    _report(tmp_path, "fix_report_P1 2.txt", again, SHORT, pack=False)
    _areas(tmp_path, "A1", *AREAS)
    _areas(tmp_path, "10-177-V2", *AREAS[:1], bom="")
    (tmp_path / "code_snippets").mkdir()
    (tmp_path / "code_snippets" / "A1.py").write_text("def f(x):\n    return\n")
    return tmp_path


def test_two_layouts_and_sessions_that_number_from_1_again(tiny: Path) -> None:
    ds = _load(tiny)
    assert list(ds.trials["trial"]) == ["P1_1_01", "P1_1_03", "P1_1_04", "P1_2_01"]
    assert len(ds.fixations) == 7 and ds.participants == ["P1"]
    f = ds.fixations.set_index("trial")
    assert f.loc["P1_1_01", "word"].tolist()[:2] == ["1", "2"]
    assert f.loc["P1_1_01", "index"].tolist() == [0, 1, 2]
    assert f.loc["P1_1_01", "blink"].tolist() == [False, False, True]
    assert f.loc["P1_2_01", "blink"].isna().all()  # the short layout does not say
    assert f.loc["P1_2_01", "saccade_amplitude"].isna().all()
    assert ds.info["counts"]["files"] == 2 and ds.info["counts"]["files_20_columns"] == 1


def test_a_dot_is_missing(tiny: Path) -> None:
    f = _load(tiny).fixations.set_index("trial")
    third = f.loc["P1_1_01"].iloc[2]
    assert (
        pd.isna(third["word"]) and pd.isna(third["saccade_amplitude"]) and pd.isna(third["areas"])
    )
    assert pd.isna(f.loc["P1_1_03", "nearest_area"])


def test_accuracy_is_unknown_without_a_right_option(tiny: Path) -> None:
    t = _load(tiny).trials.set_index("trial")
    assert t.loc["P1_1_01", "accuracy"] == 1
    assert pd.isna(t.loc["P1_1_03", "accuracy"])  # '.' against '.' is not a right answer
    assert t.loc["P1_1_04", "accuracy"] == 0 and t.loc["P1_1_04", "answered"]  # d
    assert t.loc["P1_2_01", "accuracy"] == 0 and not t.loc["P1_2_01", "answered"]
    assert t.loc["P1_1_01", "time_to_answer"] == 5000
    assert pd.isna(t.loc["P1_1_03", "time_to_answer"]) and pd.isna(
        t.loc["P1_2_01", "time_to_answer"]
    )


def test_one_snippet_under_two_ids(tiny: Path) -> None:
    ds = _load(tiny)
    trial = ds.trials.set_index("trial").loc["P1_1_04"]
    assert trial["stimulus"] == "10-177-V2" and trial["code_snippet_id"] == "10-117-V2"
    assert ds.fixations.set_index("trial").loc["P1_1_04", "word"] == "1"
    assert any("10-177-V2" in x.reason and x.count == 1 for x in ds.lost if x.kind == "repaired")


def test_snippets_without_areas(tiny: Path) -> None:
    ds = _load(tiny)
    trial = ds.trials.set_index("trial").loc["P1_1_03"]
    assert not trial["has_areas"] and "A9" not in set(ds.words["layout"])
    assert ds.fixations.set_index("trial").loc["P1_1_03", "x"] == 15.0
    assert ds.stimuli["A9"] == {"size": (1920, 1080), "language": "python"}


def test_an_area_that_is_not_in_the_file_is_no_word(tiny: Path) -> None:
    _areas(tiny, "A1", *AREAS[:2])
    ds = _load(tiny)
    assert ds.fixations.set_index("trial").loc["P1_2_01", "word"].isna().tolist() == [False, True]
    assert any("no rectangle" in x.reason and x.count == 1 for x in ds.lost)


def test_off_screen(tiny: Path) -> None:
    f = _load(tiny).fixations
    assert f["off_screen"].sum() == 1 and f.loc[f["off_screen"], "x"].tolist() == [-5.0]


@pytest.mark.parametrize("bom", ["\ufeff", ""])
@pytest.mark.parametrize("first", ["RECTANGLE\t1\t1\t2\t3\t4\tx", "RECTANGLE 1 1 2 3 4 x"])
def test_area_files_with_and_without_byte_order_mark(tmp_path: Path, bom: str, first: str) -> None:
    path = _areas(tmp_path, "S", first, "", "# end", bom=bom)
    if bom:  # the mark may stand before the first rectangle as well
        path.write_text(bom + first + "\n", encoding="utf-8")
    areas = read_areas(path, "S")
    assert areas[["word", "text", "left", "bottom"]].to_numpy().tolist() == [["1", "x", 1.0, 4.0]]


@pytest.mark.parametrize(
    "line", ["ELLIPSE\t1\t1\t2\t3\t4\tx", "RECTANGLE\t1\t1\t2\t3\tx", "RECTANGLE\tb\t1\t2\t3\t4\tx"]
)
def test_area_files_that_are_damaged(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match=r"row 2.*RECTANGLE"):
        read_areas(_areas(tmp_path, "S", line), "S")


def test_an_area_file_without_areas(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no interest area"):
        read_areas(_areas(tmp_path, "S"), "S")


def test_tokens_that_look_like_missing_values(tmp_path: Path) -> None:
    tokens = ["None", "null", "nan", "#", "."]
    lines = [f"RECTANGLE\t{i}\t0\t0\t1\t1\t{t}" for i, t in enumerate(tokens, 1)]
    assert read_areas(_areas(tmp_path, "S", *lines), "S")["text"].tolist() == tokens


def test_names_of_two_versions(tmp_path: Path) -> None:
    (tmp_path / "naming_mapping.csv").write_text(
        "Original Name;Final Name\n5-1-V1/V2;CS-01\nA3;CS-02\n"
    )
    assert final_names(tmp_path, {"5-1-V2": "5-2-V2"}) == {
        "5-1-V1": "CS-01",
        "5-2-V2": "CS-01",
        "A3": "CS-02",
    }


def test_a_report_of_somebody_else(tiny: Path) -> None:
    _report(tiny, "fix_report_P7.txt", [_row()], SHORT)
    with pytest.raises(DataError, match=r"fix_report_P7.*found P1"):
        _load(tiny)


def test_a_trial_with_two_answers(tiny: Path) -> None:
    _report(tiny, "fix_report_P1.txt", [_row(), _row(index=2, KEY_STROKE="b")], LONG)
    with pytest.raises(DataError, match="two snippets, answers or ratings"):
        _load(tiny)


def test_a_number_that_is_none(tiny: Path) -> None:
    _report(tiny, "fix_report_P1.txt", [_row(), _row(index=2, CURRENT_FIX_X="12,5")], LONG)
    with pytest.raises(DataError, match=r"CURRENT_FIX_X.*'12,5'"):
        _load(tiny)


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(MissingAssetError, match="fixation_reports"):
        load("code_comprehension", root=tmp_path)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load("code_comprehension", root=shared_data / "code_comprehension")


def test_real_counts(real: GazeDataset) -> None:
    assert len(real.participants) == 22 and len(real.fixations) == 112681
    assert len(real.trials) == 186 and real.trials["stimulus"].nunique() == 26
    assert real.words["layout"].nunique() == 19
    t = real.trials
    assert [(t["accuracy"] == 1).sum(), (t["accuracy"] == 0).sum(), t["accuracy"].isna().sum()] == [
        100,
        81,
        5,
    ]
    assert t["subjective_difficulty"].value_counts().sort_index().tolist() == [23, 56, 56, 32, 19]
    assert t["time_to_answer"].notna().sum() == 115
    assert (t["has_areas"] & t["has_code"]).sum() == 154
    f = real.fixations
    assert f["off_screen"].sum() == 559
    assert [round(f[c].agg(m)) for c in "xy" for m in ("min", "max")] == [-1655, 2788, -857, 2139]
    assert (f["duration"].min(), f["duration"].max(), (f["duration"] < 40).sum()) == (4, 5774, 897)
    drawn = f["stimulus"].isin(real.words["layout"].unique())
    assert (drawn.sum(), f.loc[drawn, "word"].isna().sum()) == (87549, 22174)
    assert f.loc[~drawn, "word"].isna().all()
    assert sum("text" in s for s in real.stimuli.values()) == 20
    assert real.info["licence"].startswith("none found")
    for _, areas in real.reports["area_groups"].groupby("stimulus"):
        assert (areas["start"] < areas["end"]).all()


def test_real_trials_are_those_of_the_computed_table(real: GazeDataset, shared_data: Path) -> None:
    table = pd.read_csv(shared_data / "code_comprehension" / "trials.csv", keep_default_na=False)
    both = real.trials.merge(table, on=["file", "trial_index"], suffixes=("", "_t"), validate="1:1")
    assert len(both) == 186
    assert (both["stimulus"] == both["snippet_file_id"]).all()
    assert (both["accuracy"].astype("str").fillna("") == both["accuracy_t"].astype(str)).all()
    assert (both["n_fixations"] == both["n_fixations_t"]).all()
    assert (both["answered"].astype(int) == both["answered_t"]).all()
    assert (both["session"] == both["session_t"]).all()
    assert (both["has_areas"].astype(int) == both["has_interest_areas"]).all()
    total = real.fixations.groupby("trial")["duration"].sum()
    assert (both["trial"].map(total) == both["total_fixation_ms"]).all()


def test_real_fixations_lie_in_their_areas(real: GazeDataset) -> None:
    both = real.fixations.dropna(subset="word").merge(
        real.words, left_on=["stimulus", "word"], right_on=["layout", "word"], validate="m:1"
    )
    assert len(both) == real.fixations["word"].notna().sum()
    assert both["x"].between(both["left"], both["right"]).all()
    assert both["y"].between(both["top"], both["bottom"]).all()
