"""Choosing a question without training: by how alike it is to what was read long."""

from __future__ import annotations

from typing import Any

import numpy as np

from gazeattn.datamodules.goal_batches import GoalInputs
from gazeattn.datamodules.reading_features import Array
from gazeattn.models.goals.base import CITATION, GoalSelector
from gazeattn.registry import register_goal_model


def reading_times(inputs: GoalInputs) -> list[Array]:
    """Return the share of each word in the time on words of each trial.

    A word without a fixation has 0; a trial without a duration on any word is all NaN.
    """
    trials = inputs.goal.trials
    times = trials.column("total_reading_time")
    out = []
    for begin, end in zip(trials.word_starts[:-1], trials.word_starts[1:], strict=True):
        own = np.nan_to_num(times[begin:end])  # no time on a word is no missing value here
        total = own.sum()
        out.append(own / total if total > 0 else np.full(len(own), np.nan))
    return out


def word_vectors_of(inputs: GoalInputs) -> list[Array]:
    """Return the vectors of the words of each distinct text: sums over their tokens."""
    n_words = {}
    assert inputs.reading.token_of is not None
    for which, n in zip(inputs.reading.token_of, inputs.goal.trials.n_words, strict=True):
        n_words[int(which)] = int(n)
    out = []
    for k, tokens in enumerate(inputs.reading.tokens):
        assert tokens.vectors is not None
        made = np.zeros((n_words.get(k, 0), tokens.vectors.shape[1]))
        on = tokens.word_of >= 0
        np.add.at(made, tokens.word_of[on], tokens.vectors[on].astype(np.float64))
        out.append(made)
    return out


def cosines(a: Array, b: Array) -> Array:
    """Return cosines of all rows of `a` (n, k) with all of `b` (m, k); NaN for a row of zeros."""
    norms = [np.linalg.norm(v, axis=-1, keepdims=True) for v in (a, b)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return (a / norms[0]) @ (b / norms[1]).T


class _Similarity(GoalSelector):
    def __init__(self, **_: Any) -> None:
        pass

    def scores(self, inputs: GoalInputs) -> Array:
        """Return the similarity of each candidate, (n, most)."""
        words, times = word_vectors_of(inputs), self.times(inputs)
        out = np.full(inputs.there.shape, np.nan)
        assert inputs.reading.token_of is not None
        for i, which in enumerate(inputs.reading.token_of):
            asked = inputs.questions[inputs.question_of[i][inputs.there[i]]].astype(np.float64)
            if len(words[which]):
                out[i, inputs.there[i]] = self.compare(words[which], times[i], asked)
        return out

    def times(self, inputs: GoalInputs) -> list[Array]:
        """Return the weight of each word of each trial."""
        return reading_times(inputs)

    def compare(self, words: Array, time: Array, questions: Array) -> Array:
        """Return one score per question.

        Parameters
        ----------
        words : ndarray, shape (n_words, width)
        time : ndarray, shape (n_words,)
            Shares of the reading time.
        questions : ndarray, shape (n_questions, width)
        """
        raise NotImplementedError


@register_goal_model(
    "weighted_passage",
    description="cosine of the question with the words of the text weighted by reading time",
    citation=CITATION,
    task="selection",
    kind="model",
    control="passage",
)
class WeightedPassage(_Similarity):
    """``argmax_j cos(sum_i RT_i w_i, q_j)``; RT is the share of the reading time."""

    def compare(self, words: Array, time: Array, questions: Array) -> Array:
        """Return cosines with the weighted sum of the words."""
        return cosines(questions, (time @ words)[None])[:, 0]


@register_goal_model(
    "passage",
    description="text-only control: the same with equal weights for all words",
    citation=CITATION,
    task="selection",
    kind="control",
)
class Passage(_Similarity):
    """``argmax_j cos(mean_i w_i, q_j)``: what the text alone tells."""

    def compare(self, words: Array, time: Array, questions: Array) -> Array:
        """Return cosines with the mean of the words."""
        return cosines(questions, words.mean(0)[None])[:, 0]


@register_goal_model(
    "time_correlation",
    description="correlation over words of reading time with likeness to the question",
    citation=CITATION,
    task="selection",
    kind="model",
    control="word_length_correlation",
)
class TimeCorrelation(_Similarity):
    """``argmax_j corr_i(cos(q_j, w_i), RT_i)``; undefined where either is constant."""

    def compare(self, words: Array, time: Array, questions: Array) -> Array:
        """Return Pearson correlations over words that have a vector."""
        alike = cosines(questions, words)
        known = ~np.isnan(alike).any(0) & ~np.isnan(time)
        a = (
            alike[:, known] - alike[:, known].mean(1, keepdims=True)
            if known.any()
            else alike[:, :0]
        )
        t = time[known] - time[known].mean() if known.any() else time[:0]
        size = np.linalg.norm(a, axis=1) * np.linalg.norm(t)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(size > 1e-12, (a @ t) / size, np.nan)


@register_goal_model(
    "word_length_correlation",
    description="text-only control: the same with letters in place of reading time",
    citation=CITATION,
    task="selection",
    kind="control",
)
class WordLengthCorrelation(TimeCorrelation):
    """The text-only control of `TimeCorrelation`: long words are read longer by everybody."""

    def times(self, inputs: GoalInputs) -> list[Array]:
        """Return the share of each word in the letters of its text."""
        trials = inputs.goal.trials
        letters = {
            name: np.array([len(w.strip()) for w in text.words], dtype=np.float64)
            for name, text in trials.texts.items()
        }
        return [letters[t] / max(letters[t].sum(), 1) for t in trials.table["text"]]
