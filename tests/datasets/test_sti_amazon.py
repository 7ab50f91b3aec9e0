"""STI Amazon: a JSON file of our own in the published layout, and the real one."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.errors import DataError


def _entry(box: tuple, size: tuple, **people: list) -> dict[str, Any]:
    names = ("xmin", "ymin", "xmax", "ymax")
    return {
        "fixations": {k[1:]: v for k, v in people.items()},
        "ground_truth": [dict(zip(names, box, strict=True))],
        "size": {"width": size[0], "height": size[1]},
        "target": "target_0.jpg",
    }


@pytest.fixture
def entries() -> dict[str, Any]:
    # centres at 110 + 180 column and 140 + 260 row: covers (0, 0) and (5, 13)
    return {
        "1.jpg": _entry(
            (30, 20, 190, 260), (2541, 1584), p1=[[110, 140], [205, 140]], p2=[[2548, 1580]]
        ),
        "10.jpg": _entry(
            (2370, 1320, 2530, 1560), (2560, 1600), p1=[[30, 260], [2450, 1440]], p2=[]
        ),
    }


def _load(tmp_path: Path, entries: Any) -> GazeDataset:
    (tmp_path / "Amazon.json").write_text(json.dumps(entries))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("sti_amazon", root=tmp_path)


def test_published_layout(tmp_path: Path, entries: dict) -> None:
    ds = _load(tmp_path, entries)
    assert list(ds.trials["trial"]) == ["001_01", "001_02", "010_01", "010_02"]
    assert ds.info["grid"]["x"] == pytest.approx((110, 180))
    assert ds.info["grid"]["y"] == pytest.approx((140, 260))
    assert ds.fixations["word"].tolist() == ["0", "1", "83", "0", "83"]
    assert ds.fixations["in_target_box"].tolist() == [True, False, False, False, True]
    assert len(ds.words) == 2 * 84
    first = ds.words[ds.words["layout"] == "1"].set_index("word")
    assert first.loc["0", ["left", "top", "right", "bottom"]].tolist() == pytest.approx(
        [30, 20, 190, 260]
    )
    assert first.loc["0", "text"] == "target_0.jpg" and first.loc["15", "text"] == "row 1 column 1"
    assert "duration" not in ds.fixations and not ds.capabilities["has_time"]


def test_sizes_are_those_of_each_picture(tmp_path: Path, entries: dict) -> None:
    ds = _load(tmp_path, entries)
    assert ds.stimuli["1"]["size"] == (2541, 1584) and ds.stimuli["10"]["size"] == (2560, 1600)
    f = ds.fixations.set_index("trial")
    assert f.loc["001_02", "off_screen"]  # x 2548 on a collage of 2541, although 2560 is usual
    assert not f.loc["010_01", "off_screen"].any()


def test_never_on_the_target_and_empty_trials(tmp_path: Path, entries: dict) -> None:
    t = _load(tmp_path, entries).trials.set_index("trial")
    assert t["target_visited"].tolist()[:3] == [True, False, True]
    assert t["last_in_target_box"].tolist()[:3] == [False, False, True]
    assert pd.isna(t.loc["010_02", "target_visited"])  # no fixation: not known, not False
    assert t.loc["010_02", "n_fixations"] == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda e: e["1.jpg"].pop("size"),
        lambda e: e["1.jpg"].pop("ground_truth"),
        lambda e: e["1.jpg"].update(ground_truth=[]),
        lambda e: e["1.jpg"]["ground_truth"][0].update(xmax=0),
        lambda e: e["1.jpg"]["fixations"].update({"3": [[1, 2, 3]]}),
        lambda e: e["1.jpg"]["fixations"].update({"3": [["a", "b"]]}),
        lambda e: e.update({"2.jpg": []}),
    ],
)
def test_damaged_entries(tmp_path: Path, entries: dict, damage: Any) -> None:
    damage(entries)
    with pytest.raises(DataError, match=r"Amazon\.json"):
        _load(tmp_path, entries)


def test_not_json(tmp_path: Path) -> None:
    (tmp_path / "Amazon.json").write_text('{"1.jpg": {')
    with pytest.raises(DataError, match="not the published file of searches"):
        load("sti_amazon", root=tmp_path)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load("sti_amazon", root=shared_data / "sti_amazon")


def test_real_counts(real: GazeDataset) -> None:
    assert len(real.participants) == 6 and len(real.stimuli) == 100
    assert len(real.trials) == 600 and len(real.fixations) == 8683
    assert (real.words.groupby("layout").size() == 84).all() and len(real.words) == 8400
    n = real.trials["n_fixations"]
    assert (n.min(), n.max(), round(n.mean(), 1)) == (2, 91, 14.5)
    people = real.fixations["participant"].value_counts()
    assert people["6"] == 968 and people.drop("6").between(1445, 1777).all()
    counts = real.info["counts"]
    assert counts["target_visited"] == 563
    assert counts["last_in_target_box"] == 496 and counts["last_in_target_cell"] == 520
    assert real.trials.drop_duplicates("stimulus")["target"].value_counts().tolist() == [20] * 5
    assert not real.fixations["off_screen"].any()
    sizes = pd.DataFrame([s["size"] for s in real.stimuli.values()])
    assert (sizes.min().tolist(), sizes.max().tolist()) == ([2541, 1584], [2560, 1600])
    assert real.info["licence"] == "CC BY-NC-SA 4.0"


def test_real_covers_are_those_of_the_derived_tables(real: GazeDataset, shared_data: Path) -> None:
    folder = shared_data / "sti_amazon"
    table = pd.read_parquet(folder / "fixations.parquet")
    mine = real.fixations.assign(
        image=real.fixations["stimulus"] + ".jpg", subject=real.fixations["participant"].astype(int)
    )
    both = mine.merge(table, on=["image", "subject", "index"], suffixes=("", "_t"), validate="1:1")
    assert (both["word"].astype(int) == both["cell"]).all()
    assert (both["in_target_box"] == both["in_target_box_t"]).all()
    assert (both["x"] == both["x_t"]).all() and (both["y"] == both["y_t"]).all()
    layout = pd.read_csv(folder / "layout_cells_derived.csv")
    words = real.words[real.words["layout"] == "7"]
    box = words[["left", "top", "right", "bottom"]].to_numpy()
    assert np.abs(box - layout[["xmin", "ymin", "xmax", "ymax"]].to_numpy()).max() < 0.01


def test_real_derived_boxes_overlap_the_published_ones(real: GazeDataset) -> None:
    target = real.words[real.words["is_target"]]
    box = np.array([real.stimuli[s]["target_box"] for s in target["stimulus"]])
    mine = target[["left", "top", "right", "bottom"]].to_numpy()
    low, high = np.maximum(box[:, :2], mine[:, :2]), np.minimum(box[:, 2:], mine[:, 2:])
    shared = np.prod((high - low).clip(0), axis=1)
    area = [np.prod(b[:, 2:] - b[:, :2], axis=1) for b in (box, mine)]
    overlap = shared / (area[0] + area[1] - shared)
    assert (round(overlap.mean(), 2), round(overlap.min(), 2)) == (0.91, 0.79)
