"""Tiny encoders of three families and small made-up readings, for models that run an encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from gazeattn.datamodules.reading import ReadingTrials, Text
from gazeattn.datamodules.reading_batches import (
    ReadingBatch,
    ReadingDataModule,
    ReadingInputs,
    collate_reading,
    reading_inputs,
)
from gazeattn.datamodules.reading_features import FIXATION, GAZE, TEXT
from gazeattn.datamodules.reading_scaling import FeatureChoice, FittedFeatures
from gazeattn.datamodules.reading_texts import TextEncoder
from gazeattn.experiments.training import Training, train
from gazeattn.models.reading._encoder import EncoderNetwork
from gazeattn.models.reading.base import Target

FAMILIES: dict[str, Any] = {
    "bert": (BertConfig, BertModel, 0, 32),
    "roberta": (RobertaConfig, RobertaModel, 1, 34),
    "xlm-roberta": (XLMRobertaConfig, XLMRobertaModel, 1, 34),
}
NOTHING = "\u200b"
"""A word that has no token."""
Build = Callable[..., EncoderNetwork]


def save_encoder(folder: Path, family: str, seed: int = 0) -> str:
    """Save a randomly initialised encoder of 3 layers that takes 32 tokens; return its folder."""
    config, kind, pad, positions = FAMILIES[family]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    special = ["<s>", "<pad>", "</s>", "?"] if pad else ["<pad>", "<s>", "</s>", "?"]
    vocabulary = {t: i for i, t in enumerate([*special, *letters, *(f"##{c}" for c in letters)])}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token="?"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        special_tokens=[(t, vocabulary[t]) for t in ("<s>", "</s>")],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="?"
    )
    torch.manual_seed(seed)
    # large weights, so that what a state holds depends on all that it can see
    made = kind(
        config(
            vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
            intermediate_size=24, max_position_embeddings=positions, pad_token_id=pad,
            initializer_range=0.3, type_vocab_size=2,
        )
    )  # fmt: skip
    for p in made.embeddings.token_type_embeddings.parameters():
        torch.nn.init.normal_(p, std=0.3)
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def readings(
    words: Sequence[Sequence[str]], fixated: Sequence[Sequence[int]], seed: int = 0
) -> ReadingTrials:
    """Return one trial per text, with made-up durations and measures and no other features."""
    rng = np.random.default_rng(seed)
    n = len(words)
    lengths = np.array([len(f) for f in fixated])
    word = np.concatenate([np.asarray(f, dtype=np.int64) for f in fixated])
    fixations = np.full((int(lengths.sum()), len(FIXATION)), np.nan)
    fixations[:, 0] = np.concatenate([np.arange(k) for k in lengths])
    fixations[:, 1] = rng.gamma(4, 60, len(fixations))
    fixations[:, [f.name for f in FIXATION].index("on_text")] = word >= 0
    counts = np.array([len(w) for w in words])
    gaze = np.full((int(counts.sum()), len(GAZE)), np.nan)
    for name in ("total_reading_time", "gaze_duration"):
        gaze[:, [f.name for f in GAZE].index(name)] = rng.gamma(4, 80, len(gaze))
    texts = {}
    for i, w in enumerate(words):
        features = np.full((len(w), len(TEXT)), np.nan)
        features[:, 0] = [len(x) for x in w]
        texts[f"t{i}"] = Text(f"t{i}", tuple(w), features)
    table = pd.DataFrame(
        {
            "trial": [f"r{i}" for i in range(n)],
            "participant": [f"p{i % 3}" for i in range(n)],
            "stimulus": [f"s{i}" for i in range(n)],
            "text": list(texts),
        }
    )
    starts = np.concatenate([[0], np.cumsum(lengths)])
    word_starts = np.concatenate([[0], np.cumsum(counts)])
    return ReadingTrials(table, fixations, word, starts, gaze, word_starts, texts)


def odd_readings() -> ReadingTrials:
    """Return trials of many kinds.

    Plain; one fixation; off the text now and then; a word without a token, fixated; no words.
    """
    return readings(
        [["abc", "d", "ef"], ["gh", "i"], ["k", "lm", "no", "p", "q"], ["r", NOTHING, "st"], []],
        [[0, 1, 2, 1], [1], [0, -1, 2, 4, -1, 3], [1, 0, 1, 2], [-1, -1]],
    )


def inputs_of(
    trials: ReadingTrials,
    encoder: str,
    y: Sequence[float] | None = None,
    choice: FeatureChoice | None = None,
    **options: Any,
) -> tuple[ReadingInputs, dict[str, int]]:
    """Return trials as a model sees them, scaled by themselves, and the widths."""
    fitted = FittedFeatures.fit(trials, choice or FeatureChoice())
    target = np.arange(len(trials)) % 2 if y is None else np.asarray(y)
    texts = TextEncoder(encoder, limit=options.pop("limit", None))
    made = reading_inputs(trials, fitted, target.astype(float), texts, vectors=False, **options)
    return made, {k: len(s.channels) for k, s in fitted.scales.items()}


def classes(n: int = 2) -> dict[str, Any]:
    """Return a target of some classes."""
    return Target("classification", n, (1.0,) * n).plain()


def spoiled(batch: ReadingBatch) -> ReadingBatch:
    """Return the batch with large numbers wherever there is padding."""
    fixations, gaze, text = batch.fixations.clone(), batch.gaze.clone(), batch.text.clone()
    ids, part = batch.ids.clone(), batch.token_part.clone()
    fixations[~batch.mask] = 1e3
    gaze[~batch.word_mask] = -1e3
    text[~batch.word_mask] = 1e3
    ids[~batch.token_mask] = 7
    part[~batch.token_mask] = 1
    return replace(batch, fixations=fixations, gaze=gaze, text=text, ids=ids, token_part=part)


# -- what holds for every network that runs an encoder -------------------------------------------


def check_company(model: EncoderNetwork, inputs: ReadingInputs) -> None:
    """A trial alone, among others and in another order gives the same output."""
    model.eval()
    with torch.no_grad():
        together = model(collate_reading(inputs))
        backwards = model(collate_reading(inputs, np.arange(len(inputs))[::-1].copy())).flip(0)
        alone = torch.cat([model(collate_reading(inputs, [i])) for i in range(len(inputs))])
    assert torch.isfinite(together).all()
    assert torch.allclose(together, alone, atol=1e-5)
    assert torch.allclose(together, backwards, atol=1e-5)
    assert together.std(0).max() > 1e-3  # or the above says nothing


def check_padding(model: EncoderNetwork, inputs: ReadingInputs) -> None:
    """Padded values reach neither output nor gradient."""
    model.eval()
    batch = collate_reading(inputs)
    with torch.no_grad():
        assert torch.allclose(model(batch), model(spoiled(batch)), atol=1e-5)
    leaves = {k: getattr(batch, k).clone().requires_grad_() for k in ("fixations", "gaze", "text")}
    model(replace(batch, **leaves)).square().sum().backward()
    masks = {"fixations": batch.mask, "gaze": batch.word_mask, "text": batch.word_mask}
    for name, leaf in leaves.items():
        if leaf.grad is not None:
            assert (leaf.grad[~masks[name]] == 0).all(), name
            assert torch.isfinite(leaf.grad).all(), name


def check_gradients(model: EncoderNetwork, inputs: ReadingInputs) -> None:
    """Trained parameters have finite gradients, frozen ones none; a missing target is skipped."""
    model.train()
    model.zero_grad()
    model.training_loss(collate_reading(inputs))["loss"].backward()
    seen = 0
    for name, p in model.named_parameters():
        if not p.requires_grad:
            assert p.grad is None, name
        elif p.grad is not None:
            assert torch.isfinite(p.grad).all(), name
            seen += bool((p.grad != 0).any())
    assert seen > 6
    batch = collate_reading(inputs)
    y = batch.y.clone()
    y[0] = float("nan")
    model.eval()
    some = model.training_loss(replace(batch, y=y))["loss"]
    rest = model.training_loss(collate_reading(inputs, np.arange(1, len(inputs))))["loss"]
    assert torch.allclose(some, rest, atol=1e-5)
    assert model.training_loss(replace(batch, y=torch.full_like(y, float("nan")))) == {}


def fit(
    model: EncoderNetwork, inputs: ReadingInputs, folder: Path, epochs: int = 2, size: int = 16
) -> Any:
    """Train with the product's own loop."""
    data = ReadingDataModule(inputs, inputs, batch_size=size)
    settings = Training(max_epochs=epochs, batch_size=size, patience=epochs)
    return train(model, data, folder, settings, accelerator="cpu")


