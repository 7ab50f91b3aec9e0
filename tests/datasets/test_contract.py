"""What holds for every registered data set."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest

from gazeattn import registry
from gazeattn.datasets import GazeDataset, load
from gazeattn.downloads import asset_path
from gazeattn.errors import DataError, MissingAssetError, UnknownNameError
from gazeattn.tables import FIXATIONS, TRIALS, WORDS, check_fixations, check_trials, check_words

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
    try:
        return load(request.param)
    except MissingAssetError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_that_is_not_there_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAZEATTN_DATA", str(tmp_path))
    monkeypatch.delenv("GAZEATTN_SHARED", raising=False)
    with pytest.raises((MissingAssetError, DataError)) as caught:
        load(name, root=tmp_path)
    assert "gazeattn fetch" in str(caught.value) or "dataset=table" in str(caught.value)


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
    key = dataset.fixations[["trial", "index"]].apply(tuple, axis=1)
    assert key.is_monotonic_increasing and key.is_unique
    assert dataset.trials["trial"].is_monotonic_increasing


def test_tables_refer_to_each_other(dataset: GazeDataset) -> None:
    assert set(dataset.fixations["trial"]) <= set(dataset.trials["trial"])
    assert set(dataset.trials["layout"]) <= set(dataset.words["layout"])
    assert set(dataset.words["stimulus"]) == set(dataset.stimuli)
    joined = dataset.fixations.merge(dataset.trials, on="trial", suffixes=("", "_t"))
    assert (joined["participant"] == joined["participant_t"]).all()
    assert (joined["stimulus"] == joined["stimulus_t"]).all()
    assert dataset.participants == sorted(set(dataset.trials["participant"]))
    layout = dataset.trials["layout"].iloc[0]
    assert len(dataset.units(layout)) == (dataset.words["layout"] == layout).sum()


def test_info_says_how_to_cite(dataset: GazeDataset) -> None:
    for key in ("citation", "licence", "version", "description", "readers_note", "checksums"):
        assert dataset.info.get(key), key
    assert isinstance(dataset.info["unverified"], list)
    for facts in dataset.stimuli.values():
        assert facts["text"]
        if "image" in facts:
            assert os.path.isfile(facts["image"])


def test_words_lines_run_downwards(dataset: GazeDataset) -> None:
    assert dataset.words["line"].notna().all()
    for _, words in dataset.words.groupby("layout"):
        assert words["line"].is_monotonic_increasing and words["line"].min() == 0
        by_line = words.groupby("line")
        assert (by_line["bottom"].max().diff().dropna() > 0).all()
        for _, line in by_line:
            assert line["left"].is_monotonic_increasing


def test_asset_path_of_the_sample(sample: GazeDataset) -> None:
    assert (asset_path("onestop_sample") / "NOTICE").is_file()
