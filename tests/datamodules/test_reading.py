"""Readings as arrays: every number of a small trial by hand, and beginnings of trials."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.datamodules.reading import beginning, missing_shares, reading_trials
from gazeattn.datamodules.reading_features import names_of
from gazeattn.datasets import GazeDataset
from gazeattn.datasets.splits import kfold
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.tables import check_fixations

from .made_readings import BY_HAND, WORDS, dataset, many, trials, words

NAN = np.nan
pytestmark = pytest.mark.filterwarnings("ignore:.*fixations.* lie on a word:UserWarning")


def test_shapes_and_words_by_hand() -> None:
    made = reading_trials(dataset({"P2_A": BY_HAND[:2], "P1_A": BY_HAND}))
    assert made.trial.tolist() == ["P2_A", "P1_A"]
    assert made.participant.tolist() == ["P2", "P1"]
    assert made.starts.tolist() == [0, 2, 10] and made.lengths.tolist() == [2, 8]
    assert made.word.tolist() == [0, 2, 0, 2, 1, 2, 2, -1, 3, 5]
    assert made.of.tolist() == [0] * 2 + [1] * 8
    assert made.n_words.tolist() == [6, 6] and made.word_starts.tolist() == [0, 6, 12]
    assert made.texts["A"].words == WORDS and made.table["text"].tolist() == ["A", "A"]
    assert made.info["language"] == "en" and made.info["saccades"] == "px"
    assert len(made) == 2


def test_word_measures_by_hand() -> None:
    made = reading_trials(dataset({"P1_A": BY_HAND}))
    expected = {
        "first_fixation_duration": [200, NAN, 180, 250, NAN, 300],
        "single_fixation_duration": [200, NAN, 180, 250, NAN, 300],
        "gaze_duration": [200, NAN, 180, 250, NAN, 300],
        "go_past_time": [200, NAN, 180 + 150 + 100 + 120, 250, NAN, 300],
        "total_reading_time": [200, 150, 400, 250, 0, 300],
        "fixation_count": [1, 1, 3, 1, 0, 1],
        "skip": [0, 1, 0, 0, 1, 0],
        "regression_in": [0, 1, 0, 0, NAN, 0],
        "regression_out": [0, 0, 1, 0, NAN, 0],
        "second_run_dwell_time": [NAN, NAN, 220, NAN, NAN, NAN],
        "last_run_dwell_time": [200, 150, 220, 250, 0, 300],
        "regression_in_count": [0, 1, 0, 0, 0, 0],
        "regression_out_count": [0, 0, 1, 0, 0, 0],
        "dwell_share": np.array([200, 150, 400, 250, 0, 300]) / 1300,
        "fixation_share": np.array([1, 1, 3, 1, 0, 1]) / 7,
    }
    assert set(expected) == set(names_of("gaze"))
    for name, values in expected.items():
        np.testing.assert_allclose(made.column(name), values, err_msg=name)


def test_a_trial_off_the_text_has_no_measures() -> None:
    made = reading_trials(
        dataset({"P1_A": [(900, 900, 0, 100)], "P2_A": BY_HAND, "P3_A": [(NAN, NAN, 0, 100)]})
    )
    assert made.word[[0, -1]].tolist() == [-1, -1] and made.column("on_text")[0] == 0
    # seen to be elsewhere: all words were skipped, and no time is shared among them
    assert (made.column("skip")[:6] == 1).all() and (made.column("fixation_count")[:6] == 0).all()
    assert np.isnan(made.column("dwell_share")[:6]).all()
    assert np.isnan(made.column("gaze_duration")[:6]).all()
    assert made.column("total_reading_time")[6:12].sum() == 1300
    # not seen anywhere: nothing is known
    assert np.isnan(made.gaze[12:]).all()


def test_trials_without_fixation_are_dropped_and_counted() -> None:
    data = dataset({"P1_A": BY_HAND, "P2_A": BY_HAND})
    data = replace(data, fixations=data.fixations[data.fixations["trial"] == "P2_A"])
    lost = LossLog()
    made = reading_trials(data, lost=lost)
    assert made.trial.tolist() == ["P2_A"] and made.word.tolist() == [0, 2, 1, 2, 2, -1, 3, 5]
    row = next(x for x in lost if x.reason == "trials without a fixation")
    assert (row.count, row.kind, row.examples) == (1, "dropped", "P1_A")
    with pytest.raises(DataError, match="no trial is left"):
        reading_trials(replace(data, fixations=data.fixations.iloc[:0]))
    with pytest.raises(CapabilityError):
        reading_trials(replace(data, words=data.words.iloc[:0]))


def test_columns_by_name() -> None:
    made = trials(6)
    np.testing.assert_array_equal(
        made.text_column("length")[:6],
        made.texts["A"].features[:, 0],
    )
    assert len(made.text_column("position")) == made.n_words.sum() == len(made.gaze)
    with pytest.raises(UnknownNameError, match="did you mean 'duration'"):
        made.column("durations")
    with pytest.raises(UnknownNameError):
        made.text_column("duration")


def test_take_named_and_part() -> None:
    made = trials(9)
    at = [7, 0, 7, 3]
    taken = made.take(at)
    assert taken.trial.tolist() == made.trial[at].tolist()
    for k, i in enumerate(at):
        np.testing.assert_array_equal(
            taken.fixations[taken.starts[k] : taken.starts[k + 1]],
            made.fixations[made.starts[i] : made.starts[i + 1]],
        )
        np.testing.assert_array_equal(
            taken.gaze[taken.word_starts[k] : taken.word_starts[k + 1]],
            made.gaze[made.word_starts[i] : made.word_starts[i + 1]],
        )
    assert set(taken.texts) == set(taken.table["text"])
    mask = np.arange(9) % 2 == 0
    assert made.take(mask).trial.tolist() == made.trial[::2].tolist()
    assert len(made.take([])) == 0 and made.take([]).fixations.shape == (0, made.fixations.shape[1])
    names = made.trial[[4, 2]].tolist()
    assert made.named(names).trial.tolist() == names
    with pytest.raises(DataError, match="'nobody'"):
        made.named([names[0], "nobody"])
    split = kfold(made.table, by="reader", folds=3, fold=1)
    part = made.part(split, "test")
    assert sorted(part.trial) == sorted(split.trials("test")) and len(part) == 3
    assert part.trial.tolist() == [t for t in made.trial if t in set(split.trials("test"))]


def test_missing_shares() -> None:
    shares = missing_shares(reading_trials(dataset({"P1_A": BY_HAND})))
    assert shares["pupil"] == 1 and shares["duration"] == 0 and shares["surprisal"] == 1
    assert shares["word"] == 1 / 8 and shares["gaze_duration"] == 2 / 6
    assert shares["length"] == 0


def test_surprisal_and_language() -> None:
    data = dataset({"P1_A": BY_HAND})
    made = reading_trials(data, surprisal=lambda texts: np.arange(len(texts)) * 0.5)
    np.testing.assert_array_equal(made.text_column("surprisal"), np.arange(6) / 2)
    assert not np.isnan(made.text_column("rarity")).any()
    assert np.isnan(reading_trials(data, language="xx").text_column("rarity")).all()


# Beginnings


def test_beginning_by_hand() -> None:
    fixations = dataset({"P1_A": BY_HAND}).fixations
    # ends 200 400 570 700 840 1000 1270 1600; half of 1600 is 800, 0.625 of it is 1000
    assert len(beginning(fixations, 0.5)) == 4
    assert len(beginning(fixations, 0.625)) == 6
    assert len(beginning(fixations, 0.62)) == 5
    assert len(beginning(fixations, 0.1)) == 0
    assert beginning(fixations, 1.0) is fixations
    assert [len(beginning(fixations, s, "fixations")) for s in (0.01, 0.25, 0.26, 0.99)] == [
        1, 2, 3, 8,
    ]  # fmt: skip


def test_beginning_in_seconds_and_in_fixations_by_hand() -> None:
    fixations = dataset({"P1_A": BY_HAND}).fixations
    # ends 200 400 570 700 840 1000 1270 1600 ms
    assert [len(beginning(fixations, s, "seconds")) for s in (0.1, 0.2, 1, 1.5, 9)] == [
        0, 1, 6, 7, 8,
    ]  # fmt: skip
    assert [len(beginning(fixations, n, "count")) for n in (1, 3, 8, 100)] == [1, 3, 8, 8]
    assert beginning(fixations, np.inf, "seconds") is fixations
    for by in ("seconds", "count"):
        with pytest.raises(DataError, match="above 0"):
            beginning(fixations, 0, by)


@pytest.mark.parametrize(("amount", "by"), [(0.75, "seconds"), (4, "count")])
def test_nothing_after_an_absolute_beginning_matters(amount: float, by: str) -> None:
    """Not what is read later, nor for how long: a share of the trial would give that away."""
    full, longer = (dataset({"P1_A": rows}) for rows in (BY_HAND, BY_HAND))
    later = longer.fixations["onset"] > 750
    longer.fixations.loc[later, "duration"] = 5000.0
    cut = replace(full, fixations=full.fixations[full.fixations["onset"] <= 750])
    whole, changed, ended = (reading_trials(d, share=amount, by=by) for d in (full, longer, cut))
    for other in (changed, ended):
        np.testing.assert_array_equal(whole.fixations, other.fixations)
        np.testing.assert_array_equal(whole.gaze, other.gaze)
    share = reading_trials(full, share=0.5), reading_trials(longer, share=0.5)
    assert len(share[0].fixations) != len(share[1].fixations)


def test_beginning_starts_at_the_first_onset() -> None:
    fixations = dataset({"P1_A": BY_HAND}).fixations
    later = fixations.assign(onset=fixations["onset"] + 5000)
    assert len(beginning(later, 0.5)) == 4


def test_missing_onsets_concern_their_own_trial_alone() -> None:
    both = dataset({"P1_A": BY_HAND, "P2_A": BY_HAND}).fixations
    both.loc[12, "onset"] = NAN  # the fifth of P2
    # time on fixations: 200 380 530 630 750 890 1140 1440; half of 1440 is 720
    kept = beginning(both, 0.5)["trial"].value_counts()
    assert kept["P1_A"] == 4 and kept["P2_A"] == 4
    kept = beginning(both, 0.625)["trial"].value_counts()  # 1000 of 1600, 900 of 1440
    assert kept["P1_A"] == 6 and kept["P2_A"] == 6
    kept = beginning(both, 0.615)["trial"].value_counts()  # 984 of 1600, 885.6 of 1440
    assert kept["P1_A"] == 5 and kept["P2_A"] == 5
    alone = beginning(both.drop(columns="onset"), 0.37)  # 532.8 of 1440, not 592 of 1600
    assert alone["trial"].value_counts().tolist() == [3, 3]


def test_clocks_of_screens_add_up() -> None:
    """Onsets that begin anew on each screen do not put its start into the beginning."""
    fixations = dataset({"P1_A": BY_HAND}).fixations
    fixations["page"] = ["one"] * 4 + ["two"] * 4
    fixations.loc[4:, "onset"] -= 700
    # screen one ends at 700; on screen two 700 + 120, 280, 550, 880: 1580 in all
    assert len(beginning(fixations, 0.5)) == 4
    assert len(beginning(fixations, 0.52)) == 5  # 821.6
    assert len(beginning(fixations, 0.7)) == 6


def test_beginning_errors() -> None:
    fixations = dataset({"P1_A": BY_HAND}).fixations
    for share in (0, -1, 1.5, NAN):
        with pytest.raises(DataError):
            beginning(fixations, share)
    with pytest.raises(UnknownNameError, match="fixations"):
        beginning(fixations, 0.5, "fixation")
    with pytest.raises(DataError, match="needs durations"):
        beginning(fixations.drop(columns="duration"), 0.5)


def _with_other_end(data: GazeDataset, share: float, by: str, seed: int) -> GazeDataset:
    """Return the data set with other fixations after the beginning; its length stays."""
    kept = beginning(data.fixations, share, by).index
    f = data.fixations.copy()
    late = ~f.index.isin(kept)
    rng = np.random.default_rng(seed)
    for column in ("x", "y"):
        f.loc[late, column] = rng.uniform(0, 300, late.sum())
    for column in ("pupil", "saccade_amplitude", "saccade_duration", "saccade_peak_velocity"):
        f.loc[late, column] = rng.uniform(1, 9, late.sum())
        # the saccade after the last fixation kept was not over
        f.loc[f.index.isin(f.loc[kept].groupby("trial").tail(1).index), column] = (
            f[column] if column == "pupil" else rng.uniform(1, 9)
        )
    if by == "fixations":
        f.loc[late, "duration"] = rng.uniform(100, 400, late.sum())
    return replace(data, fixations=f)


@pytest.mark.parametrize("by", ["time", "fixations"])
@settings(max_examples=12, deadline=None)
@given(share=st.floats(0.05, 0.99), seed=st.integers(0, 10_000))
def test_nothing_later_is_seen(by: str, share: float, seed: int) -> None:
    data = many(6, seed % 7)
    try:
        one = reading_trials(data, share=share, by=by)
    except DataError:  # no fixation in any beginning
        return
    two = reading_trials(_with_other_end(data, share, by, seed), share=share, by=by)
    assert one.trial.tolist() == two.trial.tolist()
    for name in ("fixations", "word", "starts", "gaze", "word_starts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


@pytest.mark.parametrize("by", ["time", "fixations"])
def test_whole_and_half(by: str) -> None:
    data = many(9)
    whole, same = reading_trials(data), reading_trials(data, share=1.0, by=by)
    for name in ("fixations", "word", "gaze"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(same, name))
    lost = LossLog()
    half = reading_trials(data, share=0.5, by=by, lost=lost)
    kept = beginning(data.fixations, 0.5, by)
    assert len(half.word) == len(kept)
    dropped = 9 - kept["trial"].nunique()
    found = [x.count for x in lost if x.reason.endswith("in their beginning")]
    assert found == ([dropped] if dropped else [])
    # features of a beginning are those of a data set that ends there
    ended = replace(data, fixations=kept.reset_index(drop=True))
    again = reading_trials(ended)
    np.testing.assert_array_equal(half.gaze, again.gaze)
    keep = [i for i, n in enumerate(names_of("fixation")) if not n.startswith("saccade")]
    np.testing.assert_array_equal(half.fixations[:, keep], again.fixations[:, keep])
    assert np.isnan(half.column("saccade_amplitude")[half.starts[1:] - 1]).all()


def test_order_of_rows_and_company_do_not_matter() -> None:
    data = many(9)
    whole = reading_trials(data)
    mixed = check_fixations(data.fixations.sample(frac=1, random_state=3))[0]
    again = reading_trials(replace(data, fixations=mixed))
    np.testing.assert_array_equal(whole.fixations, again.fixations)
    for i in (0, 4, 8):
        name = whole.trial[i]
        one = replace(
            data,
            fixations=data.fixations[data.fixations["trial"] == name].reset_index(drop=True),
            trials=data.trials[data.trials["trial"] == name].reset_index(drop=True),
        )
        alone, picked = reading_trials(one), whole.take([i])
        np.testing.assert_array_equal(alone.fixations, picked.fixations)
        np.testing.assert_array_equal(alone.gaze, picked.gaze)


def test_text_that_is_not_there() -> None:
    """A trial of a layout without words is on no word, and keeps its fixations."""
    data = dataset({"P1_A": BY_HAND, "P1_Z": BY_HAND[:3]}, tables=[words()])
    made = reading_trials(data)
    assert made.n_words.tolist() == [6, 0] and (made.word[8:] == -1).all()
    assert made.texts["Z"].words == () and made.texts["Z"].features.shape == (0, 7)
    assert isinstance(made.table, pd.DataFrame) and made.column("duration")[8:].tolist() == [
        200, 180, 150,
    ]  # fmt: skip
