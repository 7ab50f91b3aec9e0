"""Classes of looked-at tokens, coverage, transitions, made scanpaths: by hand, damaged, real."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gazeattn
from gazeattn.datamodules.code_classes import (
    TokenLooks,
    class_of_text,
    class_table,
    classes_of_pieces,
    token_looks,
)
from gazeattn.datamodules.code_priors import (
    class_shares,
    coverage_counts,
    coverage_prior,
    made_scanpath,
    token_weights,
    transitions,
)
from gazeattn.datasets import GazeDataset
from gazeattn.errors import DataError
from gazeattn.losses import LossLog


def looks(
    path: str, there: dict[str, int], trial: str = "t", ms: float = 100.0, person: str = "p"
) -> TokenLooks:
    """One look per pair of a class (k keyword, i identifier, o operator) and a token's digit."""
    names = {"k": "keyword", "i": "identifier", "o": "operator"}
    parts = path.split()
    return TokenLooks(
        person, trial, "s", "reading", np.array(parts, np.str_),
        np.array([names[p[0]] for p in parts], np.str_), np.full(len(parts), ms), there, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("return", "keyword"), ("int", "keyword"), ("String", "identifier"), ("null", "literal"),
        ("NULL", "identifier"), ("0.1", "literal"), ('"The', "string"), ("'c'", "string"),
        ("sb.append", "identifier"), ("i++", "identifier"), ("double[]", "keyword"),
        ("==", "operator"), ("{", "punctuation"), (".", "punctuation"), (")).value", "punctuation"),
        ("&&", "operator"), ("lt;Integer", "operator"), ("gt;", "operator"), ("&", "operator"),
        ("//", "comment"), ("/** Says", "comment"), ("@Override", "punctuation"),
    ],
)  # fmt: skip
def test_class_of_a_text(text: str, kind: str) -> None:
    assert class_of_text(text, "java") == kind


def test_class_depends_on_the_language() -> None:
    assert class_of_text("def", "python") == "keyword"
    assert class_of_text("def", "java") == class_of_text("def", "cobol") == "identifier"
    assert class_of_text("None", "python") == "literal"
    with pytest.raises(DataError, match="no text"):
        class_of_text("  ", "java")


def test_class_from_the_tree() -> None:
    source = "# sum it\nx = 'if'\n"
    starts = [source.index(c) for c in ("#", "it", "x", "=", "'", "if")]
    assert classes_of_pieces(source, "python", starts).tolist() == [
        "comment", "comment", "identifier", "operator", "string", "string",
    ]  # fmt: skip
    with pytest.raises(DataError, match="off all tokens"):
        classes_of_pieces(source, "python", [len(source) - 1])


def test_coverage_by_hand() -> None:
    there = {"keyword": 2, "identifier": 5}
    # first reader: one of two keywords (twice), three of five names; second: two names alone
    a = looks("k0 i0 i1 k0 i2", there, "a")
    b = looks("i0 i4", there, "b")
    counts = coverage_counts([a, b])
    prior = coverage_prior(counts)
    assert prior.loc["keyword", ["alpha", "beta"]].tolist() == [1 + 1, 4 - 1 + 1]
    assert prior.loc["identifier", ["alpha", "beta"]].tolist() == [5 + 1, 10 - 5 + 1]
    assert prior.loc["keyword", "mean"] == pytest.approx(2 / 6)
    assert prior.loc["identifier", "readings"] == 2 and prior["whole"].all()
    # time: 2/5 on 2/7 of the tokens, 3/5 on 5/7; then none and all
    shares = class_shares(counts)
    assert shares["keyword"] == pytest.approx((0.4 / (2 / 7) + 0) / 2)
    assert shares["identifier"] == pytest.approx((0.6 / (5 / 7) + 7 / 5) / 2)


def test_coverage_that_cannot_be() -> None:
    with pytest.raises(DataError, match="more tokens"):
        coverage_counts([looks("k0 k1 k2", {"keyword": 2})])
    with pytest.raises(DataError, match="more tokens"):
        coverage_counts([looks("k0", {"identifier": 2})])
    with pytest.raises(DataError, match="needs readings"):
        coverage_prior(coverage_counts([]))
    with pytest.raises(DataError, match="with a look"):
        class_shares(coverage_counts([looks("", {"keyword": 2})]))


