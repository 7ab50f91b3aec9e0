"""HAT: a training step over all prefixes at once against one prefix per sample.

One prefix per sample, in batches of 32, is what the published training does: the picture goes
through the pixel decoder again for every prefix. Both sides use the same weights and the same
cached maps of a frozen backbone (made-up numbers here), forward and backward; without the cache
the other side would be slower still. Before timing, both losses are checked to be equal on a
few scanpaths. Target: at least 5 times faster per scanpath.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus, collate
from gazeattn.models.scanpath._hat_batches import Prefixes, all_prefixes
from gazeattn.models.scanpath.hat import HAT

TARGET = 5.0
SAMPLES = 32
CHANNELS = {"stride4": 24, "stride8": 40, "stride16": 112, "stride32": 320}
SIZE = (256, 160)


def picture(observers: int, fixations: int) -> ScanpathBatch:
    """Return the scanpaths of some observers over one made-up picture."""
    g = torch.Generator().manual_seed(0)
    maps = {
        k: torch.randn(c, SIZE[1] // int(k[6:]), SIZE[0] // int(k[6:]), generator=g)
        for k, c in CHANNELS.items()
    }
    rng = np.random.default_rng(0)
    lengths = rng.integers(fixations - 2, fixations + 3, observers)
    n = int(lengths.sum())
    ids = np.array([str(i) for i in range(observers)], dtype=object)
    return collate(
        Scanpaths(
            rng.uniform(0, 800, n),
            rng.uniform(0, 600, n),
            np.full(n, np.nan),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            ids,
            ids,
            np.full(observers, "p", dtype=object),
            {"p": Stimulus("p", (800.0, 600.0), features=maps)},
        )
    )


def apart(batch: ScanpathBatch, rows: torch.Tensor) -> ScanpathBatch:
    """Return scanpaths, repeated as `rows` say, each with a copy of the picture's maps."""
    path = rows.tolist()
    return replace(
        batch,
        xy=batch.xy[rows],
        duration=batch.duration[rows],
        mask=batch.mask[rows],
        which=torch.arange(len(path)),
        stimuli=[batch.stimuli[0]] * len(path),
        features={k: v.expand(len(path), -1, -1, -1).clone() for k, v in batch.features.items()},
        trial=[batch.trial[i] for i in path],
        participant=[batch.participant[i] for i in path],
    )


def one_by_one(model: HAT, batch: ScanpathBatch, prefixes: Prefixes) -> dict[str, torch.Tensor]:
    """Return the losses of prefixes with a sample of its own for each."""
    samples = apart(batch, prefixes.path)
    return model.loss_of(samples, Prefixes(torch.arange(len(prefixes)), prefixes.count))


def check_equal(model: HAT) -> float:
    """Return the largest relative difference between the losses, over few scanpaths."""
    batch = picture(3, 4)
    prefixes = all_prefixes(batch.lengths, whole=True)
    ours, other = model.training_loss(batch), one_by_one(model, batch, prefixes)
    return max(abs(ours[k].item() / other[k].item() - 1) for k in ours)


def seconds(step: Callable[[], dict[str, torch.Tensor]], model: HAT, runs: int = 3) -> float:
    """Return the median processor time of a step, forward and backward, after a warm-up."""
    taken = []
    for _ in range(runs + 1):
        model.zero_grad()
        start = time.process_time()
        step()["loss"].backward()
        taken.append(time.process_time() - start)
    return statistics.median(taken[1:])


def main() -> None:
    """Print the ratio."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = HAT(
        image_size=SIZE,
        channels=CHANNELS,
        decoder_width=128,
        decoder_layers=1,
        decoder_hidden=256,
        decoder_heads=4,
        width=128,
        heads=4,
        hidden=256,
        encoder_layers=2,
        query_layers=3,
        loss="density",
        sigma=8.0,
    )
    difference = check_equal(model)
    print(f"largest relative difference of the losses: {difference:.1e}")
    if difference > 1e-3:
        raise SystemExit("the two ways do not agree")
    batch = picture(15, 9)
    prefixes = all_prefixes(batch.lengths, whole=True)
    ours = seconds(lambda: model.training_loss(batch), model)
    some = torch.randperm(len(prefixes), generator=torch.Generator().manual_seed(0))[:SAMPLES]
    part = seconds(lambda: one_by_one(model, batch, prefixes.take(some)), model)
    other = part * len(prefixes) / SAMPLES
    n = len(batch.trial)
    ratio = other / ours
    said = "" if ratio >= TARGET else "  NOT MET"
    print(f"{len(prefixes)} prefixes of {n} scanpaths, seconds per scanpath: "
          f"{ours / n:.4f} at once, {other / n:.4f} one by one")  # fmt: skip
    print(f"one prefix per sample / all prefixes at once = {ratio:.1f} (bound: {TARGET:g}){said}")


if __name__ == "__main__":
    main()
