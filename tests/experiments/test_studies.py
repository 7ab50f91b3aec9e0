"""Studies on code: ratios of kinds of tokens and their transfer, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError
from gazeattn.experiments.studies.code import class_ratios, sentences, transfer
from gazeattn.experiments.studies.reading_goals import contrast
from gazeattn.experiments.studies.reading_goals import sentences as goals_said
from gazeattn.experiments.studies.rollout import (
    WEIGHTS,
    correlations,
    one_sentence,
    sentences_of,
    summary_of,
    weights_of,
)
from gazeattn.experiments.studies.rollout import sentences as rollout_said


def profiles() -> pd.DataFrame:
    return pd.DataFrame({
        "stimulus": "s", "name": "raw", "index": [0, 1, 2, 3], "text": ["int", "x", "=", "y"],
        "weight": [0.1, 0.4, 0.1, 0.4],
    })  # fmt: skip


CLASSES = pd.DataFrame({
    "stimulus": "s", "index": [0, 1, 2, 3],
    "class": ["keyword", "identifier", "operator", "identifier"],
})  # fmt: skip


def test_ratios_by_hand() -> None:
    found = class_ratios(profiles(), CLASSES).set_index("class")
    # even attention is .25 for each
    assert found["ratio"].to_dict() == pytest.approx(
        {"identifier": 1.6, "keyword": 0.4, "operator": 0.4}
    )
    assert found.loc["identifier", "words"] == 2
    with pytest.raises(DataError, match="no class"):
        class_ratios(profiles(), CLASSES.iloc[:3])
    gone = profiles().assign(weight=[np.nan, 0.6, 0.2, 0.4])
    assert "keyword" not in set(class_ratios(gone, CLASSES)["class"])


def test_transfer_by_hand() -> None:
    ratios = pd.DataFrame({
        "method": ["raw"] * 4, "class": ["a", "b", "c", "d"], "ratio": [1.0, 2.0, 3.0, 4.0],
    })  # fmt: skip
    readers = pd.DataFrame(
        [[0.1, 0.2, 0.3, 0.4], [0.2, 0.4, 0.6, 0.8]], columns=list("abcd"), index=["p", "q"]
    )
    found = transfer(ratios, {"same": readers, "turned": 1 / readers}, 50).set_index("dataset")
    assert found.loc["same", ["value", "low", "high"]].tolist() == [1, 1, 1]
    assert found.loc["turned", "value"] == -1
    assert found.loc["same", "ceiling"] == 1 and found.loc["same", "classes"] == 4
    # a kind that the model has not is left out, not put at 0
    fewer = transfer(ratios.iloc[:3], {"same": readers}, 20)
    assert fewer["classes"].tolist() == [3] and fewer["value"].tolist() == [1]
    assert not len(transfer(ratios.iloc[:2], {"same": readers}, 20))


def test_what_is_said_names_length() -> None:
    table = pd.DataFrame({
        "method": ["raw", "rollout", "length"], "kind": ["model", "model", "baseline"],
        "value": [0.2, 0.1, 0.35], "low": [0.1, 0.0, 0.3], "high": [0.3, 0.2, 0.4],
        "ceiling": 0.4, "p": [0.01, 0.5, 0.01], "q": [0.02, 0.5, 0.01], "n_trials": 10,
    })  # fmt: skip
    moved = pd.DataFrame(columns=["dataset", "method", "value", "low", "high", "ceiling"])
    said = " ".join(sentences(table, moved))
    assert "1 of 2 methods" in said and "best is raw with 0.200" in said
    assert "tells no more" in said
    better = table.assign(low=[0.36, 0, 0.3], value=[0.4, 0.1, 0.35])
    assert "tells more" in " ".join(sentences(better, moved))


# Rollout and flow


def test_sentences_by_hand() -> None:
    words = (
        "One two three four five six. Too short. He said go on now to them all.” The end".split()
    )
    assert sentences_of(words, 9, 3) == [words[:6], words[8:16]]
    assert sentences_of(words, 7, 3) == [words[:6]]


def test_weights_of_two_layers_by_hand() -> None:
    one = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
    two = np.array([[1.0, 0, 0], [0.4, 0.6, 0], [0.6, 0.2, 0.2]])
    found = weights_of(np.stack([one, two]), 2)
    assert found["raw_first"].tolist() == [0.2, 0.3, 0.5]
    assert found["raw_last"].tolist() == [0.6, 0.2, 0.2]
    np.testing.assert_allclose(found["raw_mean"], [0.4, 0.25, 0.35])
    # with the identity, rows halved: .3 .1 .6 on the rows 1 0 0; .25 .75 0; .1 .15 .75
    by_hand = 0.3 * np.array([1, 0, 0]) + 0.1 * np.array([0.25, 0.75, 0])
    np.testing.assert_allclose(found["rollout"], by_hand + 0.6 * np.array([0.1, 0.15, 0.75]))
    # flow: to the first .3 directly, .1 by the second, .1 by the third; to the second .1 + .15
    np.testing.assert_allclose(found["flow"], [0.5, 0.25, 0.6], atol=1e-8)


def test_correlations_and_differences_by_hand() -> None:
    base = {w: [1.0, 2.0, 3.0] for w in WEIGHTS}
    one = pd.DataFrame({**base, "raw_mean": [3.0, 2.0, 1.0], "blank_out": [1.0, 2.0, 3.0],
                        "input_gradient": [5.0, 5.0, 5.0]})  # fmt: skip
    each = correlations([one, one])
    told = each.set_index(["truth", "method"])["value"]
    assert told["blank_out", "flow"].tolist() == [1, 1]
    assert told["blank_out", "raw_mean"].tolist() == [-1, -1]
    assert told["input_gradient"].isna().all()  # all the same: no correlation
    table = summary_of(each.assign(value=each["value"].fillna(0)), "m", 20)
    gap = table[(table["reference"] == "raw_mean") & (table["truth"] == "blank_out")]
    assert gap.set_index("method")["value"].to_dict() == pytest.approx(
        {"raw_first": 2, "raw_last": 2, "rollout": 2, "flow": 2}
    )
    assert "flow is above raw attention" in rollout_said(table)[0]


@pytest.mark.parametrize("name", ["smollm2-135m", "minilm"])
def test_a_real_sentence(name: str) -> None:
    from gazeattn.lm import LanguageModel

    lm = LanguageModel.load(name)
    words = "The old man sat down on the bench .".split()
    table = one_sentence(lm, words)
    assert len(table) == (8 if name.startswith("smol") else 9)
    assert (table >= -1e-9).all().all() and (table["blank_out"] > 0).any()
    assert table["rollout"].sum() < 1 and table["raw_last"].sum() < 1  # the rest: other tokens


# Reading goals


def goal_table(values: list[float], method: str = "raw", kind: str = "model") -> pd.DataFrame:
    return pd.DataFrame({
        "trial": ["t1", "t2", "t3", "t4"], "participant": ["a", "a", "b", "b"],
        "stimulus": ["1", "2", "1", "2"], "condition": ["seek", "read", "seek", "read"],
        "method": method, "kind": kind, "value": values, "ceiling": 0.5,
    })  # fmt: skip


def test_contrast_of_goals_by_hand() -> None:
    alone = pd.concat([goal_table([0.1, 0.2, 0.1, 0.2]), goal_table([0.9] * 4, "length", "x")])
    told = goal_table([0.3, 0.25, 0.3, 0.25]).sample(frac=1, random_state=2)
    found = contrast(alone, told, "seek", "read", 100)
    assert set(found["method"]) == {"raw"}  # a baseline is not in question
    cells = found.set_index("cell")
    assert cells.loc["seeking, alone", "value"] == pytest.approx(0.1)
    assert cells.loc["seeking, gain", "value"] == pytest.approx(0.2)
    assert cells.loc["ordinary, gain", "value"] == pytest.approx(0.05)
    assert cells.loc["difference", "value"] == pytest.approx(0.15)
    assert cells.loc["difference", "low"] == pytest.approx(0.15)  # the same in every draw
    assert cells.loc["seeking, gain", "n"] == 2
    assert "more for readers who seek" in goals_said(found)[0]
    with pytest.raises(DataError, match="no reading has the goal"):
        contrast(alone, told, "hunting", "read", 10)
    gone = told.assign(value=[np.nan, *told["value"].iloc[1:]])
    assert contrast(alone, gone, "seek", "read", 50)["n"].min() == 1