def test_transitions_by_hand() -> None:
    there = {"keyword": 9, "identifier": 9, "operator": 9}
    a = looks("k0 i0 i0 o0 k1 i1", there, "a")
    found = transitions([a], least=1)
    k, i, o = "keyword", "identifier", "operator"
    assert found.counts[1] == {(i,): 3, (k,): 2, (o,): 1}
    assert found.counts[2] == {(k, i): 2, (i, i): 1, (i, o): 1, (o, k): 1}
    assert found.counts[3] == {(k, i, i): 1, (i, i, o): 1, (i, o, k): 1, (o, k, i): 1}
    assert found.probabilities([i]) == {i: 0.5, o: 0.5}
    assert found.probabilities([o, k]) == {i: 1.0}
    assert found.probabilities([k, o]) == {k: 1.0}  # never seen: what followed the last one
    assert found.probabilities(["string"]) == {k: 2 / 6, i: 3 / 6, o: 1 / 6}
    assert found.matrix().loc[k].tolist() == [1, 0, 0]  # identifier, keyword, operator
    # looks at the same token count once; readings are not joined
    once = transitions([a, looks("o5", there, "b")], least=1, repeats=False)
    assert once.counts[1] == {(i,): 2, (k,): 2, (o,): 2} and (i, i) not in once.counts[2]
    assert (i, o) in once.counts[2] and sum(once.counts[2].values()) == 4
    # what is rare goes, and is counted
    rare = transitions([a], least=2)
    assert rare.counts[2] == {(k, i): 2} and rare.pruned == {1: 1, 2: 3, 3: 4}
    assert rare.matrix().loc[i].isna().all()  # nothing that followed a name was kept
    assert transitions([], least=1).following([k]) == {}


def test_scanpath_by_hand() -> None:
    there = {"keyword": 9, "identifier": 9, "operator": 9}
    follow = transitions([looks("k0 i0 o0 i1 o1 i2 k1", there)], least=1)
    everything = pd.DataFrame({"fixated": [10**9], "tokens": [10**9], "mean": [1.0]}, index=["x"])
    kinds = ["operator", "keyword", "identifier", "identifier", "operator", "keyword"]
    path = made_scanpath(kinds, everything, follow, np.random.default_rng(0))
    # names are most frequent; i -> o; i o -> i; o i -> k (of equals with o) ; k -> i: none left,
    # so that the commonest class that is left goes on: an operator, then the keyword
    order = [kinds[k] for k in path]
    assert order[:4] == ["identifier", "operator", "identifier", "keyword"]
    assert path[:4].tolist() == [2, 4, 3, 5]
    assert len(set(path.tolist())) == len(path) == 5  # floor of a share just below 1
    nothing = pd.DataFrame({"fixated": [0], "tokens": [10**9], "mean": [0.0]}, index=["x"])
    assert len(made_scanpath(kinds, nothing, follow, np.random.default_rng(0))) == 0
    # classes that were never looked at cannot be visited
    only = made_scanpath(["comment"] * 4, everything, follow, np.random.default_rng(0))
    assert len(only) == 0


@given(st.lists(st.sampled_from(["keyword", "identifier", "operator"]), max_size=30),
       st.integers(0, 10**6))  # fmt: skip
def test_scanpaths_visit_no_token_twice(kinds: list[str], seed: int) -> None:
    there = {"keyword": 9, "identifier": 9, "operator": 9}
    data = [looks("k0 i0 o0 i1 k1 k2 i2", there)]
    prior, follow = coverage_prior(coverage_counts(data)), transitions(data, least=1)
    path = made_scanpath(kinds, prior, follow, np.random.default_rng(seed))
    assert len(set(path.tolist())) == len(path) <= len(kinds)
    weights = token_weights(kinds, path, prior, follow, base=3)
    assert (weights >= 3).all() and np.isfinite(weights).all()
    on = np.isin(np.arange(len(kinds)), path)
    assert (weights[~on] == 3).all() and (weights[on] > 3).all()


def test_weights_by_hand() -> None:
    there = {"keyword": 2, "identifier": 4}
    data = [looks("k0 i0 k0 i0", there)]
    prior, follow = coverage_prior(coverage_counts(data)), transitions(data, least=2)
    found = token_weights(["keyword", "identifier", "identifier"], np.array([0, 2]), prior, follow)
    # keyword: seen twice, theta 2/4; name after keyword: seen twice, theta 2/6
    assert found.tolist() == pytest.approx([1 + 1 / np.log(4) + 0.5, 1, 1 + 1 / np.log(4) + 1 / 3])
    # a run that was not kept: the shorter one counts
    turned = token_weights(["keyword", "identifier"], np.array([1, 0]), prior, follow)
    assert turned[0] == pytest.approx(1 + 1 / np.log(4) + 0.5)
    with pytest.raises(DataError, match="leaves the code"):
        token_weights(["keyword"], np.array([1]), prior, follow)


