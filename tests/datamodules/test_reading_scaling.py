"""Scaling: fitted on training alone, by hand, and told by a digest."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_features import names_of
from gazeattn.datamodules.reading_scaling import SCOPES, FeatureChoice, FittedFeatures, Scale
from gazeattn.errors import DataError, UnknownNameError

from .made_readings import trials

NAN = np.nan
pytestmark = pytest.mark.filterwarnings("ignore:.*fixations.* lie on a word:UserWarning")


@pytest.fixture(scope="module")
def made() -> ReadingTrials:
    return trials(15, 2)


def test_by_hand() -> None:
    values = np.array([[0, 5, NAN, 1, 0], [1, 5, NAN, NAN, 0], [2, 5, NAN, 3, 0],
                       [3, 5, NAN, 5, 0], [4, 5, NAN, NAN, 90]], float)  # fmt: skip
    names = ["a", "same", "never", "some", "rare"]
    scale = Scale.fit(values, names)
    assert scale.names == ("a", "same", "some", "rare") and scale.absent == ("never",)
    assert scale.centre == (2, 5, 3, 0)
    # ranges 3 - 1 and 4 - 2; the last has none, and its standard deviation is 36
    assert scale.width == pytest.approx((2, 1, 2, 36))
    assert scale.flagged == ("some",)
    assert scale.channels == ("a", "same", "some", "rare", "some missing")
    found = scale.apply(np.array([[4, 6, 7, NAN, 36], [NAN, 5, 7, 5, 0]], float), names, False)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[1, 1, 0, 1, 1], [0, 0, 1, 0, 0]])
    squashed = scale.apply(np.array([[4, 6, 7, 103, -3600]], float), names)
    np.testing.assert_allclose(squashed, [[*np.arcsinh([1, 1, 50, -100]), 0]], rtol=1e-6)
    # columns in another order
    order = [4, 2, 0, 3, 1]
    again = scale.apply(values[:, order], [names[k] for k in order])
    np.testing.assert_array_equal(again, scale.apply(values, names))
    assert Scale.fit(values, names, flags=False).flagged == ()


@pytest.mark.parametrize("value", [0.1, 0.7, -3.3, 1e6 / 3, 1e-8 / 7, 0.0])
@pytest.mark.parametrize("n", [1, 3, 7, 1000])
def test_constant_columns_have_width_1(value: float, n: int) -> None:
    """Rounding in a mean is no spread: another value would come out as 1e16."""
    scale = Scale.fit(np.full((n, 1), value), ["c"])
    assert scale.width == (1.0,) and scale.centre == (value,)
    assert scale.apply(np.array([[value + 1]]), ["c"], False).tolist() == [[1.0]]


def test_no_rows() -> None:
    scale = Scale.fit(np.zeros((0, 2)), ["a", "b"])
    assert scale.names == () and scale.absent == ("a", "b")
    assert scale.apply(np.zeros((3, 2)), ["a", "b"]).shape == (3, 0)


@settings(max_examples=80, deadline=None)
@given(
    arrays(float, (7, 3), elements=st.floats(-1e5, 1e5) | st.just(NAN)),
    st.floats(0.01, 100),
    st.floats(-1e3, 1e3),
)
def test_units_do_not_matter(values: np.ndarray, factor: float, shift: float) -> None:
    values = np.round(values, 2)
    names = ["a", "b", "c"]
    one = Scale.fit(values, names).apply(values, names)
    other = values * factor + shift
    two = Scale.fit(other, names).apply(other, names)
    assert np.isfinite(one).all() and one.shape == two.shape
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=2e-3)


def test_training_alone_counts(made: ReadingTrials) -> None:
    """The pipeline is that of training, whatever the other trials hold."""
    train, test = made.take(range(9)), made.take(range(9, 15))
    choice = FeatureChoice(sets=("counts", "distributions"))
    fitted = FittedFeatures.fit(train, choice)
    before = fitted.apply(train)
    digest, plain = fitted.digest, fitted.plain()
    strange = replace(test, fixations=test.fixations * 1e6, gaze=test.gaze - 1e6)
    applied = fitted.apply(strange)
    assert fitted.digest == digest and fitted.plain() == plain
    for scope, values in fitted.apply(train).items():
        np.testing.assert_array_equal(values, before[scope])
    assert all(np.isfinite(v).all() for v in applied.values())
    # a test trial alone equals itself in company
    together = fitted.apply(test)
    alone = fitted.apply(test.take([4]))
    rows = slice(test.starts[4], test.starts[5])
    np.testing.assert_array_equal(alone["fixation"], together["fixation"][rows])
    np.testing.assert_allclose(alone["trial"][0], together["trial"][4], rtol=1e-5, atol=1e-6)
    # another training set is another pipeline
    other = replace(train, fixations=train.fixations + 1.0)
    assert FittedFeatures.fit(other, choice).digest != digest
    assert FittedFeatures.fit(train, choice).digest == digest


def test_scopes_and_channels(made: ReadingTrials) -> None:
    choice = FeatureChoice(
        fixation=("x", "duration", "pupil"), gaze=(), text=("length", "surprisal"), sets=("speed",)
    )
    fitted = FittedFeatures.fit(made, choice)
    found = fitted.apply(made)
    assert tuple(found) == SCOPES
    assert fitted.scales["fixation"].names == ("duration", "x", "pupil")
    assert fitted.scales["text"].absent == ("surprisal",)
    shapes = {k: v.shape for k, v in found.items()}
    assert shapes == {
        "fixation": (len(made.word), 3), "gaze": (made.n_words.sum(), 0),
        "text": (made.n_words.sum(), 1), "trial": (15, 3),
    }  # fmt: skip
    x = made.column("x")
    width = np.subtract(*np.quantile(x, [0.75, 0.25]))
    np.testing.assert_allclose(
        found["fixation"][:, 1], np.arcsinh((x - np.median(x)) / width), rtol=1e-5, atol=1e-6
    )
    everything = FittedFeatures.fit(made, FeatureChoice())
    for scope in ("fixation", "gaze", "text"):
        scale = everything.scales[scope]
        assert set(scale.names) | set(scale.absent) == set(names_of(scope))
        missing = everything.apply(made)[scope][:, len(scale.names) :]
        assert set(np.unique(missing)) <= {0.0, 1.0} and missing.shape[1] == len(scale.flagged)
    assert everything.apply(made)["trial"].shape == (15, 0)


def test_missing_in_test_alone(made: ReadingTrials) -> None:
    """A feature that training has throughout becomes its median, without a flag."""
    fitted = FittedFeatures.fit(made, FeatureChoice(fixation=("duration",)))
    fixations = made.fixations.copy()
    fixations[3, names_of("fixation").index("duration")] = NAN
    found = fitted.apply(replace(made, fixations=fixations))["fixation"]
    assert found.shape[1] == 1 and found[3, 0] == 0


def test_round_trip(made: ReadingTrials) -> None:
    y = np.arange(15.0)
    y[3] = NAN
    fitted = FittedFeatures.fit(made, FeatureChoice(text=("length",), sets=("meziere",)), y)
    again = FittedFeatures.from_plain(json.loads(json.dumps(fitted.plain())))
    assert again == fitted and again.digest == fitted.digest and len(fitted.digest) == 64
    for scope, values in fitted.apply(made).items():
        np.testing.assert_array_equal(again.apply(made)[scope], values)


def test_numeric_target(made: ReadingTrials) -> None:
    y = np.array([1.0, 3.0, NAN] * 5)
    assert FittedFeatures.fit(made, FeatureChoice(), y).target == (2.0, 1.0)
    assert FittedFeatures.fit(made, FeatureChoice(), np.full(15, 0.1)).target[1] == 1.0
    assert FittedFeatures.fit(made, FeatureChoice()).target == (0.0, 1.0)
    with pytest.raises(DataError, match="target"):
        FittedFeatures.fit(made, FeatureChoice(), np.full(15, NAN))


def test_choices() -> None:
    made = FeatureChoice.of({"fixation": ["x"], "gaze": None, "sets": ["speed"], "squash": False})
    assert made == FeatureChoice(fixation=("x",), sets=("speed",), squash=False)
    with pytest.raises(UnknownNameError, match="did you mean 'fixation'"):
        FeatureChoice.of({"fixations": ["x"]})
    with pytest.raises(UnknownNameError):
        FittedFeatures.fit(trials(3), FeatureChoice(gaze=("dwell",)))
    with pytest.raises(UnknownNameError):
        FittedFeatures.fit(trials(3), FeatureChoice(sets=("speeds",)))
