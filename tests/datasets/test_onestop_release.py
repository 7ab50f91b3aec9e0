"""The full release of OneStop: tiny reports in its layout, and the slice in the same layout."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.onestop_release import read_folds, read_report
from gazeattn.errors import DataError, MissingAssetError

pytestmark = pytest.mark.filterwarnings("ignore:data set 'onestop':UserWarning")

_KEYS = (
    "participant_id,article_batch,article_id,paragraph_id,difficulty_level,question_preview,"
    "repeated_reading_trial,practice_trial,trial_index,selected_answer,is_correct"
)
FIXATION = (
    "CURRENT_FIX_INDEX,CURRENT_FIX_X,CURRENT_FIX_Y,CURRENT_FIX_START,CURRENT_FIX_DURATION,"
    "CURRENT_FIX_INTEREST_AREA_ID,CURRENT_FIX_INTEREST_AREA_LABEL,unused"
)
AREA = "IA_ID,IA_LABEL,IA_LEFT,IA_TOP,IA_RIGHT,IA_BOTTOM,IA_DWELL_TIME,IA_REGRESSION_IN,unused"


def keys(reader: str, repeated: bool = False, goal: bool = False, practice: bool = False,
         trial: int = 1, answer: str = "A,True") -> str:  # fmt: skip
    return f"{reader},1,2,3,Adv,{goal},{repeated},{practice},{trial},{answer}"


READINGS = [
    keys("l1_1"),
    keys("l1_1", repeated=True, trial=60),
    keys("l38_97", goal=True),
    keys("l1_1", practice=True),
    keys("l55_519", trial=33, answer=".,."),
]


def tables(readings: list[str]) -> dict[str, str]:
    fixations, areas = [f"{_KEYS},{FIXATION}"], [f"{_KEYS},{AREA}"]
    for reading in readings:
        fixations += [f"{reading},1,5,5,3000,200,1,null,z", f"{reading},2,500,5,3300,90,.,.,z"]
        areas += [
            f"{reading},0,null,0,0,10,10,200,0,z",
            f'{reading},1,"NA,",10,0,20,10,0,.,z',
        ]
    return {"fixations": "\n".join([*fixations, ""]), "ia": "\n".join([*areas, ""])}


def write(
    folder: Path, readings: list[str] | None = None, how: str = "csv", part: str = ""
) -> Path:
    for name, text in tables(READINGS if readings is None else readings).items():
        stem = f"{name}_Paragraph{part}.csv"
        if how == "zip":
            with zipfile.ZipFile(folder / f"{stem}.zip", "w") as archive:
                archive.writestr(stem, text)
        elif how == "gz":
            (folder / f"{stem}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            text = text if how == "csv" else text.replace('"NA,"', "NA").replace(",", "\t")
            (folder / stem).write_text(text)
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> GazeDataset:
    return load("onestop", root=write(tmp_path))


def test_trials_conditions_and_repetitions(tiny: GazeDataset) -> None:
    trials = tiny.trials.set_index("trial")
    assert trials["condition"].to_dict() == {
        "l1_1_1_2_3_Adv_r0": "ordinary reading",
        "l1_1_1_2_3_Adv_r1": "ordinary reading",
        "l38_104_1_2_3_Adv_r0": "information seeking",
        "l55_519_1_2_3_Adv_r0": "ordinary reading",
    }
    assert trials["stimulus"].unique().tolist() == ["1_2_3_Adv"]
    counts = tiny.info["counts"]
    assert (counts["trials_first_reading"], counts["trials_repeated_reading"]) == (3, 1)
    assert counts["word_rows"] == 8


def test_a_reader_stored_under_another_id_is_corrected_once(tmp_path: Path) -> None:
    dataset = load("onestop", root=write(tmp_path))
    assert dataset.participants == ["l1_1", "l38_104", "l55_519"]
    assert set(dataset.fixations["participant"]) == set(dataset.participants)
    lost = dataset.lost.to_frame()
    assert lost.loc[lost["reason"].str.contains("is stored as"), "count"].tolist() == [2, 2]
    # where both ids are there, they are two people, and stay so
    both = load("onestop", root=write(tmp_path, [keys("l38_97"), keys("l38_104")]))
    assert both.participants == ["l38_104", "l38_97"]
    assert "not applied" in str(both.lost)


def test_dots_and_numbers_from_one(tiny: GazeDataset) -> None:
    one = tiny.fixations[tiny.fixations["trial"] == "l1_1_1_2_3_Adv_r0"]
    assert one["word_reported"].fillna("-").tolist() == ["0", "-"]
    assert tiny.words["text"].tolist() == ["null", "NA,"]
    report = tiny.reports["eyelink"].set_index(["trial", "word"])
    assert report.loc[("l1_1_1_2_3_Adv_r0", "1"), "IA_DWELL_TIME"] == 0
    assert report["IA_REGRESSION_IN"].isna().sum() == 4
    assert tiny.measures()["fixation_count"].tolist() == [1, 0] * 4


def test_practice_is_left_out_and_known_gaps_are_told(tiny: GazeDataset) -> None:
    lost = tiny.lost.to_frame()
    assert lost.loc[lost["reason"].str.contains("practice"), "count"].tolist() == [2, 2]
    gaps = lost[lost["reason"].str.contains("not recorded")]
    assert gaps["examples"].tolist() == ["l55_519 #33"]
    answers = tiny.trials.set_index("participant")["is_correct"]
    assert answers.isna()["l55_519"] and not answers.isna()["l38_104"]


@pytest.mark.parametrize("how", ["csv", "gz", "zip", "tab"])
@pytest.mark.parametrize("part", ["", "_ordinary"])
def test_packed_and_plain_files_of_the_whole_or_a_part(tmp_path: Path, how: str, part: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gazeattn.datasets.corpus._compare", lambda *_: None)  # not the real files
        dataset = load("onestop", root=write(tmp_path, how=how, part=part))
    assert len(dataset.fixations) == 8 and len(dataset.trials) == 4


def test_chosen_readers_by_their_true_id(tmp_path: Path) -> None:
    dataset = load("onestop", root=write(tmp_path), participants=["l38_104"])
    assert dataset.participants == ["l38_104"] and len(dataset.fixations) == 2
    assert dataset.info["edition"] == "chosen readers"
    with pytest.raises(DataError, match="no rows of nobody"):
        load("onestop", root=tmp_path, participants=["nobody"])


def test_a_second_layout_is_kept_apart(tmp_path: Path) -> None:
    write(tmp_path, [keys("l1_1"), keys("l2_2")])
    path = tmp_path / "ia_Paragraph.csv"
    lines = path.read_text().splitlines()
    lines[4] = lines[4].replace(",10,0,20,10,", ",0,12,10,22,")  # breaks the line before word 1
    path.write_text("\n".join([*lines, ""]))
    dataset = load("onestop", root=tmp_path)
    assert dataset.trials["layout"].tolist() == ["1_2_3_Adv", "1_2_3_Adv#2"]
    assert dataset.words["line"].tolist() == [0, 0, 0, 1]


def test_damaged_and_ambiguous_files(tmp_path: Path) -> None:
    write(tmp_path)
    data = (tmp_path / "ia_Paragraph.csv").read_bytes()
    (tmp_path / "ia_Paragraph.csv").unlink()
    packed = tmp_path / "ia_Paragraph.csv.gz"
    packed.write_bytes(gzip.compress(data)[:-20])
    with pytest.raises(DataError, match="damaged or cut"):
        load("onestop", root=tmp_path)
    packed.unlink()
    with pytest.raises(MissingAssetError, match="ia_Paragraph"):
        load("onestop", root=tmp_path)
    for part in ("_ordinary", "_repeated"):
        (tmp_path / f"ia_Paragraph{part}.csv").write_bytes(data)
    with pytest.raises(DataError, match="several parts"):
        load("onestop", root=tmp_path)


def test_reports_without_reader_or_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="'participant_id' is missing"):
        read_report(path, ["a"])
    write(tmp_path)
    report = tmp_path / "ia_Paragraph.csv"
    report.write_text(report.read_text().replace("article_batch", "batch"))
    with pytest.raises(DataError, match="unique_paragraph_id"):
        load("onestop", root=tmp_path)


def test_folds_name_trials_as_the_reports_do(tmp_path: Path) -> None:
    path = tmp_path / "ordinary_trials_labels.csv"
    path.write_text(
        "unique_paragraph_id,participant_id,repeated_reading_trial,is_correct,regime_fold_0,"
        "regime_fold_1\n2_10_Adv_3,l10_202,0,1,test_unseen_subject_seen_item,train_train\n"
    )
    folds = read_folds(path)
    assert folds["trial"].tolist() == ["l10_202_2_10_3_Adv_r0"] * 2
    assert folds["fold"].tolist() == ["0", "1"]
    assert folds["part"].tolist() == ["test", "train"]
    assert folds["regime"].fillna("").tolist() == ["unseen_reader", ""]
    path.write_text("unique_paragraph_id,regime_fold_0\n2_10,train_train\n")
    with pytest.raises(DataError, match="not the table of EyeBench folds"):
        read_folds(path)


def test_the_slice_in_the_layout_of_the_release(shared_data: Path, tmp_path: Path) -> None:
    for name in ("fixations", "ia"):
        source = shared_data / "onestop_slice" / f"{name}.csv.gz"
        (tmp_path / f"{name}_Paragraph.csv.gz").write_bytes(source.read_bytes())
    labels = shared_data / "onestop_slice" / "ordinary_trials_labels.csv.gz"
    (tmp_path / labels.name).write_bytes(labels.read_bytes())
    dataset = load("onestop", root=tmp_path)
    known = load("onestop_slice", root=shared_data)
    assert dataset.words.equals(known.words) and dataset.trials.equals(known.trials)
    ours, theirs = (d.fixations.drop(columns="dataset") for d in (dataset, known))
    assert ours.equals(theirs) and dataset.info["counts"]["word_rows"] == 3310
    folds = dataset.reports["folds"]
    assert len(folds) == 97180
    one = folds[folds["fold"] == "0"]["is_correct"]
    assert (int(one.sum()), int((~one).sum())) == (7890, 1828)
