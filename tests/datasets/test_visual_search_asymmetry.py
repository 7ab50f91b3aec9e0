"""Visual search asymmetry: arrays of our own in the published layout, and the real tables."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.searcharrays import unpad
from gazeattn.errors import DataError, MissingAssetError


def _save(folder: Path, name: str, source: str, paths: list[list[tuple]], width: int) -> None:
    base = folder / "search_arrays" / name
    fix = np.zeros((len(paths), width, 2))
    for row, path in enumerate(paths):
        fix[row, : len(path)] = path
    for kind in ("fix", "ifix", "cp"):
        (base / kind).mkdir(parents=True, exist_ok=True)
    np.save(base / "fix" / f"{source}.npy", fix)
    np.save(base / "ifix" / f"I_{source}.npy", np.array([[len(p)] for p in paths]))
    found = np.zeros((len(paths), width))
    found[0, len(paths[0]) - 1] = 1  # only the first trial finds its target
    np.save(base / "cp" / f"CP_{source}.npy", found)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Two stimuli, two people; stored as (row, column) for Waldo and as (x, y) for ObjArr."""
    people = [[(512, 640), (100, 200)], [(512, 640)], [(512, 640), (0, 0), (7, 9)], [(512, 640)]]
    _save(tmp_path, "Waldo", "human_all", people, 4)
    _save(tmp_path, "Waldo", "eccNET", [[(512, 640), (0, 0)], [(512, 640)]], 5)
    np.save(tmp_path / "search_arrays" / "Waldo" / "target_pos.npy", np.array([[100, 200], [5, 6]]))
    ring = [[(640, 512), (365, 988)], [(640, 512), (90, 512)]]
    _save(tmp_path, "ObjArr", "human_all", [ring[0], ring[0], ring[1], ring[1]], 3)
    _save(tmp_path, "ObjArr", "eccNET", ring, 3)
    _save(tmp_path, "ObjArr", "IVSN", ring, 3)
    _pack(tmp_path)
    return tmp_path


def _pack(folder: Path) -> None:
    with zipfile.ZipFile(folder / "VisualSearchAsymmetry-main.zip", "w") as archive:
        for path in sorted((folder / "search_arrays").rglob("*.npy")):
            inside = path.relative_to(folder / "search_arrays").as_posix()
            archive.write(path, f"VisualSearchAsymmetry-main/vs_saccade_exp/out/{inside}")


def quiet(root: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("visual_search_asymmetry", root=root)


def test_axis_order_of_each_set(tiny: Path) -> None:
    ds = quiet(tiny)
    f = ds.fixations.set_index(["trial", "index"])
    assert f.loc[("Waldo_001_01", 1), ["x", "y"]].tolist() == [200, 100]
    assert f.loc[("ObjArr_001_01", 1), ["x", "y"]].tolist() == [365, 988]
    assert ds.stimuli["Waldo_001"]["target"] == (200.0, 100.0)
    assert f.loc[("ObjArr_001_01", 1), "word"] == "1" and f.loc[("ObjArr_001_02", 1), "word"] == "2"
    assert f.loc[("Waldo_001_01", 0), "start_position"]


def test_padding_is_cut_at_the_count_and_true_zeros_stay(tiny: Path) -> None:
    ds = quiet(tiny)
    n = ds.fixations.groupby("trial").size()
    assert n["Waldo_001_01"] == 2 and n["Waldo_002_01"] == 1 and n["Waldo_001_02"] == 3
    middle = ds.fixations[(ds.fixations["trial"] == "Waldo_001_02") & (ds.fixations["index"] == 1)]
    assert middle[["x", "y"]].to_numpy().tolist() == [[0, 0]]
    models = ds.reports["model_fixations"]
    assert ((models["x"] == 0) & (models["y"] == 0)).sum() == 1
    assert ds.lost.count("arrays", "dropped") == (16 - 7) + (10 - 3) + (12 - 8) + 2 * (6 - 4)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.booleans())
def test_unpad_gives_back_what_was_padded(lengths: list[int], row_column: bool) -> None:
    rng = np.random.default_rng(sum(lengths))
    paths = [rng.integers(0, 3, (n, 2)) for n in lengths]  # many true zeros
    array = np.zeros((len(paths), 6, 2))
    for row, path in enumerate(paths):
        array[row, : len(path)] = path
    row, index, x, y = unpad(array, np.array(lengths), row_column)
    flat = np.concatenate(paths)
    assert (np.stack([y, x] if row_column else [x, y], axis=1) == flat).all()
    assert np.bincount(row, minlength=len(paths)).tolist() == lengths
    assert (index < np.array(lengths)[row]).all()


@pytest.mark.parametrize("counts", [[0, 1], [1, 5], [1.5, 1], [1], [-1, 2]])
def test_counts_that_cannot_be(counts: list) -> None:
    with pytest.raises(DataError):
        unpad(np.zeros((2, 4, 2)), np.array(counts), False)


def test_pickled_arrays_are_refused(tiny: Path) -> None:
    path = tiny / "search_arrays" / "Waldo" / "fix" / "human_all.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    _pack(tiny)
    with pytest.raises(DataError, match="not an array of numbers"):
        quiet(tiny)


