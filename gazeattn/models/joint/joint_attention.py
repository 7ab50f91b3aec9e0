"""Where a group looks together, from heads, gaze directions and actions (PJAE).

Not a model of scanpaths: it has maps of a scene, not fixations, and so no `sample`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules.joint_attention import JointScenes
from gazeattn.datamodules.joint_batches import JointBatch, collate_scenes
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.models.joint._network import (
    InteractionLayer,
    PeopleTokens,
    PixelHead,
    RelativeHead,
    SceneBranch,
    at_points,
    cell_centres,
)
from gazeattn.models.joint._peaks import find_peaks
from gazeattn.models.joint._targets import (
    LOSSES,
    bumps_at,
    density_loss,
    person_target_maps,
    sample_points,
    squared_loss,
)
from gazeattn.models.scanpath.base import check_finite
from gazeattn.registry import register_joint_model

STAGES = ("people", "both")
ONE_EACH = ("head", "gaze", "gazes", "action", "mask", "attends")
"""Fields of a batch that have a value per person."""


@dataclass
class JointMaps:
    """What the network says about a batch.

    Attributes
    ----------
    group : Tensor, shape (batch, rows, columns)
        Confidence that the group attends to each cell (fused where there is a scene branch).
    people, scene : Tensor, shape (batch, rows, columns), or None
        Of the two branches.
    persons : Tensor, shape (batch, people, rows, columns), or None
        The map of each person from the people branch; 0 where nobody is.
    scene_persons : Tensor, shape (batch, people, h, w), or None
        The same from the scene branch, on the grid of the features.
    presence : Tensor, shape (batch,)
        Logit that there is joint attention at all.
    """

    group: Tensor
    people: Tensor
    scene: Tensor | None
    persons: Tensor | None
    scene_persons: Tensor | None
    presence: Tensor


@register_joint_model(
    "joint_attention",
    description="where a group looks together, from heads, gaze directions and actions (PJAE)",
    citation="Nakatani, Kawashima, Ukita (2023), ICCV, 10224-10233",
    kind="network",
)
class JointAttention(pl.LightningModule):
    """Interaction-aware joint attention estimation.

    Each person is a token (position, gaze direction, action); a learned token stands for joint
    attention. After a transformer over these, an MLP of the joint token and a point gives the
    group's confidence at that point, of a person's token the person's. A scene branch on cached
    backbone features can be added; both maps are mixed with the softmax of two learned scalars.

    Parameters
    ----------
    actions
        Names of the actions; empty where there are none.
    grid
        Rows and columns on which maps are evaluated.
    frame, sigma
        Standard deviation of the bump at a target, in pixels of a picture of this width and
        height; pictures of other sizes are scaled to it.
    width, layers, heads, feedforward
        Of the tokens and of the transformer.
    hidden
        Of the pixel-wise head.
    chunk
        Most (token, point) pairs that the head works on together without gradients.
    channels
        Of the backbone map; 0 for no scene branch.
    scene_width
        Channels inside the scene branch.
    stage
        ``"people"``: the people branch alone is trained; ``"both"``: both branches and the
        mixture.
    points
        Random points per scene on which the loss of the group maps is estimated in training; 0
        for the whole grid (published). See `sample_points`.
    seed
        Of these points, with the number of the step: a resumed training draws the same ones.
    activation : {"relu", "leaky_relu", "gelu"}
        Of all layers but those of the scene branch (published: relu).
    loss : {"mse", "density"}
        ``"mse"`` (published): the squared difference from the bumps, nearly all of which is that
        of the empty picture. ``"density"`` (not published): the map is the logarithm of a density
        over the picture, see `gazeattn.models.joint._targets.density_loss`; presence is then said
        by the presence output alone.
    cones, rings
        Widths of the bumps of the relative head, degrees and shares of the height of the picture
        (not published; empty: no such head). See `gazeattn.models.joint._network.RelativeHead`.
    person_weight
        Weight of the loss on the people branch's person maps (published: 0).
    presence_weight
        Weight of the loss on the presence (not published).
    lr, weight_decay, warmup_epochs
        Of AdamW; linear increase, then cosine decrease.

    References
    ----------
    Nakatani, Kawashima, Ukita (2023), Interaction-aware joint attention estimation using people
    attributes, ICCV, 10224-10233.
    """

    def __init__(
        self,
        *,
        actions: Sequence[str] = (),
        grid: Sequence[int] = (40, 80),
        frame: Sequence[float] = (640.0, 320.0),
        sigma: float = 10.0,
        width: int = 16,
        layers: int = 2,
        heads: int = 2,
        feedforward: int = 16,
        hidden: int = 16,
        chunk: int = 65536,
        channels: int = 0,
        scene_width: int = 32,
        stage: str = "people",
        points: int = 0,
        seed: int = 0,
        activation: str = "relu",
        loss: str = "mse",
        cones: Sequence[float] = (),
        rings: Sequence[float] = (),
        person_weight: float = 0.0,
        presence_weight: float = 0.01,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__()
        actions, grid, frame = list(actions), [int(v) for v in grid], [float(v) for v in frame]
        cones, rings = [float(v) for v in cones], [float(v) for v in rings]
        if loss not in LOSSES:
            raise UnknownNameError("loss", loss, LOSSES)
        if rings and not cones:
            raise DataError("rings stand beside cones", expected="cones", found="none")
        self.save_hyperparameters()
        self.actions = tuple(actions)
        self.grid = (grid[0], grid[1])
        self.spread = (sigma / frame[0], sigma / frame[1])
        cell = (1 / self.grid[1], 1 / self.grid[0])
        if any(c > 2 * s for c, s in zip(cell, self.spread, strict=True)):
            raise DataError(
                "the grid is too coarse for the targets: a bump can fall between the cells",
                expected=f"cells of at most {2 * sigma:g} pixels (twice sigma)",
                found=f"{cell[0] * frame[0]:g} x {cell[1] * frame[1]:g} pixels",
            )
        self.points, self.seed, self.loss = points, seed, loss
        self.lr, self.weight_decay, self.warmup_epochs = lr, weight_decay, warmup_epochs
        self.person_weight, self.presence_weight = person_weight, presence_weight
        self.tokens = PeopleTokens(len(actions), width, activation)
        self.joint_token = nn.Parameter(0.02 * torch.randn(width))
        self.interaction = nn.ModuleList(
            InteractionLayer(width, heads, feedforward, activation) for _ in range(layers)
        )
        self.head = PixelHead(width, hidden, chunk, activation)
        self.relative = RelativeHead(width, cones, rings, chunk) if cones else None
        self.presence = nn.Linear(width, 1)
        self.branch = SceneBranch(channels, scene_width) if channels else None
        self.mixture = nn.Parameter(torch.zeros(2)) if channels else None
        self.stage = ""
        self.set_stage(stage)

    def set_stage(self, stage: str, lr: float | None = None) -> None:
        """Go to a training stage, with a learning rate of its own where given."""
        if stage not in STAGES:
            raise DataError("no such stage", expected=" or ".join(STAGES), found=stage)
        if stage == "both" and self.branch is None:
            raise CapabilityError("stage 'both' needs a scene branch: give the features' channels")
        self.stage = stage
        self.hparams["stage"] = stage
        if lr is not None:
            self.lr = lr
            self.hparams["lr"] = lr
        if self.branch is not None and self.mixture is not None:
            self.branch.requires_grad_(stage == "both")
            self.mixture.requires_grad_(stage == "both")

    # maps ----------------------------------------------------------------------------------------

    def encode(self, batch: JointBatch) -> Tensor:
        """Return the tokens after interaction, (batch, people + 1, width); the last is joint."""
        if batch.mask.shape[1] and int(batch.action.max()) >= max(1, len(self.actions)):
            raise DataError(
                "an action that the model does not know", expected=f"below {len(self.actions)}",
                found=int(batch.action.max()),
                hint="Read the scenes with actions=model.actions",
            )  # fmt: skip
        people = self.tokens(batch.head, batch.gaze, batch.gazes, batch.action)
        joint = self.joint_token.expand(len(people), 1, -1)
        tokens = torch.cat([people, joint], dim=1)
        mask = F.pad(batch.mask, (0, 1), value=True)
        for layer in self.interaction:
            tokens = layer(tokens, mask)
        return tokens

    @property
    def mix(self) -> tuple[Tensor, Tensor]:
        """Weights of the people and the scene branch; 1 and 0 where the scene is not used."""
        if self.mixture is None or self.stage != "both":
            return self.joint_token.new_tensor(1.0), self.joint_token.new_tensor(0.0)
        people, scene = torch.softmax(self.mixture, dim=0)
        return people, scene

    def forward(self, batch: JointBatch, persons: bool = False) -> JointMaps:
        """Return the maps of a batch; those of persons only where asked for."""
        tokens = self.encode(batch)
        points = cell_centres(self.grid, tokens)
        people = self._people(batch, tokens, points).view(-1, *self.grid)
        own = None
        if persons:
            own = tokens.new_zeros(*batch.mask.shape, *self.grid)
            own[batch.mask] = self._persons(batch, tokens, points).view(-1, *self.grid)
        scene = scene_persons = None
        group = people
        if self.branch is not None and self.stage == "both":
            scene_persons, mean = self._scene(batch)
            scene = at_points(mean, points).view(-1, *self.grid)
            a, b = self.mix
            group = a * people + b * scene
        presence = self.presence(tokens[:, -1])[:, 0]
        return JointMaps(group, people, scene, own, scene_persons, presence)

    def _people(self, batch: JointBatch, tokens: Tensor, points: Tensor) -> Tensor:
        """Return the people branch's group map at points, (batch, q)."""
        found = self.head(tokens[:, -1], points)
        return found if self.relative is None else found + self.relative(tokens, batch, points)

    def _persons(self, batch: JointBatch, tokens: Tensor, points: Tensor) -> Tensor:
        """Return the people branch's map of all who are there at points, (n, q)."""
        own = tokens[:, :-1][batch.mask]
        found = self.head(own, points)
        if self.relative is None:
            return found
        alone = _alone(batch)
        return found + self.relative.persons(own[:, None].expand(-1, 2, -1), alone, points)[:, 0]

    def _scene(self, batch: JointBatch) -> tuple[Tensor, Tensor]:
        assert self.branch is not None
        if batch.features is None:
            raise CapabilityError(
                "the scene branch needs a feature map of each scene: JointScenes.with_features"
            )
        return self.branch(batch.features, batch.head, batch.gaze, batch.gazes, batch.mask)

    # training ------------------------------------------------------------------------------------

    def training_loss(
        self, batch: JointBatch, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Return ``loss`` and its named parts; empty for a batch without scenes.

        `generator` is the source of the random points of `points`.
        """
        if not batch.scene:
            return {}
        tokens = self.encode(batch)
        if self.training and self.points:
            at, weight = sample_points(batch, self.points, self.spread, generator)
        else:
            at = cell_centres(self.grid, tokens)
            weight = at.new_ones(())
        goal = bumps_at(batch, at, self.spread)
        measure = density_loss if self.loss == "density" else squared_loss
        people = self._people(batch, tokens, at)
        parts = {"people": measure(people, goal, weight)}
        loss = parts["people"]
        known = batch.attends[batch.mask] >= 0
        if self.person_weight > 0 and known.any():
            own = self._persons(batch, tokens, cell_centres(self.grid, tokens))[known]
            wanted = person_target_maps(batch, self.grid, self.spread)[batch.mask][known]
            parts["persons"] = measure(own, wanted.flatten(1), weight.new_ones(()))
            loss = loss + self.person_weight * parts["persons"]
        if self.branch is not None and self.stage == "both":
            maps, mean = self._scene(batch)
            a, b = self.mix
            fused = a * people + b * at_points(mean, at)
            parts["fused"] = measure(fused, goal, weight)
            loss = loss + parts["fused"]
            if known.any():
                h, w = maps.shape[-2:]
                spread = (max(self.spread[0], 0.5 / w), max(self.spread[1], 0.5 / h))
                wanted = person_target_maps(batch, (h, w), spread)[batch.mask][known]
                seen = maps[batch.mask][known]
                parts["scene"] = measure(seen.flatten(1), wanted.flatten(1), weight.new_ones(()))
                loss = loss + parts["scene"]
        if self.presence_weight > 0:
            logit = self.presence(tokens[:, -1])[:, 0]
            there = batch.present.to(logit.dtype)
            parts["presence"] = F.binary_cross_entropy_with_logits(logit, there)
            loss = loss + self.presence_weight * parts["presence"]
        return {"loss": loss, **parts}

    def training_step(self, batch: JointBatch, batch_idx: int) -> Tensor | None:
        """Return the loss of a batch, or None where there is nothing to learn from."""
        return self._step(batch, "train")

    def validation_step(self, batch: JointBatch, batch_idx: int) -> None:
        """Log the loss of a batch."""
        self._step(batch, "val")

    def _step(self, batch: JointBatch, part: str) -> Tensor | None:
        generator = torch.Generator(device=batch.size.device)
        step = int(self.trainer.global_step) if self._trainer is not None else 0
        generator.manual_seed((self.seed << 32) + step)
        found = self.training_loss(batch, generator)
        n = len(batch.scene)
        self.log(f"{part}/skipped", float(not found), on_epoch=True, on_step=False,
                 reduce_fx="sum", batch_size=max(1, n))  # fmt: skip
        if not found:
            return None
        check_finite(found, batch.scene)
        for name, value in found.items():
            self.log(f"{part}/{name}", value.detach(), on_epoch=True, on_step=False, batch_size=n)
        return found["loss"]

    def configure_optimizers(self) -> Any:
        """Return AdamW with linear warm-up and cosine decrease, stepped after every epoch."""
        parameters = [p for p in self.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay)
        epochs = max(1, int(self.trainer.max_epochs or 1))

        def factor(epoch: int) -> float:
            if epoch < self.warmup_epochs:
                return (epoch + 1) / (self.warmup_epochs + 1)
            done = (epoch - self.warmup_epochs) / max(1.0, epochs - self.warmup_epochs)
            return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, factor)]

    # predictions ---------------------------------------------------------------------------------

    @torch.no_grad()
    def predict_points(self, scenes: JointScenes, batch_size: int = 64) -> pd.DataFrame:
        """Return where each group looks.

        The highest cell of the grid is looked for first, then the highest point around it.

        Returns
        -------
        DataFrame
            One row per scene: scene, x, y (pixels), peak (confidence there) and presence
            (probability that there is joint attention at all).
        """
        was, rows = self.training, []
        self.eval()
        try:
            for start in range(0, len(scenes), batch_size):
                which = np.arange(start, min(start + batch_size, len(scenes)))
                batch = collate_scenes(scenes, which).to(self.device)
                tokens = self.encode(batch)
                value = self._value(batch, tokens)
                xy, peak = find_peaks(value, len(which), self.grid, tokens)
                peak = self._height(value, peak, tokens)
                xy = xy * batch.size
                chance = torch.sigmoid(self.presence(tokens[:, -1])[:, 0])
                rows.append(torch.cat([xy, peak[:, None], chance[:, None]], 1).double().cpu())
        finally:
            self.train(was)
        table = torch.cat(rows).numpy() if rows else np.zeros((0, 4))
        found = pd.DataFrame(table, columns=["x", "y", "peak", "presence"])
        found.insert(0, "scene", scenes.scene)
        return found

    def _value(self, batch: JointBatch, tokens: Tensor) -> Any:
        a, b = self.mix
        mean = self._scene(batch)[1] if self.branch is not None and self.stage == "both" else None

        def value(points: Tensor) -> Tensor:
            found = self._people(batch, tokens, points)
            return found if mean is None else a * found + b * at_points(mean, points)

        return value

    def _height(self, value: Any, peak: Tensor, like: Tensor) -> Tensor:
        """Return the confidence at the peak: of a density, how many times that of a flat map."""
        if self.loss != "density":
            return peak
        values = value(cell_centres(self.grid, like))
        return torch.exp(peak - torch.logsumexp(values, dim=1) + math.log(values.shape[1]))

    @torch.no_grad()
    def predict_persons(self, scenes: JointScenes, batch_size: int = 64) -> pd.DataFrame:
        """Return where each person looks by the map of the person's token.

        With the published loss (``person_weight=0``) nothing trains these maps by themselves.

        Returns
        -------
        DataFrame
            One row per person: scene, person, x, y (pixels), peak.
        """
        was, rows = self.training, []
        self.eval()
        try:
            for start in range(0, len(scenes), batch_size):
                which = np.arange(start, min(start + batch_size, len(scenes)))
                batch = collate_scenes(scenes, which).to(self.device)
                tokens = self.encode(batch)
                n = int(batch.mask.sum())
                if not n:
                    continue
                value = partial(self._persons, batch, tokens)
                found, peak = find_peaks(value, n, self.grid, tokens)
                peak = self._height(value, peak, tokens)
                size = batch.size[batch.mask.nonzero()[:, 0]]
                rows.append(torch.cat([found * size, peak[:, None]], 1).double().cpu())
        finally:
            self.train(was)
        table = torch.cat(rows).numpy() if rows else np.zeros((0, 3))
        found_table = pd.DataFrame(table, columns=["x", "y", "peak"])
        found_table.insert(0, "person", scenes.person)
        found_table.insert(0, "scene", scenes.scene[scenes.people_of])
        return found_table


def _alone(batch: JointBatch) -> JointBatch:
    """Return every person of a batch as a scene of one."""
    row, column = batch.mask.nonzero(as_tuple=True)

    def one(values: Tensor) -> Tensor:
        return values[row, column][:, None]

    return replace(
        batch,
        scene=[batch.scene[i] for i in row.tolist()],
        size=batch.size[row],
        place=batch.place[row],
        joint=batch.joint[row],
        features=None,
        **{
            n: one(getattr(batch, n))
            for n in ("head", "gaze", "gazes", "action", "mask", "attends")
        },
    )


def map_memory(scenes: int, people: int, points: int, hidden: int, chunk: int) -> dict[str, int]:
    """Return the bytes (float32) that maps take: in training, and at once in prediction.

    Training holds four layers of `hidden` numbers for each (scene, point) of the group maps, and
    nothing for persons unless their loss is used. Prediction holds the maps and, of the layers,
    two for one chunk of (token, point) pairs; it grows with people only by their maps.
    """
    pairs = min(max(chunk, scenes), scenes * points)
    person_pairs = min(max(chunk, scenes * people), scenes * people * points)
    return {
        "training": 4 * scenes * points * (4 * hidden + 1),
        "prediction": 4 * (scenes * points + 2 * pairs * hidden),
        "prediction_persons": 4 * (scenes * people * points + 2 * person_pairs * hidden),
    }
