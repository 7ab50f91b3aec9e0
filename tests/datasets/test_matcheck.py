"""The structure of MATLAB files: whole ones pass, damaged ones raise before they are parsed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from gazeattn.datasets.air_d import read_record
from gazeattn.datasets.fifa import read_people
from gazeattn.datasets.matcheck import check_structure
from gazeattn.datasets.matfiles import one_text, read_mat
from gazeattn.datasets.salicon import read_picture
from gazeattn.errors import DataError

from . import made_images as made


def _cells(*values: Any) -> np.ndarray:
    return made.cells(list(values))


CONTENTS: dict[str, Any] = {
    "numbers": np.arange(6.0).reshape(2, 3),
    "one number": 3,
    "bytes": np.arange(5, dtype=np.uint8),
    "complex": np.array([1 + 2j, 3]),
    "logical": np.array([True, False]),
    "nothing": np.zeros((0, 2)),
    "text": "caf\u00e9",
    "texts": np.array(["ab", "cde"]),
    "no text": "",
    "cells": _cells("a", np.ones(3), _cells(1, "b")),
    "struct": {"a": 1, "b": {"c": np.ones((2, 2)), "d_e": "x"}},
    "three dimensions": np.ones((2, 3, 4)),
}


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", CONTENTS)
def test_whole_files_pass(name: str, packed: bool, tmp_path: Path) -> None:
    content = {"v": CONTENTS[name], "w": CONTENTS[name]}
    savemat(tmp_path / "a.mat", content, do_compression=packed)
    check_structure(tmp_path / "a.mat")
    assert set(read_mat(tmp_path / "a.mat", dict, "v and w")) == {"v", "w"}


def test_files_of_matlab_itself(shared_data: Path) -> None:
    path = shared_data / "osie" / "fixations.mat"
    if not path.is_file():
        pytest.skip("no MATLAB file here")
    check_structure(path)


def _plain(tmp_path: Path) -> tuple[Path, bytearray]:
    path = tmp_path / "a.mat"
    savemat(path, {"v": np.arange(4.0).reshape(2, 2)}, do_compression=False)
    return path, bytearray(path.read_bytes())


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (128, 15, "damaged or cut"),  # said to be packed
        (128, 7, "a part of type 7"),
        (132, 10_000, r"cut|longer than"),  # the whole array
        (136, 5, "flags of type 5"),
        (144, 17, "class 17"),  # an object of a class, as containers.Map
        (144, 5, "class 5"),  # sparse
        (160, 3, "4 numbers in an array of 6"),  # three rows
        (160, 0x7FFFFFFF, "4 numbers in an array of"),
        (160, 0xFFFFFFFF, "a shape of"),  # minus one
    ],
)
def test_damaged_tags(at: int, value: int, message: str, tmp_path: Path) -> None:
    path, data = _plain(tmp_path)
    struct.pack_into("<I", data, at, value)
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=message) as caught:
        read_mat(path, dict, "v")
    assert "a.mat" in str(caught.value)


@pytest.mark.parametrize("left", [0, 60, 128, 133, 150, 200])
def test_cut_files(left: int, tmp_path: Path) -> None:
    path, data = _plain(tmp_path)
    path.write_bytes(bytes(data[:left]))
    with pytest.raises(DataError, match=r"MATLAB|damaged|KeyError"):
        read_mat(path, lambda v: v["v"], "v")


def test_arrays_in_arrays_without_end(tmp_path: Path) -> None:
    deep: Any = np.ones(1)
    for _ in range(40):
        deep = _cells(deep)
    savemat(tmp_path / "a.mat", {"v": deep}, do_compression=False)
    with pytest.raises(DataError, match="without end"):
        read_mat(tmp_path / "a.mat", dict, "v")


@pytest.mark.parametrize("kind", ["air", "fifa", "salicon"])
def test_no_damage_of_an_unpacked_file_ends_the_process(kind: str, tmp_path: Path) -> None:
    """Unpacked parts have no sum; parsing them without a look at their tags crashes in a few %."""
    scan = made.fifa_scan([1, 2], [3, 4], [5, 6])
    person = (np.ones((2, 2)), np.ones((2, 1)), np.ones((1, 2)))
    gaze = np.array([person], [(k, "O") for k in ("location", "timestamp", "fixations")])
    content, read = {
        "air": ({"xy": np.ones((2, 2)), "t": np.ones((2, 2))}, read_record),
        "fifa": ({"sbj": _cells({"scan": _cells(scan, scan)})}, read_people),
        "salicon": (
            {"image": "a", "resolution": np.array([[480, 640]]), "gaze": gaze},
            lambda p: read_picture(p, samples=True),
        ),
    }[kind]
    path = tmp_path / "a.mat"
    savemat(path, content, do_compression=False)  # type: ignore[arg-type]
    data = path.read_bytes()
    rng, raised = np.random.default_rng(3), 0
    for _ in range(200):
        changed = bytearray(data)
        for at in rng.integers(120, len(data), rng.integers(1, 4)):
            changed[at] = rng.integers(0, 256)
        path.write_bytes(bytes(changed))
        try:
            read(path)  # type: ignore[operator]
        except DataError:
            raised += 1
    assert raised > 50


@pytest.mark.parametrize("value", ["a", np.array(["a"]), _cells(np.array(["a"]))])
def test_text_in_its_wrappings(value: Any) -> None:
    assert one_text(value) == "a"
    for bad in (3, np.array(["a", "b"]), np.zeros(0)):
        with pytest.raises(ValueError, match="no text"):
            one_text(bad)