def test_found_is_missing_where_the_rows_do_not_match(tiny: Path) -> None:
    trials = quiet(tiny).trials.set_index("trial")
    assert trials.loc["Waldo_001_01", "found"] and trials.loc["Waldo_001_01", "found_index"] == 1
    assert not trials.loc["Waldo_002_01", "found"]
    assert pd.isna(trials.loc["Waldo_002_01", "found_index"])
    assert trials.loc["ObjArr_001_01":"ObjArr_002_02", "found"].isna().all()
    assert trials.loc["ObjArr_001_01", "last_fixation_on_target"]
    assert not trials.loc["ObjArr_001_02", "last_fixation_on_target"]
    assert pd.isna(trials.loc["Waldo_001_01", "last_fixation_on_target"])


def test_objects_of_the_arrays(tiny: Path) -> None:
    ds = quiet(tiny)
    assert ds.info["units"] == "objects" and len(ds.words) == 12
    first = ds.words[ds.words["layout"] == "ObjArr_001"].set_index("word")
    assert first["text"].tolist() == ["target"] + ["object"] * 5
    assert first.loc["4", ["center_x", "center_y"]].tolist() == [915, 36]
    assert first["left"].isna().all()  # the extent of the objects is not published


def test_neither_tables_nor_arrays(tmp_path: Path) -> None:
    with pytest.raises(MissingAssetError, match="zip archive"):
        load("visual_search_asymmetry", root=tmp_path)
    (tmp_path / "search_else.txt").write_text("x")
    with pytest.raises(MissingAssetError, match="zip archive"):
        load("visual_search_asymmetry", root=tmp_path)
    (tmp_path / "Search.zip").write_bytes(b"PK no zip")
    with pytest.raises(DataError, match="not a zip archive"):
        load("visual_search_asymmetry", root=tmp_path)


def test_a_trial_with_another_length_than_stated(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "visual_search_asymmetry"
    table = pd.read_parquet(source / "search_fixations.parquet")
    table.drop(index=5).to_parquet(tmp_path / "search_fixations.parquet")
    for name in ("search_trials.parquet",):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    with pytest.raises(DataError, match=r"another length.*7 fixations.*found 6"):
        quiet(tmp_path)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load("visual_search_asymmetry", root=shared_data / "visual_search_asymmetry")


def test_real_counts(real: GazeDataset) -> None:
    assert len(real.participants) == 15 and len(real.stimuli) == 607
    assert len(real.trials) == 9105 and len(real.fixations) == 71257
    assert real.fixations["set"].value_counts().to_dict() == {
        "Waldo": 28708,
        "NaturalDesign": 22749,
        "ObjArr": 19800,
    }
    assert real.trials["set"].value_counts().to_dict() == {
        "ObjArr": 4500,
        "NaturalDesign": 3600,
        "Waldo": 1005,
    }
    counts = real.info["counts"]
    assert counts["search_fixations"] == 86363 and counts["search_scanpaths"] == 10319
    assert len(real.reports["model_fixations"]) == 15106
    assert len(real.reports["model_trials"]) == 1214
    assert len(real.reports["asymmetry_fixations"]) == 42136
    assert len(real.reports["asymmetry_trials"]) == 15264 == 12 * counts["displays"]
    assert len(real.reports["human_reaction_times"]) == 40
    assert len(real.reports["cumulative_performance"]) == 458
    assert len(real.reports["scanmatch_scores"]) == 9
    assert counts["fixations_at_zero"] == 30
    assert [counts[f"not_found_{k}"] for k in ("ObjArr", "NaturalDesign", "Waldo")] == [
        304,
        356,
        249,
    ]
    off = real.fixations[real.fixations["off_screen"].fillna(False)]
    assert off["set"].value_counts().to_dict() == {"Waldo": 1043, "NaturalDesign": 212}
    assert (off[["x", "y"]].min().min(), off[["x", "y"]].max().max()) == (-803, 2226)
    assert real.info["licence"] == "none found"


def test_real_labels(real: GazeDataset) -> None:
    t = real.trials
    arrays = t[t["set"] == "ObjArr"]
    assert round(arrays["last_fixation_on_target"].astype(float).mean(), 2) == 0.81
    assert arrays["found"].isna().all() and arrays["found_index"].isna().all()
    waldo = t[t["set"] == "Waldo"]
    assert (~waldo["found"]).sum() == 249
    hits = waldo[waldo["found"]]
    assert len(hits) == 756 and (hits["found_index"] == hits["n_fixations"] - 1).all()
    scenes = t[(t["set"] == "NaturalDesign") & t["found"].fillna(False)]
    assert round((scenes["found_index"] == scenes["n_fixations"] - 1).mean(), 2) == 0.34
    assert round((scenes["found_index"] > scenes["n_fixations"] - 1).mean(), 2) == 0.58


def test_real_reaction_times_and_shifted_rows(real: GazeDataset) -> None:
    trials = real.reports["asymmetry_trials"]
    assert trials["human_rt_ms"].notna().all()
    one = trials.query(
        "experiment == 'curvature' and condition == 'line_in_curves' and set_size == 32"
    )
    assert (one["human_rt_ms"] == 750).all()
    moved = trials[trials["set_size"] != trials["set_size_by_row"]]
    assert set(moved["model"]) == {"chance", "pixelMatch"}
    assert real.lost.count("asymmetry trials", "repaired") == len(moved) == 80
    assert trials["found_after_saccades"].min() == 0
    index = real.info["asymmetry_index"]
    assert round(index["human"]["mean"], 3) == 0.564
