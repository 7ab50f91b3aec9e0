"""Written questions against true ones: question word, BLEU, ROUGE-L, BERTScore, equality.

All are per question, from 0 to 1, so that readers can be drawn for an interval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import DataError

Floats = NDArray[np.float64]
Vectors = Callable[[str], NDArray[Any]]
QuestionAnswerer = Callable[[str, str, Sequence[str]], str]
"""From a question, a text and the possible answers to one of these answers."""

QUESTION_WORDS = ("What", "When", "Where", "Who", "Whom", "Which", "Whose", "Why", "How")
OTHER = "Other"
NO_ANSWERER = "no question-answering model was given"

__all__ = [
    "NO_ANSWERER",
    "QUESTION_WORDS",
    "QuestionAnswerer",
    "bert_score",
    "bert_scores",
    "corpus_bleu",
    "exact",
    "generation_scores",
    "qa_accuracy",
    "question_word",
    "rouge_l",
    "same_question_word",
    "sentence_bleu",
]
_WORD = re.compile(rf"\b({'|'.join(QUESTION_WORDS)})\b", re.IGNORECASE)


def question_word(text: str) -> str:
    """Return the first question word of a text (`QUESTION_WORDS`), else ``"Other"``.

    It need not stand first: "In what year ..." asks What.
    """
    found = _WORD.search(text)
    return found.group(1).capitalize() if found else OTHER


def _pairs(written: Sequence[str], true: Sequence[str]) -> list[tuple[str, str]]:
    if len(written) != len(true):
        raise DataError("one true question per written one", expected=len(true), found=len(written))
    return list(zip(written, true, strict=True))


def same_question_word(written: Sequence[str], true: Sequence[str]) -> Floats:
    """Return 1 where both ask with the same word, else 0."""
    return np.array([float(question_word(a) == question_word(b)) for a, b in _pairs(written, true)])


def plain(text: str) -> str:
    """Return a text in small letters, without punctuation and repeated blanks."""
    return " ".join(re.sub(r"[^\w\s]", " ", text.casefold()).split())


def exact(written: Sequence[str], true: Sequence[str]) -> Floats:
    """Return 1 where texts are equal but for case, punctuation and blanks, else 0."""
    return np.array([float(plain(a) == plain(b)) for a, b in _pairs(written, true)])


def sentence_bleu(written: Sequence[str], true: Sequence[str]) -> Floats:
    """Return BLEU of each sentence (sacrebleu: 13a, exponential smoothing, effective order).

    Post (2018), A Call for Clarity in Reporting BLEU Scores, WMT.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(effective_order=True)
    return np.array([metric.sentence_score(a, [b]).score / 100 for a, b in _pairs(written, true)])


def corpus_bleu(written: Sequence[str], true: Sequence[str]) -> float:
    """Return BLEU of all sentences together (counts of n-grams added up), as published tables."""
    from sacrebleu.metrics.bleu import BLEU

    if not _pairs(written, true):
        return float("nan")
    return float(BLEU().corpus_score(list(written), [list(true)]).score / 100)


