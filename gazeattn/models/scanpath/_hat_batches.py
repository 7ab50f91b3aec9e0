"""Beginnings of scanpaths, and batches that are mirrored."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gazeattn.datamodules import ScanpathBatch


@dataclass
class Prefixes:
    """Beginnings of scanpaths.

    Attributes
    ----------
    path : Tensor of int64, shape (n,)
        Row of the batch.
    count : Tensor of int64, shape (n,)
        Fixations that were made: the prefix is fixations ``0..count - 1``.
    """

    path: Tensor
    count: Tensor

    def __len__(self) -> int:
        return len(self.path)

    def take(self, which: Tensor) -> Prefixes:
        """Return some of them."""
        return Prefixes(self.path[which], self.count[which])


def all_prefixes(lengths: Tensor, *, whole: bool) -> Prefixes:
    """Return every prefix of scanpaths of some lengths, and the whole ones where `whole`."""
    each = lengths + int(whole)
    path = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), each)
    first = each.cumsum(0) - each
    return Prefixes(path, torch.arange(len(path), device=lengths.device) - first[path])


def window(prefixes: Prefixes, longest: int) -> tuple[Tensor, Tensor]:
    """Return which fixations the memory holds, the latest first.

    Returns
    -------
    fixation : Tensor of int64, shape (n, slots)
        Number of the fixation in its scanpath; 0 where there is none.
    seen : Tensor of bool, shape (n, slots)
    """
    slots = min(longest, int(prefixes.count.max())) if len(prefixes) else 0
    fixation = prefixes.count[:, None] - 1 - torch.arange(slots, device=prefixes.count.device)
    return fixation.clamp_min(0), fixation >= 0


def mirrored(batch: ScanpathBatch, turned: Tensor) -> ScanpathBatch:
    """Return a batch in which some stimuli and their scanpaths are mirrored left to right.

    Parameters
    ----------
    turned : Tensor of bool, shape (n_stimuli,)
    """
    features = {
        k: torch.where(turned[:, None, None, None], v.flip(-1), v)
        for k, v in batch.features.items()
    }
    x = batch.xy[..., 0]
    # the mirror image of 0 is 1, which is no longer on the picture
    other = (1 - x).clamp_max(1 - 2**-24)
    x = torch.where(turned[batch.which][:, None] & batch.mask, other, x)
    return replace(batch, features=features, xy=torch.stack([x, batch.xy[..., 1]], dim=-1))
