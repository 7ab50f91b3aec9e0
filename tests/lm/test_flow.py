"""Attention flow: a graph by hand, recorded values, and the limits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from gazeattn.errors import CapabilityError, DataError
from gazeattn.lm import LanguageModel
from gazeattn.lm.flow import capacities, check_cost, max_flow, normalised


def test_two_layers_by_hand():
    # two tokens; level 2 -> 1 -> 0. From token 1: 0.5 to each token of level 1, of which token 0
    # passes everything to token 0, token 1 a quarter. To token 0: 0.5 + 0.25; to token 1 nothing
    # from token 0 and min(0.5, 0.75) from token 1
    graph = np.array([[[1.0, 0.0], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])
    found = max_flow(graph)
    np.testing.assert_allclose(found.values, [[1.0, 0.0], [0.75, 0.5]], atol=1e-12)
    assert found.tolerance < 1e-8


def test_capacities_add_the_identity():
    a = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    np.testing.assert_allclose(capacities(a), [[[1.0, 0.0], [0.25, 0.75]]])
    with pytest.raises(DataError):
        capacities(-a)
    with pytest.raises(DataError):
        capacities(a[0])


def test_recorded_values(shared_data: Path):
    folder = shared_data.parent / "golden"
    if not folder.is_dir():
        pytest.skip("no recorded values")
    arrays = np.load(folder / "C_attention.npz", allow_pickle=False)
    cases = json.loads((folder / "C_attention.json").read_text())["cases"]
    cases = [c for c in cases if c["kind"] == "flow"]
    assert cases
    for case in cases:
        graph = capacities(arrays[case["attention"]].mean(1))
        for level in range(len(graph)):
            found = max_flow(graph[: level + 1])
            raw = arrays[case["expected"]["raw"]][level]
            np.testing.assert_allclose(found.values, raw, atol=1e-12, err_msg=case["id"])
            share = arrays[case["expected"]["normalized"]][level]
            np.testing.assert_allclose(normalised(found.values), share, atol=1e-12)


def _by_linear_program(graph, source, sink):
    """Maximise the flow out of (top, source) into (0, sink) with one variable per edge."""
    n_layers, n, _ = graph.shape
    flow = -np.eye(1, n_layers * n * n)[0] * 0
    index = np.arange(n_layers * n * n).reshape(n_layers, n, n)
    flow[index[n_layers - 1, source]] = -1
    rows, upper = [], graph.copy()
    upper[-1, np.arange(n) != source] = 0
    upper[0][:, np.arange(n) != sink] = 0
    for level in range(n_layers - 1):  # what comes in from above goes out below
        for node in range(n):
            row = np.zeros(index.size)
            row[index[level + 1, :, node]] = 1
            row[index[level, node]] = -1
            rows.append(row)
    done = linprog(
        flow, A_eq=np.array(rows), b_eq=np.zeros(len(rows)),
        bounds=np.stack([np.zeros(upper.size), upper.ravel()], 1),
    )  # fmt: skip
    return -done.fun


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_equals_a_linear_program(seed, causal):
    rng = np.random.default_rng(seed)
    a = rng.random((3, 4, 4)) ** 4
    a = np.tril(a) if causal else a
    graph = capacities(a / a.sum(-1, keepdims=True))
    found = max_flow(graph, [2])
    expected = [_by_linear_program(graph, 2, s) for s in range(4)]
    np.testing.assert_allclose(found.values[0], expected, atol=1e-7)


def test_cost_is_refused_before_work():
    assert check_cost(30, 64, range(64), True, 600) < 60
    with pytest.raises(CapabilityError, match="limit is 10 s"):
        check_cost(30, 1000, range(1000), True, 10)
    with pytest.raises(DataError):
        max_flow(np.ones((2, 3, 3)) / 3, [3])


def test_of_a_model(tiny_llama, byte_tokenizer):
    lm = LanguageModel(tiny_llama, byte_tokenizer)
    words = "The old man sat".split()
    found = lm.attention(words, "flow")
    assert np.isfinite(found.weights).all() and found.how["tolerance"] < 1e-6
    last = lm.attention(words, "flow", flow_words=(3,))
    # from the last word alone: shares of one word's rows, so that they add up to 1
    assert last.weights.sum() == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(DataError, match="no such word"):
        lm.attention(words, "flow", flow_words=(4,))
    with pytest.raises(CapabilityError, match="limit is 0 s"):
        lm.attention(words, "flow", flow_seconds=0.0)