def check_round_trip(build: Build, inputs: ReadingInputs, folder: Path) -> None:
    """A checkpoint gives equal predictions and lacks what is frozen; one seed, one result."""
    found = []
    for name in ("a", "b"):
        torch.manual_seed(3)
        model = build(lr=1e-2)
        trained = fit(model, inputs, folder / name)
        again = type(model).load_from_checkpoint(trained.best, weights_only=True)
        found.append(again.predict(inputs))
        assert trained.curves["train/loss"].notna().all()
    content = torch.load(trained.best, weights_only=True)
    assert not set(content["state_dict"]) & model.frozen_keys()
    assert model.frozen_keys()
    assert np.array_equal(found[0], found[1])
    # the best epoch need not be the last: load it into the trained model as well
    model.load_state_dict(content["state_dict"])
    assert np.array_equal(model.predict(inputs), found[1])
    assert np.allclose(found[0].sum(1), 1)


def accuracy_after(
    model: EncoderNetwork, inputs: ReadingInputs, steps: int = 80, size: int = 32
) -> float:
    """Train by plain steps and return the accuracy on the same trials."""
    rng = np.random.default_rng(0)
    optimizer = model.configure_optimizers()
    model.train()
    for _ in range(steps):
        batch = collate_reading(inputs, rng.choice(len(inputs), size, replace=False))
        optimizer.zero_grad()
        model.training_loss(batch)["loss"].backward()
        optimizer.step()
    found = model.predict(inputs)
    assert found.std(0).max() > 0.05
    return float((found.argmax(1) == inputs.y).mean())


