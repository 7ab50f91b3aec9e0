"""TPP-Gaze: draws in one batch and training on kept features, against what the paper's code does.

Sampling: 100 scanpaths of one picture in one loop, against one after the other with the backbone
run over the picture again for every event, as the public program does (on a few scanpaths, scaled
to 100; ``--once`` runs it once per scanpath only). Training: an epoch over OSIE with features that
are kept, against the backbone run for every scanpath of every batch; the latter is measured on a
few batches and scaled to the epoch. Both targets are a ratio of at least 20. Times are processor
time, so that a busy machine does not count; the model is untrained, which changes no step.

Run with ``python benchmarks/bench_tpp_gaze.py --root DATA_FOLDER``. OSIE is looked for in
``$GAZEATTN_SHARED`` or ``../shared/data`` beside the repository.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from gazeattn.datamodules import Scanpaths, Stimulus, collate, scanpaths_of
from gazeattn.datamodules.scanpaths import BatchSampler
from gazeattn.datasets import load
from gazeattn.datasets.splits import split
from gazeattn.models.layers.backbones import Backbone, load_backbone
from gazeattn.models.layers.features import read_picture
from gazeattn.models.scanpath.tpp_gaze import TPPGaze

TARGET = 20.0


def encode(backbone: Backbone, stimulus: Stimulus, model: TPPGaze) -> dict[str, torch.Tensor]:
    """Return the features of one picture as a feature store would, without keeping them."""
    assert stimulus.image is not None
    assert model.feature_spec is not None
    spec = model.feature_spec
    with torch.no_grad():
        maps = backbone(read_picture(stimulus.image, spec.size)[None], strides=spec.strides)
    return {f"stride{k}": v[0] for k, v in maps.items()}


class Published(TPPGaze):
    """Runs the backbone again whenever the published program does: at every step of sampling."""

    backbone: Backbone
    again: bool = True

    def _times(self, context: torch.Tensor):  # type: ignore[no-untyped-def]
        if not self.training and self.again:
            encode(self.backbone, self.picture, self)
        return super()._times(context)

    picture: Stimulus


def sampling(model: Published, picture: Stimulus, singles: int, once: bool) -> float:
    """Print and return how many times faster one batch of 100 is."""
    maps = encode(model.backbone, picture, model)
    ready = Stimulus(picture.name, picture.size, picture.image, features=maps)
    model.again = False
    model.sample(ready, 2, torch.Generator().manual_seed(0))
    began = time.process_time()
    fresh = encode(model.backbone, picture, model)
    ready = Stimulus(picture.name, picture.size, picture.image, features=fresh)
    model.sample(ready, 100, torch.Generator().manual_seed(0))
    together = time.process_time() - began
    model.picture, model.again = picture, not once
    began = time.process_time()
    for i in range(singles):
        fresh = encode(model.backbone, picture, model)
        ready = Stimulus(picture.name, picture.size, picture.image, features=fresh)
        model.sample(ready, 1, torch.Generator().manual_seed(i))
    apart = (time.process_time() - began) * 100 / singles
    model.again = False
    how = "once per scanpath" if once else "at every event"
    print(f"100 scanpaths in one batch (picture encoded once): {together:.2f} s")
    print(f"one by one, picture encoded {how}: {apart:.1f} s (from {singles}, scaled)")
    print(f"ratio {apart / together:.0f}, target {TARGET:.0f}")
    return apart / together


def step(model: TPPGaze, optimizer: torch.optim.Optimizer, batch) -> None:  # type: ignore[no-untyped-def]
    """Make one step of training."""
    model.train()
    optimizer.zero_grad()
    model.training_loss(batch)["loss"].backward()
    optimizer.step()


def epoch(model: Published, paths: Scanpaths, kept_batches: int, run_scanpaths: int) -> float:
    """Print and return how many times faster an epoch with kept features is."""
    backbone = model.backbone
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    first = paths.take(np.flatnonzero(np.isin(paths.stimulus, list(paths.stimuli)[:40])))
    maps = {n: encode(backbone, s, model) for n, s in first.stimuli.items()}
    kept = first.with_features(lambda s: {k: v.half() for k, v in maps[s.name].items()})
    batches = list(BatchSampler(kept, 8, seed=0, by_stimulus=True))[:kept_batches]
    step(model, optimizer, collate(kept, batches[0]))
    began = time.process_time()
    for rows in batches:
        step(model, optimizer, collate(kept, rows))
    count = sum(len(rows) for rows in batches)
    fast = (time.process_time() - began) * len(paths) / count
    rows = batches[0][:run_scanpaths]
    began = time.process_time()
    for i in rows:
        encode(backbone, kept.stimuli[kept.stimulus[i]], model)
    again = (time.process_time() - began) * len(paths) / len(rows)
    print(
        f"epoch of {len(paths)} scanpaths with kept features: {fast:.1f} s (from {count}, scaled)"
    )
    print(f"backbone run per scanpath: {again + fast:.0f} s (from {len(rows)}, scaled)")
    print(f"ratio {(again + fast) / fast:.0f}, target {TARGET:.0f}")
    return (again + fast) / fast


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both ratios; the exit status says whether the targets are met."""
    here = Path(__file__).resolve().parent.parent
    shared = Path(os.environ.get("GAZEATTN_SHARED", here.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="data folder with the weights of the backbone")
    parser.add_argument("--singles", type=int, default=3, help="scanpaths drawn one by one")
    parser.add_argument("--batches", type=int, default=5, help="batches of the epoch, kept")
    parser.add_argument("--scanpaths", type=int, default=10, help="backbone runs of the epoch")
    parser.add_argument("--strides", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    data = load("osie", root=shared / "osie")
    train = scanpaths_of(data).part(
        split(data, by="text", shares=(0.7, 0.15, 0.15), seed=0), "train"
    )
    backbone = load_backbone("efficientnet_lite0", root=args.root)
    channels = {f"stride{s}": backbone.channels[s] for s in args.strides}
    torch.manual_seed(0)
    model = Published(channels=channels, strides=args.strides, horizon="distribution")
    object.__setattr__(model, "backbone", backbone)
    model.fit_statistics(train)
    picture = next(iter(train.stimuli.values()))
    ratios = [
        sampling(model, picture, args.singles, args.once),
        epoch(model, train, args.batches, args.scanpaths),
    ]
    return 0 if min(ratios) >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
