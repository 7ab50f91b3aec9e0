"""Provo, GECO, EMTeC, IITB-HGC, ZuCo and Reading Brain on tiny files; see `.reading_files`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets import load
from gazeattn.errors import DataError, MissingAssetError

from . import reading_files as files
from .reading_files import change, lost, made, put, table, texts

pytestmark = [
    pytest.mark.filterwarnings("ignore:data set:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is not the file that the page:UserWarning"),
]


# Provo, GECO


def test_provo_encoding_missing_marks_and_the_repeated_passage(tmp_path: Path) -> None:
    dataset = made("provo", tmp_path)
    assert texts(dataset, "1")[0] == "It\u2019s"  # 0xD5 in Mac Roman, another letter elsewhere
    assert lost(dataset, "show a passage a second time") == 1
    assert "Sub01_56" not in set(dataset.trials["trial"])
    third = dataset.fixations.query("trial == 'Sub01_1'").iloc[2]
    assert third[["x", "y", "word"]].isna().all() and third["onset"] == 500
    box = dataset.words.query("stimulus == '1'")[["left", "top", "right", "bottom"]].iloc[1]
    assert box.tolist() == [200, 380, 300, 420]
    eyelink = dataset.reports["eyelink"].query("trial == 'Sub01_2' and word == '2'")
    assert eyelink["IA_DWELL_TIME"].isna().all()
    again = load("provo", root=tmp_path, repeated=True)
    assert again.trials.set_index("trial")["repeated"]["Sub01_56"]
    assert len(again.trials) == 10 and again.info["edition"] != "release"
    (tmp_path / "Provo_Corpus-Eyetracking_Data.csv").unlink()
    alone = load("provo", root=tmp_path)
    assert texts(alone, "1") == ["It\u2019s", "now"] and lost(alone, "nobody fixated") == 3


def test_provo_tables_that_name_other_passages(tmp_path: Path) -> None:
    files.provo(tmp_path)
    path = tmp_path / "Provo_Corpus-Eyetracking_Data.csv"
    change(path, "Sub01,2,1,1,", "Sub01,2,3,9,", "mac_roman")
    with pytest.raises(DataError, match="different passages in one trial"):
        load("provo", root=tmp_path)


def test_geco_has_measures_and_no_fixations(tmp_path: Path) -> None:
    dataset = made("geco", tmp_path)
    assert len(dataset.fixations) == 0 and str(dataset.fixations["duration"].dtype) == "float64"
    have = dataset.capabilities
    assert not have["has_xy"] and not have["has_time"] and have["has_words"]
    measures = dataset.reports["measures"].set_index(["trial", "word"])
    row = measures.loc[("pp21_en_1-1", "1")]
    assert row["text"] == "The" and row["first_fixation_duration"] == 200 and row["skip"] == 0
    skipped = measures.loc[("pp21_en_1-1", "2")]
    assert skipped["text"] == "null" and skipped["skip"] == 1 and skipped["fixation_count"] == 0
    assert skipped[["first_fixation_duration", "total_reading_time"]].isna().all()
    assert lost(dataset, "no-break blanks") == 12  # one word in each of 12 trials
    assert set(dataset.trials["language"]) == {"en", "nl"}
    only = load("geco", root=tmp_path, parts="L1")
    assert only.participants == ["pp01"] and set(only.trials["language"]) == {"nl"}
    with pytest.raises(DataError, match="option parts"):
        load("geco", root=tmp_path, parts=["L3"])


def test_geco_workbook_cells_that_are_no_text(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(files.GECO)
    for row in files.geco_rows("pp21") + files.geco_rows("pp22"):
        book.active.append([{"null": True, "is": 1920}.get(c, c) for c in row])
    book.save(tmp_path / "MonolingualReadingData.xlsx")
    dataset = load("geco", root=tmp_path)
    assert texts(dataset, "en_1-1") == ["The", "TRUE", "hypothesis"]
    assert texts(dataset, "en_1-2") == ["NA", "1920", "not", "nan"]
    assert lost(dataset, "took for truth values") == 2
    measures = dataset.reports["measures"]
    assert measures["total_reading_time"].isna().sum() == 6
    (tmp_path / "MonolingualReadingData.xlsx").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(DataError, match="not a readable workbook"):
        load("geco", root=tmp_path)


def test_geco_one_number_for_two_people(tmp_path: Path) -> None:
    put(tmp_path / "MonolingualReadingData.csv", table(files.GECO, files.geco_rows("pp01"), ","))
    put(tmp_path / "L2ReadingData.csv", table(files.GECO, files.geco_rows("pp01"), ","))
    dataset = load("geco", root=tmp_path)
    assert dataset.participants == ["pp01", "pp01_bilingual"]
    assert lost(dataset, "ids of both samples") == 1


# EMTeC, IITB-HGC


def test_emtec_tables_never_stand_in_for_each_other(tmp_path: Path) -> None:
    dataset = made("emtec", tmp_path)
    original = load("emtec", root=tmp_path, fixations="original")
    for one, word in ((dataset, "2"), (original, "1")):
        rows = one.fixations.query("trial == 'ET_01_item01'")
        assert rows["word"].tolist()[:2] == ["0", word] and pd.isna(rows["word"].iloc[2])
        measures = one.reports["measures"].query("trial == 'ET_01_item01'").set_index("word")
        assert measures["total_reading_time"][word] == 180
        assert np.isnan(measures["first_fixation_duration"][{"2": "1", "1": "2"}[word]])
    assert dataset.info["fixation_kind"] == "corrected"
    boxes = dataset.words.query("stimulus == 'phi2_top-k_item01'")
    assert boxes[["left", "top", "right", "bottom"]].iloc[1].tolist() == [175, 190, 255, 243]
    (tmp_path / "fixations_corrected.csv").unlink()
    with pytest.raises(MissingAssetError, match="'original' is there, and is another table"):
        load("emtec", root=tmp_path)


@pytest.mark.parametrize("as_text", [False, True])
def test_iitb_words_by_number(as_text: bool, tmp_path: Path) -> None:
    files.iitb_hgc(tmp_path, as_text)
    dataset = load("iitb_hgc", root=tmp_path)
    assert texts(dataset, "1") == ["Claim:", "null", "was", "NA"]
    assert texts(dataset, "3") == ["She", "went", "with\u00a0Andy", "home"]
    assert lost(dataset, "recording joined") == 1
    check = dataset.reports["text_check"]  # the pair differs, the words behind it still fit
    assert check.to_numpy().tolist() == [["2", "3", "$1,750", "$\u00a01,750.00", 3]]
    assert dataset.trials.set_index("trial")["correct"].to_dict()["p02_1"] is False
    assert "x" not in dataset.fixations and not dataset.capabilities["has_xy"]
    assert dataset.info["counts"]["judged_right"] == 6


def test_iitb_lists_that_are_code_are_not_run(tmp_path: Path) -> None:
    files.iitb_hgc(tmp_path)
    record = json.loads((tmp_path / "IITB_HGC.jsonl").read_text().splitlines()[0])
    record["fixation_seqs"] = "[__import__('os').getpid()]"
    put(tmp_path / "IITB_HGC.jsonl", json.dumps(record) + "\n")
    with pytest.raises(DataError, match="fixation_seqs is no list"):
        load("iitb_hgc", root=tmp_path)


# ZuCo, Reading Brain


def test_zuco1_sentences_layouts_and_tokens(tmp_path: Path) -> None:
    dataset = made("zuco1", tmp_path)
    trials = dataset.trials.set_index("trial")
    assert "ZDN_SR_002" not in trials.index and lost(dataset, "not read") == 1
    assert (
        trials["layout"]["ZDM_SR_001"] == "SR_001/2" and trials["layout"]["ZAB_SR_001"] == "SR_001"
    )
    boxes = dataset.words.set_index(["layout", "word"])["left"]
    assert boxes[("SR_001", "1")] == 100 and boxes[("SR_001/2", "1")] == 107
    assert texts(dataset, "NR_001") == ["empty", "null", "film."]
    assert lost(dataset, "emp11111ty") == 2
    rows = dataset.fixations.query("trial == 'ZAB_SR_001'")
    assert rows["off_screen"].tolist() == [False, True, False]  # x 850 of 800
    assert rows["pupil"].tolist() == [700, 701, 702]
    measures = dataset.reports["measures"].query("trial == 'ZAB_SR_001'")
    assert measures["total_reading_time"].tolist()[::2] == [200, 180]
    assert np.isnan(measures["total_reading_time"].iloc[1])
    doubled = load("zuco1", root=tmp_path, tasks="SR", ms_per_unit=2)
    assert doubled.fixations["duration"].iloc[0] == 400 and set(doubled.trials["task"]) == {"SR"}
    assert lost(dataset, "check ms_per_unit") == 0
    halved = load("zuco1", root=tmp_path, ms_per_unit=0.5)  # 100, 75 and 90
    assert lost(halved, "the usual fixation lasts 90 ms") == len(halved.fixations)


def test_zuco_words_that_name_absent_fixations(tmp_path: Path) -> None:
    sentence = files.zuco_sentence(files.TEXTS[1])
    sentence["positions"][2] = [4]
    files.zuco_v7(tmp_path / "resultsZAB_SR.mat", [sentence])
    dataset = load("zuco1", root=tmp_path)
    assert lost(dataset, "the sentence does not have") == 1
    assert dataset.fixations["word"].isna().tolist() == [False, True, True]
    sentence["bounds"] = sentence["bounds"][:2]
    files.zuco_v7(tmp_path / "resultsZAB_SR.mat", [sentence])
    dataset = load("zuco1", root=tmp_path)
    assert lost(dataset, "not as many as their words") == 1 and dataset.words["left"].isna().all()
    sentence["positions"] = [[1], [1, 2], [3]]
    files.zuco_v7(tmp_path / "resultsZAB_SR.mat", [sentence])
    dataset = load("zuco1", root=tmp_path)
    assert dataset.fixations["word"].tolist() == ["0", "1", "2"]
    assert lost(dataset, "listed under two words") == 1


def test_zuco2_blocks_and_the_reader_who_is_left_out(tmp_path: Path) -> None:
    dataset = made("zuco2", tmp_path)
    assert dataset.participants == ["YAC", "YAG"] and lost(dataset, "reader YMH") == 1
    trials = dataset.trials.query("participant == 'YAC'")
    assert trials["block"].tolist() == [2, 2, 7]
    assert trials["repeats_zuco1"].tolist() == [False, False, True]
    without = load("zuco2", root=tmp_path, repeated=False)
    assert lost(without, "repeat those of ZuCo 1") == 2
    assert set(without.trials["stimulus"]) == {"NR_001", "NR_002"} == set(without.stimuli)
    for path in (tmp_path / "task_materials").iterdir():
        path.unlink()
    assert load("zuco2", root=tmp_path).trials["repeats_zuco1"].isna().all()
    with pytest.raises(MissingAssetError, match="repeated=False needs them"):
        load("zuco2", root=tmp_path, repeated=False)


def test_zuco_the_two_kinds_of_file_are_read_alike(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    sentences = [files.zuco_sentence(t) for t in files.TEXTS.values()]
    files.zuco_v7(tmp_path / "a/resultsZAB_NR.mat", [*sentences, None])
    files.zuco_v73(tmp_path / "b/resultsZAB_NR.mat", [*sentences, None])
    a, b = (load("zuco1", root=tmp_path / f) for f in "ab")
    pd.testing.assert_frame_equal(a.fixations, b.fixations)
    pd.testing.assert_frame_equal(a.words, b.words)
    assert lost(a, "not read") == lost(b, "not read") == 1


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0 MAT-file cut", b"\x89HDF\r\n\x1a\ncut"])
def test_zuco_damaged_files(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    (tmp_path / "resultsZAB_SR.mat").write_bytes(content)
    with pytest.raises(DataError, match=r"resultsZAB_SR\.mat"):
        load("zuco1", root=tmp_path)


def test_reading_brain_groups_and_missing_marks(tmp_path: Path) -> None:
    dataset = made("reading_brain", tmp_path)
    assert dataset.participants == ["L1_sub-01", "L1_sub-02", "L2_sub-01"]
    assert lost(dataset, "between two sentences") == 9
    rows = dataset.fixations.query("trial == 'L1_sub-01_t.03.01'")
    assert rows["onset"].tolist() == [0, 95, 272] and rows["duration"].tolist() == [70, 165, 270]
    assert rows["onset_in_run"].iloc[0] == 9537
    assert dataset.trials["article"].unique().tolist() == ["03", "04"]
    assert dataset.info["edition"] == "both groups"
    assert lost(dataset, "nobody fixated them") == 3
    learner = load("reading_brain", root=tmp_path, group="L2")
    assert learner.participants == ["L2_sub-01"] and learner.info["edition"] == "L2"


def test_two_fixations_with_one_number_keep_the_order_of_the_file(tmp_path: Path) -> None:
    files.emtec(tmp_path)
    change(
        tmp_path / "fixations_corrected.csv",
        "ET_02\titem01\tphi2\ttop-k\t1\t3\t",
        "ET_02\titem01\tphi2\ttop-k\t1\t2\t",
    )
    dataset = load("emtec", root=tmp_path)
    assert lost(dataset, "two fixations have one number") == 1
    rows = dataset.fixations.query("trial == 'ET_02_item01'")
    assert rows["duration"].tolist() == [200, 180, 90] and rows["index"].tolist() == [0, 1, 2]