def bleu_counts(written: Sequence[str], true: Sequence[str]) -> NDArray[np.int64]:
    """Return what BLEU of many sentences is made of, by sentence, (n, 10).

    Matching n-grams for n = 1 to 4, all n-grams for n = 1 to 4, length, length of the true one:
    sums over any choice of sentences are the numbers of `bleu_of_counts`.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(effective_order=True)
    found = [metric.sentence_score(a, [b]) for a, b in _pairs(written, true)]
    rows = [[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in found]
    return np.array(rows, dtype=np.int64).reshape(-1, 10)


def bleu_of_counts(counts: ArrayLike) -> float:
    """Return BLEU of sentences together, 0 to 1, from the sum of their `bleu_counts`."""
    from sacrebleu.metrics.bleu import BLEU

    c = [int(v) for v in np.asarray(counts)]
    made = BLEU.compute_bleu(c[:4], c[4:8], c[8], c[9], smooth_method="exp")
    return float(made.score / 100)


def _rouge() -> Any:
    """Return the scorer, and keep its log out of ours.

    It imports absl, whose handler takes over the root logger and closes, when logging is set up
    anew, whatever stood in for the standard error stream at that moment: that of a notebook or of
    a test.
    """
    import logging
    import sys

    before = list(logging.root.handlers)
    from rouge_score.rouge_scorer import RougeScorer

    absl = sys.modules.get("absl.logging")
    if absl is not None:
        absl.get_absl_handler().python_handler.stream = sys.__stderr__
    scorer = RougeScorer(["rougeL"], use_stemmer=False)
    for handler in [h for h in logging.root.handlers if h not in before]:
        logging.root.removeHandler(handler)
    return scorer


def rouge_l(written: Sequence[str], true: Sequence[str]) -> Floats:
    """Return ROUGE-L F1 of each sentence: longest common subsequence of words, not stemmed.

    Lin (2004), ROUGE: A Package for Automatic Evaluation of Summaries.
    """
    scorer = _rouge()
    return np.array([scorer.score(b, a)["rougeL"].fmeasure for a, b in _pairs(written, true)])


def bert_score(written: ArrayLike, true: ArrayLike) -> tuple[float, float, float]:
    """Return precision, recall and F1 of greedily matched token vectors.

    Zhang et al. (2020), BERTScore: Evaluating Text Generation with BERT, ICLR: each token is
    matched with the most similar one of the other text (cosine). Neither weighted by rarity nor
    rescaled with a baseline.

    Parameters
    ----------
    written : array-like, shape (n, width)
    true : array-like, shape (m, width)

    Returns
    -------
    (float, float, float)
        All 0 where a text has no token (nothing matches); NaN where both have none.
    """
    a, b = (np.asarray(v, dtype=np.float64) for v in (written, true))
    if not len(a) and not len(b):
        return (float("nan"),) * 3
    if not len(a) or not len(b):
        return 0.0, 0.0, 0.0
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise DataError("vectors of tokens of one width", expected=a.shape, found=b.shape)
    norms = [np.linalg.norm(v, axis=1, keepdims=True) for v in (a, b)]
    a, b = (v / np.where(n > 0, n, 1) for v, n in zip((a, b), norms, strict=True))
    cosines = a @ b.T
    precision, recall = float(cosines.max(1).mean()), float(cosines.max(0).mean())
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total > 0 else 0.0


def bert_scores(written: Sequence[str], true: Sequence[str], vectors: Vectors) -> Floats:
    """Return precision, recall and F1 of each pair of texts, (n, 3).

    Parameters
    ----------
    vectors
        From a text to the vectors of its tokens, special ones left out, (n_tokens, width).
    """
    pairs = _pairs(written, true)
    known = {t: vectors(t) for t in dict.fromkeys(t for pair in pairs for t in pair)}
    return np.array([bert_score(known[a], known[b]) for a, b in pairs]).reshape(-1, 3)


def qa_accuracy(
    written: Sequence[str],
    true: Sequence[str],
    texts: Sequence[str],
    answers: Sequence[Sequence[str]],
    right: Sequence[str],
    answerer: QuestionAnswerer,
) -> Floats:
    """Return 1 where the written question leads to the right answer, else 0.

    Parameters
    ----------
    written, true, texts, answers, right
        Of each trial: both questions, the text, the possible answers and the right one.
    answerer
        A model that answers. Trials whose *true* question it answers wrongly are NaN: they say
        nothing of the written one. The share that is left is the coverage.
    """
    lengths = {len(written), len(true), len(texts), len(answers), len(right)}
    if len(lengths) > 1:
        raise DataError("one question, text, list of answers and right answer per trial",
                        found=sorted(lengths))  # fmt: skip
    out = np.full(len(written), np.nan)
    for k, (text, possible, truth) in enumerate(zip(texts, answers, right, strict=True)):
        if answerer(true[k], text, possible) == truth:
            out[k] = float(answerer(written[k], text, possible) == truth)
    return out


def generation_scores(
    written: Sequence[str], true: Sequence[str], vectors: Vectors | None = None
) -> Mapping[str, Floats]:
    """Return all scores per question by name; BERTScore only with `vectors`."""
    out: dict[str, Floats] = {
        "question_word": same_question_word(written, true),
        "bleu": sentence_bleu(written, true),
        "rouge_l": rouge_l(written, true),
        "exact": exact(written, true),
    }
    if vectors is not None:
        found = bert_scores(written, true, vectors)
        for k, name in enumerate(("precision", "recall", "f1")):
            out[f"bertscore_{name}"] = found[:, k]
    return out
