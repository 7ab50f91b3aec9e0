"""Prepared readings: read back to the bit, made again where something changed or is damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.datasets import GazeDataset
from gazeattn.experiments.reading_data import ARRAYS, FOLDER, TaskData, task_data

from ..datamodules.made_readings import many

TASK = ReadingTask("t", "classification", "label", folds=3, by="reader")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*fixations.* lie on a word:UserWarning", "ignore:data set 'copco':UserWarning"
)


def same(a: TaskData, b: TaskData) -> None:
    """Check that two are equal to the bit, types of columns and order of texts included."""
    for name in ARRAYS:
        one, two = getattr(a.trials, name), getattr(b.trials, name)
        assert one.dtype == two.dtype and one.shape == two.shape
        assert one.tobytes() == two.tobytes(), name
    pd.testing.assert_frame_equal(a.trials.table, b.trials.table)
    assert list(a.trials.texts) == list(b.trials.texts) and a.trials.info == b.trials.info
    for name, text in a.trials.texts.items():
        other = b.trials.texts[name]
        assert text.words == other.words and text.name == other.name
        assert text.features.tobytes() == other.features.tobytes()
    for name in ("folds", "published"):
        one, two = getattr(a, name), getattr(b, name)
        assert (one is None) == (two is None)
        if one is not None:
            pd.testing.assert_frame_equal(one, two)
    pd.testing.assert_frame_equal(a.lost.to_frame(), b.lost.to_frame())


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A corpus of two files whose readings are made here, and how often it was loaded."""
    import gazeattn.datasets

    folder = tmp_path / "corpus"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.csv").write_text("1")
    (folder / "sub/b.csv").write_text("2")
    state = SimpleNamespace(folder=folder, root=tmp_path / "root", loads=[], data=corpus())

    def load(name: str, **options: Any) -> GazeDataset:
        state.loads.append((name, options))
        return state.data

    module = import_module("gazeattn.datasets.corpus")
    monkeypatch.setattr(gazeattn.datasets, "load", load)
    monkeypatch.setattr(module, "corpus", lambda name: SimpleNamespace(name=name))
    monkeypatch.setattr(
        module, "find_folder", lambda page, root: folder if folder.exists() else None
    )
    yield state


def corpus() -> GazeDataset:
    """Return readings with columns of all types and missing values in them."""
    data = many(9)
    trials = data.trials.assign(
        flag=pd.array([True, None, False] * 3, dtype="boolean"),
        count=pd.array([1, None, 3] * 3, dtype="Int64"),
        note=pd.array(["a", None, "é"] * 3, dtype="str"),
    )
    trials.loc[4, "label"] = np.nan
    folds = pd.DataFrame({"fold": ["0", "1"], "trial": ["P0_A", "P1_B"], "part": ["train", "test"]})
    folds["regime"] = pd.array([None, "unseen_text"], dtype="str")
    return replace(data, trials=trials, reports={"folds": folds})


def prepared(made: SimpleNamespace, task: ReadingTask = TASK, **options: Any) -> TaskData:
    dataset = options.pop("dataset", {"name": "made"})
    return task_data(task, dataset, str(made.root), **options)


def folders(made: SimpleNamespace) -> list[Path]:
    return sorted((made.root / FOLDER).iterdir())


def test_read_back_to_the_bit(made: SimpleNamespace) -> None:
    first = prepared(made)
    assert len(made.loads) == 1 and len(first.key) == 32
    second = prepared(made)
    assert len(made.loads) == 1 and second.key == first.key
    same(first, second)
    assert second.lost.to_frame()["count"].sum() >= 1  # the trial without a label
    assert [f.name for f in folders(made)] == [first.key]
    assert second.n_folds == 3
    assert second.split(1).digest == first.split(1).digest


def test_without_the_cache(made: SimpleNamespace) -> None:
    first = prepared(made, keep=False)
    assert first.key == "" and not (made.root / FOLDER).exists()
    same(first, prepared(made))
    prepared(made, keep=False)
    assert len(made.loads) == 3


def test_changed_files_are_another_corpus(made: SimpleNamespace) -> None:
    keys = [prepared(made).key]
    changes: list[Callable[[], Any]] = [
        lambda: (made.folder / "sub/b.csv").write_text("3"),
        lambda: (made.folder / "a.csv").rename(made.folder / "c.csv"),
        lambda: (made.folder / "new.csv").write_text(""),
        lambda: (made.folder / "sub/b.csv").unlink(),
    ]
    for change in changes:
        change()
        keys.append(prepared(made).key)
        assert prepared(made).key == keys[-1]
    assert len(set(keys)) == 5 == len(made.loads)
    os.utime(made.folder / "c.csv", (1, 1))  # not the time of a file, but its content
    assert prepared(made).key == keys[-1]


