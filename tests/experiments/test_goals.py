"""The benchmark of open goals: settings, rows by hand, and a whole run on made-up readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments import _goal_data, goals
from gazeattn.experiments import _goal_rows as scores
from gazeattn.results import unpack_rows

from ..datamodules import made_goals as made


def test_settings_by_size_and_change() -> None:
    tiny = goals.goal_settings("tiny")
    assert tiny["limits"] == {"score": 3, "write": 3, "train": 4, "folds": [0]}
    assert tiny["models"]["haller_selection"]["hidden"] == 4
    assert tiny["models"]["haller_selection"]["lr"] == 0.003  # of the base
    assert tiny["models"]["haller_selection_text"] == tiny["models"]["haller_selection"]
    assert goals.goal_settings("cpu")["writer"]["rank"] == 16
    full = goals.goal_settings("full", {"writer.most": 7, "folds": [1]})
    assert full["writer"]["most"] == 7 and full["folds"] == [1]
    assert full["limits"]["train"] is None and full["llm"]["most"] is None
    with pytest.raises(UnknownNameError):
        goals.goal_settings("huge")
    with pytest.raises(UnknownNameError):
        goals.goal_settings("tiny", {"writers.most": 7})
    with pytest.raises(UnknownNameError):
        goals.goal_settings("tiny", {"tasks": ["dream"]})


def test_controls_are_always_there() -> None:
    assert goals.with_controls(["haller_selection"], "selection") == [
        "haller_selection", "haller_selection_text",
    ]  # fmt: skip
    assert goals.with_controls(["writer", "writer_tokens"], "reconstruction") == [
        "writer", "writer_tokens", "writer_text", "retrieval_same_text", "retrieval_other_text",
    ]  # fmt: skip
    with pytest.raises(UnknownNameError, match="model of selection"):
        goals.with_controls(["writer"], "selection")


def test_samples_are_even_over_regimes() -> None:
    table = pd.DataFrame({"regime": ["a"] * 50 + ["b"] * 5 + ["c"] * 20})
    found = table.iloc[_goal_data.sample(table, 15, 0)]["regime"].value_counts()
    assert found.to_dict() == {"a": 5, "b": 5, "c": 5}
    assert len(_goal_data.sample(table, None, 0)) == len(_goal_data.sample(table, 99, 0)) == 75
    bare = pd.DataFrame({"regime": [None] * 9})
    assert len(_goal_data.sample(bare, 4, 0)) == 4


def test_means_and_intervals_by_hand() -> None:
    value, low, high, n = scores.mean_and_interval(
        np.array([1.0, 0.0, np.nan, 1.0]), ["a", "a", "b", "b"], 2000
    )
    assert (value, n) == (pytest.approx(2 / 3), 3)
    assert low == pytest.approx(0.5) and high == pytest.approx(1)  # one reader twice
    assert np.isnan(scores.mean_and_interval(np.array([1.0, 0.0]), ["a", "a"], 99)[1])
    assert scores.mean_and_interval(np.array([np.nan]), ["a"], 99)[3] == 0


def test_differences_are_on_shared_trials() -> None:
    def table(trials: str, values: list[float], seed: int = 0) -> pd.DataFrame:
        facts = {"fold": 0, "seed": seed, "regime": "unseen_text", "participant": list(trials)}
        return pd.DataFrame({**facts, "trial": list(trials), "accuracy": values})

    ours = pd.concat([table("abc", [1, 1, 0]), table("abc", [1, 0, 0], 1)])
    rows = scores.compared(
        {"m": ours, "t": table("bcd", [0, 1, 1])}, ["accuracy"], {"m": ["t", "nobody"]},
        {"m": "model", "t": "control"}, 100,
    )  # fmt: skip
    found = {(r["model"], r["reference"], r["regime"]): r for r in rows}
    assert found["m", "", "all"]["value"] == pytest.approx(0.5)
    assert found["m", "", "all"]["n"] == 3
    assert found["m", "t", "unseen_text"]["value"] == pytest.approx((0.5 - 0 + 0 - 1) / 2)
    assert found["m", "t", "unseen_text"]["n"] == 2
    assert ("m", "", "unseen_both") not in found


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    encoder = made.save_encoder(tmp_path_factory.mktemp("encoder"))
    decoder = made.save_decoder(tmp_path_factory.mktemp("decoder"))
    nets = {
        f"models.roberteye_selection{k}.{name}": value
        for k in ("", "_text")
        for name, value in {"encoder": encoder, "entry_layer": 1}.items()
    }
    return {
        "dataset": "made", "encoder": encoder, "scorer": encoder, "llm.lm": decoder,
        "writer.lm": decoder, "n_folds": 3, "folds": [0], **nets,
    }  # fmt: skip


def test_retrieval_and_similarity_alone(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_goal_data, "load", lambda name, root: made.seekers(readers=6))
    own = {**changes, "selection": ["weighted_passage"], "reconstruction": []}
    rows = goals.run_goals(tmp_path / "run", changes=own, size="tiny", root=str(tmp_path))
    assert set(rows["model"]) == {
        "weighted_passage", "passage", "chance", "retrieval_same_text", "retrieval_other_text",
    }  # fmt: skip
    assert set(rows["size"]) == {"tiny"} and (rows["fold"] == "mean").all()
    gap = rows[(rows["reference"] == "passage") & (rows["metric"] == "accuracy")]
    assert len(gap) == 4
    ours, theirs = (
        rows[(rows["model"] == m) & (rows["metric"] == "accuracy") & (rows["reference"] == "")]
        for m in ("weighted_passage", "passage")
    )
    expected = ours["value"].to_numpy() - theirs["value"].to_numpy()
    assert gap["value"].to_numpy() == pytest.approx(expected)
    # texts that were read in training have their questions there, others have none
    same = rows[rows["model"] == "retrieval_same_text"]
    assert set(same["regime"]) == {"all", "unseen_reader"}


@pytest.mark.slow
def test_whole_run(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_goal_data, "load", lambda name, root: made.seekers(readers=6))
    run = tmp_path / "run"
    options: dict[str, Any] = {"size": "tiny", "root": str(tmp_path), "accelerator": "cpu"}
    rows = goals.run_goals(
        run, changes=changes, publish=str(tmp_path), command="gazeattn benchmark goals", **options
    )
    chosen = rows[(rows["task"] == scores.SELECTION) & (rows["reference"] == "")]
    assert {
        "weighted_passage",
        "passage",
        "time_correlation",
        "haller_selection",
        "chance",
        "haller_selection_text",
        "roberteye_selection",
        "roberteye_selection_text",
        "llm_selection",
        "llm_selection_sum",
        "llm_selection_text",
    } <= set(chosen["model"])
    chance = chosen[(chosen["model"] == "chance") & (chosen["metric"] == "accuracy")]
    assert chance["value"].between(1 / 3 - 1e-9, 0.5).all()  # some texts have two candidates
    assert set(chance["regime"]) == set(scores.REGIMES)
    gaps = rows[rows["reference"] != ""]
    pairs = set(zip(gaps["model"], gaps["reference"], strict=True))
    assert {
        ("weighted_passage", "passage"),
        ("llm_selection_sum", "llm_selection_text_sum"),
        ("time_correlation", "word_length_correlation"),
        ("writer", "writer_text"),
        ("writer_tokens", "retrieval_other_text"),
    } <= pairs
    wrote = rows[(rows["task"] == scores.RECONSTRUCTION) & (rows["reference"] == "")]
    empty = wrote[wrote["metric"] == "qa_accuracy"]
    assert len(empty) and empty["value"].isna().all()
    assert empty["convention"].str.contains("no question-answering model").all()
    known = wrote[~wrote["metric"].eq("qa_accuracy")]
    assert known["value"].between(-1, 1).all()
    assert "accuracy_within" in set(chosen["metric"]) and "corpus_bleu" in set(wrote["metric"])
    # nothing of the test in training: questions of one part only
    for fold in (0,):
        table = pd.read_parquet(
            run / "reconstruction" / f"retrieval_other_text_{fold}_0"
            / "retrieval_other_text.predictions.parquet"
        )  # fmt: skip
        unseen = table[table["regime"] != "unseen_reader"]
        assert not set(unseen["true"]) & set(table["written"])
    published = json.loads((tmp_path / "made_goals.json").read_text())
    assert len(unpack_rows(published)) == len(rows) and published["notes"]
    page = (run / "report.html").read_text()
    assert "Under-powered" in page and "Asked and written" in page
    assert (run / "reconstruction" / "writer_0_0" / "writer.safetensors").is_file()

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(goals, "select", never)
    monkeypatch.setattr(goals, "reconstruct", never)
    again = goals.run_goals(run, changes=changes, command="gazeattn benchmark goals", **options)
    pd.testing.assert_frame_equal(again, rows)
    with pytest.raises(DataError, match="other settings"):
        goals.run_goals(run, changes={**changes, "candidates": 2}, **options)


def test_qa_hook(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_goal_data, "load", lambda name, root: made.seekers(readers=6))
    data = goals.Goals(
        goals.goal_settings("tiny", changes), "made", str(tmp_path),
        qa=lambda question, text, answers: answers[0] if question[0] == "W" else answers[-1],
    )  # fmt: skip
    test, facts = data.part(0, "test")
    answers = np.where(np.arange(len(test)) % 2, "a", "b")
    test.trials.table["gold_answer"] = answers
    asked = [q if i % 3 else None for i, q in enumerate(test.questions)]
    found = goals.score_written(data, facts.assign(seed=0), test, asked)
    there = found[found["there"]]
    assert there["exact"].tolist() == [1] * len(there)
    assert there["bertscore_f1"].to_numpy() == pytest.approx(1, abs=1e-6)
    assert there["qa_accuracy"].dropna().eq(1).all() and there["qa_accuracy"].notna().any()
    assert found.loc[~found["there"], ["bleu", "qa_accuracy"]].isna().all(axis=None)
    plain = goals.Goals(data.settings, "made", str(tmp_path))
    assert goals.score_written(plain, facts, test, asked)["qa_accuracy"].isna().all()


@pytest.mark.slow
def test_onestop_end_to_end(
    changes: dict[str, Any], shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gazeattn.datasets import load

    monkeypatch.setattr(_goal_data, "load", lambda name, root: load(name, root=shared_data))
    own = {**changes, "dataset": "onestop_slice", "by": "text", "item": "paragraph", "folds": [0]}
    own = {k: v for k, v in own.items() if "roberteye" not in k}  # texts are longer than it takes
    own["selection"] = ["weighted_passage", "time_correlation", "haller_selection"]
    own["writer.most"] = 2
    own["reconstruction"] = []
    rows = goals.run_goals(tmp_path / "run", changes=own, size="tiny", root=str(tmp_path))
    assert set(rows["regime"]) == {"all", "unseen_text"}
    assert rows.loc[rows["model"] == "chance", "value"].iloc[0] == pytest.approx(1 / 3)
