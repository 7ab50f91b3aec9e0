"""Pictures of a trial: where things are drawn, and what is said about what is not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets.base import GazeDataset
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.plots import KINDS, first_trial, plot_overview, plot_trial
from gazeattn.report.gaze import Stage, density, heat_map, read_image, timeline, trial_scanpath
from gazeattn.report.pages import animation
from gazeattn.tables import check_fixations, check_trials, check_words

NASTY = '</script><img src=x onerror=alert(1)> & "q"'


def dataset(n: int = 12, **columns: object) -> GazeDataset:
    fixations = pd.DataFrame(
        {
            "participant": "P01",
            "trial": "t1",
            "stimulus": "s1",
            "x": np.linspace(5, 295, n),
            "y": 20.0,
            "duration": 200.0,
            "onset": np.arange(n) * 250.0,
            **columns,
        }
    )
    words = pd.DataFrame(
        {
            "stimulus": "s1",
            "word": ["1", "2", "3"],
            "text": ["one", NASTY, "три"],
            "left": [0.0, 100.0, 200.0],
            "right": [100.0, 200.0, 300.0],
            "top": 0.0,
            "bottom": 40.0,
        }
    )
    trials = pd.DataFrame(
        {"participant": ["P01", "P02"], "trial": ["t1", "empty"], "stimulus": "s1"}
    )
    return GazeDataset(
        NASTY,
        check_fixations(fixations)[0],
        check_words(words)[0],
        check_trials(trials)[0],
        stimuli={"s1": {"text": "one"}},
        info={"citation": NASTY, "licence": "MIT", "labels": (), "unverified": [NASTY]},
    )


def stage(data: GazeDataset, trial: str = "t1") -> Stage:
    rows = data.fixations[data.fixations["trial"] == trial]
    return Stage(rows, data.words, data.stimuli["s1"])


def test_the_heat_is_where_the_eyes_were() -> None:
    points = pd.DataFrame({"x": [30.0, 270.0], "y": [50.0, 150.0], "duration": [100.0, 300.0]})
    map_ = density(points, (0, 0, 300, 200), sigma=5)
    assert map_.shape == (200, 300)
    assert np.unravel_index(map_.argmax(), map_.shape) == (150, 270)
    assert map_[:100, :150].sum() == pytest.approx(0.25, abs=1e-6)  # 100 of 400 ms
    assert map_.sum() == pytest.approx(1, abs=1e-6)


def test_without_durations_fixations_count_the_same_and_a_missing_one_as_the_usual() -> None:
    points = pd.DataFrame({"x": [30.0, 270.0], "y": [50.0, 150.0]})
    assert density(points, (0, 0, 300, 200), 5)[:100].sum() == pytest.approx(0.5, abs=1e-6)
    points["duration"] = [np.nan, 200.0]
    assert density(points, (0, 0, 300, 200), 5)[:100].sum() == pytest.approx(0.5, abs=1e-6)


def test_a_fixation_outside_the_shown_part_is_no_heat_at_its_edge() -> None:
    points = pd.DataFrame({"x": [30.0, 900.0], "y": [50.0, 150.0], "duration": [100.0, 300.0]})
    assert density(points, (0, 0, 300, 200), 5).sum() == pytest.approx(0.25, abs=1e-6)


def test_a_picture_lies_where_its_offset_says(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "i.png"
    Image.new("RGB", (60, 40), "red").save(path)
    data = dataset()
    facts = {"image": str(path), "image_offset": (100.0, 50.0), "size": (1000, 800)}
    rows = data.fixations
    assert Stage(rows, data.words, facts).box == (100, 50, 160, 90)
    assert Stage(rows, data.words, {**facts, "image_offset": (0, 0)}).box == (0, 0, 60, 40)
    del facts["image_offset"]
    assert Stage(rows, data.words, facts).box == (0, 0, 1000, 800)  # scaled to the coordinates
    assert Stage(rows, data.words, {"image": str(path)}).box == (0, 0, 60, 40)
    for draw in (trial_scanpath, heat_map, timeline):
        assert draw(Stage(rows, data.words, facts)) is not None
    page = animation(Stage(rows, data.words, facts), "t")
    assert 'href="data:image/jpeg;base64,' in page and "http" not in page.replace("http-equiv", "")


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_a_broken_picture_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"broken\.png"):
        read_image(path)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"duration": np.nan},
        {"onset": np.nan},
        {"duration": np.nan, "onset": np.nan},
        {"x": np.nan, "y": np.nan, "word": None},
    ],
)
@pytest.mark.parametrize("n", [1, 2, 12])
def test_every_trial_can_be_drawn(columns: dict[str, object], n: int) -> None:
    s = stage(dataset(n, **columns))
    for draw in (trial_scanpath, heat_map, timeline):
        draw(s).savefig  # noqa: B018
    assert "<svg" in animation(s, "t")


def test_an_empty_trial_is_drawn_as_its_stimulus(tmp_path: Path) -> None:
    data = dataset()
    paths = plot_trial(data, "empty", tmp_path)
    assert len(paths) == 2 * (len(KINDS) - 1) + 1
    assert "No fixation has a place" in (tmp_path / "empty_animation.html").read_text("utf-8")


def test_a_corpus_without_fixations_is_drawn(tmp_path: Path) -> None:
    data = dataset()
    words = data.words.assign(word=data.words["word"])
    typed = data.fixations.assign(word=pd.Series("1", index=data.fixations.index, dtype="str"))
    for boxes in (words, words.drop(columns=["left", "top", "right", "bottom"])):
        for fixations in (typed.head(0), typed):
            shown = GazeDataset(
                "d", fixations, boxes, data.trials, stimuli=data.stimuli, info={"citation": "c"}
            )
            assert plot_trial(shown, "t1", tmp_path) and plot_overview(shown, tmp_path)


def test_the_animation_keeps_time_and_says_what_it_assumes() -> None:
    def data_of(page: str) -> dict[str, object]:
        found = re.search(r'id="data">(.*?)</script>', page, re.S)
        assert found
        return json.loads(found.group(1))

    page = animation(stage(dataset(3)), "t")
    assert data_of(page) == {"start": [0, 250, 500], "end": 700}
    page = animation(stage(dataset(3, onset=np.nan)), "t")
    assert data_of(page) == {"start": [0, 200, 400], "end": 600}
    assert "no onsets" in page
    page = animation(stage(dataset(3, onset=np.nan, duration=np.nan)), "t")
    assert data_of(page)["end"] == 750 and "take 250 ms here" in page
    page = animation(stage(dataset(3, x=[1.0, np.nan, 3.0])), "t")
    assert "1 fixations without a place" in page


def test_texts_cannot_run_as_script(tmp_path: Path) -> None:
    data = dataset()
    plot_trial(data, "t1", tmp_path)
    plot_overview(data, tmp_path)
    for path in tmp_path.glob("*.html"):
        text = path.read_text("utf-8")
        assert "<img src=x" not in text
        assert "</script><img" not in text
        assert "default-src 'none'" in text
        assert not re.search(r'(?:src|href)="(?!data:|#)', text)


def test_unknown_trials_and_kinds_get_a_suggestion(tmp_path: Path) -> None:
    data = dataset()
    with pytest.raises(UnknownNameError, match="did you mean 't1'"):
        plot_trial(data, "t", tmp_path)
    with pytest.raises(UnknownNameError, match="heatmap"):
        plot_trial(data, "t1", tmp_path, ["heat_map"])
    assert first_trial(data) == "t1"


def test_the_overview_counts_what_is_there(tmp_path: Path) -> None:
    data = dataset(10, x=[*np.linspace(5, 295, 8), np.nan, 5000.0])
    paths = plot_overview(data, tmp_path)
    text = paths[0].read_text("utf-8")
    assert "2 participants, 2 trials over 1 stimuli, 10 fixations" in text
    quality = re.search(r"without a position</td>\s*<td class=\"n\">(\d+)</td>", text)
    assert quality and quality.group(1) == "1"
    assert len(list(tmp_path.glob("*.svg"))) == len(list(tmp_path.glob("*.png"))) == 5
