"""Reading passages with gold lines: by-hand files in the published layout, and the real ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.errors import DataError, UnknownNameError

pytestmark = pytest.mark.filterwarnings("ignore:data set 'reading_drift':UserWarning")
RAW = [(365, 140, 0, 100), (450, 240, 120, 320), (900, 800, 340, 400)]
GOLD: list[float | None] = [155, 219, None]


def sequence(ys: Sequence[float | None]) -> dict[str, Any]:
    fixations = []
    for (x, y, start, end), moved in zip(RAW, ys, strict=True):
        one: dict[str, Any] = {"x": x, "y": y if moved is None else moved, "start": start}
        one["end"] = end
        if moved is None:
            one["discarded"] = True
        fixations.append(one)
    facts = {"participant_id": "2", "age_group": "adult", "passage_id": "1A"}
    return {"trial_0": {**facts, "fixations": {"__FixationSequence__": fixations}}}


def write(folder: Path) -> Path:
    block = {"position": [360.0, 161.0], "font_face": "Courier New", "font_size": 26.667}
    text = {"1A": {"__TextBlock__": {**block, "line_height": 64.0, "text": ["Il gatto", "nero"]}}}
    (folder / "fixations").mkdir()
    (folder / "passages.json").write_text(json.dumps(text))
    raw = sequence([y for _, y, _, _ in RAW])
    for name, content in (("sample", raw), ("gold", sequence(GOLD)), ("JC", sequence(GOLD))):
        (folder / "fixations" / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path)


def test_lines_words_and_raw_positions(folder: Path) -> None:
    dataset = load("reading_drift", root=folder)
    assert dataset.fixations["y"].tolist() == [140, 240, 800]
    assert dataset.fixations["duration"].tolist() == [100, 200, 60]
    assert dataset.fixations["line"].tolist()[:2] == [0, 1]
    assert dataset.fixations["line"].isna().tolist() == [False, False, True]
    assert dataset.trials["participant"].tolist() == ["2"]
    words = dataset.words.set_index("text")
    # 16 px per character: "gatto" begins after "Il " and has 5 letters
    assert list(words.loc["gatto", ["left", "right", "top", "bottom"]]) == [408, 488, 123, 187]
    assert list(words.loc["nero", ["left", "top", "line"]]) == [360, 187, 1]
    assert list(dataset.reports["lines"]) == ["trial", "index", "gold", "JC"]


def test_corrected_positions_leave_out_what_was_discarded(folder: Path) -> None:
    dataset = load("reading_drift", root=folder, corrected="gold")
    assert dataset.fixations["y"].tolist() == [155, 219]
    assert dataset.lost.count("fixations", "dropped") == 1
    # x 365 lies on "Il"; x 450 lies right of "nero" (360 to 424)
    assert dataset.measures()["fixation_count"].tolist() == [1, 0, 0]
    with pytest.raises(UnknownNameError, match="corrector 'gold2'; did you mean 'gold'"):
        load("reading_drift", root=folder, corrected="gold2")


@pytest.mark.parametrize(
    ("y", "match"), [(180, "lies on no line"), (283, "lies on no line"), (91, "lies on no line")]
)
def test_a_corrected_fixation_between_lines_is_an_error(folder: Path, y: float, match: str) -> None:
    (folder / "fixations/gold.json").write_text(json.dumps(sequence([155, y, None])))
    with pytest.raises(DataError, match=match):
        load("reading_drift", root=folder)


def test_files_that_do_not_belong_together_are_an_error(folder: Path) -> None:
    short = sequence(GOLD)
    short["trial_0"]["fixations"]["__FixationSequence__"].pop()
    (folder / "fixations/gold.json").write_text(json.dumps(short))
    with pytest.raises(DataError, match="not the fixations of the raw file"):
        load("reading_drift", root=folder)
    (folder / "passages.json").write_text("[]")
    with pytest.raises(DataError, match="no passages as published"):
        load("reading_drift", root=folder)


def test_the_table_of_algorithms_counts_from_one_and_zero_is_discarded(folder: Path) -> None:
    rows = ["trial_id,fix_index,line_gold,line_slice", "trial_0,0,1,1", "trial_0,1,2,2"]
    path = folder / "fixations_with_lines.csv"
    path.write_text("\n".join([*rows, "trial_0,2,0,2", ""]))
    lines = load("reading_drift", root=folder).reports["lines"]
    assert lines["slice"].tolist() == [0, 1, 1]
    path.write_text("\n".join([*rows, "trial_0,2,1,2", ""]))
    with pytest.raises(DataError, match="disagree on the line"):
        load("reading_drift", root=folder)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    return load("reading_drift", root=shared_data)


def test_counts_of_the_real_files(real: GazeDataset) -> None:
    assert len(real.lost.to_frame().query("step == 'counts'")) == 0
    counts = real.info["counts"]
    assert (len(real.fixations), len(real.trials), len(real.words)) == (10245, 48, 1537)
    assert (counts["adults"], counts["children"], counts["lines"]) == (24, 24, 134)
    assert round(counts["fixations_discarded"] / 10245, 3) == 0.025
    assert real.trials["stimulus"].nunique() == 12
    lines_per_text = real.words.groupby("layout")["line"].max() + 1
    assert (lines_per_text.min(), lines_per_text.max()) == (10, 13)
    assert {"104", "2"} <= set(real.trials["participant"])


PUBLISHED = {
    **{"attach": 0.852, "chain": 0.877, "cluster": 0.947, "compare": 0.611, "merge": 0.915},
    **{"regress": 0.900, "segment": 0.796, "slice": 0.969, "split": 0.877, "stretch": 0.906},
    "warp": 0.933,
}


def test_published_accuracies_come_out(real: GazeDataset) -> None:
    lines = real.reports["lines"]
    for name, accuracy in PUBLISHED.items():
        right = (lines[name] == lines["gold"]).fillna(False)
        assert round(float(right.groupby(lines["trial"]).mean().mean()), 3) == accuracy, name
        assert round(float(real.reports["accuracy"][name].mean()), 3) == accuracy, name
    agreed = (lines["JC"].fillna(-1) == lines["VP"].fillna(-1)).groupby(lines["trial"]).mean()
    assert round(float(agreed.mean()), 3) == 0.974


def test_gold_positions_lie_on_155_plus_64_per_line(shared_data: Path) -> None:
    gold = load("reading_drift", root=shared_data, corrected="gold").fixations
    assert len(gold) == 10245 - 255
    assert (gold["y"] == 155 + 64 * gold["line"].astype(float)).all()
