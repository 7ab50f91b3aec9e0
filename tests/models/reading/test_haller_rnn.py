"""The model of Haller et al.: words and measures in fixation order, mean over real steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.datamodules.reading_features import names_of
from gazeattn.models.reading.haller_rnn import FIXATION, GAZE, HallerRnn

from . import made_texts as made


def make(target: Any, widths: Any, **options: Any) -> HallerRnn:
    return HallerRnn(target, widths, **{"hidden": 8, **options})


@pytest.mark.parametrize(
    "check", [made.check_company, made.check_padding, made.check_targets, made.check_words]
)
def test_contract(check: Any) -> None:
    check(make)


def test_is_the_mean_of_a_bilstm_over_real_steps() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS, dropout=0.0)
    inputs = made.hard_case()
    trials = inputs.trials
    steps_of = nn.LSTM(6 + 2 + 3, 8, batch_first=True, bidirectional=True)
    steps_of.load_state_dict(model.lstm.state_dict())
    for i in (0, 2, 3):
        tokens = inputs.tokens[int(inputs.token_of[i])]  # type: ignore[index]
        assert tokens.vectors is not None
        rows = []
        for j in range(trials.starts[i], trials.starts[i + 1]):
            word = trials.word[j]
            own = np.concatenate([
                tokens.vectors[tokens.word_of == word].sum(0),
                inputs.scaled["gaze"][trials.word_starts[i] + word],
            ]) if word >= 0 else model.fixated.off_text.detach().numpy()  # fmt: skip
            rows.append(np.concatenate([own, inputs.scaled["fixation"][j]]))
        steps = torch.from_numpy(np.stack(rows).astype(np.float32))[None]
        with torch.no_grad():
            expected = model.head(steps_of(steps)[0].mean(1))
        together = made.out_of(model, inputs, range(6))[i]
        torch.testing.assert_close(together, expected[0], atol=1e-5, rtol=0)


def test_off_text_fixations_keep_their_own_features() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS).eval()
    batch = collate_reading(made.made([[1, 1]], [(0, [-1, -1])]))
    other = batch.fixations.clone()
    other[0, 1, 0] += 2
    assert not torch.allclose(model(replace(batch, fixations=other)), model(batch))
    words = replace(batch, gaze=batch.gaze + 1, vectors=batch.vectors * 2)
    assert torch.equal(model(words), model(batch))


def test_measures_of_the_fixated_word_alone_matter() -> None:
    torch.manual_seed(0)
    model = make(made.TWO, made.WIDTHS).eval()
    batch = collate_reading(made.made([[1, 1, 1]], [(0, [2, 2])]))
    for word, matters in ((0, False), (1, False), (2, True)):
        other = batch.gaze.clone()
        other[0, word] += 1
        assert torch.equal(model(replace(batch, gaze=other)), model(batch)) is not matters


@pytest.mark.parametrize("task", ["duration", "order", "longest"])
def test_learns(task: str, tmp_path: Path) -> None:
    inputs = {
        "duration": lambda: made.with_duration(made.hard_case()),
        "order": made.by_order,
        "longest": made.by_longest,
    }[task]()
    made.check_learned(make, inputs, tmp_path, epochs=20, lr=0.03)


def test_sees_ten_named_features() -> None:
    assert len(FIXATION) == 8 and len(GAZE) == 2
    assert set(FIXATION) <= set(names_of("fixation")) and set(GAZE) <= set(names_of("gaze"))
    choice = HallerRnn.choice({})
    assert (choice.fixation, choice.gaze, choice.text) == (FIXATION, GAZE, ())
    own = HallerRnn.choice({"fixation": ["duration"], "gaze": []})
    assert (own.fixation, own.gaze) == (("duration",), ())
    without = HallerRnn(made.TWO, {**made.WIDTHS, "gaze": 0, "fixation": 0}, hidden=4)
    assert without.lstm.input_size == 6


def test_configuration() -> None:
    made.check_configuration("haller_rnn")
