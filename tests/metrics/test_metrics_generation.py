"""Scores of written questions, by hand and against the definitions."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.metrics import generation as g


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("What is it?", "What"), ("In what year was it?", "What"), ("who's there?", "Who"),
        ("To whom did she write?", "Whom"), ("Whose hat?", "Whose"), ("HOW many?", "How"),
        ("According to him, which one?", "Which"), ("Somewhat late", "Other"), ("", "Other"),
        ("Name the river.", "Other"), ("Why did they ask where it was?", "Why"),
        ("When?", "When"), ("Where to?", "Where"),
    ],
)  # fmt: skip
def test_question_word(text: str, word: str) -> None:
    assert g.question_word(text) == word


def test_same_question_word_and_exact() -> None:
    a, b = ["What is it?", "Who?", "the end"], ["what was it?", "When?", "The  end!"]
    assert g.same_question_word(a, b).tolist() == [1, 0, 1]
    assert g.exact(a, b).tolist() == [0, 0, 1]


def test_bleu_by_hand() -> None:
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 quadruples; lengths are equal
    value = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert g.sentence_bleu(["a b c d x"], ["a b c d e"]) == pytest.approx([value])
    assert g.corpus_bleu(["a b c d x"], ["a b c d e"]) == pytest.approx(value)
    # half as long: 2 of 2 words, 1 of 1 pairs, and the penalty exp(1 - 4 / 2)
    assert g.sentence_bleu(["a b"], ["a b c d"]) == pytest.approx([math.exp(-1)])
    assert math.isnan(g.corpus_bleu([], []))


def test_rouge_by_hand() -> None:
    # longest common subsequence "the cat the mat": 4 of 4 written and 4 of 6 true words
    found = g.rouge_l(["the cat the mat"], ["the cat sat on the mat"])
    assert found == pytest.approx([2 * 1 * (4 / 6) / (1 + 4 / 6)])
    assert g.rouge_l(["nothing"], ["the cat"]).tolist() == [0]


def test_bert_score_by_hand() -> None:
    written = [[1.0, 0.0], [0.0, 2.0]]  # best cosines: 1 and 0.8
    true = [[3.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]  # best cosines: 1, 0.8 and 0
    p, r, f = g.bert_score(written, true)
    assert p == pytest.approx(0.9) and r == pytest.approx(0.6) and f == pytest.approx(0.72)
    swapped = g.bert_score(true, written)
    assert swapped == pytest.approx((r, p, f))


def test_bert_score_of_nothing() -> None:
    assert g.bert_score(np.zeros((0, 2)), [[1.0, 0.0]]) == (0, 0, 0)
    assert all(math.isnan(v) for v in g.bert_score(np.zeros((0, 2)), np.zeros((0, 2))))
    with pytest.raises(DataError, match="one width"):
        g.bert_score([[1.0]], [[1.0, 0.0]])


@given(st.integers(1, 4), st.integers(0, 99))
def test_bert_score_of_equal_texts_is_one(n: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(n, 3))
    assert g.bert_score(vectors, 2 * vectors) == pytest.approx((1, 1, 1))


def test_vectors_are_made_once_per_text() -> None:
    asked: list[str] = []

    def vectors(text: str) -> np.ndarray:
        asked.append(text)
        return np.eye(3)[[len(w) % 3 for w in text.split()]]

    found = g.bert_scores(["a b", "a b"], ["a b", "aa"], vectors)
    assert asked == ["a b", "aa"]
    assert found.tolist() == [[1, 1, 1], [0, 0, 0]]


def test_qa_accuracy_leaves_out_what_the_true_question_does_not_solve() -> None:
    def answerer(question: str, text: str, answers: list[str]) -> str:
        return answers[0] if question.startswith("Who") else answers[1]

    found = g.qa_accuracy(
        ["Who a?", "What b?", "Who c?"], ["Who x?", "Who y?", "What z?"], ["t"] * 3,
        [["A", "B"]] * 3, ["A", "A", "A"], answerer,
    )  # fmt: skip
    assert found[:2].tolist() == [1, 0] and math.isnan(found[2])
    with pytest.raises(DataError):
        g.qa_accuracy(["a"], ["b", "c"], ["t"], [["A"]], ["A"], answerer)


def test_all_scores_have_one_value_per_question() -> None:
    a, b = ["What is it?", "Who?"], ["What was it?", "Who?"]
    found = g.generation_scores(a, b, lambda t: np.ones((len(t.split()), 2)))
    assert {len(v) for v in found.values()} == {2}
    assert all(((v >= 0) & (v <= 1 + 1e-12)).all() for v in found.values())
    assert "bertscore_f1" in found and "bertscore_f1" not in g.generation_scores(a, b)
    assert all(v[1] == pytest.approx(1) for v in found.values())
    with pytest.raises(DataError, match="one true question"):
        g.generation_scores(["a"], ["b", "c"])


def test_the_scorer_leaves_logging_and_streams_alone() -> None:
    """Setting up logging anew must not close what stands in for standard error."""
    script = (
        "import io, logging.config, sys\n"
        "mine = sys.stderr = io.StringIO()\n"
        "from gazeattn.metrics.generation import rouge_l\n"
        "rouge_l(['what is it'], ['what was it'])\n"
        "assert not logging.root.handlers, logging.root.handlers\n"
        "logging.config.dictConfig({'version': 1})\n"
        "assert not mine.closed\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
