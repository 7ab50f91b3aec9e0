"""Scenes of people as padded batches of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.errors import DataError


@dataclass
class JointBatch:
    """Some scenes, padded to the most people and the most targets.

    Attributes
    ----------
    scene : list of str
    size : Tensor, shape (batch, 2)
        Width and height in pixels.
    head : Tensor, shape (batch, people, 2)
        Shares of the picture; 0 in padding.
    gaze : Tensor, shape (batch, people, 2)
        Unit vectors in shares of the picture; 0 where missing and in padding.
    gazes : Tensor of bool, shape (batch, people)
        Where a gaze direction is known.
    action : Tensor of int64, shape (batch, people)
        -1 where missing and in padding.
    mask : Tensor of bool, shape (batch, people)
        Where a person is.
    place : Tensor, shape (batch, targets, 2)
        Shares of the picture; 0 in padding.
    joint : Tensor of bool, shape (batch, targets)
        Where a target of joint attention is; False in padding.
    attends : Tensor of int64, shape (batch, people)
        Position of the target that a person attends to, -1 where none is known.
    features : Tensor, shape (batch, channels, rows, columns), or None
    """

    scene: list[str]
    size: Tensor
    head: Tensor
    gaze: Tensor
    gazes: Tensor
    action: Tensor
    mask: Tensor
    place: Tensor
    joint: Tensor
    attends: Tensor
    features: Tensor | None = None

    @property
    def present(self) -> Tensor:
        """Whether there is joint attention, (batch,) of bool."""
        return self.joint.any(dim=1)

    def to(self, device: torch.device | str) -> JointBatch:
        """Return the batch on a device."""
        moved: dict[str, Any] = {f.name: v.to(device) for f in fields(self)
                 if isinstance(v := getattr(self, f.name), Tensor)}  # fmt: skip
        return replace(self, **moved)


def collate_scenes(
    scenes: JointScenes, which: Sequence[int] | NDArray[Any] | None = None
) -> JointBatch:
    """Return scenes (all, or those at some positions) as one padded batch.

    Raises
    ------
    DataError
        Some scenes have a feature map and some have none.
    """
    part = scenes if which is None else scenes.take(np.asarray(which, dtype=np.int64))
    n, people = len(part), part.n_people
    mask = np.arange(int(people.max(initial=0))) < people[:, None]
    counts = np.diff(part.target_starts)
    slots = np.arange(int(counts.max(initial=0))) < counts[:, None]
    size = part.size.astype(np.float64)
    head, gaze = np.zeros((*mask.shape, 2)), np.zeros((*mask.shape, 2))
    gazes = np.zeros(mask.shape, dtype=bool)
    action, attends = np.full(mask.shape, -1), np.full(mask.shape, -1)
    place, joint = np.zeros((*slots.shape, 2)), np.zeros(slots.shape, dtype=bool)
    head[mask] = part.head / size[part.people_of]
    turned = part.gaze / size[part.people_of]  # a straight line in pixels is one in shares
    turned /= np.hypot(turned[:, 0], turned[:, 1])[:, None]
    gazes[mask] = ~np.isnan(turned).any(axis=1)
    gaze[mask] = np.nan_to_num(turned)
    action[mask], attends[mask] = part.action, part.attends
    place[slots], joint[slots] = part.place / size[part.target_of], part.joint
    with_map = [s in part.features for s in part.scene]
    if any(with_map) and not all(with_map):
        raise DataError(
            "some scenes have a feature map and some have none",
            expected=f"{n} maps", found=sum(with_map),
        )  # fmt: skip

    def floats(values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32))

    return JointBatch(
        [str(s) for s in part.scene],
        floats(size),
        floats(head),
        floats(gaze),
        torch.from_numpy(gazes),
        torch.from_numpy(action.astype(np.int64)),
        torch.from_numpy(mask),
        floats(place),
        torch.from_numpy(joint),
        torch.from_numpy(attends.astype(np.int64)),
        torch.stack([part.features[s] for s in part.scene]).float()
        if n and all(with_map)
        else None,
    )


class _Positions(Dataset[int]):
    """Positions; the batch is made by `collate_scenes`."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, row: int) -> int:
        return row


class SceneSampler(Sampler[list[int]]):
    """Batches of scenes in an order that depends on seed and epoch; seed None keeps the order."""

    def __init__(self, n: int, size: int, seed: int | None = None) -> None:
        if size < 1:
            raise DataError("a batch needs one scene at least", found=size)
        self.n, self.size, self.seed, self.epoch = n, size, seed, 0

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch; a resumed training goes on with the same one."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        order = np.arange(self.n)
        if self.seed is not None:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(self.n)
        for k in range(0, self.n, self.size):
            yield order[k : k + self.size].tolist()


class JointDataModule(pl.LightningDataModule):
    """Batches of the training and validation parts.

    Parameters
    ----------
    train, valid
        Parts without a common sequence (`JointScenes.split`).
    batch_size
        Scenes of a batch.
    seed
        Of the order of batches.

    Raises
    ------
    DataError
        A sequence stands in both parts.
    """

    def __init__(
        self, train: JointScenes, valid: JointScenes, *, batch_size: int = 8, seed: int = 0
    ) -> None:
        super().__init__()
        both = sorted(set(map(str, train.sequence)) & set(map(str, valid.sequence)))
        if both:
            raise DataError(
                f"{len(both)} sequences stand in the training and in the validation part",
                expected="frames of one sequence in one part",
                found=", ".join(both[:3]),
            )
        self.train, self.valid, self.batch_size, self.seed = train, valid, batch_size, seed

    def _loader(self, scenes: JointScenes, seed: int | None, epoch: int = 0) -> DataLoader[int]:
        sampler = SceneSampler(len(scenes), self.batch_size, seed)
        sampler.set_epoch(epoch)
        return DataLoader(
            _Positions(len(scenes)),
            batch_sampler=sampler,
            collate_fn=lambda rows: collate_scenes(scenes, rows),
        )

    def train_dataloader(self) -> DataLoader[int]:
        """Return the shuffled batches of the trainer's epoch.

        The trainer has to ask anew for every epoch (``reload_dataloaders_every_n_epochs=1``): a
        batch sampler of one's own is not told of epochs.
        """
        epoch = 0 if self.trainer is None else self.trainer.current_epoch
        return self._loader(self.train, self.seed, epoch)

    def val_dataloader(self) -> DataLoader[int]:
        """Return the validation batches in fixed order."""
        return self._loader(self.valid, None)

    def transfer_batch_to_device(
        self, batch: JointBatch, device: torch.device, dataloader_idx: int
    ) -> JointBatch:
        """Move a batch to a device."""
        return batch.to(device)
