"""The catalogue of heads: hand-built maps, hand-built heads, and a real model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gazeattn.errors import DataError
from gazeattn.lm import LanguageModel
from gazeattn.lm._plan import Rows
from gazeattn.lm.heads import (
    FIGURES,
    HeadObserver,
    Thresholds,
    induction_score,
    is_delimiter,
    label_heads,
    ordinary_tokens,
    retrieval_score,
    text_figures,
)

N = 9  # a start token, then a b . c a b . c; token 3 and 7 are delimiters


def _maps() -> torch.Tensor:
    """One layer of heads with known habits, shape (heads, N, N)."""
    maps = torch.zeros(6, N, N)
    for t in range(N):
        maps[0, t, max(t - 1, 0)] = 1  # previous
        maps[1, t, 0] = 1  # first
        marks = [s for s in (3, 7) if s <= t]
        for s in marks or [0]:  # delimiter
            maps[2, t, s] = 1 / max(len(marks), 1)
        maps[3, t, : t + 1] = 1 / (t + 1)  # broad
        maps[4, t, t - 3 if t >= 5 else 0] = 1  # induction: the token after the earlier one
        maps[5, t, t] = 1  # itself
    return maps


def _observed(maps: torch.Tensor, step: int) -> HeadObserver:
    at = torch.arange(N)
    copied = torch.where((at >= 5) & (at < 8), at - 3, -1)
    observer = HeadObserver(at > 0, at == 0, (at == 3) | (at == 7), copied, at > 0)
    observer.begin(0, None, None)
    for start in reversed(range(0, N, step)):
        stop = min(start + step, N)
        block = maps[:, start:stop, :stop].contiguous()
        observer.rows(block, Rows(start, stop, stop, True, True), torch.empty_like(block))
    observer.end(0)
    return observer


@pytest.mark.parametrize("step", [1, 4, N])
def test_figures_of_maps_by_hand(step):
    seen = _observed(_maps(), step)
    # row 1 has the first token before it and does not count as looking at the previous one;
    # the delimiter head looks back by one in row 4, and with half its weight in row 8
    np.testing.assert_allclose(seen.means("previous")[0], [1, 0, 1.5 / 7, _mean(2), 0, 0])
    assert seen.means("first")[0][:2] == pytest.approx([1 / 8, 1.0])
    assert seen.means("first")[0][2] == pytest.approx(2 / 8)  # rows 1 and 2 have no delimiter yet
    assert seen.means("delimiter")[0][2] == pytest.approx(6 / 8)
    assert seen.means("entropy")[0][3] == pytest.approx(1.0)
    assert seen.means("entropy")[0][0] == pytest.approx(0.0, abs=1e-6)
    assert np.isnan(seen.means("entropy")[0][1])  # everything lies on the first token
    assert seen.means("distance")[0][0] == pytest.approx(1.0)
    assert seen.means("distance")[0][5] == pytest.approx(0.0)
    assert seen.means("self")[0][5] == pytest.approx(1.0)
    assert seen.means("induction")[0][4] == pytest.approx(1.0)
    assert seen.means("induction")[0][3] == pytest.approx(np.mean([1 / 6, 1 / 7, 1 / 8]))
    assert seen.hits[0][4].nonzero().flatten().tolist() == [5, 6, 7]
    assert not seen.hits[0][[0, 5]].any()


def _mean(first: int) -> float:
    return float(np.mean([1 / (t + 1) for t in range(first, N)]))


def test_labels_of_maps_by_hand():
    seen = _observed(_maps(), 4)
    figures = {k: seen.means(k) for k in seen.sums}
    # so short a text has other bounds: one copied key of three is a delimiter, nothing is far
    table = label_heads(figures, Thresholds(induction=0.5, local=1.1))
    expected = ["previous", "first", "delimiter", "broad", "induction", "local"]
    assert table["label"].tolist() == expected
    assert table["labels"][0] == "previous local"
    assert table["retrieval"].isna().all()


def test_labels_by_threshold():
    figures = {k: np.zeros((1, 3)) for k in FIGURES}
    figures["distance"][:] = 9
    figures["retrieval"][0] = [0.1, 0.0999, np.nan]
    figures["induction"][0, 0] = 0.5
    table = label_heads(figures)
    assert table["label"].tolist() == ["induction", "mixed", "mixed"]
    assert table["labels"][0] == "induction retrieval"
    assert label_heads(figures, Thresholds(local=9.0))["label"].tolist()[1:] == ["local"] * 2
    with pytest.raises(DataError):
        label_heads({"previous": np.zeros((1, 3)), "self": np.zeros((2, 3))})


def test_delimiters():
    assert [is_delimiter(t) for t in (".", " ,", "\u201d", "a.", " ", "")] == [True] * 3 + [
        False
    ] * 3


def test_of_a_small_model(tiny_llama, byte_tokenizer):
    lm = LanguageModel(tiny_llama, byte_tokenizer)
    words = "The reader looks at the text , and then at the end .".split()
    encoded = lm.encode(words)
    one, two = text_figures(lm, [encoded]), text_figures(lm, [encoded, encoded], chunk=3)
    for name in ("previous", "first", "delimiter", "entropy", "distance"):
        assert one[name].shape == (2, 4)
        np.testing.assert_allclose(two[name], one[name], rtol=1e-4)
    assert two["n_rows"] == 2 * one["n_rows"]
    with pytest.raises(DataError):
        text_figures(lm, [])
    scores = induction_score(lm, 10, 2)
    assert scores.shape == (2, 4) and (scores >= 0).all() and (scores < 0.9).all()
    np.testing.assert_array_equal(scores, induction_score(lm, 10, 2))
    found, copied = retrieval_score(lm, 20, 4, 2)
    assert np.isnan(found).all() and copied < 0.5  # random weights bring out nothing
    special = set(byte_tokenizer.all_special_ids)
    assert not special & set(ordinary_tokens(lm).tolist())


def test_retrieval_counts_heads_that_copy(tiny_llama, byte_tokenizer, monkeypatch):
    """A model that always says the needle: only what the heads look at decides."""
    import gazeattn.lm.heads as module

    lm = LanguageModel(tiny_llama, byte_tokenizer)
    monkeypatch.setattr(module, "_next_tokens", lambda lm, ids: np.append(ids[1:], 0))

    def looked(lm, ids, copied, searched, chunk):
        hits = torch.zeros(2, 4, len(ids), dtype=torch.bool)
        rows = np.flatnonzero(copied >= 0)
        assert (ids[copied[rows]] == ids[rows + 1]).all()  # the key holds what is said next
        assert searched[copied[rows]].all() and not searched[0]
        hits[1, 2, rows[:3]] = True
        return SimpleNamespace(hits=list(hits))

    monkeypatch.setattr(module, "_probe", looked)
    found, copied = retrieval_score(lm, 20, 4, 3)
    expected = np.zeros((2, 4))
    expected[1, 2] = 3 / 4
    np.testing.assert_allclose(found, expected)
    assert copied == 1.0


def test_of_a_real_model(smollm2):
    # a trained model has previous-token and induction heads, and a sink
    words = "The old man sat down on the bench near the river , and looked at the boats .".split()
    figures = text_figures(smollm2, [smollm2.encode(words)])
    figures.pop("n_rows")
    figures["induction"] = induction_score(smollm2, 50, 2)
    table = label_heads(figures)
    assert figures["induction"].max() > 0.7 and figures["previous"].max() > 0.5
    assert {"induction", "previous", "first"} <= set(table["label"])
    assert len(table) == 270
