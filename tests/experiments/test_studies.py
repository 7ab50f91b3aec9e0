"""Studies on code: ratios of kinds of tokens and their transfer, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError
from gazeattn.experiments.studies.code import class_ratios, sentences, transfer


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
