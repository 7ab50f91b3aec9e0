"""Rows of a benchmark that are models with something changed."""

from __future__ import annotations

import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.building import read_model, sized
from gazeattn.experiments.reading_benchmark import config_of, kind_of
from gazeattn.experiments.schemas import ReadingBenchmarkConfig


def cfg(**variants: dict) -> ReadingBenchmarkConfig:
    made = ReadingBenchmarkConfig(baselines=["majority"], variants=variants)
    made.size.name = "tiny"
    return made


def test_a_variant_is_the_model_with_its_changes() -> None:
    plain = sized(read_model("gaze_set"), "tiny")
    made = cfg(flat={"of": "gaze_set", "layers": 0})
    assert config_of("gaze_set", made) == plain
    assert config_of("flat", made) == {**plain, "layers": 0}
    assert [kind_of(n, made) for n in ("flat", "gaze_set", "majority")] == [
        "variant", "model", "baseline",
    ]  # fmt: skip


def test_variants_that_are_none() -> None:
    with pytest.raises(DataError, match="of no model"):
        config_of("flat", cfg(flat={"layers": 0}))
    with pytest.raises(UnknownNameError, match="did you mean 'layers'"):
        config_of("flat", cfg(flat={"of": "gaze_set", "layer": 0}))
    with pytest.raises(UnknownNameError, match="gaze_set"):
        config_of("flat", cfg(flat={"of": "gazeset", "layers": 0}))
    with pytest.raises(UnknownNameError):
        config_of("gaze_set-flat", cfg())