def made_up(
    n: int, label: Callable[[int, np.random.Generator], Mapping[str, Any]], seed: int = 0
) -> tuple[ReadingTrials, np.ndarray]:
    """Return n readings of 4 to 6 words, each word read once, told apart by `label`.

    ``label(class, generator)`` gives ``duration``, a function from the number of fixations to
    their durations, in ms; words get the same as their total reading time.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    counts = rng.integers(4, 7, n)
    words = [["abcdefgh"[k % 8] for k in rng.integers(0, 8, c)] for c in counts]
    trials = readings(words, [list(range(c)) for c in counts], seed)
    times = np.concatenate(
        [label(int(c), rng)["duration"](k) for c, k in zip(y, counts, strict=True)]
    )
    trials.fixations[:, 1] = times
    for name in ("total_reading_time", "gaze_duration"):
        trials.gaze[:, [f.name for f in GAZE].index(name)] = times
    return trials, y


def longer(kind: int, rng: np.random.Generator) -> dict[str, Any]:
    """Class 1 looks longer."""
    return {"duration": partial(lambda k: rng.gamma(9, 20 + 25 * kind, k))}


def slowing(kind: int, rng: np.random.Generator) -> dict[str, Any]:
    """Class 1 has its long fixations in the second half, class 0 in the first."""

    def durations(k: int) -> np.ndarray:
        late = np.arange(k) >= k / 2
        return np.where(late == bool(kind), 400.0, 150.0) + rng.uniform(0, 50, k)

    return {"duration": durations}
