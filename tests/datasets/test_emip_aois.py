"""EMIP toolkit tables: files of our own in the published layout, and the real ones."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.errors import DataError, MissingAssetError

NAMES = "Participant Timeline TOI Interval Media AOI Number_of_fixations Time_to_first_fixation Dys"
HEAD = "\t".join(NAMES.split()) + "\n"


def _write(folder: Path, name: str, rows: list[str], head: str = HEAD) -> None:
    (folder / "mcchesney_aoi_metrics").mkdir(exist_ok=True)
    (folder / "mcchesney_aoi_metrics" / name).write_text(head + "".join(f"{r}\n" for r in rows))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    line = "Participant007\tTimeline1\tP1Ca\t1\tP1Ca\t{}\t{}\t{}\tyes"
    rows = [
        line.format("null", 3, 120),
        line.format("i++", 0, ""),
        line.format("P1-Whole-F", 9, 50),
    ]
    _write(tmp_path, "P1Ca.tsv", rows)
    _write(tmp_path, "P1Ca-05s.tsv", rows[:2])
    (tmp_path / "emip_tokens").mkdir()
    (tmp_path / "emip_tokens" / "vehicle.tsv").write_text(
        "stimulus_file\ttoken\tAOI\tsyntactic_context\n"
        "Vehicle.java\tnull\tline 1 part 1\tclass\n"
        'Vehicle.java\t"NA"\tline 1 part 2\t\n'
        "Vehicle.java\t;\tline 2 part 1\tclass->block\n"
    )
    (tmp_path / "mcchesney_stimuli").mkdir()
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 1280, 720)
    (tmp_path / "mcchesney_stimuli" / "01_P1Ca.png").write_bytes(head + b"\x08\x06\x00\x00\x00")
    return tmp_path


def _load(folder: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("emip_aois", root=folder)


def test_empty_cells_mean_never(tiny: Path) -> None:
    ds = _load(tiny)
    areas = ds.reports["areas"]
    never = areas[areas["word"] == "i++"]
    assert never["Time_to_first_fixation"].isna().all()
    assert never["Number_of_fixations"].tolist() == [0, 0]  # a count is 0, not missing
    assert [x.count for x in ds.lost if "never fixated" in x.reason] == [2]
    assert areas["window"].dropna().unique().tolist() == [5.0]


def test_null_is_a_token(tiny: Path) -> None:
    ds = _load(tiny)
    tokens = ds.words[ds.words["layout"] == "Vehicle.java"]
    assert tokens["text"].tolist() == ["null", '"NA"', ";"]
    assert tokens["line"].tolist() == [0, 0, 1] and tokens["part"].tolist() == [0, 1, 0]
    assert tokens["word"].tolist()[0] == "line 1 part 1"
    assert ds.stimuli["Vehicle.java"]["text"] == 'null "NA"\n;'
    assert "null" in set(ds.words.loc[ds.words["layout"] == "P1Ca", "word"])


def test_one_trial_per_person_and_display(tiny: Path) -> None:
    ds = _load(tiny)
    assert ds.trials["trial"].tolist() == ["P1Ca_Participant007"]
    assert ds.trials["condition"].tolist() == ["crowded"]
    assert len(ds.words[ds.words["layout"] == "P1Ca"]) == 3  # the windows have the same areas
    assert ds.stimuli["P1Ca"]["size"] == (1280, 720)
    assert len(ds.fixations) == 0 and str(ds.fixations["x"].dtype) == "float64"


def test_a_health_attribute_is_not_read(tiny: Path) -> None:
    ds = _load(tiny)
    assert "Dys" not in ds.reports["areas"] and "Dys" not in ds.trials
    assert ds.lost.count("areas", "dropped") == 2


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("P1Ca.tsv", ["P\tT\tP1Ca\t1\tP1Ca\ta\t1\tsoon\tno"], "'soon'"),
        ("P1Ca.tsv", ["P\tT\tP1Ca\t1\tP1Ca\ta\t1\t2\tno"] * 2, "stands twice"),
        ("Q1.tsv", ["P\tT\tP1Ca\t1\tP1Ca\ta\t1\t2\tno"], "neither program nor layout"),
    ],
)
def test_damaged_tables(tiny: Path, name: str, rows: list[str], message: str) -> None:
    _write(tiny, name, rows)
    with pytest.raises(DataError, match=message):
        _load(tiny)


@pytest.mark.parametrize("place", ["line 1", "line x part 1", "", "Line 1 part 1"])
def test_a_place_that_is_none(tiny: Path, place: str) -> None:
    path = tiny / "emip_tokens" / "vehicle.tsv"
    path.write_text(path.read_text() + f"Vehicle.java\tx\t{place}\t\n")
    with pytest.raises(DataError, match="row 5"):
        _load(tiny)


def test_a_picture_that_is_none(tiny: Path) -> None:
    (tiny / "mcchesney_stimuli" / "01_P1Ca.png").write_bytes(b"GIF89a")
    with pytest.raises(DataError, match="PNG"):
        _load(tiny)


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(MissingAssetError, match="emip_tokens"):
        load("emip_aois", root=tmp_path)


def test_real_counts(shared_data: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = load("emip_aois", root=shared_data / "emip_aois")
    areas = ds.reports["areas"]
    assert len(areas) == 9818 and areas["file"].nunique() == 24
    assert ds.info["counts"]["area_columns"] == 39
    assert areas["Time_to_first_fixation"].isna().sum() == 5534
    assert len(ds.participants) == 30 and len(ds.trials) == 90
    assert (ds.trials.groupby("participant")["program"].nunique() == 3).all()
    assert not ds.trials.duplicated(["participant", "program"]).any()
    sizes = ds.words.groupby("layout").size().to_dict()
    assert sizes == {
        "P1Ca": 11,
        "P1Sa": 11,
        "P2Ca": 29,
        "P2Sa": 29,
        "P3Ca": 42,
        "P3Sa": 42,
        "Rectangle.java": 144,
        "Vehicle.java": 112,
    }
    people = ds.trials["stimulus"].value_counts().to_dict()
    assert people == {"P1Ca": 16, "P1Sa": 14, "P2Ca": 16, "P2Sa": 14, "P3Ca": 15, "P3Sa": 15}
    short = areas[(areas["stimulus"] == "P1Sa") & areas["window"].isin([10, 15])]
    assert short.groupby("window")["participant"].nunique().tolist() == [13, 13]
    pictures = [s for s in ds.stimuli.values() if "image" in s]
    assert len(pictures) == 4 and all(s["size"] == (1280, 720) for s in pictures)
    assert ds.info["licence"] == "none found"
    totals = [c for c in areas if str(c).startswith("Number_of")]
    assert areas[totals].notna().all().all()
    assert pd.api.types.is_float_dtype(areas["Duration_of_first_fixation"])
