"""PostFusion-Eye: what a fixation may see, norms without padding, and the question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.errors import UnknownNameError
from gazeattn.models.reading.postfusion_eye import FixationNorm, PostFusionEye, visible_tokens

from . import made_texts as made


def make(target: Any, widths: Any, **options: Any) -> PostFusionEye:
    sizes = {"channels": [8, 12], "fused": 16, "norm": "layer"}
    return PostFusionEye(target, widths, **{**sizes, **options})


def make_batch_norm(target: Any, widths: Any, **options: Any) -> PostFusionEye:
    return make(target, widths, **{**options, "norm": "batch"})


@pytest.mark.parametrize("make", [make, make_batch_norm])
@pytest.mark.parametrize("check", [made.check_company, made.check_padding, made.check_targets])
def test_contract(check: Any, make: Any) -> None:
    check(make)


def test_neighbours_of_a_word_matter() -> None:
    made.check_words(make, uses_order=True)
    made.check_words(lambda *a, **k: make(*a, **{**k, "window": 0}))


def test_visible_tokens_by_hand() -> None:
    # start, word 0, word 1 (two tokens), word 2, word 3, end, question (two tokens), end
    inputs = made.made([[1, 2, 1, 1]], [(0, [0, 2, -1]), (0, [3])], asked=[2])
    seen = visible_tokens(collate_reading(inputs)).int().tolist()
    assert seen[0] == [
        [1, 1, 1, 1, 0, 0, 0, 0, 0, 0],  # word 0: start, words 0 and 1
        [1, 0, 1, 1, 1, 1, 0, 0, 0, 0],  # word 2: start, words 1 to 3
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],  # off the text: start alone
    ]
    assert seen[1][0] == [1, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    assert seen[1][1:] == [[0] * 10, [0] * 10]


def test_attention_stays_where_it_may_and_sums_to_one() -> None:
    torch.manual_seed(0)
    model, inputs = make(made.TWO, made.WIDTHS).eval(), made.hard_case(asked=True)
    batch = collate_reading(inputs)
    with torch.no_grad():
        fixations = model.convolved(batch)
        weights, saw = model.look(fixations, batch)
    seen = visible_tokens(batch)
    assert bool((weights[~seen] == 0).all()) and bool((weights[seen] > 0).all())
    torch.testing.assert_close(weights.sum(-1), batch.mask.float())
    # by hand: trial 1 has one fixation, on word 1 of two; it sees start and both words
    tokens = batch.vectors[batch.which[1], :3]
    with torch.no_grad():
        query, keys = model.query(fixations[1, 0]), model.key(tokens)
        scores = (keys @ query / np.sqrt(12)).numpy()
        own = np.exp(scores) / np.exp(scores).sum()
        expected = model.seen(torch.from_numpy(own) @ model.value(tokens))
    np.testing.assert_allclose(weights[1, 0, :3].numpy(), own, rtol=1e-5)
    torch.testing.assert_close(saw[1, 0], expected)


def test_words_out_of_sight_do_not_matter() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS)
    inputs = made.made([[1, 1, 2, 1, 1]], [(0, [0, 0, -1])])
    before = made.out_of(model, inputs, [0])
    for word, matters in ((0, True), (1, True), (2, False), (3, False), (4, False)):
        after = made.out_of(model, made.swapped(inputs, word), [0])
        assert torch.equal(after, before) is not matters, word


def test_convolution_ends_with_the_trial() -> None:
    torch.manual_seed(0)
    model, inputs = make(made.TWO, made.WIDTHS).eval(), made.hard_case()
    with torch.no_grad():
        together = model.convolved(collate_reading(inputs))
        alone = model.convolved(collate_reading(inputs, [0]))
    torch.testing.assert_close(together[0, :5], alone[0])
    assert bool((together[0, 5:] == 0).all())


def test_batch_norm_counts_real_fixations_alone() -> None:
    norm = FixationNorm(1, "batch").train()
    values = torch.tensor([[[1.0], [3.0], [100.0]], [[5.0], [-50.0], [7.0]]])
    mask = torch.tensor([[True, True, False], [True, False, True]])
    out = norm(values, mask).detach()[..., 0]
    # 1, 3, 5, 7: mean 4, variance 5, without bias 20 / 3
    np.testing.assert_allclose(out[0], [-3 / 5**0.5, -1 / 5**0.5, 0], atol=1e-4)
    np.testing.assert_allclose(out[1], [1 / 5**0.5, 0, 3 / 5**0.5], atol=1e-4)
    assert isinstance(norm.norm, torch.nn.BatchNorm1d)
    assert norm.norm.running_mean is not None and norm.norm.running_var is not None
    assert float(norm.norm.running_mean) == pytest.approx(0.4)
    assert float(norm.norm.running_var) == pytest.approx(0.9 + 0.1 * 20 / 3)


def test_batch_norm_of_one_fixation_in_training() -> None:
    torch.manual_seed(0)
    model = make_batch_norm(made.TWO, made.WIDTHS).train()
    batch = collate_reading(made.made([[1, 1]], [(0, [1])], [1.0]))
    loss = model.training_loss(batch)["loss"]
    loss.backward()
    assert bool(torch.isfinite(loss))


def test_question_is_used_where_there_is_one() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS).eval()
    for asked in (0, 2):
        inputs = made.made([[1, 1]], [(0, [0, 1, 1])], asked=[asked])
        batch = collate_reading(inputs)
        other = batch.vectors.clone()
        other[:, -3:-1] += 2.0 * (batch.token_part[:, -3:-1] == 2)[..., None]
        changed = not torch.allclose(model(replace(batch, vectors=other)), model(batch))
        assert changed is (asked > 0)
    fused = torch.arange(48.0).reshape(1, 3, 16)
    none = collate_reading(made.made([[1, 1]], [(0, [0, 1, 1])]))
    torch.testing.assert_close(model.pooled(fused, none), fused.mean(1))


def test_off_text_fixations_keep_their_own_features() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS).eval()
    batch = collate_reading(made.made([[1, 1]], [(0, [-1, -1])]))
    other = batch.fixations.clone()
    other[0, 1, 0] += 2
    assert not torch.allclose(model(replace(batch, fixations=other)), model(batch))
    words = replace(batch, gaze=batch.gaze + 1, text=batch.text - 1)
    assert torch.equal(model(words), model(batch))


@pytest.mark.parametrize("make", [make, make_batch_norm])
@pytest.mark.parametrize("task", ["duration", "longest"])
def test_learns(task: str, make: Any, tmp_path: Path) -> None:
    inputs = made.with_duration(made.hard_case()) if task == "duration" else made.by_longest()
    made.check_learned(make, inputs, tmp_path, epochs=30, lr=0.02)


def test_unknown_norm() -> None:
    with pytest.raises(UnknownNameError, match="layer"):
        make(made.TWO, made.WIDTHS, norm="layers")
    choice = PostFusionEye.choice({})
    assert (choice.fixation, choice.gaze, choice.text) == (None, None, None)


def test_configuration() -> None:
    made.check_configuration("postfusion_eye")
