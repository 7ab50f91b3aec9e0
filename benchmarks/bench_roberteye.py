"""RoBERTEye-W on CopCo: an epoch of ragged, length-bucketed batches against padding to the maximum.

Padding to the maximum is what the published pipeline does: every text has 512 tokens and every
trial as many words as the longest of the data set, and every slot goes through all layers. Both
sides are the training part of the first published fold, the same weights (MiniLM, gaze under the
first layer, the last two layers trained) and the same batch size, forward and backward; before
timing, both are checked to give the same logits. An epoch of ours is estimated from batches
spread evenly over all of an epoch, from the shortest to the longest; all padded batches cost the
same. Target: at least 3 times faster. Beside it, without a bound, stands what an epoch costs
where gaze enters under the last layer, with the frozen layers below run once per text: the
setting of ``size=cpu``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

import gazeattn
from gazeattn.datamodules.reading import reading_trials
from gazeattn.datamodules.reading_batches import (
    ReadingBatch,
    ReadingInputs,
    collate_reading,
    reading_inputs,
)
from gazeattn.datamodules.reading_scaling import FittedFeatures
from gazeattn.datamodules.reading_texts import TextEncoder
from gazeattn.datamodules.scanpaths import BatchSampler
from gazeattn.datasets.splits import published
from gazeattn.errors import MissingAssetError
from gazeattn.models.reading.base import Target
from gazeattn.models.reading.roberteye import RoBERTEyeWords

TARGET = 3.0
TOKENS, BATCH = 512, 16


def widened(values: torch.Tensor, size: int, fill: float = 0) -> torch.Tensor:
    """Return a tensor with axis 1 padded to a size."""
    behind = [0, 0] * (values.ndim - 2) + [0, size - values.shape[1]]
    return F.pad(values, behind, value=fill)


def to_maximum(batch: ReadingBatch, fixations: int, words: int) -> ReadingBatch:
    """Return a batch padded to the longest of the data set, one text per trial."""
    which = batch.which
    return replace(
        batch,
        fixations=widened(batch.fixations, fixations),
        mask=widened(batch.mask, fixations),
        word=widened(batch.word, fixations, -1),
        gaze=widened(batch.gaze, words),
        text=widened(batch.text, words),
        word_mask=widened(batch.word_mask, words),
        which=torch.arange(len(which)),
        ids=widened(batch.ids[which], TOKENS),
        token_word=widened(batch.token_word[which], TOKENS, -1),
        token_part=widened(batch.token_part[which], TOKENS),
        token_mask=widened(batch.token_mask[which], TOKENS),
    )


class Padded(RoBERTEyeWords):
    """The same network without any saving: all slots, padding too, through all layers."""

    def forward(self, batch: ReadingBatch) -> torch.Tensor:
        """Return logits."""
        encoder = self.encoder
        text = encoder.embed(batch.ids)[batch.which]
        slots, mask = self.slots(batch)
        states = torch.cat([text, slots], dim=1)
        mask = torch.cat([batch.token_mask[batch.which], mask], dim=1)
        return self.head(encoder.run(states, mask, 0, len(encoder.layers))[:, 0])


def training_part() -> ReadingInputs | None:
    """Return the training trials of the first fold as the network sees them."""
    try:
        data = gazeattn.load("copco")
    except MissingAssetError as error:
        print(f"not measured, the corpus is not here: {error}")
        return None
    split = published(data, fold="0", pure=False)
    trials = reading_trials(data).part(split, "train")
    y = trials.table["dyslexia"].to_numpy(dtype=np.float64)
    fitted = FittedFeatures.fit(trials, RoBERTEyeWords.choice({}))
    return reading_inputs(trials, fitted, y, TextEncoder("minilm"), vectors=False)


def step_seconds(model: RoBERTEyeWords, batch: ReadingBatch) -> float:
    """Return the processor time of one training step without the optimiser."""
    model.zero_grad()
    start = time.process_time()
    model.training_loss(batch)["loss"].backward()
    return time.process_time() - start


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", type=int, default=12, help="batches of ours that are timed")
    parser.add_argument("--padded", type=int, default=3, help="padded batches that are timed")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = training_part()
    if inputs is None:
        return
    widths = {k: v.shape[1] for k, v in inputs.scaled.items()}
    target = Target.fit("classification", inputs.y).plain()
    longest = int(inputs.lengths.max()), int(inputs.trials.n_words.max())
    batches = list(BatchSampler(inputs, BATCH, seed=0))
    order = np.argsort([inputs.lengths[b].max() for b in batches], kind="stable")
    model = RoBERTEyeWords(target, widths, train_layers=2, entry_layer=0)
    other = Padded(target, widths, train_layers=2, entry_layer=0)
    other.load_state_dict(model.state_dict())

    model.eval()
    other.eval()
    some = collate_reading(inputs, batches[order[0]][:4])
    with torch.no_grad():
        apart = float((model(some) - other(to_maximum(some, *longest))).abs().max())
    print(f"largest difference of the logits: {apart:.1e}")
    if apart > 1e-4:
        raise SystemExit("the two ways do not agree")

    model.train()
    other.train()
    step_seconds(model, some)
    at = np.linspace(0, len(batches) - 1, options.ours + 2).round().astype(int)[1:-1]
    picked = [collate_reading(inputs, batches[order[k]]) for k in at]
    ours = statistics.mean(step_seconds(model, b) for b in picked) * len(batches)
    wide = [to_maximum(b, *longest) for b in picked[: options.padded]]
    padded = statistics.median(step_seconds(other, b) for b in wide) * len(batches)

    late = RoBERTEyeWords(target, widths, train_layers=1, entry_layer=5)
    first = statistics.mean(step_seconds(late, b) for b in picked) * len(batches)
    later = statistics.mean(step_seconds(late, b) for b in picked) * len(batches)
    slots = [
        float((b.token_mask.sum(1)[b.which] + b.word_mask.sum(1)).float().mean()) + 2
        for b in picked
    ]
    print(f"{len(inputs)} trials in {len(batches)} batches of {BATCH}; mean number of slots "
          f"{statistics.mean(slots):.0f}, padded {TOKENS + longest[1] + 2}")  # fmt: skip
    print(f"gaze under the last layer: {first:.0f} s in the first epoch, {later:.0f} s in later "
          f"ones; under the first layer: {ours:.0f} s")  # fmt: skip
    ratio = padded / ours
    said = "" if ratio >= TARGET else "  NOT MET"
    print(f"an epoch of roberteye_words, seconds: {ours:.0f} in buckets, {padded:.0f} padded to "
          f"the maximum")  # fmt: skip
    print(f"padded to the maximum / buckets = {ratio:.1f} (bound: {TARGET:g}){said}")


if __name__ == "__main__":
    main()
