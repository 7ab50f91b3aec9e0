"""The benchmark of sequences of objects, on generated shelves."""

from __future__ import annotations

import json

import pytest

from gazeattn.errors import UnknownNameError
from gazeattn.experiments import object_search
from gazeattn.experiments._object_data import as_visits, hashed_embedder
from gazeattn.experiments.object_search import run_object_search
from gazeattn.results import RESULT_COLUMNS


def test_rows_are_not_computed_twice_and_are_the_same_after_an_interruption(tmp_path, monkeypatch):
    options = {"size": "tiny", "tasks": ["shelves"], "command": "test"}
    rows = run_object_search(tmp_path / "a", **options)
    assert list(rows.columns) == [*RESULT_COLUMNS, "kind", "reference"]
    assert {"oat appearance", "oat positions", "searcher", "nearest_object"} <= set(rows["model"])
    published = json.loads((tmp_path / "a" / "scanpath_sti.json").read_text())
    assert len(published["rows"]) == len(rows) and published["runs"][0]["command"] == "test"

    page = tmp_path / "a" / "report.html"
    page.unlink()

    def never(*_args, **_options):
        raise AssertionError("trained again")

    with monkeypatch.context() as patch:
        patch.setattr(object_search, "train_network", never)
        again = run_object_search(tmp_path / "a", **options)
    assert again.equals(rows)
    assert page.is_file(), "the page is written where everything was finished, too"
    assert len(list((tmp_path / "a" / "figures").glob("shelves_unseen_shelf_*.png"))) == 4

    class Killed(Exception):
        pass

    real, calls = object_search.train_network, []

    def killed(*args, **kept):
        calls.append(1)
        if len(calls) == 2:
            raise Killed
        return real(*args, **kept)

    with monkeypatch.context() as patch:
        patch.setattr(object_search, "train_network", killed)
        with pytest.raises(Killed):
            run_object_search(tmp_path / "b", **options)
    resumed = run_object_search(tmp_path / "b", **options)
    assert resumed.drop(columns="commit").equals(rows.drop(columns="commit"))


def test_unknown_options(tmp_path):
    with pytest.raises(UnknownNameError):
        run_object_search(tmp_path, tasks=["sti_search"])
    with pytest.raises(UnknownNameError):
        run_object_search(tmp_path, size="tiny", sample=3)


def test_hashed_embeddings_depend_on_letters_alone():
    embed = hashed_embedder(8)
    rows, whole = embed(["The", "cat,", "the", "Cat"])
    assert rows.shape == (4, 8) and whole.shape == (8,)
    assert rows[0].equal(rows[2]) and rows[1].equal(rows[3]) and not rows[0].equal(rows[1])


def test_visits_count_repeats_once_and_know_where_they_were_cut():
    from gazeattn.datamodules import Stimulus
    from gazeattn.datamodules.objects import object_scanpaths, table_of_boxes

    boxes = [[10.0 * i, 0, 10.0 * i + 8, 8] for i in range(4)]
    shown = {"a": Stimulus("a", (40.0, 8.0), objects=table_of_boxes(boxes))}
    paths = object_scanpaths([[0, 0, 1, 1, 0], [3, 2, 1, 0]], ["a", "a"], shown)
    found = as_visits(paths, 3)
    assert [s.tolist() for s in found.sequences()] == [[0, 1, 0], [3, 2, 1]]
    assert found.finished.tolist() == [True, False]
