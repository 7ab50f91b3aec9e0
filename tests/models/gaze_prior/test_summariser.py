"""Summaries with a gaze prior inside: losses by hand, padding, files, resuming, what is trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from gazeattn.datamodules.code_prompts import code_prompt
from gazeattn.datamodules.code_summaries import (
    GazeExample,
    SummaryData,
    SummaryExample,
    collate,
    letters_of,
    summary_examples,
)
from gazeattn.errors import DataError
from gazeattn.experiments.training import Training, train
from gazeattn.lm import LanguageModel
from gazeattn.losses import LossLog
from gazeattn.models.gaze_prior.summariser import Summariser

from .tiny import WIDTH, llama, stirred

WORDS = (
    "<pad> <s> </s> def a b c ( ) : return + Summarize what this python code does in one sentence "
    ". ``` Summary adds two numbers the value x"
).split()


def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="x"))
    made.pre_tokenizer = pre_tokenizers.Split(r"\s+", "removed")  # type: ignore[arg-type]
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def lm() -> LanguageModel:
    return LanguageModel(llama(), tokenizer())


def example(code: str = "def a ( b ) : return b", text: str = "adds numbers") -> SummaryExample:
    coder = tokenizer()
    made = code_prompt(coder, code)
    ids = np.array([*coder(text, add_special_tokens=False)["input_ids"], 2], dtype=np.int64)
    return SummaryExample(code, made, letters_of(code, made), ids, text)


def reading(code: str = "def a ( b ) : return b", seed: int = 0) -> GazeExample:
    made = code_prompt(tokenizer(), code)
    share = np.random.default_rng(seed).random(len(made.ids)) * made.code
    target = (share / share.sum()).astype(np.float32)
    return GazeExample(f"P{seed}", made, letters_of(code, made), target)


SHORT, LONG = example(), example("def b ( a ) : return a + b + c + a", "the value x")
OPTIONS = {"components": 2, "hidden": 4, "content": 2, "rank": 4}


def summariser(**options: Any) -> Summariser:
    settings = {"options": OPTIONS, "layer": 1, "rank": 2, "alpha": 4, "seed": 3, **options}
    return Summariser(lm(), **settings)


def test_letters_by_hand() -> None:
    code = "def a (  b ) :"
    made = code_prompt(tokenizer(), code)
    assert letters_of(code, made)[made.code].tolist() == [3, 1, 1, 1, 1, 1]
    assert letters_of(code, made)[~made.code].sum() == 0


def test_long_pairs_are_left_out_and_counted() -> None:
    import pandas as pd

    table = pd.DataFrame(
        {
            "id": ["1", "2", "3"],
            "code": ["def a", "def a ( b ) : return b", "def b"],
            "summary": ["adds numbers", "adds numbers", "adds two numbers the value x"],
            "language": "python",
        }
    )
    lost = LossLog()
    found = summary_examples(table, tokenizer(), 2, longest=4, most=4, lost=lost)
    assert [e.id for e in found] == ["1"]
    assert found[0].summary[-1] == 2 and len(found[0].summary) == 3
    assert sorted(lost.to_frame()["count"]) == [1, 1]


def test_batch_by_hand() -> None:
    batch = collate([SHORT, LONG], pad=0)
    size = len(LONG.prompt.ids) + 4
    assert batch.ids.shape == (2, size)
    gap = size - len(SHORT.prompt.ids) - 3
    assert batch.mask[0].tolist() == [0] * gap + [1] * (size - gap)
    assert batch.start.tolist() == [size - 4, size - 5]
    assert batch.labels is not None
    assert batch.labels[0].tolist() == [-100, *SHORT.summary.tolist()]
    assert batch.places[0, gap] == 0 and batch.places[0, -1] == size - gap - 1
    assert batch.code.sum(1).tolist() == [8, 14]
    assert batch.code[0, batch.start[0] + 1 :].sum() == 0
    prompts = collate([SHORT, LONG], pad=0, written=False)
    assert prompts.labels is None and prompts.start.tolist() == [prompts.ids.shape[1] - 1] * 2


def test_at_the_start_it_is_the_model_it_was() -> None:
    plain = lm().model
    batch = collate([SHORT], pad=0)
    assert batch.labels is not None
    with torch.no_grad():
        logits = plain(input_ids=batch.ids).logits[0].log_softmax(-1)
        at = torch.arange(len(SHORT.prompt.ids) - 1, batch.ids.shape[1] - 1)
        by_hand = -logits[at, torch.from_numpy(SHORT.summary)]
        found = summariser().token_losses(batch)[0]
    torch.testing.assert_close(found, by_hand, atol=1e-5, rtol=0)
    total, n = summariser().losses_of([SHORT])
    assert n.tolist() == [3]
    np.testing.assert_allclose(total, by_hand.sum(), atol=1e-4)


def test_padding_and_company_change_nothing() -> None:
    model = summariser()
    stirred(model.model.get_base_model().model.layers, scale=0.05)
    assert model.prior is not None
    stirred(model.prior)
    alone = [model.losses_of([e])[0][0] for e in (SHORT, LONG)]
    np.testing.assert_allclose(model.losses_of([SHORT, LONG])[0], alone, rtol=1e-5)
    assert abs(alone[0] - summariser().losses_of([SHORT])[0][0]) > 1e-3
    assert model.write([LONG, SHORT], longest=6) == [
        model.write([e], longest=6)[0] for e in (LONG, SHORT)
    ]
    read = [reading(), reading("def b ( a ) : return a + b", 1)]
    np.testing.assert_allclose(
        model.gaze_losses(read), [model.gaze_losses([r])[0] for r in read], rtol=1e-5
    )


def test_beams_find_no_less_likely_text() -> None:
    model = summariser()
    assert model.prior is not None
    stirred(model.prior)
    texts = [model.write([LONG], longest=3, beams=k)[0] for k in (1, 4)]
    scores = []
    for text in texts:
        ids = tokenizer()(text, add_special_tokens=False)["input_ids"]
        whole = replace(LONG, summary=np.array(ids, dtype=np.int64))
        total, n = model.losses_of([whole])
        scores.append(-total[0] / n[0])
    assert scores[1] >= scores[0] - 1e-5


def test_gaze_loss_is_the_kl_of_the_reading() -> None:
    model = summariser()
    read = reading()
    log_g = model.log_gaze(collate([read], 0))[0].detach().numpy()
    code = read.prompt.code
    assert abs(np.exp(log_g[code]).sum() - 1) < 1e-5
    a = read.target[code].astype(np.float64)
    by_hand = float(np.where(a > 0, a * (np.log(np.where(a > 0, a, 1)) - log_g[code]), 0).sum())
    np.testing.assert_allclose(model.gaze_losses([read]), by_hand, rtol=1e-5)
    batch = replace(collate([SHORT], 0), gaze=collate([read], 0))
    parts = model.training_loss(batch)
    torch.testing.assert_close(parts["loss"], parts["lm"] + 0.1 * parts["gaze"])
    assert set(summariser(gaze_weight=0).training_loss(batch)) == {"loss", "lm"}
    assert set(summariser(prior=None).training_loss(batch)) == {"loss", "lm"}
    assert set(summariser(options={"rank": 4, "prior": "length"}).training_loss(batch)) == {
        "loss",
        "lm",
    }


def test_only_what_should_learn_gets_a_gradient() -> None:
    model = summariser(first=1)
    assert model.prior is not None
    stirred(model.prior)
    batch = replace(collate([SHORT], 0), gaze=collate([reading()], 0))
    model.training_loss(batch)["loss"].backward()
    trained = {n for n, p in model.named_parameters() if p.grad is not None}
    assert trained == {n for n, p in model.named_parameters() if p.requires_grad}
    assert all("lora_" in n or n.startswith("prior.") for n in trained)
    assert not any("layers.0." in n for n in trained)
    assert {n.split(".")[0] for n in trained} == {"model", "prior"}


def _data(gaze: bool = True) -> SummaryData:
    pairs = [SHORT, LONG, example("def c ( a ) : return a", "adds two numbers")] * 2
    read = [reading(seed=k) for k in range(3)]
    return SummaryData(pairs, [SHORT, LONG], 0, batch_size=2, gaze=read if gaze else (), seed=1)


def test_a_stopped_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole, part = (summariser(lr=1e-2, prior_lr=1e-2) for _ in range(2))
    train(whole, _data(), tmp_path / "whole", Training(max_epochs=3, patience=9), seed=1)
    once = train(part, _data(), tmp_path / "part", Training(max_epochs=3, patience=9), seed=1)
    assert len(once.curves) == 3 and once.curves["train/gaze"].notna().all()
    state = torch.load(once.best, weights_only=True)["state_dict"]
    assert set(state) == {n for n, p in part.named_parameters() if p.requires_grad}
    for name, value in part.named_parameters():
        torch.testing.assert_close(value, dict(whole.named_parameters())[name])
    # the first epochs alone, then the rest from the checkpoint
    resumed = summariser(lr=1e-2, prior_lr=1e-2)

    class Stop(Exception):
        pass

    def cut(*_: Any) -> None:
        if resumed.current_epoch == 2:
            raise Stop

    resumed.on_train_batch_start = cut  # type: ignore[method-assign]
    with pytest.raises(Stop):
        train(resumed, _data(), tmp_path / "cut", Training(max_epochs=3, patience=9), seed=1)
    again = summariser(lr=1e-2, prior_lr=1e-2)
    train(again, _data(), tmp_path / "cut", Training(max_epochs=3, patience=9), seed=1)
    for name, value in again.named_parameters():
        torch.testing.assert_close(value, dict(whole.named_parameters())[name])


def test_it_learns_summaries_and_gaze(tmp_path: Path) -> None:
    model = summariser(lr=3e-2, prior_lr=3e-2, gaze_weight=1.0, rank=4)
    with torch.no_grad():  # logits of random weights are too small to say anything
        model.model.get_base_model().lm_head.weight.mul_(20)
    read = [reading(seed=0)]
    before, gaze = model.losses_of([SHORT, LONG])[0].sum(), model.gaze_losses(read)[0]
    data = SummaryData([SHORT, LONG], [SHORT, LONG], 0, batch_size=2, gaze=read, seed=1)
    train(model, data, tmp_path, Training(max_epochs=40, patience=40), seed=1)
    assert model.losses_of([SHORT, LONG])[0].sum() < 0.5 * before
    assert model.gaze_losses(read)[0] < 0.6 * gaze
    assert model.write([SHORT, LONG], longest=5) == ["adds numbers", "the value x"]


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    model = summariser()
    stirred(model.prior)  # type: ignore[arg-type]
    for name, value in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.1)
    model.save(tmp_path / "kept")
    names = {p.name for p in (tmp_path / "kept" / "adapter").iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "gaze_prior.safetensors"} <= names
    again = Summariser.load(tmp_path / "kept", lm())
    np.testing.assert_array_equal(again.losses_of([SHORT])[0], model.losses_of([SHORT])[0])
    np.testing.assert_array_equal(again.gaze_losses([reading()]), model.gaze_losses([reading()]))
    assert again.n_trained == model.n_trained
    total = sum(p.stat().st_size for p in (tmp_path / "kept" / "adapter").iterdir())
    assert total < 4 * (model.n_trained + WIDTH) + 20_000  # no weight of the model itself


@pytest.mark.parametrize("name", ["summariser.json", "adapter/adapter_model.safetensors"])
@pytest.mark.parametrize("how", ["gone", "cut", "noise"])
def test_damaged_files_are_named(tmp_path: Path, name: str, how: str) -> None:
    folder = summariser().save(tmp_path / "kept")
    path = folder / name
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:40] if how == "cut" else b"\x00\xff" * 30)
    with pytest.raises(DataError) as error:
        Summariser.load(folder, lm())
    assert str(folder) in str(error.value)


def test_another_language_model_is_refused(tmp_path: Path) -> None:
    folder = summariser().save(tmp_path / "kept")
    facts = json.loads((folder / "summariser.json").read_text())
    facts["sha"] = "0" * 64
    (folder / "summariser.json").write_text(json.dumps(facts))
    other = lm()
    other.info["sha"] = "1" * 64
    with pytest.raises(DataError, match="another than the one in training"):
        Summariser.load(folder, other)


def test_bad_places_are_named() -> None:
    with pytest.raises(DataError, match="first block"):
        summariser(first=7)
    with pytest.raises(DataError, match="behind a block"):
        summariser(prior="attention_supervision", options={"heads": {0: [0]}})
    with pytest.raises(DataError, match="adapters alone"):
        summariser(prior=None).log_gaze(collate([reading()], 0))