def small(**changes: object) -> GazeDataset:
    words = pd.DataFrame({
        "layout": "s", "stimulus": "s", "word": ["0", "1", "2"], "index": [0, 1, 2],
        "text": ["int", "x", ";"], "left": [0.0, 40.0, 60.0], "right": [40.0, 60.0, 70.0],
        "top": 0.0, "bottom": 20.0, "line": pd.array([0, 0, 0], dtype="Int64"),
    })  # fmt: skip
    trials = pd.DataFrame({"participant": ["a", "b"], "trial": ["a_s", "b_s"], "stimulus": "s",
                           "condition": ["java", "code summarisation"]})  # fmt: skip
    fixations = pd.DataFrame({
        "participant": "a", "trial": "a_s", "stimulus": "s", "index": [0, 1, 2, 3],
        "x": [50.0, 10.0, 500.0, 45.0], "y": 5.0, "duration": [100.0, 200.0, 300.0, 9000.0],
    })  # fmt: skip
    tables = {"fixations": fixations, "words": words, "trials": trials, **changes}
    return GazeDataset("small", stimuli={"s": {"language": "java"}}, **tables)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_positions_are_put_on_boxes() -> None:
    lost = LossLog()
    (found,) = token_looks(small(), lost, longest=5000)
    assert found.token.tolist() == ["1", "0"] and found.kind.tolist() == ["identifier", "keyword"]
    assert found.duration.tolist() == [100, 200] and found.session == "reading" and found.whole
    assert found.there == {"identifier": 1, "keyword": 1, "punctuation": 1}
    counts = lost.to_frame().set_index("reason")["count"]
    assert counts["fixations off the tokens"] == 1 and counts["looks of more than 5000 ms"] == 1
    assert counts["trials without a look at a token"] == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_data() -> None:
    whole = small()
    with pytest.raises(DataError, match="no tokens of code"):
        class_table(small(words=whole.words.iloc[:0]))
    rows = whole.fixations.assign(word=["0", "1", None, "7"])
    with pytest.raises(DataError, match="has not") as error:
        token_looks(small(fixations=rows))
    assert "7" in str(error.value)
    # a stimulus without tokens: counted, not raised
    lost = LossLog()
    other = rows.assign(stimulus=["s", "s", "s", "else"])
    (found,) = token_looks(small(fixations=other), lost)
    assert found.token.tolist() == ["0", "1"]
    counts = lost.to_frame().set_index("reason")["count"]
    assert counts["fixations in code without tokens"] == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_real_corpora(shared_data: Path) -> None:
    data = gazeattn.load("programmer_scanpaths", root=shared_data / "programmer_scanpaths")
    found = token_looks(data)
    assert len(found) == 680 - 24 and sum(len(r.kind) for r in found) == 71130
    assert {r.session for r in found} == {"reading"} and not any(r.whole for r in found)
    prior = coverage_prior(coverage_counts(found))
    # names are looked at more often than operators, in both languages
    assert prior.loc["identifier", "mean"] > prior.loc["operator", "mean"] + 0.1
    calls = token_looks(
        gazeattn.load("call_graph_attention", root=shared_data / "call_graph_attention")
    )
    assert sum(len(r.kind) for r in calls) == 85841 - 12659  # tokens, without white space
    assert {r.session for r in calls} == {"writing"} and not any(r.whole for r in calls)
    java = coverage_prior(coverage_counts(calls))
    assert java.loc["identifier", "mean"] > java.loc["operator", "mean"]
    code = token_looks(gazeattn.load("code_comprehension", root=shared_data / "code_comprehension"))
    assert len(code) == 154 and all(r.whole for r in code)
    python = coverage_prior(coverage_counts(code))
    assert python.loc["identifier", "mean"] > python.loc["operator", "mean"] + 0.1
    assert python["tokens"].sum() == sum(sum(r.there.values()) for r in code)
    follow = transitions(code)
    n = sum(len(r.kind) for r in code)
    assert sum(follow.counts[1].values()) + follow.pruned[1] == n
    assert sum(follow.counts[3].values()) + follow.pruned[3] == n - sum(
        min(2, len(r.kind)) for r in code
    )
