"""Numbers per trial against plain loops, numpy and pandas."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gazeattn.datamodules.reading import ReadingTrials, reading_trials
from gazeattn.datamodules.reading_aggregates import (
    OF_FIXATIONS,
    OF_WORDS,
    QUANTILES,
    SETS,
    SLOPES,
    STEPS,
    aggregates,
    grouped_moments,
    grouped_quantiles,
)
from gazeattn.datamodules.reading_features import names_of
from gazeattn.errors import UnknownNameError

from .made_readings import BY_HAND, dataset, trials

NAN = np.nan
pytestmark = pytest.mark.filterwarnings("ignore:.*fixations.* lie on a word:UserWarning")


@pytest.fixture(scope="module")
def made() -> ReadingTrials:
    return trials(15, 4)


@pytest.fixture(scope="module")
def by_hand() -> ReadingTrials:
    return reading_trials(dataset({"P1_A": BY_HAND}))


def groups(values: np.ndarray, starts: np.ndarray) -> list[np.ndarray]:
    return [v[~np.isnan(v)] for v in np.split(values, starts[1:-1])]


ragged = st.lists(st.integers(0, 6), min_size=1, max_size=6).flatmap(
    lambda sizes: st.tuples(
        st.just(np.cumsum([0, *sizes])),
        arrays(float, sum(sizes), elements=st.floats(-1e6, 1e6) | st.just(NAN)),
    )
)


@settings(max_examples=150, deadline=None)
@given(ragged, st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_quantiles_and_moments(data: tuple[np.ndarray, np.ndarray], shares: list[float]) -> None:
    starts, values = data
    found = grouped_quantiles(values, starts, shares)
    mean, sd = grouped_moments(values, starts)
    for i, group in enumerate(groups(values, starts)):
        if len(group):
            np.testing.assert_allclose(found[i], np.quantile(group, shares), rtol=1e-9, atol=1e-6)
            np.testing.assert_allclose(mean[i], group.mean(), rtol=1e-9, atol=1e-6)
        else:
            assert np.isnan(found[i]).all() and np.isnan(mean[i])
        if len(group) > 1:
            np.testing.assert_allclose(sd[i], group.std(ddof=1), rtol=1e-6, atol=1e-6)
        else:
            assert np.isnan(sd[i])


def test_speed_and_measures_by_hand(by_hand: ReadingTrials) -> None:
    found = aggregates(by_hand, ["speed", "meziere"]).iloc[0]
    # fixations 1440 ms and gaps 160 ms for 6 words and 20 letters
    assert found["ms_per_word"] == pytest.approx(1600 / 6)
    assert found["ms_per_letter"] == pytest.approx(80)
    assert found["words_per_minute"] == pytest.approx(6 * 60_000 / 1600)
    assert found["duration_mean"] == 180
    # forward steps 0-2, 1-2 and 3-5, sizes in px
    assert found["forward_saccade_mean"] == pytest.approx((200 + np.hypot(100, 5) + 240) / 3)
    assert found["regression_rate"] == pytest.approx(1 / 5)
    assert found["skip_rate"] == pytest.approx(2 / 6)
    assert found["first_fixation_duration_mean"] == pytest.approx(930 / 4)
    assert found["gaze_duration_mean"] == pytest.approx(930 / 4)
    assert found["total_reading_time_mean"] == pytest.approx(1300 / 5)
    assert found["go_past_time_mean"] == pytest.approx((200 + 550 + 250 + 300) / 4)
    assert len(aggregates(by_hand, ["meziere"]).columns) == 9


def test_counts_by_hand(by_hand: ReadingTrials) -> None:
    found = aggregates(by_hand, ["counts"]).iloc[0].to_dict()
    expected = {
        "fixations": 8, "fixations_per_word": 8 / 6, "fixations_per_letter": 8 / 20, "time": 1600,
        "words": 6, "off_text": 1 / 8, "forward_rate": 3 / 5, "regression_rate": 1 / 5,
        # known for five fixations (not the first, the one off the text and the one after)
        "refixation_rate": 1 / 5, "first_pass_rate": 6 / 7,
        "run_size": 7 / 6, "runs_per_word": 1,  # runs: 0, 2, 1, 2 2, 3, 5
        "lines_back": 0, "words_read": 5 / 6, "words_often": 1 / 6, "skip_rate": 2 / 6,
        "regression_in_rate": 1 / 5, "regression_out_rate": 1 / 5,
    }  # fmt: skip
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name


def test_lines_back() -> None:
    path = [(50, 75, 0, 100), (50, 25, 100, 100), (150, 25, 200, 100), (50, 75, 300, 100)]
    found = aggregates(reading_trials(dataset({"P1_A": path, "P2_A": path[1:]})), ["counts"])
    assert found["lines_back"].tolist() == [1 / 3, 0]


def test_transitions_by_hand(by_hand: ReadingTrials) -> None:
    found = aggregates(by_hand, ["transitions"]).iloc[0]
    # steps 2 -1 1 0 . . 2; bins end at -10.5 -2.5 -1.5 -.5 .5 1.5 2.5 4.5
    assert [found[f"step_{k}"] for k in range(9)] == pytest.approx(
        [0, 0, 0, 0.2, 0.2, 0.2, 0.4, 0, 0]
    )
    # after forward: -1, 0; after back: 1; after one on the same word none is known
    assert found["forward_after_forward"] == 0 and found["back_after_forward"] == 0.5
    assert found["forward_after_back"] == 1 and found["back_after_back"] == 0
    assert np.isnan(found["forward_after_same"]) and np.isnan(found["back_after_same"])
    log = np.log([row[3] for row in BY_HAND])
    assert found["duration_autocorrelation"] == pytest.approx(np.corrcoef(log[:-1], log[1:])[0, 1])


def test_steps_into_bins(made: ReadingTrials) -> None:
    found = aggregates(made, ["transitions"])
    for i, steps in enumerate(groups(made.column("next_step"), made.starts)):
        shares = [found[f"step_{k}"][i] for k in range(len(STEPS) - 1)]
        if not len(steps):
            assert np.isnan(shares).all()
            continue
        assert shares == pytest.approx(np.histogram(steps, STEPS)[0] / len(steps))
        assert sum(shares) == pytest.approx(1)


def test_transitions_against_loops(made: ReadingTrials) -> None:
    found = aggregates(made, ["transitions"])
    step = made.column("next_step")
    for i in range(len(made)):
        rows = range(made.starts[i] + 1, made.starts[i + 1])
        pairs = [(step[k - 1], step[k]) for k in rows if not np.isnan(step[k - 1] + step[k])]
        for name, test in (("forward", lambda v: v > 0), ("back", lambda v: v < 0)):
            after = [test(b) for a, b in pairs if a > 0]
            np.testing.assert_equal(
                found[f"{name}_after_forward"][i], np.mean(after) if after else NAN
            )
            after = [test(b) for a, b in pairs if a == 0]
            np.testing.assert_equal(
                found[f"{name}_after_same"][i], np.mean(after) if after else NAN
            )


def test_autocorrelation(made: ReadingTrials) -> None:
    found = aggregates(made, ["transitions"])["duration_autocorrelation"]
    for i, duration in enumerate(groups(made.column("duration"), made.starts)):
        log = np.log(duration)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = np.corrcoef(log[:-1], log[1:])[0, 1] if len(log) > 2 else NAN
        np.testing.assert_allclose(found[i], wanted, rtol=1e-9, err_msg=str(i))


def test_equal_durations_have_no_autocorrelation() -> None:
    for duration in (100, 137, 200, 211, 1234.5):
        path = [(50, 25, 300 * k, duration) for k in range(7)]
        other = [*path[:3], (50, 25, 900, duration + 1), *path[4:]]
        found = aggregates(reading_trials(dataset({"P1_A": path, "P2_A": other})), ["transitions"])
        assert np.isnan(found["duration_autocorrelation"][0])
        assert abs(found["duration_autocorrelation"][1]) <= 1


def test_no_duration_is_paired_over_a_turned_page() -> None:
    data = dataset({"P1_A": BY_HAND})
    data.fixations["page"] = ["a"] * 3 + ["b"] * 5
    found = aggregates(reading_trials(data), ["transitions"])["duration_autocorrelation"][0]
    log = np.log([row[3] for row in BY_HAND])
    pairs = [(k, k + 1) for k in range(7) if k != 2]
    a, b = (np.array([log[p[j]] for p in pairs]) for j in (0, 1))
    assert found == pytest.approx(np.corrcoef(a, b)[0, 1])


def test_distributions(made: ReadingTrials) -> None:
    found = aggregates(made, ["distributions"])
    step, size = made.column("next_step"), made.column("saccade_amplitude")
    columns: dict[str, Any] = {n: (made.column(n), made.starts) for n in OF_FIXATIONS}
    columns["forward_saccade"] = (np.where(step > 0, size, NAN), made.starts)
    columns["backward_saccade"] = (np.where(step < 0, size, NAN), made.starts)
    never = made.column("fixation_count") == 0
    for name in OF_WORDS:
        columns[name] = (np.where(never, NAN, made.column(name)), made.word_starts)
    assert len(found.columns) == len(columns) * (2 + len(QUANTILES))
    for name, (values, starts) in columns.items():
        frame = pd.DataFrame({"v": values, "g": np.repeat(np.arange(len(made)), np.diff(starts))})
        group = frame.groupby("g")["v"]
        every = range(len(made))
        np.testing.assert_allclose(found[f"{name}_mean"], group.mean().reindex(every), rtol=1e-9)
        np.testing.assert_allclose(
            found[f"{name}_sd"], group.std().reindex(every), rtol=1e-7, atol=1e-9
        )
        for share in QUANTILES:
            np.testing.assert_allclose(
                found[f"{name}_q{round(share * 100)}"],
                group.quantile(share).reindex(every),
                rtol=1e-9,
                atol=1e-12,
            )


def test_saccades(made: ReadingTrials) -> None:
    found = aggregates(made, ["saccades"])
    for name in ("saccade_duration", "saccade_peak_velocity", "saccade_amplitude"):
        for i, group in enumerate(groups(made.column(name), made.starts)):
            wanted = (group.mean(), group.max()) if len(group) else (NAN, NAN)
            np.testing.assert_allclose(
                [found[f"{name}_mean"][i], found[f"{name}_max"][i]], wanted, rtol=1e-9
            )
    assert found["fixations"].tolist() == made.lengths.tolist()


def test_slopes_against_lstsq(made: ReadingTrials) -> None:
    found = aggregates(made, ["slopes"])
    length, rarity = made.text_column("length"), made.text_column("rarity")
    for name in (*SLOPES, "skip", "fixation_count"):
        y = made.column(name).copy()
        if name in SLOPES:
            y = np.log(np.where(y > 0, y, NAN))
        for i in range(len(made)):
            rows = slice(made.word_starts[i], made.word_starts[i + 1])
            x = np.stack([np.ones_like(y), (length - 5) / 3, (rarity - 4) / 1.5], 1)[rows]
            target = y[rows]
            known = ~np.isnan(target) & ~np.isnan(x).any(axis=1)
            x, target = x[known], target[known]
            mine = [found[f"{name}_by_{k}"][i] for k in ("level", "length", "rarity")]
            if len(x) < 3:
                assert np.isnan([*mine, found[f"{name}_left"][i]]).all()
                continue
            # shrinkage is a row of data per coefficient
            shrunk = np.vstack([x, np.diag([1e-3, 1.0, 1.0])])
            wanted = np.linalg.lstsq(shrunk, np.append(target, [0, 0, 0]), rcond=None)[0]
            np.testing.assert_allclose(mine, wanted, rtol=1e-6, atol=1e-8, err_msg=name)
            left = (target - x @ wanted).std(ddof=1)
            np.testing.assert_allclose(found[f"{name}_left"][i], left, rtol=1e-6, atol=1e-8)


def test_slopes_without_rarity() -> None:
    """Nothing is said of rarity, and the other slopes are those without it."""
    made = trials(9, 4, language="xx")
    found = aggregates(made, ["slopes"])
    assert found[[c for c in found if c.endswith("_by_rarity")]].isna().all(axis=None)
    y, x = made.column("fixation_count"), (made.text_column("length") - 5) / 3
    for i in np.flatnonzero(found["fixation_count_by_length"].notna()):
        rows = slice(made.word_starts[i], made.word_starts[i + 1])
        design = np.stack([np.ones_like(x[rows]), x[rows]], 1)
        shrunk = np.vstack([design, np.diag([1e-3, 1.0])])
        wanted = np.linalg.lstsq(shrunk, np.append(y[rows], [0, 0]), rcond=None)[0]
        mine = found.loc[i, ["fixation_count_by_level", "fixation_count_by_length"]]
        np.testing.assert_allclose(mine.astype(float), wanted, rtol=1e-6, atol=1e-9)


def test_nothing_known_is_missing() -> None:
    """A trial whose fixations have no position and no duration."""
    path = [(NAN, NAN, NAN, NAN)] * 3
    found = aggregates(reading_trials(dataset({"P1_A": path, "P2_A": BY_HAND})))
    known = found.columns[found.iloc[0].notna()]
    counted = {"fixations", "fixations_per_word", "fixations_per_letter", "words", "off_text"}
    assert set(known) <= counted | {"runs_per_word"}
    assert found.iloc[1].notna().mean() > 0.6


def test_each_set_alone_and_trials_alone(made: ReadingTrials) -> None:
    whole = aggregates(made)
    assert len(whole) == len(made) and whole.columns.is_unique
    for name in SETS:
        part = aggregates(made, [name])
        np.testing.assert_array_equal(part, whole[part.columns], err_msg=name)
    for i in range(len(made)):
        one = aggregates(made.take([i]))
        np.testing.assert_allclose(one.iloc[0], whole.iloc[i], rtol=1e-9, atol=1e-12)
    with pytest.raises(UnknownNameError, match="did you mean 'slopes'"):
        aggregates(made, ["slope"])
    assert aggregates(made.take([]), ["counts"]).shape == (0, 18)


def test_sizes_of_saccades_keep_their_unit(made: ReadingTrials) -> None:
    """Trials without amplitudes do not turn to pixels where the corpus has degrees."""
    assert made.info["saccades"] == "deg"
    fixations = made.fixations.copy()
    fixations[made.starts[2] : made.starts[3], names_of("fixation").index("saccade_amplitude")] = (
        NAN
    )
    lacking = replace(made, fixations=fixations)
    for t in (lacking, lacking.take([2])):
        found = aggregates(t, ["meziere", "distributions"])
        row = found.iloc[2 if len(t) > 1 else 0]
        assert np.isnan(row["forward_saccade_mean"]) and np.isnan(row["backward_saccade_q50"])
