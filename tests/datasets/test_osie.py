"""OSIE: a MATLAB file of our own in the published layout, and the real one."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from gazeattn.datasets import load
from gazeattn.datasets.osie import read_mat
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.losses import LossLog


def _struct(x: list, y: list, d: list, kind: type) -> dict:
    return {
        "fix_x": np.array([x], dtype=float),
        "fix_y": np.array([y]),
        "fix_duration": np.array([d], dtype=kind),
    }


def _write(folder: Path, images: dict[str, list[dict]]) -> Path:
    cells = np.empty((len(images), 1), dtype=object)
    for i, (name, people) in enumerate(images.items()):
        subjects = np.empty((len(people), 1), dtype=object)
        for k, person in enumerate(people):
            subjects[k, 0] = person
        cells[i, 0] = {"img": name, "subjects": subjects}
    savemat(folder / "fixations.mat", {"fixations": cells}, do_compression=True)
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    _write(
        tmp_path,
        {
            "1001.jpg": [
                _struct([1.0, 800.0, 400.5], [1.0, 600.0, 300.0], [200, 100, 50], np.uint8),
                _struct([10.0], [20.0], [300], np.uint16),
            ],
            "1002.jpg": [
                _struct([5.5, 7.5], [2, 3], [260, 270], np.uint16),
                _struct([], [], [], np.uint16),
            ],
        },
    )
    (tmp_path / "stimuli").mkdir()
    (tmp_path / "stimuli" / "1001.jpg").write_bytes(b"jpg")
    return tmp_path


def test_published_layout(tiny: Path) -> None:
    with pytest.warns(UserWarning) as caught:
        ds = load("osie", root=tiny)
    assert any("participants: 15 expected" in str(w.message) for w in caught)
    assert ds.fixations.groupby("trial").size().to_dict() == {
        "1001_01": 3,
        "1001_02": 1,
        "1002_01": 2,
    }
    assert list(ds.trials["trial"]) == ["1001_01", "1001_02", "1002_01", "1002_02"]
    assert len(ds.words) == 0 and str(ds.words["word"].dtype) == "str"
    assert ds.stimuli["1001"]["image"] == str(tiny / "stimuli" / "1001.jpg")
    assert "image" not in ds.stimuli["1002"] and ds.stimuli["1002"]["size"] == (800, 600)
    assert ds.lost.count("trials", "undefined") == 1  # the empty scanpath stays a trial
    assert ds.info["units"] == "objects" and ds.info["licence"].startswith("MIT")


def test_narrow_whole_numbers_do_not_overflow(tiny: Path) -> None:
    ds = load_quietly(tiny)
    sums = ds.fixations.groupby("trial")["duration"].sum()
    assert sums["1001_01"] == 350  # 94 as uint8
    assert sums["1002_01"] == 530
    assert str(ds.fixations["duration"].dtype) == "float64"
    assert (ds.fixations["y"].diff().abs() < 1000).iloc[1:].all()


def test_pixels_counted_from_1(tiny: Path) -> None:
    f = load_quietly(tiny).fixations
    first = f[f["trial"] == "1001_01"]
    assert first["x"].tolist() == [0.5, 799.5, 400.0]
    assert first["x_published"].tolist() == [1.0, 800.0, 400.5]
    # the pixel is the published value rounded, minus 1; the last one is still inside
    assert np.floor(first["x"]).tolist() == [0, 799, 400]
    assert not first["off_screen"].any()


@pytest.mark.parametrize("published", [0.4, 800.5, 801.0])
def test_beyond_the_picture_is_off_screen(tmp_path: Path, published: float) -> None:
    _write(tmp_path, {"1001.jpg": [_struct([published], [10.0], [100], np.uint16)]})
    f = load_quietly(tmp_path).fixations
    assert f["off_screen"].tolist() == [True]
    assert f["x_published"].tolist() == [published]


def test_unequal_columns_are_an_error(tmp_path: Path) -> None:
    _write(tmp_path, {"1001.jpg": [_struct([1.0, 2.0], [1.0, 2.0], [100], np.uint16)]})
    with pytest.raises(DataError, match=r"unequal numbers.*2, 2, 1"):
        load_quietly(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 200, b"MATLAB 5.0 MAT-file" + b" " * 200])
def test_damaged_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fixations.mat").write_bytes(content)
    with pytest.raises(DataError, match=r"fixations\.mat"):
        read_mat(tmp_path / "fixations.mat", LossLog())


@pytest.mark.parametrize("at", [140, 200, 300, -20])
def test_a_damaged_part_is_found_before_it_is_parsed(tiny: Path, at: int) -> None:
    path = tiny / "fixations.mat"
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match="damaged or cut at byte 128"):
        load_quietly(tiny)


@pytest.mark.parametrize("left", [130, 140, 250])
def test_a_cut_file(tiny: Path, left: int) -> None:
    path = tiny / "fixations.mat"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DataError, match="not the published file"):
        load_quietly(tiny)


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(MissingAssetError, match=r"fixations\.mat"):
        load("osie", root=tmp_path)


def load_quietly(root: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("osie", root=root)


def test_real_counts(shared_data: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = load("osie", root=shared_data / "osie")
    assert len(ds.participants) == 15 and len(ds.stimuli) == 660
    assert len(ds.trials) == ds.info["counts"]["scanpaths"] == 9900
    assert len(ds.fixations) == 92503
    n = ds.fixations.groupby("trial").size()
    assert (n.min(), n.max()) == (1, 22) and n.mean() == pytest.approx(92503 / 9900)
    assert ds.info["counts"]["single_fixation_scanpaths"] == 6
    d = ds.fixations["duration"]
    assert (d.min(), d.max(), (d < 50).sum(), (d == 0).sum()) == (20, 1975, 2439, 0)
    total = ds.fixations.groupby("trial")["duration"].sum()
    assert (total.min(), total.max()) == (335, 2657)
    f = ds.fixations
    assert (f["x_published"].min(), f["x_published"].max()) == (1.2, 799.2)
    assert (f["y_published"].min(), f["y_published"].max()) == (1.2, 599.2)
    assert not f["off_screen"].any()
    assert all(Path(s["image"]).is_file() for s in ds.stimuli.values())
    assert ds.info["edition"] == "selection" and ds.capabilities["has_images"]


def test_the_matlab_file_and_the_table_agree(shared_data: Path) -> None:
    ds = load("osie", root=shared_data / "osie")
    table = pd.read_parquet(shared_data / "osie" / "fixations.parquet")
    mine = ds.fixations.assign(
        image=ds.fixations["stimulus"] + ".jpg", subject=ds.fixations["participant"].astype(int)
    )
    both = mine.merge(table, on=["image", "subject", "index"], suffixes=("", "_t"), validate="1:1")
    assert len(both) == len(table)
    assert (both["x_published"] == both["x_t"]).all() and (both["y_published"] == both["y_t"]).all()
    assert (both["duration"] == both["duration_ms"]).all()


def test_the_table_alone_is_enough(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "fixations.parquet").write_bytes(
        (shared_data / "osie" / "fixations.parquet").read_bytes()
    )
    ds = load_quietly(tmp_path)
    assert len(ds.fixations) == 92503 and len(ds.trials) == 9900
    assert ds.lost.count("stimuli", "undefined") == 660  # no pictures beside it
