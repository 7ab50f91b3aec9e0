"""The text alone: blind to the eyes, equal for all readers of a text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.errors import DataError
from gazeattn.models.reading.text_only import AttentionPool, TextOnly

from . import made_texts as made


def make(target: Any, widths: Any, **options: Any) -> TextOnly:
    return TextOnly(target, widths, **{"hidden": 12, **options})


@pytest.mark.parametrize(
    "check", [made.check_company, made.check_padding, made.check_targets, made.check_words]
)
def test_contract(check: Any) -> None:
    check(make)


def test_readers_of_a_text_get_one_prediction() -> None:
    torch.manual_seed(0)
    model, inputs = make(made.TWO, made.WIDTHS), made.hard_case()
    chances = model.predict(inputs)
    np.testing.assert_array_equal(chances[0], chances[4])  # to the bit
    np.testing.assert_array_equal(chances[1], chances[5])
    assert len(np.unique(chances[:, 1])) == 4
    np.testing.assert_array_equal(model.predict(inputs, batch_size=1)[4], chances[0])
    raw = made.out_of(model, inputs, range(6)).softmax(-1).numpy()
    np.testing.assert_allclose(raw, chances, atol=1e-6)


def test_eyes_do_not_matter() -> None:
    torch.manual_seed(0)
    model, inputs = make(made.TWO, made.WIDTHS).eval(), made.hard_case()
    batch = collate_reading(inputs)
    other = replace(
        batch, fixations=batch.fixations + 5, gaze=batch.gaze - 5,
        word=torch.full_like(batch.word, -1), numbers=batch.numbers + 1,
    )  # fmt: skip
    assert torch.equal(model(other), model(batch))
    assert not TextOnly.gaze_use
    choice = TextOnly.choice({})
    assert (choice.fixation, choice.gaze, choice.text, choice.sets) == ((), (), (), ())


def test_order_of_tokens_does_not_matter_but_their_part_does() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS).eval()
    batch = collate_reading(made.made([[1, 1, 1]], [(0, [0])], asked=[2]))
    # start, three words, end, two of the question, end
    order = torch.tensor([0, 3, 1, 2, 4, 6, 5, 7])
    turned = replace(batch, vectors=batch.vectors[:, order])
    torch.testing.assert_close(model(turned), model(batch))
    crossed = replace(batch, vectors=batch.vectors[:, [0, 1, 2, 5, 4, 3, 6, 7]])
    assert not torch.allclose(model(crossed), model(batch))


def test_pool_by_hand() -> None:
    pool = AttentionPool(1, 1)
    with torch.no_grad():
        for name, value in pool.named_parameters():
            value.fill_(0.0 if name.endswith("bias") else 1.0)
        tokens = torch.tensor([[[0.0], [2.0], [50.0]], [[1.0], [1.0], [1.0]]])
        mask = torch.tensor([[True, True, False], [False, False, False]])
        out = pool(tokens, mask)
    lift = np.exp(np.tanh(2))
    assert float(out[0]) == pytest.approx(2 * lift / (1 + lift))
    assert float(out[1]) == 0


def test_learns_what_the_text_tells(tmp_path: Path) -> None:
    texts = [[1, 2], [1, 1, 1], [2], [1, 1]]
    inputs = made.made(texts, [(i % 4, [0, -1]) for i in range(32)], [i % 4 % 2 for i in range(32)])
    made.check_learned(make, inputs, tmp_path, epochs=15, lr=0.02)


def test_learns_what_the_question_tells(tmp_path: Path) -> None:
    # one text with four questions: vectors of its words are the same throughout
    inputs = made.made([[1, 1]] * 4, [(i % 4, [0]) for i in range(32)],
                       [i % 4 % 2 for i in range(32)], [1, 2, 3, 1])  # fmt: skip
    first = inputs.tokens[0].vectors
    assert first is not None
    shared = []
    for tokens in inputs.tokens:
        assert tokens.vectors is not None
        vectors = tokens.vectors.copy()
        vectors[:4], vectors[-1] = first[:4], first[3]
        shared.append(replace(tokens, vectors=vectors))
    made.check_learned(make, replace(inputs, tokens=tuple(shared)), tmp_path, epochs=15, lr=0.02)


def test_needs_texts() -> None:
    inputs = made.hard_case()
    with pytest.raises(DataError, match="texts"):
        make(made.TWO, made.WIDTHS).predict(replace(inputs, tokens=(), token_of=None))


def test_configuration() -> None:
    made.check_configuration("text_only")
