"""Whole attention maps: golden values and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.lm import maps


def test_golden_rollout(golden):
    data, arrays = golden("C_attention.json"), golden.arrays("C_attention.npz")
    cases = [c for c in data["cases"] if c["kind"] == "rollout"]
    assert len(cases) >= 5
    for case in cases:
        a, tolerance = arrays[case["attention"]], data["tolerance"]["rollout"]
        found = {
            "with_residual": maps.rollout(a),
            "without_residual": maps.rollout(a, residual=False),
            "heads_max": maps.rollout(a, heads="max"),
        }
        for name, key in case["expected"].items():
            np.testing.assert_allclose(found[name], arrays[key], rtol=0, atol=tolerance)


def test_golden_raw(golden):
    data, arrays = golden("C_attention.json"), golden.arrays("C_attention.npz")
    cases = [c for c in data["cases"] if c["kind"] == "raw"]
    checked = set()
    for case in cases:
        a = arrays[case["attention"]]
        found = {
            "mean_heads": a.mean(1),
            "mean_all": a.mean((0, 1)),
            "max_heads": a.max(1),
            "entropy_nats": maps.entropy(a),
            "entropy_bits": maps.entropy(a, base=2),
            "entropy_normalized": maps.entropy(a, normalised=True),
            "mean_distance": maps.mean_distance(a),
            "received_sum": maps.received(a),
            "received_mean": maps.received(a, causal="mean"),
            "received_mean_causal": maps.received(a, causal="visible_mean"),
            "cls_row_last_layer_mean": a[-1].mean(0)[0],
            "last_row_last_layer_mean": a[-1].mean(0)[-1],
        }
        for name, key in case["expected"].items():
            np.testing.assert_allclose(
                found[name], arrays[key], rtol=0, atol=data["tolerance"]["entropy"], err_msg=name
            )
            checked.add(name)
    assert checked == set(found)


def test_rollout_by_hand():
    # with the identity: rows (1, 0) and (.25, .75); squared: (1, 0) and (.4375, .5625)
    a = np.array([[1.0, 0.0], [0.5, 0.5]])
    r = maps.rollout(np.stack([a, a])[:, None])
    np.testing.assert_allclose(r[0], [[1, 0], [0.25, 0.75]])
    np.testing.assert_allclose(r[1], [[1, 0], [0.4375, 0.5625]])


def test_received_by_hand():
    a = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(maps.received(a), [1.7, 0.8, 0.5])
    np.testing.assert_allclose(maps.received(a, "visible_mean"), [1.7 / 3, 0.4, 0.5])
    np.testing.assert_allclose(maps.mean_distance(a), [0, 0.5, 0.7])


def test_torch_in_torch_out():
    a = torch.softmax(torch.randn(2, 3, 5, 5, dtype=torch.float64), -1)
    for f in (maps.rollout, maps.received, maps.entropy, maps.mean_distance):
        out = f(a)
        assert isinstance(out, torch.Tensor)
        np.testing.assert_allclose(out.numpy(), f(a.numpy()))


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.zeros(4)])
def test_not_square_is_an_error(bad):
    for f in (maps.received, maps.entropy, maps.mean_distance, maps.rollout):
        with pytest.raises(DataError, match="one row and one column"):
            f(bad)


def test_unknown_rules_are_named():
    a = np.eye(2)
    with pytest.raises(UnknownNameError, match="visible_mean"):
        maps.received(a, causal="visible-mean")
    with pytest.raises(UnknownNameError, match="mean"):
        maps.rollout(a[None, None], heads="avg")
