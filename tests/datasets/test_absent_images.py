"""Corpora of pictures, search and code whose files are not at hand: files of our own, by hand."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.mit1003 import read_eye_data
from gazeattn.datasets.nusef import place, read_fix
from gazeattn.errors import DataError, MissingAssetError

from . import made_images as made

NEW = (
    "air_d", "cat2000", "coco_freeview", "coco_search18", "emip", "fifa", "mit1003", "nusef",
    "refcoco_gaze", "salicon",
)  # fmt: skip


def quiet(name: str, root: Path, **options: Any) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load(name, root=root, **options)


@pytest.fixture
def tiny(tmp_path: Path, request: pytest.FixtureRequest) -> GazeDataset:
    made.MAKERS[request.param](tmp_path)
    return quiet(request.param, tmp_path)


# what holds for all of them


@pytest.mark.parametrize("name", sorted(made.MAKERS))
def test_every_maker_makes_what_its_loader_reads(name: str, tmp_path: Path) -> None:
    made.MAKERS[name](tmp_path)
    ds = quiet(name, tmp_path)
    assert len(ds.trials) and ds.info["folder"] == str(tmp_path)
    if name != "llm_code_attention":  # one set of prompts, no people
        assert len(ds.participants) >= 3 and ds.trials["stimulus"].nunique() >= 3


@pytest.mark.filterwarnings("ignore:.*is not the file that the page")
@pytest.mark.parametrize("name", [n for n in NEW if n not in ("air_d", "refcoco_gaze")])
def test_counts_of_the_whole_corpus_are_expected(name: str, tmp_path: Path) -> None:
    made.MAKERS[name](tmp_path)
    with pytest.warns(UserWarning, match="expected for"):
        load(name, root=tmp_path)


@pytest.mark.parametrize("name", NEW)
def test_absent(name: str, tmp_path: Path) -> None:
    with pytest.raises(MissingAssetError, match="are not on this machine"):
        load(name, root=tmp_path)


@pytest.mark.parametrize("name", NEW)
def test_nothing_unchecked_is_stated_as_a_fact(name: str, tmp_path: Path) -> None:
    made.MAKERS[name](tmp_path)
    ds = quiet(name, tmp_path)
    assert len(ds.info["unverified"]) >= 2
    from gazeattn.datasets.corpus import corpus

    assert all(f.unverified for f in corpus(name).files)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("air_d", "fix/0222/CC.mat"),
        ("fifa", "fixations.mat"),
        ("fifa", "imgList.mat"),
        ("mit1003", "DATA/hp/i1000978947.mat"),
        ("salicon", "train/COCO_train2014_000000000002.mat"),
    ],
)
@pytest.mark.parametrize("how", ["flip", "cut", "empty", "text", "hdf5", "other"])
def test_damaged_matlab_files(name: str, file: str, how: str, tmp_path: Path) -> None:
    made.MAKERS[name](tmp_path)
    path = tmp_path / file
    data = bytearray(path.read_bytes())
    if how == "flip":
        data[160] ^= 0x55
    elif how == "cut":
        data = data[: len(data) // 2]
    elif how == "other":
        savemat(path, {"something": np.ones(3), "else": np.ones(2)}, do_compression=True)
        data = bytearray(path.read_bytes())
    else:
        data = bytearray({"empty": b"", "text": b"hello" * 99}.get(how, b"\x89HDF\r\n\x1a\n"))
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=path.name) as caught:
        quiet(name, tmp_path)
    if how == "hdf5":
        assert "-v7" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("coco_search18", "coco_search18_fixations_TP_train_split1.json"),
        ("coco_search18", "coco_search18_fixations_TA_trainval.json"),
        ("coco_freeview", "COCOFreeView_fixations_trainval.json"),
        ("refcoco_gaze", "refcocogaze_val_correct.json"),
        ("refcoco_gaze", "word-timing.json"),
        ("air_d", "consolidated_answers.json"),
        ("air_d", "val_balanced_questions.json"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"[{", b"\xff\xfe", b'"text"', b"[1, 2]", b"[[]]"])
def test_damaged_json_files(name: str, file: str, content: bytes, tmp_path: Path) -> None:
    made.MAKERS[name](tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DataError, match=file.rsplit("_", 1)[-1]):
        quiet(name, tmp_path)


# MIT1003


@pytest.mark.parametrize("tiny", ["mit1003"], indirect=True)
def test_gaze_samples_and_fixations_of_our_own(tiny: GazeDataset) -> None:
    s = tiny.samples
    assert s is not None and len(s) == 9 * 720
    one = s[s["trial"] == "i1000978947_hp"]
    assert one["time"].iloc[[0, 1, 240]].tolist() == pytest.approx([0, 1000 / 240, 1000])
    assert int(one["x"].isna().sum()) == 24 and tiny.lost.count("samples", "undefined") >= 9 * 24
    f = tiny.fixations[tiny.fixations["trial"] == "i1000978947_hp"]
    # 360 samples of 1000 / 240 ms, a blink of 100 ms, 336 samples
    assert f["duration"].tolist() == pytest.approx([1500, 1400])
    assert f["onset"].tolist() == pytest.approx([0, 1600])
    assert f["x"].tolist() == [400, 100.5] and f["y"].tolist() == [300, 50]
    assert f["forced"].tolist() == [True, False]
    assert f["off_screen"].tolist() == [True, False]  # the picture is 102 x 76
    assert tiny.info["fixations_by"] == "our I-DT: 35 pixels, 100 ms"
    assert any("computed, not published" in x.reason for x in tiny.lost)
    assert tiny.info["edition"] == "samples" and tiny.participants == ["CNG", "ajs", "hp"]
    # the size of the other pictures is not known
    other = tiny.fixations["stimulus"] != "i1000978947"
    assert tiny.fixations.loc[other, "off_screen"].isna().all()


def test_a_trial_that_begins_without_gaze_has_no_known_forced_fixation(tmp_path: Path) -> None:
    eye = made.eye_data()
    made.mit_file(tmp_path, "ajs", "late", np.concatenate([np.full((30, 2), -1.0), eye[:400]]))
    made.mit_file(tmp_path, "ajs", "good", eye)
    f = quiet("mit1003", tmp_path).fixations
    assert f.loc[f["trial"] == "late_ajs", "forced"].isna().tolist()[0]
    assert f.loc[f["trial"] == "good_ajs", "forced"].tolist() == [True, False]


def test_long_names_are_cut_by_matlab(tmp_path: Path) -> None:
    path = made.mit_file(tmp_path, "hp", made.MIT_LONG)
    assert len(path.stem) == 68
    assert read_eye_data(path).shape == (720, 2)


@pytest.mark.parametrize("columns", [2, 3])
def test_eye_data_with_and_without_a_state(columns: int, tmp_path: Path) -> None:
    eye = np.column_stack([made.eye_data(), np.ones(720)])[:, :columns]
    assert read_eye_data(made.mit_file(tmp_path, "hp", "a", eye)).shape == (720, 2)


def test_a_person_without_any_gaze_stays_a_trial(tmp_path: Path) -> None:
    made.mit_file(tmp_path, "hp", "a", np.full((720, 2), -3.0))
    made.mit_file(tmp_path, "hp", "b")
    ds = quiet("mit1003", tmp_path)
    assert ds.trials["trial"].tolist() == ["a_hp", "b_hp"]
    assert ds.fixations["trial"].unique().tolist() == ["b_hp"]


def test_the_authors_fixations_beside_the_samples(tmp_path: Path) -> None:
    made.mit1003(tmp_path)
    (tmp_path / "fixations.csv").write_text(
        "subject,stimulus,x,y,start,duration\n"
        "hp,i1000978947.jpeg,50,38,1,150\nhp,i1000978947,-4,20,61,200\nhp,i1000978947,101,75,121,90\n"
    )
    ds = quiet("mit1003", tmp_path)
    f = ds.fixations
    assert ds.info["fixations_by"] == "the authors' checkFixations"
    assert ds.info["edition"] == "authors" and len(ds.trials) == 9
    assert f["onset"].tolist() == pytest.approx([0, 250, 500])  # 60 samples of 240 a second
    assert f["duration"].tolist() == [150, 200, 90]
    assert f["off_screen"].tolist() == [False, True, False]  # kept and counted
    assert ds.info["counts"]["inside_without_forced"] == 1
    quick = quiet("mit1003", tmp_path, samples=False)
    assert quick.samples is None and len(quick.trials) == 1
    assert quick.fixations["onset"].equals(f["onset"])


def test_a_table_of_fixations_of_another_shape(tmp_path: Path) -> None:
    made.mit1003(tmp_path)
    (tmp_path / "fixations.csv").write_text("subject,stimulus,x,y,start\nhp,a,1,2,3\n")
    with pytest.raises(DataError, match="duration"):
        quiet("mit1003", tmp_path)
    (tmp_path / "fixations.csv").write_text("subject,stimulus,x,y,start,duration\nhp,a,q,2,3,4\n")
    with pytest.raises(DataError, match="row 2"):
        quiet("mit1003", tmp_path)


# CAT2000


@pytest.mark.parametrize("tiny", ["cat2000"], indirect=True)
def test_one_based_positions_and_repeats(tiny: GazeDataset) -> None:
    f = tiny.fixations[tiny.fixations["trial"] == "Action_002_AB"]
    assert f["x"].tolist()[:3] == [0, 1919, 1920.5] and np.isnan(f["x"].iloc[3])
    assert f["y"].tolist()[:3] == [0, 1079, 19]
    assert f["x_published"].tolist()[:3] == [1, 1920, 1921.5]
    assert f["off_screen"].tolist()[:3] == [False, False, True] and f["off_screen"].isna().iloc[3]
    assert f["index"].tolist() == [0, 1, 2, 3]
    assert tiny.lost.count("fixations", "dropped") == 9  # one repeat in each of nine
    # as published: (1, 1) twice; moved by 1: (0, 0) once and (1919, 1079)
    assert tiny.info["counts"]["inside_as_published"] == 9 * 2
    assert tiny.info["counts"]["inside"] == 9 * 2
    assert tiny.participants == ["AB", "CD", "EF"]
    assert sorted(tiny.stimuli) == ["Action_002", "Action_010", "Art_001"]
    assert set(tiny.trials["category"]) == {"Action", "Art"}
    assert "duration" not in tiny.fixations


def test_repeats_can_be_kept(tmp_path: Path) -> None:
    made.cat2000(tmp_path)
    ds = quiet("cat2000", tmp_path, repeats=True)
    assert len(ds.fixations) == 45 and ds.lost.count("fixations", "dropped") == 0


def test_the_published_map_says_how_to_convert_it(tmp_path: Path) -> None:
    (tmp_path / "trainSet").mkdir()
    (tmp_path / "trainSet" / "allFixData.mat").write_bytes(b"MATLAB 5.0 MAT-file")
    with pytest.raises(DataError, match=r"containers\.Map.*allFixData\.csv.*keys\(allData\)"):
        quiet("cat2000", tmp_path)


def test_pictures_that_do_not_fit_the_numbers_are_not_guessed(tmp_path: Path) -> None:
    made.cat2000(tmp_path)
    (tmp_path / "trainSet" / "Stimuli" / "Art" / "001.jpg").unlink()
    ds = quiet("cat2000", tmp_path)
    assert sorted(ds.stimuli) == ["image_0001", "image_0002", "image_0003"]
    assert not ds.capabilities["has_images"] and ds.trials["category"].isna().all()


def test_maps_of_saliency_beside_the_pictures_are_no_pictures(tmp_path: Path) -> None:
    made.cat2000(tmp_path)
    made.picture(tmp_path / "trainSet" / "Stimuli" / "Action" / "Output" / "002_map.jpg", 4, 4)
    assert len(quiet("cat2000", tmp_path).stimuli) == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [("0,k,x-1-A.eye,1,1", "whole number"), ("1.5,k,x-1-A.eye,1,1", "whole number"),
     ("a,k,x-1-A.eye,1,1", "whole number"), ("1,k,nobody,1,1", "names no person"),
     ("1,k,x-1-A.eye,q,1", "not a readable table"), ("1,k,x-1-A.eye,1", "not a readable table")],
)  # fmt: skip
def test_damaged_table_of_cat2000(row: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "trainSet").mkdir()
    text = f"number,key,name,x,y\n1,k,x-1-B.eye,1,1\n{row}\n"
    (tmp_path / "trainSet" / "allFixData.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        quiet("cat2000", tmp_path)


# SALICON


@pytest.mark.parametrize("tiny", ["salicon"], indirect=True)
def test_mouse_fixations(tiny: GazeDataset) -> None:
    f = tiny.fixations
    one = f[f["stimulus"] == "COCO_train2014_000000000002"]
    # stored as uint16, 1 to 640: the first pixel becomes 0, without wrapping around
    assert one["x"].tolist() == [0, 639, 640] and one["y"].tolist() == [0, 479, 9]
    assert one["off_screen"].tolist() == [False, False, True]
    assert one["x_published"].tolist() == [1, 640, 641]
    assert not tiny.capabilities["has_time"] and tiny.samples is None
    assert len(tiny.trials) == 12 == len(tiny.participants)  # nobody is named
    assert tiny.info["counts"]["images_train"] == 3 and tiny.info["counts"]["images_val"] == 1
    part = tiny.reports["folds"].set_index("trial")
    assert part.loc["COCO_val2014_000000000009_001", ["part", "regime"]].tolist() == [
        "val",
        "unseen_both",
    ]
    assert tiny.lost.count("trials", "undefined") >= 4  # the empty scanpaths stay trials


def test_mouse_samples(tmp_path: Path) -> None:
    made.salicon(tmp_path)
    s = quiet("salicon", tmp_path, samples=True).samples
    assert s is not None and len(s) == 36
    assert s["time"].tolist()[:3] == [0, 16.5, 33] and s["x"].tolist()[:3] == [0, 1, 3]


def test_another_resolution_is_refused(tmp_path: Path) -> None:
    made.salicon_file(tmp_path, "train", "a", [[(1, 1)]], resolution=np.array([[640, 480]]))
    with pytest.raises(DataError, match="another size"):
        quiet("salicon", tmp_path)


def test_a_picture_that_nobody_saw(tmp_path: Path) -> None:
    made.salicon(tmp_path)
    path = made.salicon_file(tmp_path, "train", "COCO_train2014_000000000008", [])
    assert path.is_file()
    assert len(quiet("salicon", tmp_path).trials) == 12


# NUSEF


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(1024, 768, (1, 0, 0)), (512, 384, (2, 0, 0)), (2048, 1024, (0.5, 0, 128)),
     (384, 768, (1, 320, 0)), (768, 1536, (0.5, 320, 0))],
)  # fmt: skip
def test_place_of_a_picture_on_the_screen(width: int, height: int, expected: tuple) -> None:
    assert place(width, height) == expected


@given(st.floats(100, 4000), st.floats(100, 4000))
def test_a_picture_touches_two_borders_and_never_leaves_the_screen(w: float, h: float) -> None:
    scale, left, top = place(w, h)
    assert left >= -1e-9 and top >= -1e-9 and min(abs(left), abs(top)) < 1e-9
    assert left * 2 + w * scale == pytest.approx(1024)
    assert top * 2 + h * scale == pytest.approx(768)


@pytest.mark.parametrize("tiny", ["nusef"], indirect=True)
def test_tracker_grid_to_screen_to_picture(tiny: GazeDataset) -> None:
    f = tiny.fixations
    one = f[f["trial"] == "1001_01"]  # 512 x 384, shown at twice its size
    assert one["x_screen"].tolist() == [512, 0] and one["y_screen"].tolist() == [384, 0]
    assert one["x"].tolist() == [256, 0] and one["y"].tolist() == [192, 0]
    assert one["x_published"].tolist() == [130, 0] and one["y_published"].tolist() == [140, 0]
    assert one["off_screen"].tolist() == [False, False]
    wide = f[f["trial"] == "1002_01"]  # 2048 x 1024, at half its size, 128 pixels down
    assert wide["x"].tolist() == [1024, 0] and wide["y"].tolist() == [512, -256]
    assert wide["off_screen"].tolist() == [False, True]
    lone = f[f["trial"] == "2001_01"]  # not distributed
    assert lone["x"].isna().all() and lone["x_screen"].tolist() == [512, 0]
    assert lone["off_screen"].isna().all()
    assert one["onset"].tolist() == pytest.approx([0, 300])
    assert one["duration"].tolist() == pytest.approx([250, 300])
    assert one["pupil"].tolist()[0] == 55 and np.isnan(one["pupil"].iloc[1])
    assert len(tiny.participants) == 9  # numbers of people do not agree between pictures
    assert tiny.trials["number"].tolist() == ["01", "02", "03"] * 3


def test_fix_files_without_rows_and_past_midnight(tmp_path: Path) -> None:
    made.nusef_file(tmp_path, "a", "01+x.fix", made.fix_text([]))
    late = [("23:59:59.900", 0.2, 1, 1, 9), ("00:00:00.200", 0.1, 2, 2, 9)]
    made.nusef_file(tmp_path, "a", "02+x.fix", made.fix_text(late))
    ds = quiet("nusef", tmp_path)
    assert ds.trials["trial"].tolist() == ["a_01", "a_02"] and len(ds.fixations) == 2
    assert ds.fixations["onset"].isna().tolist() == [False, True]  # not minus a day


def test_two_recordings_of_one_number(tmp_path: Path) -> None:
    for name in ("s01+1.fix", "s01+2.fix"):
        made.nusef_file(tmp_path, "a", name, made.fix_text(made.NUSEF))
    assert quiet("nusef", tmp_path).trials["trial"].tolist() == ["a_01", "a_01_2"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("COLS=", "ROWS=", "COLS="), (" 20.0 0 0 0", " 20.0 0 0", "number of cells"),
     ("14:20:01.400", "late", "start of a fixation"), (" 0.3 0.05", " x 0.05", "duration of a fix"),
     (" 140 55", " 140y 55", "y of a fixation")],
)  # fmt: skip
def test_damaged_fix_files(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.fix"
    path.write_text(made.fix_text(made.NUSEF).replace(old, new), newline="")
    with pytest.raises(DataError, match=message) as caught:
        read_fix(path)
    if "ROWS" not in new:
        row = 5 if "late" in new or "x 0.05" in new else 4
        assert f"row {row}" in str(caught.value)


# FiFa


@pytest.mark.parametrize("tiny", ["fifa"], indirect=True)
def test_faces(tiny: GazeDataset) -> None:
    f = tiny.fixations
    assert tiny.trials["trial"].tolist()[:3] == ["0001_01", "0001_02", "0001_03"]
    assert sorted(tiny.stimuli) == ["0001", "0002", "0009"]
    one = f[f["trial"] == "0001_01"]
    assert one["x"].tolist() == [512, 1024] and one["duration"].tolist() == [200, 120]
    assert one["off_screen"].tolist() == [False, True]  # 1024 is outside 0 to 1023
    assert f.loc[f["trial"] == "0009_02", "off_screen"].tolist() == [True]
    assert "0002_01" not in set(f["trial"]) and len(tiny.trials) == 9  # nobody looked at it


def test_pictures_without_their_list_are_numbered(tmp_path: Path) -> None:
    made.fifa(tmp_path)
    (tmp_path / "imgList.mat").unlink()
    assert sorted(quiet("fifa", tmp_path).stimuli) == ["0001", "0002", "0003"]
    names = made.cells(["only.jpg"])
    savemat(tmp_path / "imgList.mat", {"imgList": names}, do_compression=True)
    with pytest.raises(DataError, match="fewer pictures"):
        quiet("fifa", tmp_path)


def test_unequal_numbers_of_x_and_durations(tmp_path: Path) -> None:
    people_ = made.cells([{"scan": made.cells([made.fifa_scan([1, 2], [1, 2], [9])])}])
    savemat(tmp_path / "fixations.mat", {"sbj": people_}, do_compression=True)
    with pytest.raises(DataError, match="unequal numbers"):
        quiet("fifa", tmp_path)
