"""Candidates of goals, their order and purity, and readings as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gazeattn.datamodules import reading_goals as goals
from gazeattn.datasets import load
from gazeattn.datasets.splits import kfold
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.losses import LossLog

from . import made_goals as made


def test_bank_has_each_question_once_and_no_statement() -> None:
    data = made.seekers()
    bank = goals.question_bank(data, goals.seeking_trials(data))
    assert set(bank["question"]) == {q for asked in made.QUESTIONS.values() for q in asked}
    assert not bank.duplicated(["paragraph", "set", "key"]).any()


def test_candidates_by_hand() -> None:
    data, lost = made.seekers(), LossLog()
    trials = goals.seeking_trials(data)
    goal = goals.with_candidates(trials, goals.question_bank(data, trials), lost=lost)
    assert all(len(c) == 3 for c in goal.candidates)
    assert goal.questions == trials.table["question"].tolist()
    same = dict(zip("ABCD", (1, 2, 0, 1), strict=True))
    for text, kinds, groups in zip(goal.trials.table["text"], goal.kinds, goal.groups, strict=True):
        assert kinds.count(goals.ASKED) == 1
        assert kinds.count(goals.SAME) == same[text]
        assert groups.count(text) == 1 + same[text]
        assert kinds.count(goals.OTHER) == 2 - same[text]
    counted = {x.reason: x.count for x in lost}
    assert counted == {"candidates: same text": 16, "candidates: other text": 16}


def test_other_texts_of_the_same_set_come_first() -> None:
    data = made.seekers()
    trials = goals.seeking_trials(data)
    goal = goals.with_candidates(trials, goals.question_bank(data, trials))
    sets = {q: "one" if t in "AB" else "two" for t, a in made.QUESTIONS.items() for q in a}
    for own, candidates in zip(goal.trials.table["set"], goal.candidates, strict=True):
        assert {sets[q] for q in candidates} == {own}


def test_order_is_shuffled_and_does_not_depend_on_other_trials() -> None:
    data = made.seekers(readers=30)
    trials = goals.seeking_trials(data)
    bank = goals.question_bank(data, trials)
    goal = goals.with_candidates(trials, bank)
    counts = np.bincount(goal.target, minlength=3)
    assert (counts > 25).all()  # 120 trials
    some = goals.with_candidates(trials.take([50, 7]), bank)
    assert some.candidates == (goal.candidates[50], goal.candidates[7])
    other = goals.with_candidates(trials, bank, seed=1)
    assert other.candidates != goal.candidates
    again = goals.with_candidates(trials, bank)
    assert again.candidates == goal.candidates and (again.target == goal.target).all()


def test_candidates_stay_in_their_part_of_the_split() -> None:
    data = made.seekers(readers=6)
    trials = goals.seeking_trials(data)
    split = kfold(trials.table, by="both", folds=3, fold=0, item="item")
    parts = goals.item_parts(split)
    assert set(parts.values()) == {"train", "val", "test"}
    table = split.table
    unseen = table[(table["part"] == "test") & (table["regime"] != "unseen_reader")]
    assert {i for i, p in parts.items() if p == "test"} == set(unseen["item"])
    lost = LossLog()
    goal = goals.with_candidates(trials, goals.question_bank(data, trials), part_of=parts,
                                 lost=lost)  # fmt: skip
    of = {q: t for t, asked in made.QUESTIONS.items() for q in asked}
    for own, candidates in zip(goal.trials.table["item"], goal.candidates, strict=True):
        assert {parts[of[q]] for q in candidates} == {parts[own]}


def test_trials_without_a_second_candidate_are_dropped_and_counted() -> None:
    data, lost = made.seekers(), LossLog()
    trials = goals.seeking_trials(data)
    bank = goals.question_bank(data, trials)
    parts = {"A": "x", "B": "x", "C": "alone", "D": "x"}
    goal = goals.with_candidates(trials, bank, part_of=parts, lost=lost)
    assert len(goal) == 12 and "C" not in set(goal.trials.table["text"])
    assert any(x.kind == "dropped" and x.count == 4 for x in lost)
    with pytest.raises(DataError, match="no trial has a second"):
        goals.with_candidates(trials, bank.iloc[:0])
    with pytest.raises(DataError, match="two candidates"):
        goals.with_candidates(trials, bank, n=1)


def test_only_information_seeking_with_a_question_counts() -> None:
    data, lost = made.seekers(), LossLog()
    table = data.trials.copy()
    table.loc[0, "condition"] = "ordinary reading"
    table.loc[1, "question"] = "  "
    found = goals.seeking_trials(replace(data, trials=table), lost=lost)
    assert len(found) == 14
    assert {x.reason: x.count for x in lost if x.step == "goals"} == {
        "no information seeking": 1,
        "the question is not known": 1,
    }
    with pytest.raises(DataError, match="no trial sought"):
        goals.seeking_trials(replace(data, trials=table.assign(question="")))
    with pytest.raises(DataError, match="name no question"):
        goals.seeking_trials(replace(data, trials=table.drop(columns="question")))
    with pytest.raises(UnknownNameError):
        goals.seeking_trials(data, item="chapter")


def test_reordering_keeps_the_true_candidate() -> None:
    data = made.seekers()
    trials = goals.seeking_trials(data)
    goal = goals.with_candidates(trials, goals.question_bank(data, trials))
    turned = goal.reordered([(2, 0, 1)] * len(goal))
    assert turned.questions == goal.questions
    assert turned.candidates[0] == tuple(goal.candidates[0][k] for k in (2, 0, 1))
    assert goal.take([3]).questions == goal.questions[3:4]


def test_scanpath_by_hand() -> None:
    data = made.seekers()
    fixations = data.fixations[data.fixations["trial"] == "P0_A"].head(5).copy()
    fixations["x"] = [150.0, 350.0, 50.0, 250.0, 250.0]
    fixations["y"] = [25.0, 25.0, 400.0, 25.0, 25.0]
    fixations["duration"] = [400.4, np.nan, 90.0, 100.0, 120.0]
    if len(fixations) < 5:
        pytest.fail("the made trial is too short")
    trials = data.trials[data.trials["trial"] == "P0_A"].reset_index(drop=True)
    found = goals.seeking_trials(
        replace(data, fixations=fixations.reset_index(drop=True), trials=trials)
    )
    lists, cut = goals.scanpath_lists(found)
    assert cut == 0
    assert lists == [
        "2 old 400 forward; 4 sees ? off; - off 90 off; 3 man 100 within; 3 man 120 end"
    ]
    lists, cut = goals.scanpath_lists(found, most=2)
    assert lists == ["2 old 400 forward; 4 sees ? off"] and cut == 3
    texts, cut = goals.prompts(found, "list", 1)
    assert cut == 4 and texts[0].endswith("2 old 400 forward\nQuestion:")
    texts, cut = goals.prompts(found, "none")
    assert cut == 0 and texts[0].endswith("Paragraph: the old man sees the sea\nQuestion:")
    with pytest.raises(UnknownNameError):
        goals.prompts(found, "picture")


def test_prompts_hold_no_question() -> None:
    data = made.seekers()
    trials = goals.seeking_trials(data)
    for text, question in zip(goals.prompts(trials)[0], trials.table["question"], strict=True):
        assert question not in text


def test_spans_where_the_corpus_tells_them() -> None:
    data = made.seekers(readers=1)
    inside = data.words["index"].isin([1, 2])
    data = replace(data, words=data.words.assign(is_in_aspan=inside), reports={})
    assert goals.answer_spans(data).to_dict() == dict.fromkeys("ABCD", "1-2")
    trials = goals.seeking_trials(data)
    goal = goals.with_candidates(trials, goals.question_bank(data, trials))
    assert goal.grouped_by == "span"
    assert goal.groups[0][int(goal.target[0])] == "A:1-2"


def test_webqamgaze(shared_data: Path, recwarn: pytest.WarningsRecorder) -> None:
    data = load("webqamgaze", root=shared_data / "webqamgaze")
    trials = goals.seeking_trials(data)
    assert len(trials) == 615
    goal = goals.with_candidates(trials, goals.question_bank(data, trials))
    assert len(goal) == 615 and set(map(len, goal.candidates)) == {3}
    kinds = pd.Series([k for kinds in goal.kinds for k in kinds]).value_counts()
    assert kinds.to_dict() == {"asked": 615, "other text": 641, "same text": 589}


@pytest.mark.parametrize("name", ["onestop_slice"])
def test_onestop(name: str, shared_data: Path) -> None:
    data = load(name, root=shared_data)
    trials = goals.seeking_trials(data)
    assert set(trials.table["item"]) == {"2_1", "2_2"}
    by_paragraph = goals.seeking_trials(data, item="paragraph")
    assert by_paragraph.table["item"].nunique() == 10
    goal = goals.with_candidates(trials, goals.question_bank(data, trials))
    assert set(map(len, goal.candidates)) == {3}
    assert goal.grouped_by == "span"