def test_settings_are_part_of_the_key(made: SimpleNamespace) -> None:
    keys = {
        prepared(made).key,
        prepared(made, share=0.5).key,
        prepared(made, share=0.5, by="fixations").key,
        prepared(made, replace(TASK, item="layout")).key,
        prepared(made, replace(TASK, where={"label": [0, 1]})).key,
        prepared(made, dataset={"name": "made", "edition": "full"}).key,
        prepared(made, dataset={"name": "other"}).key,
    }
    assert len(keys) == 7 == len(made.loads)
    half = prepared(made, share=0.5, by="fixations")
    assert half.trials.info["share"] == 0.5 and len(made.loads) == 7


def test_options_reach_the_loader(made: SimpleNamespace) -> None:
    options = {"name": "made", "edition": "full", "root": None, "reader": None}
    prepared(made, replace(TASK, published_as="X"), dataset=options, keep=False)
    assert made.loads == [
        ("made", {"root": str(made.root), "edition": "full", "predictions": True})
    ]
    prepared(made, dataset={"name": "made", "root": "/else"}, keep=False)
    assert made.loads[-1] == ("made", {"root": "/else"})


def test_published_predictions_of_the_task_alone(made: SimpleNamespace) -> None:
    theirs = pd.DataFrame({"task": ["X", "Y", "X"], "model": "m", "prediction": [0.1, 0.2, 0.3]})
    made.data = replace(made.data, reports={**made.data.reports, "predictions": theirs})
    task = replace(TASK, published_as="X")
    first, second = prepared(made, task), prepared(made, task)
    assert first.published is not None and first.published["prediction"].tolist() == [0.1, 0.3]
    same(first, second)


