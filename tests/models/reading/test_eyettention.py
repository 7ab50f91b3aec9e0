"""Eyettention: the last state of the fixations attends to all words of the text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.models.reading.base import word_vectors
from gazeattn.models.reading.eyettention import Eyettention

from . import made_texts as made


def make(target: Any, widths: Any, **options: Any) -> Eyettention:
    return Eyettention(target, widths, **{"hidden": 12, "layers": 1, "dense": [16], **options})


@pytest.mark.parametrize("check", [made.check_company, made.check_padding, made.check_targets])
def test_contract(check: Any) -> None:
    check(make)


def test_more_layers_hold_it_too() -> None:
    made.check_company(lambda *a, **k: make(*a, **{**k, "layers": 3, "dense": [16, 8]}))


def test_is_no_bag_of_words() -> None:
    made.check_words(make, uses_order=True)


def test_attention_is_over_the_words_of_the_text() -> None:
    torch.manual_seed(0)
    model, inputs = make(made.TWO, made.WIDTHS).eval(), made.hard_case()
    batch = collate_reading(inputs)
    with torch.no_grad():
        weights, words, last = model.attention(batch)
    n_words = inputs.trials.n_words
    sums = weights.sum(1).numpy()
    np.testing.assert_allclose(sums, (n_words > 0).astype(float), atol=1e-6)
    assert bool((weights[~batch.word_mask] == 0).all())
    # bilinear, by hand for trial 1 with its two words
    scores = [(words[1, w] @ model.score.weight @ last[1]).item() for w in range(2)]
    expected = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(weights[1, :2].numpy(), expected, rtol=1e-5)
    # the length of the word ends what the word became
    torch.testing.assert_close(words[3, :, -1], batch.text[3, :, 0])


def test_words_become_what_a_bilstm_over_the_text_alone_says() -> None:
    torch.manual_seed(0)
    model, inputs = make(made.TWO, made.WIDTHS).eval(), made.hard_case()
    batch = collate_reading(inputs)
    with torch.no_grad():
        _, words, last = model.attention(batch)
        own = word_vectors(batch)[0]
        alone, _ = model.words(own[1:2, :2])
        steps = torch.cat([model.looked_at(own, batch), batch.fixations], -1)
        _, (state, _) = model.fixations(steps[0:1, :5])
    torch.testing.assert_close(words[1, :2, :12], alone[0])
    torch.testing.assert_close(last[0], state[-1, 0])


def test_number_of_the_fixated_word_by_hand() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS).eval()
    batch = collate_reading(made.made([[1, 1, 1]], [(0, [2, -1])]))
    words = word_vectors(batch)[0]
    with torch.no_grad():
        model.place.fill_(1.0)
        model.fixated.off_text.copy_(torch.arange(6.0))
        out = model.looked_at(words, batch)[0]
    # six channels: waves of 1, 10000^(-1/3) and 10000^(-2/3) per word
    angle = 2 * np.array([1, 10000 ** (-1 / 3), 10000 ** (-2 / 3)])
    code = np.stack([np.sin(angle), np.cos(angle)], 1).reshape(-1)
    for row, expected in ((0, words[0, 2].numpy() + code), (1, np.arange(6.0))):
        normed = (expected - expected.mean()) / np.sqrt(expected.var() + 1e-5)
        np.testing.assert_allclose(out[row].numpy(), normed, atol=1e-4)


def test_words_that_are_never_fixated_matter_by_attention_alone() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS).eval()
    inputs = made.made([[1, 1, 1, 1]], [(0, [0, 0])])
    other = made.swapped(inputs, 3)
    with torch.no_grad():
        _, _, before = model.attention(collate_reading(inputs))
        _, _, after = model.attention(collate_reading(other))
    assert torch.equal(before, after)
    assert not torch.allclose(made.out_of(model, inputs, [0]), made.out_of(model, other, [0]))


def test_off_text_fixations_keep_their_own_features() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS).eval()
    batch = collate_reading(made.made([[]], [(0, [-1, -1])]))
    other = batch.fixations.clone()
    other[0, 1, 0] += 2
    assert not torch.allclose(model(replace(batch, fixations=other)), model(batch))


@pytest.mark.parametrize("task", ["duration", "order", "longest"])
def test_learns(task: str, tmp_path: Path) -> None:
    inputs = {
        "duration": lambda: made.with_duration(made.hard_case()),
        "order": made.by_order,
        "longest": made.by_longest,
    }[task]()
    made.check_learned(make, inputs, tmp_path, epochs=25, lr=0.02)


def test_sees_duration_landing_and_length() -> None:
    choice = Eyettention.choice({})
    assert (choice.fixation, choice.gaze, choice.text) == (("duration", "landing"), (), ("length",))


def test_configuration() -> None:
    made.check_configuration("eyettention")
