"""What holds for every registered data set."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

import pytest

from gazeattn import registry
from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.splits import kfold
from gazeattn.downloads import asset_path
from gazeattn.errors import DataError, MissingAssetError, UnknownNameError
from gazeattn.tables import FIXATIONS, TRIALS, WORDS, check_fixations, check_trials, check_words

from ..conftest import shared_folder
from .made import MADE

NAMES = registry.datasets.names()


@pytest.fixture(scope="module", params=NAMES)
def dataset(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> GazeDataset:
    if request.param == "onestop_sample":
        return request.getfixturevalue("sample")
    if request.param == "onestop_slice":
        return request.getfixturevalue("slice_")
    if request.param == "table":
        from .conftest import FIXATIONS as F
        from .conftest import WORDS as W

        folder = tmp_path_factory.mktemp("table")
        (folder / "F.csv").write_text(F)
        (folder / "W.csv").write_text(W)
        return load("table", root=folder, fixations="F.csv", words="W.csv")
    return real_or_made(request.param, tmp_path_factory)


def real_or_made(name: str, folders: pytest.TempPathFactory) -> GazeDataset:
    """Load a corpus from the shared recordings, else from tiny files in its published layout."""
    real = shared_folder() / name
    if real.is_dir():
        return load(name, root=real)
    if name not in MADE:
        pytest.skip(f"no recordings of {name} here: {real}")
    folder = folders.mktemp(name)
    MADE[name](folder)
    with warnings.catch_warnings():  # of counts: the tiny files are not the whole corpus
        warnings.simplefilter("ignore", UserWarning)
        return load(name, root=folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_that_is_not_there_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAZEATTN_DATA", str(tmp_path))
    monkeypatch.delenv("GAZEATTN_SHARED", raising=False)
    with pytest.raises((MissingAssetError, DataError)) as caught:
        load(name, root=tmp_path)
    text = str(caught.value)
    assert any(w in text for w in ("gazeattn fetch", "dataset=table", str(tmp_path), "root="))
    if "page" in registry.datasets.get(name).info:
        for file in registry.datasets.get(name).info["page"].files:
            assert file.name in text


@pytest.mark.parametrize("name", NAMES)
def test_registered_facts_and_options(name: str) -> None:
    entry = registry.datasets.get(name)
    for key in ("task", "size", "licence", "citation", "description"):
        assert entry.info.get(key), key
    assert "root" in inspect.signature(entry.obj).parameters
    assert entry.obj.__doc__
    with pytest.raises(UnknownNameError, match="option"):
        load(name, no_such_option=1)


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'onestop_sample'"):
        load("onestop-sampel")


def test_tables_conform(dataset: GazeDataset) -> None:
    for frame, schema, check in (
        (dataset.fixations, FIXATIONS, check_fixations),
        (dataset.words, WORDS, check_words),
        (dataset.trials, TRIALS, check_trials),
    ):
        again, log = check(frame)  # type: ignore[operator]
        assert again.equals(frame), check.__name__
        assert log.count(kind="repaired") == log.count(kind="dropped") == 0
        kinds = {"text": "str", "float": "float64"}
        for column, spec in schema.items():
            if column in frame and spec.kind in kinds:
                assert str(frame[column].dtype) == kinds[spec.kind], column
    trial, index = dataset.fixations["trial"], dataset.fixations["index"]
    assert trial.is_monotonic_increasing
    start = trial != trial.shift()
    assert (index[start] == 0).all() and (index.diff()[~start] == 1).all()
    assert dataset.trials["trial"].is_monotonic_increasing


def test_tables_refer_to_each_other(dataset: GazeDataset) -> None:
    assert set(dataset.fixations["trial"]) <= set(dataset.trials["trial"])
    wordless = ~dataset.trials["layout"].isin(dataset.words["layout"])
    if len(dataset.words) and wordless.any():
        assert dataset.lost.count(), "trials without words must be counted"
    assert set(dataset.words["stimulus"]) <= set(dataset.stimuli)
    assert set(dataset.trials["stimulus"]) <= set(dataset.stimuli)
    heads = dataset.fixations.drop_duplicates(["trial", "participant", "stimulus"])
    joined = heads.merge(dataset.trials, on="trial", suffixes=("", "_t"))
    assert len(joined) == dataset.fixations["trial"].nunique()
    assert (joined["participant"] == joined["participant_t"]).all()
    assert (joined["stimulus"] == joined["stimulus_t"]).all()
    assert dataset.participants == sorted(set(dataset.trials["participant"]))
    layout = dataset.trials["layout"].iloc[0]
    assert len(dataset.units(layout)) == (dataset.words["layout"] == layout).sum()


def test_info_says_how_to_cite(dataset: GazeDataset) -> None:
    for key in ("citation", "licence", "version", "description", "readers_note"):
        assert dataset.info.get(key), key
    assert isinstance(dataset.info["checksums"], dict)
    assert isinstance(dataset.info["unverified"], list)
    for facts in dataset.stimuli.values():
        assert isinstance(facts.get("text", ""), str)
        if "image" in facts:
            assert os.path.isfile(facts["image"])


def test_words_lines_run_downwards(dataset: GazeDataset) -> None:
    if dataset.name not in ("onestop_sample", "onestop_slice"):
        pytest.skip("boxes of other corpora are as published")
    assert dataset.words["line"].notna().all()
    for _, words in dataset.words.groupby("layout"):
        assert words["line"].is_monotonic_increasing and words["line"].min() == 0
        by_line = words.groupby("line")
        assert (by_line["bottom"].max().diff().dropna() > 0).all()
        for _, line in by_line:
            assert line["left"].is_monotonic_increasing


def test_published_counts_come_out(dataset: GazeDataset) -> None:
    """What a page expects of the edition is there, where the edition is."""
    info = registry.datasets.get(dataset.name).info if dataset.name in NAMES else {}
    if "page" not in info or not (shared_folder() / dataset.name).is_dir():
        pytest.skip("no page with counts, or not the real files")
    expected = info["page"].expected[dataset.info["edition"]]
    assert expected
    found = {what: dataset.info["counts"].get(what) for what in expected}
    assert found == dict(expected)


def test_labels_are_columns_of_the_trials(dataset: GazeDataset) -> None:
    for label in dataset.info["labels"]:
        assert label in dataset.trials, label
        assert dataset.trials[label].notna().any(), label


@pytest.mark.parametrize("by", ["reader", "text", "both"])
def test_no_split_leaks(dataset: GazeDataset, by: str) -> None:
    trials = dataset.trials
    item = dataset.info.get("item", "stimulus")
    axes = {"reader": ["participant"], "text": [item], "both": ["participant", item]}
    folds = min(5, *(trials[c].nunique() for c in axes[by]), 5)
    if folds < 3:
        pytest.skip("fewer than three readers or items")
    try:
        s = kfold(dataset, by=by, folds=folds, fold=1, seed=2)
    except DataError as error:
        assert by == "both" and "no trial is left" in str(error)
        return
    joined = trials.assign(
        part=s.of(trials["trial"])["part"], regime=s.of(trials["trial"])["regime"]
    )
    train = joined[joined["part"] == "train"]
    assert len(train) and joined["part"].eq("test").any()
    for column, regimes in (
        ("participant", ("unseen_reader", "unseen_both")),
        ("stimulus", ("unseen_text", "unseen_both")),
        (item, ("unseen_text", "unseen_both")),
    ):
        held_out = joined[joined["part"].isin(["val", "test"]) & joined["regime"].isin(regimes)]
        assert not set(held_out[column]) & set(train[column])
    # windows, fixations and words of one trial are on one side
    windows = dataset.fixations[["trial"]].assign(window=dataset.fixations["index"] // 21)
    parts = s.of(windows["trial"])["part"].to_numpy()
    assert (windows.assign(part=parts).groupby("trial")["part"].nunique() == 1).all()


def test_asset_path_of_the_sample(sample: GazeDataset) -> None:
    assert (asset_path("onestop_sample") / "NOTICE").is_file()
