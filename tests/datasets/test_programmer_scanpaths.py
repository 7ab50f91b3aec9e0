"""Programmer scanpaths: lines of our own in the layout of the file, and the real ones."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.programmer_scanpaths import tokens_of
from gazeattn.errors import DataError, MissingAssetError


def _line(tokens: list[str], durations: list[float], person: int = 106, method: int = 7) -> dict:
    return {
        "participant": person,
        "method_id": method,
        "order_in_file": 0,
        "n_fixations": len(tokens),
        "tokens": tokens,
        "durations_ms": durations,
    }


def _load(folder: Path, *lines: object) -> GazeDataset:
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    (folder / "scanpaths.jsonl").write_text(text + "\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("programmer_scanpaths", root=folder)


def test_tokens_and_durations(tmp_path: Path) -> None:
    ds = _load(tmp_path, _line(["a", "a", "b.1"], [100.0, 250.5, 300]), _line(["b"], [120], 108))
    assert ds.fixations["word"].tolist() == ["a", "a", "b.1", "b"]
    assert ds.fixations["duration"].tolist() == [100, 250.5, 300, 120]
    assert ds.fixations["participant"].tolist() == ["106"] * 3 + ["108"]
    assert ds.info["counts"]["refixations"] == 1 and ds.info["units"] == "code tokens"
    assert not ds.capabilities["has_xy"]


def test_empty_scanpaths_stay_trials(tmp_path: Path) -> None:
    ds = _load(
        tmp_path, _line([], []), _line(["x"], [100.0], 108), _line(["x", "y"], [1.0, 2.0], 109)
    )
    assert list(ds.trials["trial"]) == ["106_7", "108_7", "109_7"]
    assert ds.trials["n_fixations"].tolist() == [0, 1, 2]
    assert ds.info["counts"]["empty_scanpaths"] == 1
    assert ds.info["counts"]["scanpaths_of_one_or_two"] == 2
    assert ds.lost.count("trials", "undefined") == 1


def test_all_scanpaths_empty(tmp_path: Path) -> None:
    ds = _load(tmp_path, _line([], []))
    assert len(ds.fixations) == 0 and len(ds.words) == 0 and len(ds.trials) == 1


def test_long_durations_are_kept_and_marked(tmp_path: Path) -> None:
    ds = _load(tmp_path, _line(["a", "b", "c"], [5000.0, 5000.1, 2011972.0]))
    assert ds.fixations["long_duration"].tolist() == [False, True, True]
    assert ds.fixations["duration"].max() == 2011972
    assert any(x.kind == "note" and x.count == 2 and "5000" in x.reason for x in ds.lost)


@pytest.mark.parametrize(
    ("tokens", "word", "text", "occurrence"),
    [
        (["StringBuffer", "StringBuffer.1"], "StringBuffer.1", "StringBuffer", 1),
        (["StringBuffer.2"], "StringBuffer.2", "StringBuffer.2", 0),  # its first is not known
        (["0.1"], "0.1", "0.1", 0),
        (["100", "100.0"], "100.0", "100.0", 0),  # a number, although 100 is a token
        (["sb.append", "sb.append.3"], "sb.append.3", "sb.append", 3),
        (["sb", "sb.append"], "sb.append", "sb.append", 0),
        (["(", "(.12"], "(.12", "(", 12),
        (["a", "a.1", "a.1.1"], "a.1.1", "a.1", 1),
    ],
)
def test_running_numbers(tokens: list[str], word: str, text: str, occurrence: int) -> None:
    words = tokens_of(pd.DataFrame({"stimulus": "m", "word": pd.Series(tokens, dtype="str")}))
    row = words.set_index("word").loc[word]
    assert (row["text"], row["occurrence"]) == (text, occurrence)


def test_a_token_of_another_method_does_not_count() -> None:
    table = pd.DataFrame({"stimulus": ["m", "n"], "word": pd.Series(["a", "a.1"], dtype="str")})
    assert tokens_of(table)["text"].tolist() == ["a", "a.1"]


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[]",
        json.dumps({**_line(["a"], [1.0]), "tokens": ["a", "b"]}),
        json.dumps({**_line(["a"], [1.0]), "n_fixations": 2}),
        json.dumps({k: v for k, v in _line(["a"], [1.0]).items() if k != "tokens"}),
    ],
)
def test_damaged_lines_are_named(tmp_path: Path, bad: str) -> None:
    with pytest.raises(DataError, match=r"scanpaths.jsonl, row 2.*not a scanpath"):
        _load(tmp_path, _line(["a"], [1.0]), bad)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "dataParticipant.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(MissingAssetError, match="never opened"):
        load("programmer_scanpaths", root=tmp_path)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load("programmer_scanpaths", root=shared_data / "programmer_scanpaths")


def test_real_counts(real: GazeDataset, shared_data: Path) -> None:
    assert len(real.trials) == 680 and len(real.fixations) == 71130
    assert len(real.participants) == 27 and len(real.stimuli) == 68
    assert (real.trials["n_fixations"] == 0).sum() == 24
    counts = real.info["counts"]
    assert counts["scanpaths_of_one_or_two"] == 6 and counts["refixations"] == 11990
    assert counts["above_5000_ms"] == 1350 and counts["above_60000_ms"] == 31
    assert counts["numbered_tokens"] == 684
    d = real.fixations["duration"]
    assert d.min() >= 100 and round(d.max()) == 2011972 and round(d.median()) == 258
    slow = real.fixations.loc[d > 60000, "participant"].value_counts()
    assert slow[["314", "315"]].sum() == 20
    methods = pd.read_csv(shared_data / "programmer_scanpaths" / "methods.csv").set_index(
        "method_id"
    )
    tokens = real.words.groupby("stimulus").size()
    assert (tokens == methods["n_distinct_tokens"].rename(str)[tokens.index]).all()
    people = pd.read_csv(shared_data / "programmer_scanpaths" / "participants.csv")
    n = real.fixations["participant"].value_counts()
    assert (
        people.set_index(people["participant"].astype(str))["n_fixations"]
        == n[people["participant"].astype(str)]
    ).all()
    assert real.info["licence"] == "none found"
