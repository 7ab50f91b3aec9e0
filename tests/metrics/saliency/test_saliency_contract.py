"""Every saliency metric against every kind of odd input: a number, NaN with a reason, or our error.

Nothing else: no error of numpy, no warning of numpy, no empty reason.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from gazeattn.errors import DataError, GazeattnError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.metrics import saliency
from gazeattn.metrics.saliency.conventions import CHOICES
from gazeattn.registry import metrics

SHAPE = (6, 8)
RNG = np.random.default_rng(5)
RAMP = RNG.permutation(np.arange(1.0, 49.0)).reshape(SHAPE)
DENSITY = RAMP / RAMP.sum()
XY = np.array([(1.0, 2.0), (7.5, 5.5), (1.0, 2.0)])
OTHER = np.array([(0.0, 0.0), (4.0, 3.0), (5.0, 1.0)])
NAMES = saliency.metric_names()
anyhow: Any = saliency
"""The same functions for calls that a type checker refuses."""


def holed(value: float) -> np.ndarray:
    array = DENSITY.copy()
    array[2, 3] = value
    return array


POINT = np.zeros(SHAPE)
POINT[5, 7] = 1.0
SPLIT = np.zeros(SHAPE)
SPLIT[2, 1] = 1.0

MAPS: dict[str, Any] = {
    "density": DENSITY,
    "constant": np.full(SHAPE, 1 / 48),
    "constant 3": np.full(SHAPE, 3.0),
    "zero": np.zeros(SHAPE),
    "one point": POINT,
    "another point": SPLIT,
    "one pixel": np.ones((1, 1)),
    "nan": holed(np.nan),
    "all nan": np.full(SHAPE, np.nan),
    "inf": holed(np.inf),
    "-inf": holed(-np.inf),
    "both inf": np.where(RAMP > 40, np.inf, np.where(RAMP < 9, -np.inf, RAMP)),
    "negative": DENSITY - 0.02,
    "1e-170": RAMP * 1e-170,
    "1e-320": RAMP * 1e-320,
    "1e170": RAMP * 1e170,
    "1e307": RAMP * 3e306,
    "both 1e308": np.where(RAMP > 20, 1.7e308, -1.7e308),
    "1 + 1e-9": 1 + RAMP * 1e-9,
    "uint8": RAMP.astype(np.uint8),
    "int64": RAMP.astype(np.int64) - 20,
    "bool": RAMP > 20,
    "float16": RAMP.astype(np.float16),
    "float16 density": DENSITY.astype(np.float16),
    "float32": DENSITY.astype(np.float32),
    "longdouble": RAMP.astype(np.longdouble) * np.longdouble("1e400"),
    "masked": np.ma.masked_greater(RAMP, 40),
    "object": RAMP.astype(object),
    "none": np.where(RAMP > 40, np.array(None), RAMP),
    "text": [["a"] * 8] * 6,
    "dates": RAMP.astype(np.int64).astype("datetime64[D]"),
    "complex": RAMP + 1j,
    "ragged": [[1.0, 2.0], [3.0]],
    "empty": np.zeros((0, 8)),
    "one row": RAMP[0],
    "colours": np.stack([RAMP] * 3, axis=-1),
    "no map": None,
    "torch": torch.tensor(DENSITY),
    "torch grad": torch.tensor(DENSITY, requires_grad=True),
    "torch bfloat16": torch.tensor(RAMP, dtype=torch.bfloat16),
    "torch half": torch.tensor(RAMP, dtype=torch.float16),
    "torch meta": torch.ones(SHAPE, device="meta"),
    "torch sparse": torch.tensor(RAMP).to_sparse(),
    "list of tensors": [torch.tensor(row, requires_grad=True) for row in DENSITY],
}
FIXATIONS: dict[str, Any] = {
    "three": XY,
    "none": np.zeros((0, 2)),
    "empty list": [],
    "every pixel": np.moveaxis(np.mgrid[0:8, 0:6], 0, -1).reshape(-1, 2),
    "off": np.array([(-1.0, 2.0), (3.0, 9.0)]),
    "one off": np.array([(-1.0, 2.0), (3.0, 4.0)]),
    "far off": np.array([(700.0, 500.0)]),
    "nan": np.array([(np.nan, 1.0), (2.0, np.nan)]),
    "one nan": np.array([(np.nan, 1.0), (2.0, 3.0)]),
    "inf": np.array([(np.inf, 1.0)]),
    "with durations": np.ones((3, 3)),
    "flat": np.arange(4.0),
    "text": [("a", "b")],
    "ragged": [(1.0,), (2.0, 3.0)],
    "nothing": None,
    "uint8": XY.astype(np.uint8),
    "torch grad": torch.tensor(XY, requires_grad=True),
    "torch bfloat16": torch.tensor(XY, dtype=torch.bfloat16),
    "torch meta": torch.ones(3, 2, device="meta"),
    "list of tensors": list(torch.tensor(XY, requires_grad=True)),
}


def variants(name: str) -> list[dict[str, Any]]:
    """Return parameter sets that reach every convention of a metric."""
    sets: list[dict[str, Any]] = [{}]
    for parameter, known in CHOICES.get(name, {}).items():
        sets = [{parameter: value} for value in known]
    if name == "shuffled_auc":
        return [{"other_fixations": OTHER}, {"other_fixations": np.zeros((0, 2))}]
    if name in ("information_gain", "cig"):
        baselines = (None, DENSITY, POINT, SPLIT, np.full(SHAPE, 1 / 48))
        sets = [{**s, "baseline": b} for s in sets for b in baselines]
    if name == "auc_judd":
        sets += [{**s, "jitter": 1e-7, "seed": 1} for s in sets]
    return sets


def judge(name: str, a: Any, b: Any, params: dict[str, Any]) -> str:
    """Return which of the allowed ends a call has; anything else raises."""
    function = metrics.get(name).obj
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # those of numpy are errors of ours
        warnings.filterwarnings("ignore", message=".*constant", category=UserWarning)
        warnings.filterwarnings("ignore", message=".*fixations", category=UserWarning)
        try:
            value = function(a, b, **params)
        except GazeattnError as error:
            if isinstance(error, DataError):
                assert error.found is not None, error
            return "error"
        assert isinstance(value, float)
        reason = saliency.undefined_reason(name, a, b, **params)
        if math.isnan(value):
            assert reason, (name, params)
            return "undefined"
        low, high = metrics.get(name).info["bounds"]
        assert low <= value <= high
        assert reason == "", reason
        return "value"


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("name", NAMES)
def test_odd_maps(name: str, kind: str) -> None:
    odd, inputs = MAPS[kind], metrics.get(name).info["inputs"]
    for params in variants(name):
        if inputs == "map":
            ends = [judge(name, odd, other, params) for other in (DENSITY, POINT, odd)]
            ends += [judge(name, other, odd, params) for other in (DENSITY, POINT)]
            if metrics.get(name).info["symmetric"]:
                assert ends[:2] == ends[3:]
        elif inputs == "steps":
            judge(name, [odd, odd], XY[:2], params)
            judge(name, [DENSITY, odd], XY[:2], params)
        else:
            judge(name, odd, XY, params)
            judge(name, odd, XY[:0], params)
            judge(name, odd, [(0, 0)], params)


@pytest.mark.parametrize("kind", FIXATIONS)
@pytest.mark.parametrize("outside", ["raise", "drop", "clip"])
def test_odd_fixations(kind: str, outside: str) -> None:
    odd = FIXATIONS[kind]
    for name in NAMES:
        inputs = metrics.get(name).info["inputs"]
        if inputs == "map":
            continue
        for params in variants(name):
            how = {**params, "outside": outside}
            n = len(odd) if odd is not None else 1
            judge(name, [DENSITY] * n if inputs == "steps" else DENSITY, odd, how)
            if name == "shuffled_auc":
                judge(name, DENSITY, XY, {"other_fixations": odd, "outside": outside})
                judge(name, DENSITY, XY, {"other_fixations": [odd, OTHER], "outside": outside})


@pytest.mark.parametrize("scale", [1e-170, 1e-300, 1e170, 1e300])
def test_the_scale_of_a_map_changes_nothing(scale: float) -> None:
    signed = RAMP - 20.0
    for a in (RAMP, signed):
        for name in ("nss", "auc", "auc_judd"):
            function = metrics.get(name).obj
            assert function(a * scale, XY) == pytest.approx(function(a, XY), rel=1e-12)
        assert saliency.cnss([a * scale], XY[:1]) == pytest.approx(saliency.cnss([a], XY[:1]))
        for other in (DENSITY, DENSITY / scale if scale > 1 else DENSITY * 1e170):
            expected = saliency.cc(a, DENSITY)
            assert saliency.cc(a * scale, other) == pytest.approx(expected, rel=1e-12)
            assert saliency.cc(other, a * scale) == pytest.approx(expected, rel=1e-12)
        for name in ("sim", "emd", "kl_div"):
            function = metrics.get(name).obj
            assert function(a * scale, DENSITY) == pytest.approx(function(a, DENSITY), rel=1e-9)


def test_reasons_name_the_kind() -> None:
    reason = saliency.undefined_reason
    assert "both 0 at 1 of 3" in reason("information_gain", SPLIT, XY, baseline=SPLIT)
    assert math.isnan(saliency.information_gain(SPLIT, XY, SPLIT))
    mixed = saliency.information_gain(SPLIT, XY, POINT)
    assert math.isnan(mixed)
    assert "both signs" in reason("information_gain", SPLIT, XY, baseline=POINT)
    assert "baseline map" in reason("information_gain", DENSITY, XY, convention="mit")
    assert "constant" in reason(
        "information_gain", DENSITY, XY, convention="mit", baseline=np.full(SHAPE, 1 / 48)
    )
    # a step that is undefined is not left out of the mean as if it had no fixation
    steps, points = [DENSITY, SPLIT], XY[:2]
    how: dict[str, Any] = {"baseline": SPLIT, "convention": "pysaliency"}
    assert math.isnan(saliency.cig([SPLIT, SPLIT], points, **how))
    assert "both 0 at 1 of 2" in reason("cig", [SPLIT, SPLIT], points, **how)
    assert saliency.cig(steps, [(1, 2), (1, 2)], **how) < 0
    assert (
        reason("cauc_hat", [np.ones((1, 1))], [(0, 0)]) == "a map of one pixel has no other pixels"
    )
    assert reason("shuffled_auc", DENSITY, XY, other_fixations=[]) == "no fixations on other images"
    scores = saliency.score_many("information_gain", [SPLIT, DENSITY], [XY, XY], baseline=SPLIT)
    assert "both 0" in str(scores.losses) and scores.n_left_out == 1
    scores = saliency.score_many("information_gain", [DENSITY], [XY], baseline=[SPLIT])
    assert scores.values[0] == math.inf


def test_what_was_found_is_named() -> None:
    two = DENSITY.copy()
    two[2, 3], two[4, 4], two[5, 5] = np.nan, np.nan, np.inf
    for name in ("nss", "cc", "sim", "emd", "information_gain", "log_likelihood"):
        other = DENSITY if metrics.get(name).info["inputs"] == "map" else XY
        with pytest.raises(DataError, match=r"2 missing and 1 infinite of 48 .* row 2, column 3"):
            metrics.get(name).obj(two, other)
    with pytest.raises(DataError, match="times"):
        saliency.nss(MAPS["dates"], XY)
    with pytest.raises(DataError, match="meta"):
        saliency.nss(MAPS["torch meta"], XY)
    with pytest.raises(DataError, match="sparse"):
        saliency.nss(MAPS["torch sparse"], XY)


def test_tensors_are_what_their_numbers_are() -> None:
    grad = torch.tensor(RAMP, requires_grad=True)
    rounded = torch.tensor(RAMP / 3, dtype=torch.bfloat16)
    for name in NAMES:
        function, inputs = metrics.get(name).obj, metrics.get(name).info["inputs"]
        params = {"other_fixations": [OTHER]} if name == "shuffled_auc" else {}
        given = {k: [torch.tensor(OTHER, requires_grad=True)] for k in params}
        mine, theirs = RAMP / RAMP.sum(), grad / RAMP.sum()
        if inputs == "fixations":
            assert function(theirs, torch.tensor(XY, requires_grad=True), **given) == function(
                mine, XY, **params
            )
        elif inputs == "steps":
            assert function(torch.stack([theirs] * 2), torch.tensor(XY[:2])) == function(
                [mine] * 2, XY[:2]
            )
            assert function([theirs] * 2, list(torch.tensor(XY[:2]))) == function(
                [mine] * 2, XY[:2]
            )
        else:
            assert function(theirs, rounded) == function(mine, rounded.float().numpy())
    assert saliency.nss(rounded, XY) == saliency.nss(rounded.float().numpy(), XY)
    many = anyhow.score_many("nss", torch.stack([grad] * 2), [torch.tensor(XY)] * 2)
    assert many.values.tolist() == [saliency.nss(RAMP, XY)] * 2


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("nss", {"outside": "foo"}),
    ("nss", {"outside": 3}),
    ("nss", {"outside": ["drop"]}),
    ("nss", {"convention": "typo"}),
    ("nss", {"convention": np.array(["hat", "mit"])}),
    ("nss", {"conventions": "hat"}),
    ("nss", {"baseline": DENSITY}),
    ("nss", {"bins": 12}),
    ("nss", {"size": (8, 6)}),
    ("nss", {"losses": "x"}),
    ("nss", {"sizes": "800x600"}),
    ("nss", {"sizes": 800}),
    ("nss", {"sizes": [("a", 1)]}),
    ("nss", {"sizes": [(1, 2, 3)]}),
    ("nss", {"sizes": (0, 6)}),
    ("auc", {"negatives": None}),
    ("auc_judd", {"jitter": -1, "seed": 1}),
    ("auc_judd", {"jitter": math.nan, "seed": 1}),
    ("auc_judd", {"jitter": 1e-7}),
    ("auc_judd", {"jitter": 1e-7, "seed": "a"}),
    ("auc_judd", {"jitter": 1e-7, "seed": -1}),
    ("kl_div", {"convention": 3}),
    ("kl_div", {"convention": ["hat"]}),
    ("emd", {"max_cells": 2.5}),
    ("emd", {"max_cells": 0}),
    ("information_gain", {"baseline": 3}),
    ("shuffled_auc", {"other_fixations": None}),
    ("shuffled_auc", {"other_fixations": 5}),
    ("shuffled_auc", {"other_fixations": [OTHER], "other_sizes": "x"}),
]


@pytest.mark.parametrize(("name", "params"), WRONG, ids=lambda v: str(v)[:40])
def test_wrong_options_are_our_errors(name: str, params: dict[str, Any]) -> None:
    other: Any = DENSITY if metrics.get(name).info["inputs"] == "map" else XY
    with pytest.raises((DataError, UnknownNameError)) as caught:
        saliency.score_many(name, [DENSITY], [other], **params)
    shown = str(caught.value)
    assert "expected" in shown or "did you mean" in shown or "known:" in shown
    known = {k: v for k, v in params.items() if k not in ("sizes", "conventions", "bins")}
    if known and not ("baseline" in known and name == "nss"):
        known = {**({"other_fixations": OTHER} if name == "shuffled_auc" else {}), **known}
        if known.get("size") != (8, 6):
            with pytest.raises((DataError, UnknownNameError)):
                metrics.get(name).obj(DENSITY, other, **known)


def test_wrong_options_elsewhere() -> None:
    ours = (DataError, UnknownNameError)
    for maps, others in ((None, [XY]), (5, [XY]), ("ab", [XY]), ([DENSITY], None), ({}, [])):
        with pytest.raises(ours):
            anyhow.score_many("nss", maps, others)
    for name in (3, None, ["nss"]):
        with pytest.raises(ours):
            anyhow.score_many(name, [DENSITY], [XY])
        with pytest.raises(ours):
            anyhow.convention(name)
    for call in (
        lambda: anyhow.cnss(None, XY),
        lambda: anyhow.cnss(5, XY),
        lambda: anyhow.cig([DENSITY], XY[:1], 5),
        lambda: anyhow.per_step("cnss", [DENSITY], XY[:1], convention=4),
        lambda: anyhow.fixation_map(XY, (8, 6), sigma="a"),
        lambda: anyhow.fixation_map(XY, (8, 6), sigma_degrees="a", pixels_per_degree=2),
        lambda: anyhow.fixation_map(XY, (8, 6), sigma=2, normalise=3),
        lambda: anyhow.fixation_map(XY, (8, 6), sigma=2, weights=["a", 1, 2]),
        lambda: anyhow.fixation_map(XY, "ab", sigma=2),
        lambda: anyhow.fixation_map(XY, (8, 6), sigma=2, losses=[]),
        lambda: anyhow.pixels_per_degree("a", 1, 2),
        lambda: anyhow.gaussian_centre((8, 6), spread=3),
        lambda: anyhow.to_density(RAMP, floor="x"),
        lambda: anyhow.centre_bias([XY], (8, 6), (8, 6), sigma=2, leave_out="a"),
        lambda: anyhow.centre_bias([XY], "x", (8, 6), sigma=2),
        lambda: anyhow.gold_standard(XY, ["a", "b", "c"], (8, 6), bandwidths="x"),
        lambda: anyhow.gold_standard(XY, ["a", "b", "c"], (8, 6), uniform="x"),
        lambda: anyhow.cross_validated_bandwidth([XY], [["a", "b", "c"]], 3),
        lambda: anyhow.nss(DENSITY, XY, size=800),
        lambda: anyhow.nss(DENSITY, XY, losses=3),
        lambda: anyhow.emd_block((6, 8), "x"),
        lambda: anyhow.undefined_reason("nss", DENSITY, XY, convension="hat"),
    ):
        with pytest.raises(ours):
            call()


def test_likelihood_names_its_unit() -> None:
    uniform = np.full(SHAPE, 1 / 48)
    assert saliency.log_likelihood(uniform, XY) == pytest.approx(-math.log(48))
    bits = saliency.log_likelihood(DENSITY, XY, convention="bits")
    assert bits == pytest.approx(saliency.log_likelihood(DENSITY, XY) / math.log(2))
    gain = saliency.information_gain(DENSITY, XY)
    assert gain == pytest.approx(bits + math.log2(48))
    assert "nats per fixation" in saliency.convention("log_likelihood")
    assert "bits per fixation" in saliency.convention("log_likelihood", convention="bits")
    info = metrics.get("log_likelihood").info
    assert "nats per fixation, no baseline" in info["description"]
    assert saliency.score_many("log_likelihood", [DENSITY], [XY]).convention.startswith("log-like")
    log = LossLog()
    off = saliency.log_likelihood(DENSITY, [(-1, 2), (1, 2)], outside="drop", losses=log)
    assert off == pytest.approx(math.log(DENSITY[2, 1])) and log.count(kind="dropped") == 1


def test_a_table_of_fixations_is_read_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"y": XY[:, 1], "x": XY[:, 0], "duration": 200.0})
    assert saliency.nss(RAMP, table) == saliency.nss(RAMP, XY)


@pytest.mark.parametrize("shape", [(80, 60), (800, 600), (40, 30), (81, 60)])
def test_a_map_with_its_sides_exchanged_is_refused(shape):
    values = np.random.default_rng(0).random(shape)
    for call in (saliency.nss, saliency.auc_judd):
        with pytest.raises(DataError, match="sides of its picture exchanged"):
            call(values, [(400, 300), (10, 590)], size=(800, 600))
        assert np.isfinite(call(values.T, [(400, 300), (10, 590)], size=(800, 600)))
    stretched = np.random.default_rng(0).random((64, 64))  # as networks with square inputs give
    assert np.isfinite(saliency.nss(stretched, [(400, 300), (10, 590)], size=(800, 600)))
