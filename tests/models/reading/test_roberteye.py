"""RoBERTEye: an encoder driven by hand, gaze at the right positions, and what all networks hold."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gazeattn.datamodules.reading_batches import collate_reading
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.lm import LanguageModel
from gazeattn.losses import LossLog
from gazeattn.models.reading._encoder import (
    Encoder,
    EncoderNetwork,
    like_lengths,
    without_tokens,
)
from gazeattn.models.reading.roberteye import (
    RoBERTEye,
    RoBERTEyeFixations,
    RoBERTEyeWords,
    sinusoid,
)

from . import encoder_cases as cases

FORMS = [RoBERTEyeWords, RoBERTEyeFixations]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("encoders")
    return {k: cases.save_encoder(folder / k, k) for k in cases.FAMILIES}


def build(form: type[RoBERTEye], encoder: str, widths: dict[str, int], **options: Any) -> RoBERTEye:
    options = {"hidden": 8, "lr": 1e-3, "train_layers": 1, **options}
    torch.manual_seed(int(options.pop("seed", 0)))
    return form(cases.classes(), widths, encoder=encoder, **options)


# -- the encoder -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_driving_the_layers_is_running_the_model(folders: dict[str, str], family: str) -> None:
    inputs, _ = cases.inputs_of(cases.odd_readings(), folders[family])
    batch = collate_reading(inputs)
    encoder = Encoder(folders[family]).train(False)
    assert encoder.offset == (0 if family == "bert" else 2)
    assert encoder.limit == 32
    model = LanguageModel.load(folders[family]).model
    with torch.no_grad():
        ids = batch.ids.where(batch.token_mask, model.config.pad_token_id)
        out = model(input_ids=ids, attention_mask=batch.token_mask.long())
        whole = encoder.run(encoder.embed(batch.ids), batch.token_mask, 0, 3)
        first = encoder.summary(encoder.embed(batch.ids), batch.token_mask, 0)
        late = encoder.summary(encoder.text_states(batch, 2), batch.token_mask, 2)
    assert torch.allclose(
        whole[batch.token_mask], out.last_hidden_state[batch.token_mask], atol=1e-5
    )
    assert torch.allclose(first, out.last_hidden_state[:, 0], atol=1e-5)
    assert torch.allclose(late, first, atol=1e-5)


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_words_have_the_mean_position_of_their_tokens(folders: dict[str, str], family: str) -> None:
    # <s> a ##b ##c d e ##f </s>: tokens 1 to 3, 4, and 5 to 6
    inputs, _ = cases.inputs_of(cases.odd_readings(), folders[family])
    encoder = Encoder(folders[family])
    means, there = encoder.word_positions(collate_reading(inputs, [0, 3, 4]))
    table = encoder.embeddings.position_embeddings.weight[encoder.offset :]
    assert torch.allclose(means[0, 0], table[1:4].mean(0), atol=1e-6)
    assert torch.allclose(means[0, 1], table[4], atol=1e-6)
    assert torch.allclose(means[0, 2], table[5:7].mean(0), atol=1e-6)
    # <s> r s ##t </s>, and no words
    assert there.tolist() == [[True] * 3, [True, False, True], [False] * 3]
    assert torch.allclose(means[1, 2], table[2:4].mean(0), atol=1e-6)


def test_what_is_frozen_has_no_dropout_and_no_gradient(folders: dict[str, str]) -> None:
    encoder = Encoder(folders["bert"], train_layers=1).train(True)
    assert [layer.training for layer in encoder.layers] == [False, False, True]
    assert not encoder.embeddings.training
    assert {n.split(".")[1] for n, p in encoder.named_parameters() if p.requires_grad} == {"2"}
    assert [encoder.frozen_below(k) for k in range(4)] == [True, True, True, False]
    every = Encoder(folders["bert"], train_layers=-1).train(True)
    assert all(p.requires_grad for p in every.parameters())
    assert every.embeddings.training
    assert not every.frozen_below(0)
    assert not any(p.requires_grad for p in Encoder(folders["bert"], 0).parameters())


def test_states_under_frozen_layers_are_worked_out_once_per_text(folders: dict[str, str]) -> None:
    inputs, _ = cases.inputs_of(cases.odd_readings(), folders["bert"])
    encoder = Encoder(folders["bert"], train_layers=1).train(True)
    calls: list[int] = []
    encoder.layers[0].register_forward_hook(lambda m, a, out: calls.append(a[0].shape[0]))
    with torch.inference_mode():
        some = encoder.text_states(collate_reading(inputs, [0, 1, 0]), 2)
    batch = collate_reading(inputs)
    states = encoder.text_states(batch, 2)
    again = encoder.text_states(batch, 2)
    assert sum(calls) == 5  # each of five distinct texts once
    assert torch.equal(states, again)
    fresh = encoder.run(encoder.embed(batch.ids), batch.token_mask, 0, 2)
    assert torch.allclose(states[batch.token_mask], fresh[batch.token_mask], atol=1e-5)
    assert torch.allclose(states[:2, : some.shape[1]][some != 0], some[some != 0])
    # states from inference mode serve training as well
    encoder.summary(states, batch.token_mask, 2).sum().backward()


def test_rows_of_like_length_run_together(folders: dict[str, str]) -> None:
    assert like_lengths([10, 3, 8, 9, 2, 7]) == [[0, 3, 2], [5], [1], [4]]
    assert like_lengths([]) == []
    encoder = Encoder(folders["bert"]).train(False)
    seen: list[tuple[int, ...]] = []
    encoder.layers[0].register_forward_hook(lambda m, a, out: seen.append(tuple(a[0].shape[:2])))
    states = torch.randn(3, 12, 16, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, 12, dtype=torch.bool)
    mask[0, 3:8] = False  # 7 slots, padding in the middle
    mask[2, 4:] = False  # 4 slots
    with torch.no_grad():
        found = encoder.summary(states, mask, 0)
        whole = encoder.run(states, mask, 0, 3)[:, 0]
    assert seen[:3] == [(1, 12), (1, 7), (1, 4)]
    assert torch.allclose(found, whole, atol=1e-5)


def test_faults_of_encoders_are_named(folders: dict[str, str], tmp_path: Path) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"])
    encoder = Encoder(folders["bert"])
    batch = collate_reading(inputs)
    with pytest.raises(DataError, match="no tokens"):
        encoder.check(replace(batch, ids=batch.ids[:0, :0]))
    with pytest.raises(DataError, match="another language model"):
        encoder.check(replace(batch, ids=batch.ids + 100))
    long, _ = cases.inputs_of(cases.readings([["ab"] * 16], [[0]]), folders["bert"])
    with pytest.raises(DataError, match=r"at most 32 tokens.*34"):
        encoder.check(collate_reading(long))
    with pytest.raises(DataError, match="-1 to 3"):
        Encoder(folders["bert"], 4)
    with pytest.raises(DataError, match="0 to 2"):
        build(RoBERTEyeWords, folders["bert"], widths, entry_layer=3)
    with pytest.raises(UnknownNameError):
        build(RoBERTEyeFixations, folders["bert"], widths, order="sinusiod")
    with pytest.raises(DataError, match="no order"):
        build(RoBERTEyeWords, folders["bert"], widths, order="sinusoid")


def test_other_architectures_are_refused(tmp_path: Path, folders: dict[str, str]) -> None:
    from transformers import AutoTokenizer, GPT2Config, GPT2Model

    made = GPT2Model(GPT2Config(vocab_size=60, n_embd=16, n_layer=1, n_head=2, n_positions=32))
    made.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(tmp_path)
    with pytest.raises(CapabilityError, match="BERT family"):
        Encoder(str(tmp_path))


def test_what_has_no_token_is_counted(folders: dict[str, str]) -> None:
    trials = cases.readings(
        [["ab", cases.NOTHING, "c"], ["d", "ef", "gh"]], [[0, 1, 1, -1], [2, 0]]
    )
    inputs, _ = cases.inputs_of(trials, folders["bert"])
    lost = LossLog()
    assert without_tokens(inputs, lost) == 2
    assert [(r.count, r.unit) for r in lost] == [(1, "words"), (2, "fixations")]
    # <s> d e ##f </s>: the third word has no room
    inputs, _ = cases.inputs_of(trials, folders["bert"], limit=5)
    assert inputs.tokens[1].cut == 1
    lost = LossLog()
    assert without_tokens(inputs, lost) == 3
    assert [r.count for r in lost] == [2, 3]


# -- gaze in the encoder ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_gaze_shares_the_position_of_its_word(
    folders: dict[str, str], form: type[RoBERTEye]
) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["roberta"])
    model = build(form, folders["roberta"], widths)
    batch = collate_reading(inputs, [2, 3])
    placed = model._placed(batch)
    table = model.encoder.embeddings.position_embeddings.weight[2:]
    # <s> k l ##m n ##o p q </s> and <s> r s ##t </s>
    words = [table[1], table[2:4].mean(0), table[4:6].mean(0), table[6], table[7]]
    off = model.off_text
    if form is RoBERTEyeWords:
        expected = [words, [table[1], off, table[2:4].mean(0)]]
    else:
        expected = [
            [words[0], off, words[2], words[4], off, words[3]],
            [off, table[1], off, table[2:4].mean(0)],  # the word without a token: off the text
        ]
    for row, wanted in enumerate(expected):
        assert torch.allclose(placed[row, : len(wanted)], torch.stack(wanted), atol=1e-6)


def test_the_slots_by_hand(folders: dict[str, str]) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["roberta"])
    model = build(RoBERTEyeWords, folders["roberta"], widths).eval()
    batch = collate_reading(inputs, [1])
    states, mask = model.slots(batch)
    emb = model.encoder.embeddings
    vector = model.project(torch.cat([batch.gaze, batch.text], -1))[0]
    table, kind = emb.position_embeddings.weight, emb.token_type_embeddings.weight[0]
    # <s> g ##h i </s>, positions from 2 on
    first = emb.LayerNorm(vector[0] + table[3:5].mean(0) + kind)
    mark = emb.LayerNorm(emb.word_embeddings.weight[2] + table[2] + kind)
    assert torch.allclose(states[0, 0], first, atol=1e-5)
    assert torch.allclose(states[0, 2], mark, atol=1e-5)
    assert torch.allclose(states[0, 3], mark, atol=1e-5)
    assert mask.tolist() == [[True] * 4]


def test_off_text_fixations_keep_their_own_features(folders: dict[str, str]) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"])
    model = build(RoBERTEyeFixations, folders["bert"], widths)
    batch = collate_reading(inputs, [2])
    vectors, mask = model.gaze_vectors(batch)
    k = widths["fixation"]
    assert torch.equal(vectors[..., :k], batch.fixations)
    off = batch.word[0] < 0
    assert off.sum() == 2
    assert (vectors[0, off, k:] == 0).all()
    words = torch.cat([batch.gaze, batch.text], -1)[0]
    assert torch.equal(vectors[0, ~off, k:], words[batch.word[0][~off]])
    assert torch.equal(mask, batch.mask)


def test_order_is_seen_with_sinusoids_only(folders: dict[str, str]) -> None:
    choice = FeatureChoice(fixation=("duration", "on_text"))
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"], choice=choice)
    batch = collate_reading(inputs, [2])
    turned = replace(batch, fixations=batch.fixations.flip(1), word=batch.word.flip(1))

    def apart(order: str) -> Tensor:
        model = build(RoBERTEyeFixations, folders["bert"], widths, order=order).eval()
        with torch.no_grad():
            return (model(batch) - model(turned)).abs().max()

    assert apart("none") < 1e-6
    assert apart("sinusoid") > 1e-3


def test_sinusoids_by_hand() -> None:
    found = sinusoid(3, 3)
    slow = 10000 ** (-2 / 3)
    for n in range(3):
        expected = [np.sin(n), np.cos(n), np.sin(n * slow)]
        assert found[n].tolist() == pytest.approx(expected, abs=1e-6)


def test_late_entry_starts_with_the_norm_of_the_layer_below(folders: dict[str, str]) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"])
    model = build(RoBERTEyeWords, folders["bert"], widths, entry_layer=2)
    below = model.encoder.layers[1].output.LayerNorm
    assert model.norm is not None
    assert torch.equal(model.norm.weight, below.weight)
    assert model.norm.weight.requires_grad
    assert not below.weight.requires_grad
    states, _ = model.slots(collate_reading(inputs))
    assert torch.allclose(states.mean(-1), below.bias.mean().expand(states.shape[:2]), atol=0.5)


def test_choice_of_features() -> None:
    assert RoBERTEyeWords.choice({}).fixation == ()
    assert RoBERTEyeFixations.choice({}).fixation is None
    chosen = RoBERTEyeFixations.choice({"features": {"gaze": [], "fixation": ["duration"]}})
    assert (chosen.fixation, chosen.gaze, chosen.text) == (("duration",), (), None)


# -- what all networks hold ------------------------------------------------------------------------

CASES = [
    (RoBERTEyeWords, "bert", {"entry_layer": 0}),
    (RoBERTEyeWords, "roberta", {"entry_layer": 2, "train_layers": 1}),
    (RoBERTEyeFixations, "xlm-roberta", {"entry_layer": 0, "order": "sinusoid"}),
    (RoBERTEyeFixations, "roberta", {"entry_layer": 1, "train_layers": -1}),
    (RoBERTEyeFixations, "bert", {"entry_layer": 2, "train_layers": 0}),
]


@pytest.mark.parametrize(("form", "family", "options"), CASES)
def test_company_padding_and_gradients(
    folders: dict[str, str], form: type[RoBERTEye], family: str, options: dict[str, Any]
) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders[family])
    model = build(form, folders[family], widths, **options)
    cases.check_company(model, inputs)
    cases.check_padding(model, inputs)
    cases.check_gradients(model, inputs)


@pytest.mark.parametrize("form", FORMS)
def test_questions_are_seen(folders: dict[str, str], form: type[RoBERTEye]) -> None:
    trials = cases.odd_readings()
    model = None
    found = []
    for asked in ("ab c", "x yz"):
        inputs, widths = cases.inputs_of(trials, folders["bert"], questions=[asked] * len(trials))
        model = model or build(form, folders["bert"], widths).eval()
        with torch.no_grad():
            found.append(model(collate_reading(inputs)))
    assert (found[0] - found[1]).abs().amin() > 1e-5


@pytest.mark.parametrize("form", FORMS)
def test_regression_is_on_the_scale_of_the_target(
    folders: dict[str, str], form: type[RoBERTEye]
) -> None:
    from gazeattn.models.reading.base import Target

    y = [10.0, 14.0, 12.0, np.nan, 16.0]
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"], y=y)
    target = Target.fit("regression", np.array(y))
    model = form(target.plain(), widths, encoder=folders["bert"], hidden=8).eval()
    with torch.no_grad():
        raw = model(collate_reading(inputs))[:, 0].double().numpy()
    assert model.predict(inputs) == pytest.approx(raw * np.std([10, 14, 12, 16]) + 13, abs=1e-4)
    assert torch.isfinite(model.training_loss(collate_reading(inputs))["loss"])


@pytest.mark.parametrize(
    ("form", "options"),
    [(RoBERTEyeWords, {"entry_layer": 0}), (RoBERTEyeFixations, {"entry_layer": 2})],
)
def test_checkpoints(
    folders: dict[str, str], tmp_path: Path, form: type[RoBERTEye], options: dict[str, Any]
) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["roberta"])
    made = partial(build, form, folders["roberta"], widths, **options)
    cases.check_round_trip(made, inputs, tmp_path)


def test_checkpoints_know_their_encoder(tmp_path: Path) -> None:
    folder = cases.save_encoder(tmp_path / "lm", "bert")
    inputs, widths = cases.inputs_of(cases.odd_readings(), folder)
    trained = cases.fit(build(RoBERTEyeWords, folder, widths), inputs, tmp_path / "run", epochs=1)
    cases.save_encoder(tmp_path / "lm", "bert", seed=9)
    with pytest.raises(DataError, match="another than the one in training"):
        RoBERTEyeWords.load_from_checkpoint(trained.best, weights_only=True)
    state = build(RoBERTEyeWords, folder, widths).state_dict()
    del state["marks"]
    with pytest.raises(DataError, match="marks"):
        build(RoBERTEyeWords, folder, widths).load_state_dict(state)


def test_the_encoder_has_its_own_rate(folders: dict[str, str], tmp_path: Path) -> None:
    inputs, widths = cases.inputs_of(cases.odd_readings(), folders["bert"])
    model = build(RoBERTEyeWords, folders["bert"], widths, lr=1e-2, encoder_rate=0.1)
    before = {k: v.clone() for k, v in model.encoder.state_dict().items()}
    rates: list[set[float]] = []
    start = model.on_train_epoch_start

    def noted() -> None:
        start()
        groups = model.trainer.optimizers[0].param_groups
        rates.append({round(g["lr"] / 1e-2, 6) for g in groups})
        assert {g["weight_decay"] for g in groups} == {0.0, model.weight_decay}

    model.on_train_epoch_start = noted  # type: ignore[method-assign]
    cases.fit(model, inputs, tmp_path)
    assert rates[0] == {1.0, 0.1}
    assert max(rates[1]) == pytest.approx(10 * min(rates[1]), rel=1e-4)
    changed = {k for k, v in model.encoder.state_dict().items() if not torch.equal(v, before[k])}
    assert {k.split(".")[1] for k in changed} == {"2"}


@pytest.mark.parametrize(
    ("form", "label", "options"),
    [
        (RoBERTEyeWords, cases.longer, {"entry_layer": 2}),
        (RoBERTEyeWords, cases.slowing, {"entry_layer": 2}),
        (RoBERTEyeFixations, cases.longer, {"entry_layer": 1}),
        (RoBERTEyeFixations, cases.slowing, {"entry_layer": 2, "order": "sinusoid"}),
    ],
)
def test_learns_how_long_and_where(
    folders: dict[str, str], form: type[RoBERTEye], label: Any, options: dict[str, Any]
) -> None:
    trials, y = cases.made_up(64, label)
    choice = FeatureChoice(fixation=("duration",), gaze=("total_reading_time",), text=())
    inputs, widths = cases.inputs_of(trials, folders["bert"], y=y, choice=choice)
    model: EncoderNetwork = build(
        form, folders["bert"], widths, lr=3e-3, hidden=32, train_layers=-1, **options
    )
    assert cases.accuracy_after(model, inputs, 150) > 0.9
