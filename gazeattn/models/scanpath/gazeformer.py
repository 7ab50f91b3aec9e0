"""Gazeformer: a whole scanpath decoded at once, one learned slot per fixation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.layers.mixtures import GaussianMixture, LogNormalMixture
from gazeattn.models.layers.positions import grid_code
from gazeattn.models.scanpath.base import FeatureSpec, Grid, NetworkModel, Path
from gazeattn.models.scanpath.uniform import BELOW_ONE
from gazeattn.registry import register_scanpath_model

__all__ = ["Gazeformer", "expected_l1"]

LOSSES = ("likelihood", "l1")
MARGIN = 0.1
"""Means of places lie at most this share of the stimulus beside it."""
NARROWEST = 0.005
"""Smallest standard deviation of a place, as a share of the stimulus."""
FEW = 20.0
"""Statistics of a slot count as if it had this many more fixations, like those of all slots."""


def expected_l1(difference: Tensor, sd: Tensor) -> Tensor:
    """Return E|difference + sd * noise| for standard normal noise, elementwise.

    What a loss that draws one sample by reparameterisation estimates, without its chance.
    """
    z = difference / sd
    return sd * math.sqrt(2 / math.pi) * (-0.5 * z * z).exp() + difference * torch.erf(
        z / math.sqrt(2)
    )


@dataclass(frozen=True)
class _Slots:
    """What the slots say of pictures, or of scanpaths; leading dimensions (n, slots)."""

    place: GaussianMixture
    time: LogNormalMixture
    follows: Tensor  # log-odds of one more fixation in this slot, given one in the slot before

    def at(self, which: Tensor, slot: Tensor) -> _Slots:
        """Return the rows of scanpaths (n,) and their slots (length,)."""
        pair = (which[:, None], slot[None])
        place = GaussianMixture(*(v[pair] for v in vars(self.place).values()))
        time = LogNormalMixture(*(v[pair] for v in vars(self.time).values()))
        return _Slots(place, time, self.follows[pair])


@register_scanpath_model(
    "gazeformer",
    description="transformer that decodes all fixations of a scanpath in parallel slots",
    citation="Mondal et al. 2023, CVPR, arXiv:2303.15274",
    needs=("image",),
    kind="network",
)
class Gazeformer(NetworkModel):
    """Place, duration and existence of fixation i from the picture, the task and i alone.

    Patches of a frozen backbone's map pass a transformer encoder; each is joined with the task's
    vector by a linear layer; learned slots attend to them and to each other in a decoder. A slot
    has a Gaussian over x and y, cut off at the borders of the stimulus, a log-normal duration,
    and the probability that there is such a fixation at all, given the one before.

    **No history.** Slots do not see where people looked: `log_density` of fixation i is that of
    slot i, whatever fixations 0..i-1 were, and places of a drawn scanpath are independent given
    the picture. Return, inhibition and the size of steps come only from the order of slots.
    Fixations beyond the last slot share its density; drawn scanpaths end there at the latest.

    Loss. ``"likelihood"`` is the negative log-likelihood of the densities above. ``"l1"`` is the
    published one, the distance of a sample ``mean + sd * noise``; its expectation over the noise
    is used in closed form. Noise only ever adds to that distance, so it drives every ``sd`` to
    its floor and leaves no useful density: for comparison only. In both the number of fixations
    is learned by the chance of going on, from slots up to the first empty one; padding enters no
    loss. Missing durations are left out and counted (``missing``).

    The first fixation is predicted like all others and not set to the centre. One learning rate
    and layer normalisation before each block are used where the published training has three
    rates and normalises after.

    Parameters
    ----------
    slots
        Most fixations of a drawn scanpath.
    components
        Gaussians of a slot's place; the published model has one.
    width, heads, inner, encoder_layers, decoder_layers
        Of the transformer.
    dropout, decoder_dropout, head_dropout
        Of encoder, decoder, and before the last linear layers.
    loss : {"likelihood", "l1"}
    targets
        Names of search targets, each a learned vector; free viewing has its own.
    target_width
        Length of the vector in ``features["target"]``, such as a sentence embedding of the
        target; 0 if there is none.
    backbone, image_size, strides, channels
        Of the features. One stride.
    """

    durations: ClassVar[bool] = True
    density: ClassVar[bool] = True
    whole_stimuli: ClassVar[bool] = True

    feature_mean: Tensor
    feature_sd: Tensor
    place_mean: Tensor
    place_sd: Tensor
    log_mean: Tensor
    log_sd: Tensor
    prior: Tensor

    def __init__(
        self,
        *,
        channels: Mapping[str, int],
        slots: int = 16,
        components: int = 1,
        width: int = 512,
        heads: int = 8,
        inner: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        dropout: float = 0.1,
        decoder_dropout: float = 0.2,
        head_dropout: float = 0.4,
        loss: str = "likelihood",
        targets: Sequence[str] = (),
        target_width: int = 0,
        backbone: str = "efficientnet_lite0",
        image_size: Sequence[int] = (512, 512),
        strides: Sequence[int] = (32,),
        lr: float = 1e-4,
        weight_decay: float = 0.01,
        warmup_epochs: float = 1.0,
    ) -> None:
        super().__init__(lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs)
        channels = {str(k): int(v) for k, v in channels.items() if str(k).startswith("stride")}
        targets, strides = list(targets), [int(s) for s in strides]
        image_size = [int(v) for v in image_size]
        self.save_hyperparameters()
        if loss not in LOSSES:
            raise UnknownNameError("loss", loss, LOSSES)
        if loss == "l1" and components != 1:
            raise DataError(
                'loss="l1" has no weights of components', expected="components=1", found=components
            )
        if slots < 1 or components < 1:
            raise DataError("slots and components are 1 or more", found=f"{slots}, {components}")
        if len(channels) != 1:
            raise DataError(
                "one map of a backbone is wanted", expected="channels={'stride32': 320}",
                found=str(channels),
            )  # fmt: skip
        self.feature_spec = FeatureSpec(backbone, (image_size[0], image_size[1]), tuple(strides))
        self.slots, self.components, self.loss_name = int(slots), int(components), loss
        self.targets, self.target_width = targets, int(target_width)
        ((self.map_name, depth),) = channels.items()
        self.project = nn.Linear(depth, width)
        self.project_dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, inner, dropout, batch_first=True, norm_first=True
            )
            for _ in range(encoder_layers)
        )
        self.tasks = nn.Embedding(len(targets) + 1, width)  # row 0 is free viewing
        self.task_vector = nn.Linear(target_width, width) if target_width else None
        self.encoded = nn.LayerNorm(width)
        self.join = nn.Linear(2 * width, width)
        self.queries = nn.Parameter(torch.randn(self.slots, width) * width**-0.5)
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(
                width, heads, inner, decoder_dropout, batch_first=True, norm_first=True
            )
            for _ in range(decoder_layers)
        )
        self.decoded = nn.LayerNorm(width)
        self.head_dropout = nn.Dropout(head_dropout)
        self.place_head = nn.Linear(width, 5 * self.components)
        self.time_head = nn.Linear(width, 2)
        self.follows_head = nn.Linear(width, 1)
        for head in (self.place_head, self.time_head, self.follows_head):
            nn.init.normal_(head.weight, std=0.2 * width**-0.5)
            nn.init.zeros_(head.bias)
        if self.components > 1:  # equal components would stay equal
            nn.init.normal_(self.place_head.bias[: 3 * self.components])
            nn.init.zeros_(self.place_head.bias[: self.components])
        self.register_buffer("feature_mean", torch.zeros(depth))
        self.register_buffer("feature_sd", torch.ones(depth))
        self.register_buffer("place_mean", torch.full((self.slots, 2), 0.5))
        self.register_buffer("place_sd", torch.full((self.slots, 2), 0.25))
        self.register_buffer("log_mean", torch.full((self.slots,), math.log(250.0)))
        self.register_buffer("log_sd", torch.full((self.slots,), 0.6))
        self.register_buffer("prior", torch.zeros(self.slots))

    # --- what is taken from the training part -------------------------------------------------

    def fit_statistics(self, train: Scanpaths) -> None:
        """Take the scales of features, and what each slot's outputs are relative to.

        That is mean and spread of the places and log-durations of fixation i, and how often there
        is one more, over all training pictures.
        """
        pictures = [s.features for s in train.stimuli.values() if s.features]
        if pictures:
            means = torch.stack([p[self.map_name].float().mean((1, 2)) for p in pictures])
            squares = torch.stack(
                [p[self.map_name].float().square().mean((1, 2)) for p in pictures]
            )
            mean = means.mean(0)
            self.feature_mean.copy_(mean)
            spread = (squares.mean(0) - mean.square()).clamp_min(0).sqrt()
            self.feature_sd.copy_(spread.clamp_min(1e-3))
        slot = np.arange(len(train.x)) - np.repeat(train.starts[:-1], train.lengths)
        slot = np.minimum(slot, self.slots - 1)
        good = np.isfinite(train.duration) & (train.duration > 0)
        log = np.log(np.where(good, train.duration, 1.0))
        for axis in (0, 1):
            mean_, sd_ = self._by_slot(train.relative[:, axis], slot)
            self.place_mean[:, axis].copy_(mean_)
            self.place_sd[:, axis].copy_(sd_.clamp_min(2 * NARROWEST))
        if good.any():
            mean_, sd_ = self._by_slot(log[good], slot[good])
            self.log_mean.copy_(mean_)
            self.log_sd.copy_(sd_.clamp_min(1e-2))
        at = np.arange(self.slots)[:, None]
        before = (train.lengths >= at).sum(1)  # scanpaths with a fixation in the slot before
        after = (train.lengths > at).sum(1)
        share = (after + 0.5) / (before + 1.0)
        self.prior.copy_(torch.from_numpy(np.log(share / (1 - share))))

    def _by_slot(self, values: np.ndarray, slot: np.ndarray) -> tuple[Tensor, Tensor]:
        n = np.bincount(slot, minlength=self.slots)
        total = np.bincount(slot, values, minlength=self.slots)
        mean = (total + FEW * values.mean()) / (n + FEW)
        off = np.bincount(slot, (values - mean[slot]) ** 2, minlength=self.slots)
        variance = (off + FEW * values.var()) / (n + FEW)
        return torch.from_numpy(mean).float(), torch.from_numpy(np.sqrt(variance)).float()

    # --- the picture --------------------------------------------------------------------------

    def _task(self, stimuli: Sequence[Stimulus], features: Mapping[str, Tensor]) -> Tensor:
        known = {name: i + 1 for i, name in enumerate(self.targets)}
        for s in stimuli:
            if known and s.target is not None and s.target not in known:
                raise UnknownNameError("target", s.target, self.targets)
        at = [known.get(s.target, 0) if s.target is not None else 0 for s in stimuli]
        task = self.tasks(torch.tensor(at, device=self.device))
        if self.task_vector is not None:
            if "target" not in features:
                raise DataError(
                    "stimuli have no vector of their target", expected="features['target']"
                )
            task = task + self.task_vector(features["target"])
        return task

    def look(self, stimuli: Sequence[Stimulus], features: Mapping[str, Tensor]) -> _Slots:
        """Return what the slots say of distinct stimuli, one row each."""
        if self.map_name not in features:
            raise DataError(
                f"stimuli have no features {self.map_name!r}",
                found=", ".join(features) or "none",
            )
        maps = features[self.map_name]
        n, _, rows, columns = maps.shape
        patches = (maps.flatten(2).transpose(1, 2) - self.feature_mean) / self.feature_sd
        x = self.project_dropout(self.project(patches))
        code = grid_code(rows, columns, x.shape[-1]).flatten(0, 1).to(x)
        x = x + code
        for layer in self.encoder:
            x = layer(x)
        task = self._task(stimuli, features)[:, None].expand(-1, x.shape[1], -1)
        # the place of a patch is told again, else the slots would know only what the encoder kept
        memory = F.relu(self.join(torch.cat([self.encoded(x), task], -1))) + code
        found = self.queries.expand(n, -1, -1)
        for layer in self.decoder:
            found = layer(found, memory)
        return self._read(self.head_dropout(self.decoded(found)))

    def _read(self, found: Tensor) -> _Slots:
        """Turn decoded slots (n, slots, width) into distributions."""
        k = self.components
        weights, mean, scale = self.place_head(found).split([k, 2 * k, 2 * k], -1)
        mean, scale = mean.unflatten(-1, (k, 2)), scale.unflatten(-1, (k, 2))
        span = 1 + 2 * MARGIN
        usual = torch.logit((self.place_mean + MARGIN) / span)[:, None]
        mean = span * torch.sigmoid(usual + mean) - MARGIN
        # softly bounded to a factor of about 20 around what is usual
        log_sd = self.place_sd.log()[:, None] + 3 * torch.tanh(scale / 3)
        place = GaussianMixture(
            weights.log_softmax(-1), mean, log_sd.clamp_min(math.log(NARROWEST))
        )
        shift, stretch = self.time_head(found).split(1, -1)
        time = LogNormalMixture(
            torch.zeros_like(shift),
            self.log_mean[:, None] + self.log_sd[:, None] * shift,
            self.log_sd.log()[:, None] + 3 * torch.tanh(stretch / 3),
        )
        return _Slots(place, time, self.prior + self.follows_head(found)[..., 0])

    def _slot(self, length: int) -> Tensor:
        return torch.arange(length, device=self.device).clamp_max(self.slots - 1)

    # --- learning -----------------------------------------------------------------------------

    def training_loss(self, batch: ScanpathBatch) -> dict[str, Tensor]:
        """Return the loss per fixation and its parts; see `NetworkModel`."""
        count = batch.mask.sum()
        if int(count) == 0:
            return {}
        seen = self.look(batch.stimuli, batch.features)
        slots = seen.at(batch.which, self._slot(batch.mask.shape[1]))
        known = batch.mask & torch.isfinite(batch.duration) & (batch.duration > 0)
        duration = torch.where(known, batch.duration, slots.time.mean.detach()[..., 0].exp())
        if self.loss_name == "l1":
            position = expected_l1(
                slots.place.mean[..., 0, :] - batch.xy, slots.place.log_sd[..., 0, :].exp()
            ).sum(-1)
            sd = self.log_sd[self._slot(batch.mask.shape[1])]
            off = (slots.time.mean[..., 0] - duration.log()) / sd
            lasting = expected_l1(off, slots.time.log_sd[..., 0].exp() / sd)
        else:
            position = slots.place.log_inside() - slots.place.log_prob(batch.xy)
            lasting = -slots.time.log_prob(duration)
        length = batch.lengths[:, None]
        number = torch.arange(1, self.slots, device=self.device)
        ends = F.binary_cross_entropy_with_logits(
            seen.follows[batch.which, 1:], (number < length).float(), reduction="none"
        )
        parts = {
            "position": torch.where(batch.mask, position, 0.0).sum() / count,
            "duration": torch.where(known, lasting, 0.0).sum() / known.sum().clamp_min(1),
            "end": torch.where(number <= length, ends, 0.0).sum() / count,
        }
        missing = (count - known.sum()).float() / count
        return {"loss": torch.stack(list(parts.values())).sum(), **parts, "missing": missing}

    @torch.no_grad()
    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the exact log-mass of every cell for every fixation; see `ScanpathModel`.

        It is that of the fixation's slot and not conditioned on the fixations before.
        """
        was = self.training
        self.eval()
        try:
            maps = self.look(batch.stimuli, batch.features).place.cell_log_mass(*grid)
        finally:
            self.train(was)
        return maps[batch.which[:, None], self._slot(batch.mask.shape[1])[None]]

    # --- draws --------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths, all slots of all of them at once; the picture is read once.

        Places are drawn from the density cut off at the borders, so none is ever clipped.
        """
        features = {k: v[None].float().to(self.device) for k, v in stimulus.features.items()}
        was = self.training
        self.eval()
        try:
            one = self.look([stimulus], features)
        finally:
            self.train(was)
        every = torch.zeros(n, dtype=torch.int64, device=self.device)
        slots = one.at(every, torch.arange(self.slots, device=self.device))
        xy = slots.place.sample(generator).cpu().clamp_max(BELOW_ONE)
        duration = slots.time.sample(generator).double().cpu()
        chance = slots.follows[:, 1:].double().sigmoid().cpu()
        u = torch.rand(n, self.slots - 1, generator=generator, dtype=torch.float64)
        lengths = 1 + (u < chance).long().cumprod(1).sum(1)
        pixels = xy * torch.tensor(stimulus.size, dtype=torch.float64)
        values = torch.cat([pixels, duration[..., None]], -1).numpy()
        return [values[i, : int(lengths[i])].copy() for i in range(n)]
