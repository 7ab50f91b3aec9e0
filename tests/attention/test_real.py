"""The sample of real readers against a real model; skipped where they are not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gazeattn.errors import MissingAssetError


@pytest.fixture(scope="module")
def sample() -> Any:
    from gazeattn.datasets import load

    try:
        return load("onestop_sample")
    except MissingAssetError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def minilm() -> Any:
    from gazeattn.lm import LanguageModel

    try:
        return LanguageModel.load("minilm")
    except MissingAssetError as error:
        pytest.skip(str(error))


def test_readers_of_the_sample_against_baselines(sample: Any, lm_maker: Any) -> None:
    from gazeattn.attention import compare

    def length(units: Any) -> np.ndarray:
        return np.array([float(len(t)) for t in units.texts])

    c = compare(
        sample,
        lm_maker({"raw": length}),
        methods=["raw"],
        metrics=["spearman"],
        level="mean",
        n_permutations=200,
        n_bootstrap=200,
    )
    assert c.answer.startswith("2 readers, information seeking: on 12 texts")
    assert c.info["dataset"]["n_trials"] == 24 and c.info["dataset"]["n_readers"] == 2
    s = c.table().set_index("method")
    # two readers' total times agree at 0.28, and long words are read longer
    assert s.loc["length", "value"] == pytest.approx(0.5257, abs=1e-3)
    assert s.loc["length", "ceiling"] == pytest.approx(0.2797, abs=1e-3)
    assert float(s["p"]["length"]) < 0.02
    skip = c.table(measure="skip").set_index("method")
    assert float(skip["value"]["length"]) < -0.3
    assert set(c.alignment["measure"]) == set(c.info["settings"]["measures"])
    assert len(c.info["settings"]["measures"]) == 9
    assert c.transitions["count"].sum() > 2000


@pytest.mark.slow
def test_the_sample_against_minilm(sample: Any, minilm: Any) -> None:
    from gazeattn.attention import compare

    c = compare(
        sample,
        minilm,
        measures=["total_reading_time"],
        methods=["raw", "rollout"],
        level="mean",
        n_permutations=200,
        n_bootstrap=200,
    )
    heads = c.alignment[c.alignment["head"].notna()]
    assert heads.groupby("method").size()["raw"] == 12 * 6 * 12
    assert c.lost.to_frame()["reason"].str.contains("surprisal: ").any()
    assert c.table().set_index("method").loc["raw", "value"] == pytest.approx(0.22, abs=0.03)
    assert c.info["model_lost"]["raw"]
