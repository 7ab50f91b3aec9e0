"""OneStop: both sources give one form, and nothing of the report is trusted unchecked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.layouts import lines_of, number_layouts
from gazeattn.datasets.onestop import parse_onestop
from gazeattn.datasets.splits import split
from gazeattn.downloads import asset_path
from gazeattn.errors import DataError, MissingAssetError


def areas(trials: dict[str, list[tuple[str, int, int]]]) -> pd.DataFrame:
    """Trial id (reader_stimulus) to words as (label, left, top), each 10 by 10."""
    rows = []
    for trial, words in trials.items():
        reader, stimulus = trial.split("_")
        for i, (label, left, top) in enumerate(words):
            rows.append(
                {
                    "participant_id": reader,
                    "unique_trial_id": trial,
                    "unique_paragraph_id": stimulus,
                    "IA_ID": str(i),
                    "IA_LABEL": label,
                    "IA_LEFT": str(left),
                    "IA_RIGHT": str(left + 10),
                    "IA_TOP": str(top),
                    "IA_BOTTOM": str(top + 10),
                    "IA_SKIP": ".",
                    "question_preview": "True",
                }
            )
    return pd.DataFrame(rows)


def report(trial: str, hits: list[tuple[str, str]], **columns: Any) -> pd.DataFrame:
    reader, stimulus = trial.split("_")
    n = len(hits)
    return pd.DataFrame(
        {
            "participant_id": reader,
            "unique_trial_id": trial,
            "unique_paragraph_id": stimulus,
            "CURRENT_FIX_INDEX": [str(i + 1) for i in range(n)],
            "CURRENT_FIX_X": "5",
            "CURRENT_FIX_Y": "5",
            "CURRENT_FIX_START": [str(100 * i) for i in range(n)],
            "CURRENT_FIX_DURATION": "90",
            "CURRENT_FIX_INTEREST_AREA_ID": [i for i, _ in hits],
            "CURRENT_FIX_INTEREST_AREA_LABEL": [label for _, label in hits],
            **columns,
        }
    )


WORDS = [("the", 0, 0), ("cat", 10, 0), ("the", 0, 12), ("dog", 10, 12)]


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_numbers_of_the_two_reports_are_matched_by_label(shift: int) -> None:
    hits = [(str(i + shift), WORDS[i][0]) for i in (0, 1, 3)] + [(".", ".")]
    dataset = parse_onestop(report("r_s", hits), areas({"r_s": WORDS}), name="n", source="here")
    reported = dataset.fixations["word_reported"]
    assert reported.tolist()[:3] == ["0", "1", "3"] and pd.isna(reported[3])
    notes = [x for x in dataset.lost if "numbered" in x.reason]
    assert len(notes) == (shift != 0)
    assert "word" not in dataset.fixations


def test_labels_that_disagree_are_counted() -> None:
    hits = [("1", "the"), ("2", "cat"), ("4", "wolf")]
    dataset = parse_onestop(report("r_s", hits), areas({"r_s": WORDS}), name="n", source="here")
    assert [x.count for x in dataset.lost if "disagree" in x.reason] == [1]


def test_one_text_with_two_drawings_has_two_layouts() -> None:
    other = [*WORDS[:3], ("dog", 0, 24)]
    table = areas({"a_s": other, "b_s": WORDS, "c_s": WORDS, "a_u": WORDS})
    dataset = parse_onestop(report("b_s", [("1", "the")]), table, name="n", source="here")
    layouts = dataset.trials.set_index("trial")["layout"]
    assert layouts.to_dict() == {"a_s": "s#2", "b_s": "s", "c_s": "s", "a_u": "u"}
    words = dataset.words.set_index(["layout", "word"])
    assert words.loc[("s", "3"), "line"] == 1 and words.loc[("s#2", "3"), "line"] == 2
    assert [x.count for x in dataset.lost if "drawn" in x.reason] == [1]
    undefined = [x for x in dataset.lost if x.reason == "no fixations: undefined"]
    assert undefined[0].count == 3 and undefined[0].unit == "trials"


@pytest.mark.parametrize("change", ["text", "box", "one more", "order"])
def test_any_difference_makes_another_layout(change: str) -> None:
    table = pd.DataFrame(
        {"trial": ["t1"] * 2 + ["t2"] * 2, "stimulus": "s", "word": ["0", "1"] * 2,
         "text": ["a", "b"] * 2, "left": [0, 1] * 2}
    )  # fmt: skip
    columns = ["word", "text", "left"]
    assert number_layouts(table, columns).tolist() == ["s", "s"]
    if change == "text":
        table.loc[3, "text"] = "B"
    elif change == "box":
        table.loc[3, "left"] = 2
    elif change == "one more":
        table = pd.concat([table, table.iloc[[3]].assign(word="2")])
    else:
        table = table.iloc[[0, 1, 3, 2]]
    assert number_layouts(table, columns).tolist() == ["s", "s#2"]


def test_fixations_of_trials_without_words_are_counted() -> None:
    fixations = pd.concat([report("a_s", [("1", "the")] * 2), report("b_s", [("1", "the")] * 3)])
    dataset = parse_onestop(fixations, areas({"a_s": WORDS}), name="n", source="here")
    assert dataset.lost.count(kind="dropped") == 3 and len(dataset.fixations) == 2
    with pytest.raises(DataError, match="0 of 5 rows valid"):
        parse_onestop(fixations, areas({"c_s": WORDS}), name="n", source="here")


def test_a_missing_column_is_named() -> None:
    table = areas({"r_s": WORDS}).drop(columns=["IA_LEFT"])
    with pytest.raises(DataError, match="IA_LEFT"):
        parse_onestop(report("r_s", [("1", "the")]), table, name="n", source="here")


def test_a_lone_dot_is_missing_in_numbers_and_a_word_in_labels() -> None:
    words = [("the", 0, 0), (".", 10, 0), ("null", 20, 0)]
    fixations = report("r_s", [("1", "the"), (".", ".")], NEXT_SAC_AMPLITUDE=["1.5", "."])
    dataset = parse_onestop(fixations, areas({"r_s": words}), name="n", source="here")
    assert dataset.words["text"].tolist() == ["the", ".", "null"]
    assert dataset.fixations["saccade_amplitude"].isna().tolist() == [False, True]
    assert dataset.reports["eyelink"]["IA_SKIP"].isna().all()


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("tops", "expected"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([0, 3, -2, 14, 13], [0, 0, 0, 1, 1]),  # boxes that hug their glyphs
        ([0, 10, 20], [0, 1, 2]),  # boxes that touch
        ([24, 0, 12], [2, 0, 1]),  # the order of rows does not matter
        ([0, np.nan, 12], [0, None, 1]),
    ],
)
def test_lines_from_boxes(tops: list[float], expected: list[int | None]) -> None:
    frame = pd.DataFrame({"layout": "l", "top": tops})
    frame["bottom"] = frame["top"] + 10
    result = lines_of(frame)
    assert [None if pd.isna(v) else int(v) for v in result] == expected


# ---------------------------------------------------------------- real data


def test_sample_counts(sample: GazeDataset) -> None:
    assert len(sample.fixations) == 3209
    assert len(sample.trials) == 24 and len(sample.participants) == 2
    assert len(sample.reports["eyelink"]) == 2614 and len(sample.words) == 1307
    assert sample.info["readers_note"] == "information seeking"
    assert sample.capabilities["has_images"] and sample.samples is None
    assert sample.lost.count(kind="dropped") == sample.lost.count(kind="repaired") == 0


def test_sample_boxes_agree_with_the_reported_area(sample: GazeDataset) -> None:
    f = sample.fixations.merge(sample.trials[["trial", "layout"]], on="trial")
    f = f.dropna(subset=["word_reported"])
    f = f.merge(
        sample.words, left_on=["layout", "word_reported"], right_on=["layout", "word"], how="left"
    )
    inside = (
        (f["left"] <= f["x"]) & (f["x"] < f["right"]) & (f["top"] <= f["y"])
        & (f["y"] < f["bottom"])
    )  # fmt: skip
    assert len(f) == 3208
    assert inside.mean() > 0.99


def test_sample_texts_are_those_of_the_publisher(sample: GazeDataset) -> None:
    manifest = pd.read_csv(asset_path("onestop_sample") / "images" / "manifest.csv")
    texts = manifest[manifest["role"] == "paragraph"].set_index("unique_paragraph_id")["text"]
    assert {k: v["text"] for k, v in sample.stimuli.items()} == texts.to_dict()


def test_sample_images_lie_where_the_boxes_are(sample: GazeDataset) -> None:
    image = pytest.importorskip("matplotlib.image")
    matched = 0
    for stimulus, facts in sample.stimuli.items():
        path = facts.get("image") or facts["image_unmatched"]
        ink = image.imread(path)[..., :3].mean(-1) < 0.5
        words = sample.words[sample.words["layout"] == stimulus]
        x, y = facts.get("image_offset", (368.0, 186.0))
        starts = words.loc[words["left"] > x, ["left", "top", "bottom"]].to_numpy()
        edges = [ink[max(0, int(t - y)) : int(b - y), int(a - x)].any() for a, t, b in starts]
        # no letter stands on the border of two words, unless the lines break elsewhere
        assert any(edges) == ("image_unmatched" in facts), stimulus
        matched += "image" in facts
    assert matched == 5
    assert [x.count for x in sample.lost if x.step == "stimuli"] == [7]


def test_samples_are_said_to_be_simulated(sample: GazeDataset) -> None:
    dataset = load("onestop_sample", samples=True)
    assert dataset.samples is not None and len(dataset.samples) == 2233
    assert "simulated" in dataset.info["samples_note"]


def test_slice_counts(slice_: GazeDataset) -> None:
    assert len(slice_.fixations) == 2744 and len(slice_.trials) == 30
    unread = slice_.trials.loc[~slice_.trials["trial"].isin(slice_.fixations["trial"])]
    assert set(unread["participant"]) == {"l25_1042"} and len(unread) == 10
    assert [x.count for x in slice_.lost if x.reason == "no fixations: undefined"] == [10]
    words = slice_.words.groupby("layout").size()
    assert {words["2_1_5_Adv"], words["2_1_5_Adv#2"]} == {141, 142}


def test_slice_and_sample_agree_where_they_overlap(
    sample: GazeDataset, slice_: GazeDataset
) -> None:
    a, b = (
        d.fixations.assign(trial=d.fixations["trial"].str.removesuffix("_r0"))
        for d in (sample, slice_)
    )
    both = a.merge(b, on=["trial", "index"], suffixes=("", "_b"))
    assert len(both) > 2000
    for column in ("x", "y", "onset", "duration", "word_reported"):
        assert both[column].equals(both[f"{column}_b"].rename(column)), column


def test_slice_names_the_folders_it_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAZEATTN_SHARED", str(tmp_path / "shared"))
    with pytest.raises(MissingAssetError) as caught:
        load("onestop_slice", root=tmp_path / "mine")
    for folder in (tmp_path / "shared" / "onestop_slice", tmp_path / "mine" / "onestop_slice"):
        assert str(folder) in str(caught.value)


def test_versions_of_an_article_stay_together(slice_: GazeDataset) -> None:
    """Both versions of a paragraph say the same: one in training would tell of the other."""
    assert slice_.info["item"] == "article" == slice_.trials.attrs["item"]
    divided = split(slice_, by="text", shares=(0.5, 0.0, 0.5))
    parts = divided.table.merge(slice_.trials[["trial", "article"]], on="trial")
    assert (parts.groupby("article")["part"].nunique() == 1).all()
    assert parts["part"].nunique() == 2