@pytest.mark.parametrize("name", [
    "info.json", "fixations.npy", "word.npy", "starts.npy", "gaze.npy", "texts.npy",
    "table.parquet", "folds.parquet",
])  # fmt: skip
def test_damaged_files_are_made_again(
    made: SimpleNamespace, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = prepared(made)
    path = made.root / FOLDER / first.key / name
    whole = path.read_bytes()
    damages = [b"", b"{}", whole[: len(whole) // 2], None]
    for n, damage in enumerate(damages, 2):
        if damage is None:
            if name in ("info.json", "folds.parquet"):
                continue  # the mark of a complete folder; and not every corpus has folds
            path.unlink()
        else:
            path.write_bytes(damage)
        caplog.clear()
        same(first, prepared(made))
        assert len(made.loads) == n and "damaged" in caplog.text
        assert path.read_bytes() == whole or name.endswith("parquet")
    same(first, prepared(made))


def test_arrays_of_other_trials_are_damage(made: SimpleNamespace) -> None:
    """Files that can be read but do not belong together."""
    first = prepared(made)
    folder = made.root / FOLDER / first.key
    for n, (name, change) in enumerate(
        [
            ("fixations", lambda a: a[:-1]),
            ("word", lambda a: np.append(a, 0)),
            ("gaze", lambda a: a[:, :-1]),
            ("starts", lambda a: a[:-1]),
            ("word_starts", lambda a: a + 1),
            ("texts", lambda a: a[1:]),
        ],
        2,
    ):
        np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))
        same(first, prepared(made))
        assert len(made.loads) == n, name
    pd.read_parquet(folder / "table.parquet").iloc[1:].to_parquet(folder / "table.parquet")
    same(first, prepared(made))
    assert len(made.loads) == 8


def test_other_data_sets_are_not_kept(made: SimpleNamespace, monkeypatch: Any) -> None:
    """Data that are in no folder of a corpus have no digest."""
    module = import_module("gazeattn.datasets.corpus")
    monkeypatch.setattr(module, "find_folder", lambda page, root: None)
    assert prepared(made).key == "" and not (made.root / FOLDER).exists()


def test_keys_are_those_of_another_process() -> None:
    """What describes a corpus has no addresses in it."""
    from gazeattn.datasets.corpus import corpus as page_of

    for name in ("copco", "sb_sat", "webqamgaze", "code_comprehension"):
        assert " at 0x" not in repr(page_of(name))


# Real recordings


@pytest.fixture(scope="module")
def dyslexia(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TaskData, Callable[[], TaskData]]:
    if not (shared_data / "copco").is_dir():
        pytest.skip("CopCo is not here")
    root = str(tmp_path_factory.mktemp("root"))
    task = ReadingTask("d", "classification", "dyslexia", published_as="CopCo_TYP")

    def get() -> TaskData:
        return task_data(task, {"name": "copco", "root": str(shared_data / "copco")}, root)

    return get(), get


@pytest.mark.slow
def test_copco(dyslexia: tuple[TaskData, Callable[[], TaskData]], shared_data: Path) -> None:
    data, get = dyslexia
    same(data, get())
    assert data.folds is not None and data.published is not None and data.n_folds == 4
    assert data.published["model"].nunique() == 15
    assert data.published["prediction"].notna().all() and data.published["task"].unique() == [
        "CopCo_TYP"
    ]
    y = data.trials.table.set_index("trial")["y"]
    for fold in range(4):
        split = data.split(fold)
        rows = data.folds[data.folds["fold"] == str(fold)]
        assert not any(x.kind == "note" for x in split.lost)  # all published trials are here
        for part in ("train", "val", "test"):
            assert set(split.trials(part)) == set(rows.loc[rows["part"] == part, "trial"])
        theirs = data.published[data.published["fold"] == str(fold)]
        assert set(theirs.loc[theirs["part"] == "test", "trial"]) == set(split.trials("test"))
        assert (y.loc[theirs["trial"]].to_numpy() == theirs["label"].to_numpy()).all()
    assert (data.trials.lengths > 0).all() and data.trials.info["saccades"] == "deg"


@pytest.mark.slow
def test_new_columns_of_copco(
    dyslexia: tuple[TaskData, Callable[[], TaskData]], shared_data: Path
) -> None:
    """Middles of areas and durations of saccades are those of the report, fixation by fixation."""
    path = next((shared_data / "copco/FixationReports").glob("FIX_report_P05.txt*"))
    raw = pd.read_csv(path, sep="\t", quoting=3, encoding="utf-8-sig", dtype=str)
    raw.columns = [c.strip('"') for c in raw.columns]
    raw["trial"] = "P05_" + raw["speechid"] + "_" + raw["paragraphid"]
    raw["order"] = raw["CURRENT_FIX_INDEX"].astype(int)
    trials = dyslexia[0].trials
    mine = [t for t in trials.trial if t.startswith("P05_")]
    assert len(mine) > 20
    sides = raw["CURRENT_FIX_INTEREST_AREA_DATA"].str.findall(r"-?\d+\.\d+")
    middle = [
        ((float(s[0]) + float(s[2])) / 2, (float(s[1]) + float(s[3])) / 2)
        if isinstance(s, list) and len(s) == 4
        else (np.nan, np.nan)
        for s in sides
    ]
    raw[["x", "y"]] = middle
    number = raw["NEXT_SAC_DURATION"].str.replace(",", ".").replace(".", np.nan)
    raw["saccade"] = number.astype(float)
    for name in mine:
        ours = trials.named([name])
        rows = raw[raw["trial"] == name].sort_values("order")
        assert len(rows) == len(ours.word)
        np.testing.assert_array_equal(ours.column("x"), rows["x"])
        np.testing.assert_array_equal(ours.column("y"), rows["y"])
        np.testing.assert_array_equal(ours.column("saccade_duration"), rows["saccade"])
    on = trials.column("on_text") == 1
    landing = trials.column("landing")[on]
    assert np.nanmean((landing >= 0) & (landing <= 1)) > 0.99


@pytest.mark.slow
def test_questions_of_sb_sat(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "sb_sat"
    if not folder.is_dir():
        pytest.skip("SB-SAT is not here")
    task = ReadingTask(
        "q", "classification", "correct", join=("participant", "book"), order="first_visit",
        items="items", question="question", item="book", folds=4,
    )  # fmt: skip
    made = task_data(task, {"name": "sb_sat", "root": str(folder)}, str(tmp_path)).trials
    path = next((folder / "stimuli").glob("questions.csv*"))
    questions = pd.read_csv(path, dtype=str).set_index("page_name")["question"]
    table = made.table
    assert table["question"].notna().all() and set(table["question"]) <= set(questions)
    assert (table["question"].to_numpy() == questions.loc[table["page_name"]].to_numpy()).all()
    assert table["y"].isin([0, 1]).mean() > 0.9 and table.groupby("reading").size().max() == 5
    assert len(table["item"].unique()) == 4
