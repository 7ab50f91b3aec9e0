"""PLM-AS: the vectors of the words that were looked at, in the order of looking."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.errors import DataError
from gazeattn.models.reading._text_parts import FixatedWords, masked_softmax, run_recurrent
from gazeattn.models.reading.base import word_vectors
from gazeattn.models.reading.plm_as import PlmAs

from . import made_texts as made


def make(target: Any, widths: Any, **options: Any) -> PlmAs:
    return PlmAs(target, widths, **{"hidden": 8, **options})


@pytest.mark.parametrize(
    "check", [made.check_company, made.check_padding, made.check_targets, made.check_words]
)
def test_contract(check: Any) -> None:
    check(make)


def test_two_layers_hold_it_too() -> None:
    made.check_company(lambda *a, **k: PlmAs(*a, **{**k, "hidden": 0, "layers": 2}))


def test_fixated_vectors_by_hand() -> None:
    # one text: start, word 0 in one token, word 1 in two, word 2 in none, end
    inputs = made.made([[1, 2, 0]], [(0, [1, 0, -1, 2, 1])])
    batch = collate_reading(inputs)
    vectors = torch.zeros(1, 5, 2)
    vectors[0] = torch.tensor([[9.0, 9], [1, 2], [10, 20], [100, 200], [7, 7]])
    batch = replace(batch, vectors=vectors)
    words, first = word_vectors(batch)
    fixated = FixatedWords(2)
    with torch.no_grad():
        fixated.off_text.copy_(torch.tensor([-5.0, -6]))
        steps = fixated(words, batch)
    assert steps[0].tolist() == [[110, 220], [1, 2], [-5, -6], [0, 0], [110, 220]]
    assert first.tolist() == [[9, 9]]


def test_padding_gets_no_off_text_vector() -> None:
    batch = collate_reading(made.made([[1]], [(0, [0]), (0, [-1, 0, 0])]))
    with torch.no_grad():
        steps = FixatedWords(6)(word_vectors(batch)[0], batch)
    assert bool((steps[0, 1:] == 0).all()) and bool((steps[1, 0] != 0).all())


def test_is_a_gru_over_the_fixated_words() -> None:
    torch.manual_seed(0)
    model = PlmAs(made.TWO, made.WIDTHS, hidden=0, dropout=0.0)
    inputs = made.hard_case()
    for i in (0, 3, 5):
        tokens = inputs.tokens[int(inputs.token_of[i])]  # type: ignore[index]
        vectors = torch.from_numpy(tokens.vectors)
        word_of = torch.from_numpy(tokens.word_of)
        path = inputs.trials.word[inputs.trials.starts[i] : inputs.trials.starts[i + 1]]
        state = vectors[:1]
        cell = nn.GRUCell(6, 6)
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        cell.load_state_dict({n: getattr(model.gru, f"{n}_l0") for n in names})
        with torch.no_grad():
            for word in path:
                own = vectors[word_of == word].sum(0) if word >= 0 else model.fixated.off_text
                state = cell(own[None], state)
            expected = model.head(state)
        torch.testing.assert_close(made.out_of(model, inputs, [i]), expected)


def test_words_that_are_never_fixated_do_not_matter() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS)
    inputs = made.made([[1, 2, 1, 1]], [(0, [0, 3, -1, 3])])
    before = made.out_of(model, inputs, [0])
    for word, matters in ((0, True), (1, False), (2, False), (3, True)):
        after = made.out_of(model, made.swapped(inputs, word), [0])
        assert torch.equal(after, before) is not matters, word


def test_order_and_start_matter() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS)
    there, back = (made.made([[1, 1, 1]], [(0, p)]) for p in ([0, 1, 2], [2, 1, 0]))
    assert not torch.allclose(made.out_of(model, there, [0]), made.out_of(model, back, [0]))
    batch = collate_reading(there)
    moved = batch.vectors.clone()
    moved[:, 0] += 1
    assert not torch.allclose(model(replace(batch, vectors=moved)), model(batch))


def test_learns_the_order_of_words(tmp_path: Path) -> None:
    made.check_learned(make, made.by_order(), tmp_path, epochs=15, lr=0.02)


def test_sees_no_feature_and_needs_vectors() -> None:
    choice = PlmAs.choice({})
    assert (choice.fixation, choice.gaze, choice.text, choice.sets) == ((), (), (), ())
    with pytest.raises(DataError, match="vectors"):
        make(made.TWO, {**made.WIDTHS, "vectors": 0})


def test_recurrent_steps_end_where_the_sequence_ends() -> None:
    torch.manual_seed(0)
    net = nn.LSTM(2, 3, batch_first=True, bidirectional=True)
    values = torch.randn(3, 5, 2)
    with torch.no_grad():
        outputs, last = run_recurrent(net, values, torch.tensor([5, 2, 0]))
        alone, state = net(values[1:2, :2])
    torch.testing.assert_close(outputs[1, :2], alone[0])
    torch.testing.assert_close(last[1], state[0][:, 0].reshape(-1))
    assert bool((outputs[1, 2:] == 0).all()) and bool((outputs[2] == 0).all())
    none, _ = run_recurrent(net, values[:, :0], torch.zeros(3, dtype=torch.int64))
    assert none.shape == (3, 0, 6)


def test_softmax_where_nothing_may_be_seen() -> None:
    mask = torch.tensor([[True, True, False], [False, False, False]])
    weights = masked_softmax(torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]]), mask)
    assert weights.tolist() == [[0.5, 0.5, 0], [0, 0, 0]]


def test_configuration() -> None:
    made.check_configuration("plm_as")
