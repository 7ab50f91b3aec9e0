"""TPP-Gaze: where and for how long people look, as a neural marked temporal point process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.layers.history import GRUHistory, TransformerHistory
from gazeattn.models.layers.mixtures import GaussianMixture, LogNormalMixture, Positions
from gazeattn.models.scanpath._tpp_checkpoint import LoadReport, read_published
from gazeattn.models.scanpath._tpp_readout import PaperReadout, SpatialReadout, View, coarsest
from gazeattn.models.scanpath._tpp_sampling import QUANTILES, Events, draw
from gazeattn.models.scanpath.base import FeatureSpec, Grid, NetworkModel, Path
from gazeattn.registry import register_scanpath_model

__all__ = ["TPPGaze"]

HISTORIES = ("gru", "transformer")
READOUTS = ("spatial", "paper")
HORIZONS = ("stop", "distribution")
TARGET_WIDTH = 64


def _one_of(what: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise UnknownNameError(what, str(value), known)


@register_scanpath_model(
    "tpp_gaze",
    description="Neural temporal point process of fixations: place and duration of the next one",
    citation="D'Amelio et al. 2025, WACV, arXiv:2410.23409",
    needs=("image",),
    kind="network",
)
class TPPGaze(NetworkModel):
    """Density of the next fixation's place and duration given those before it and the picture.

    The published model (``readout="paper", history="gru" | "transformer", glimpse=False,
    truncated=False, horizon=3000``) squeezes the picture to one vector z and predicts both
    mixtures from [history; z]. The default reads the picture as a map: each cell carries one
    Gaussian of the position's mixture (`SpatialReadout`).

    Likelihood. With ``truncated=True`` positions have the mixture's density divided by its mass on
    the picture, a proper density of what can be observed; with False the mixture of the whole
    plane, as published. `log_density` and `sample` are of the picture in both cases: cells hold
    exact masses that sum to 1, and positions are drawn from the truncated density, so none is
    ever clipped. Durations that are missing or not above 0 are left out of the loss and counted
    (`missing` among the parts of the loss); they enter the history as a typical duration.

    Parameters
    ----------
    history : {"gru", "transformer"}
    readout : {"spatial", "paper"}
    width, picture_width
        Of the history and of z.
    layers, heads, inner, dropout
        Of the transformer.
    time_components, position_components
        Components of both mixtures (those of the position with the "paper" readout).
    maps, key_width, feature_dropout
        Of the "spatial" readout.
    glimpse
        Whether the history also sees the picture where it was fixated, whether a duration was
        missing, the time and the number of fixations so far.
    horizon : {"stop", "distribution"} or float
        When a sampled scanpath ends. "stop": a learned probability of ending after each fixation,
        given history, elapsed time and number. "distribution": the sum of durations passes a time
        drawn, for each scanpath, from the sums of the training scanpaths; the crossing fixation is
        kept if that is nearer to the time drawn. A number: milliseconds of fixations; the
        crossing fixation is dropped (published), unless it is the only one.
    viewing_time
        Milliseconds until the stimulus went, on the clock of the durations; 0 is unknown.
    survival
        Adds the probability that no further fixation ended before `viewing_time`: a fixation that
        ends there counts as cut off, not as complete.
    truncated
        See above.
    temperature
        Multiplies the log-scale of drawn positions in [-1, 1] units ("paper" readout); the
        published configuration has 2. 1 draws from what was learned.
    radius_from
        See `add_coordinates`; 0.5 is needed for published weights.
    targets
        Names of search targets, each a learned vector. A stimulus without a target has its own.
    target_width
        Length of the vector in ``features["target"]``, such as a sentence embedding of the
        target; 0 if there is none.
    backbone, image_size, strides, channels
        Of the features.
    """

    durations: ClassVar[bool] = True
    density: ClassVar[bool] = True
    whole_stimuli: ClassVar[bool] = True
    log_mean: Tensor
    log_sd: Tensor
    totals: Tensor
    longest: Tensor

    def __init__(
        self,
        *,
        channels: Mapping[str, int],
        history: str = "gru",
        readout: str = "spatial",
        width: int = 256,
        picture_width: int = 256,
        layers: int = 4,
        heads: int = 4,
        inner: int = 1024,
        dropout: float = 0.4,
        time_components: int = 4,
        position_components: int = 16,
        maps: int = 64,
        key_width: int = 32,
        feature_dropout: float = 0.2,
        glimpse: bool = True,
        horizon: str | float = "stop",
        viewing_time: float = 0.0,
        survival: bool = False,
        truncated: bool = True,
        temperature: float = 1.0,
        radius_from: float = 0.5,
        targets: Sequence[str] = (),
        target_width: int = 0,
        backbone: str = "efficientnet_lite0",
        image_size: Sequence[int] = (512, 512),
        strides: Sequence[int] = (16, 32),
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        warmup_epochs: float = 1.0,
    ) -> None:
        super().__init__(lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs)
        channels = {str(k): int(v) for k, v in channels.items() if str(k).startswith("stride")}
        targets, strides = list(targets), [int(s) for s in strides]
        image_size = [int(v) for v in image_size]
        self.save_hyperparameters()
        _one_of("history", history, HISTORIES)
        _one_of("readout", readout, READOUTS)
        if isinstance(horizon, str):
            _one_of("horizon", horizon, HORIZONS)
        elif not horizon > 0:
            raise DataError("horizon must be above 0 ms", found=str(horizon))
        if survival and not viewing_time > 0:
            raise DataError("survival needs the viewing_time", found=str(viewing_time))
        if not channels:
            raise DataError("channels names no map of the backbone", expected="{'stride32': 320}")
        self.feature_spec = FeatureSpec(backbone, (image_size[0], image_size[1]), tuple(strides))
        self.readout_name, self.horizon, self.truncated = readout, horizon, truncated
        self.survival, self.viewing_time = survival, float(viewing_time)
        self.temperature, self.glimpse = float(temperature), bool(glimpse)
        self.targets, self.target_width = targets, int(target_width)
        conditioned = TARGET_WIDTH if targets or target_width else 0
        self.target_table = nn.Embedding(len(targets) + 1, TARGET_WIDTH) if targets else None
        self.target_vector = (
            nn.Sequential(nn.Linear(target_width, TARGET_WIDTH), nn.GELU())
            if target_width
            else None
        )
        context = width + picture_width
        local = 16
        finest = min(int(k.removeprefix("stride")) for k in channels)
        self.readout: PaperReadout | SpatialReadout
        if readout == "paper":
            name = coarsest(channels)
            stride = int(name.removeprefix("stride"))
            cells = -(-image_size[0] // stride) * -(-image_size[1] // stride)
            self.readout = PaperReadout(
                channels[name], cells, picture_width, conditioned, radius_from=radius_from
            )
            self.map_name, local = name, 0
            self.position = nn.Linear(context, 5 * position_components)
        else:
            grid = (-(-image_size[1] // finest), -(-image_size[0] // finest))
            self.readout = SpatialReadout(
                channels, grid, picture_width, context, conditioned, maps, key_width, local,
                feature_dropout,
            )  # fmt: skip
        self.components = position_components
        inputs = 3 + (3 + local if self.glimpse else 0)
        self.history: GRUHistory | TransformerHistory
        if history == "gru":
            self.history = GRUHistory(inputs, width)
        else:
            self.history = TransformerHistory(inputs, width, layers, heads, inner, dropout)
        self.time_components = time_components
        self.time = nn.Linear(context, 3 * time_components)
        self.stop = (
            nn.Sequential(nn.Linear(context + 12, 64), nn.GELU(), nn.Linear(64, 1))
            if horizon == "stop"
            else None
        )
        # those of the paper until `fit_statistics` has seen durations; durations here are in ms
        self.register_buffer("log_mean", torch.tensor(-1.51261 + math.log(1000.0)))
        self.register_buffer("log_sd", torch.tensor(0.58917))
        self.register_buffer("totals", torch.full((QUANTILES,), float("nan")))
        self.register_buffer("longest", torch.tensor(0))

    # --- what is taken from the training part -------------------------------------------------

    def fit_statistics(self, train: Scanpaths) -> None:
        """Take the scale of log-durations, the sums of durations, and the scale of features."""
        good = np.isfinite(train.duration) & (train.duration > 0)
        if good.any():
            log = np.log(train.duration[good])
            self.log_mean.fill_(float(log.mean()))
            self.log_sd.fill_(max(float(log.std()), 1e-3))
            typical = float(np.exp(log.mean()))
            lasted = np.where(good, train.duration, typical)
            totals = np.add.reduceat(lasted, train.starts[:-1])
            at = np.quantile(totals, np.linspace(0, 1, QUANTILES))
            self.totals.copy_(torch.from_numpy(at))
        self.longest.fill_(int(train.lengths.max(initial=1)))
        if isinstance(self.readout, SpatialReadout):
            relative = torch.from_numpy(train.relative).float()
            self.readout.fit_bias(relative.to(self.readout.bias.device))
            pictures = [s.features for s in train.stimuli.values() if s.features]
            for name in self.readout.names if pictures else ():
                sums = torch.stack([p[name].float().mean((1, 2)) for p in pictures])
                squares = torch.stack([p[name].float().square().mean((1, 2)) for p in pictures])
                mean = sums.mean(0)
                self.readout.fit(name, mean, (squares.mean(0) - mean.square()).clamp_min(0).sqrt())

    # --- the picture -------------------------------------------------------------------------

    def _target(self, stimuli: Sequence[Stimulus], features: Mapping[str, Tensor]) -> Tensor | None:
        found: Tensor | None = None
        if self.target_table is not None:
            known = {name: i + 1 for i, name in enumerate(self.targets)}
            for s in stimuli:
                if s.target is not None and s.target not in known:
                    raise UnknownNameError("target", s.target, self.targets)
            at = [0 if s.target is None else known[s.target] for s in stimuli]
            found = self.target_table(torch.tensor(at, device=self.device))
        if self.target_vector is not None:
            if "target" not in features:
                raise DataError(
                    "stimuli have no vector of their target", expected="features['target']"
                )
            vector = self.target_vector(features["target"])
            found = vector if found is None else found + vector
        return found

    def look(self, stimuli: Sequence[Stimulus], features: Mapping[str, Tensor]) -> View:
        """Return what the readout sees in distinct stimuli, one row each."""
        wanted = [self.map_name] if isinstance(self.readout, PaperReadout) else self.readout.names
        for name in wanted:
            if name not in features:
                raise DataError(
                    f"stimuli have no features {name!r}", expected=", ".join(wanted),
                    found=", ".join(features) or "none",
                )  # fmt: skip
        size = torch.tensor([s.size for s in stimuli], dtype=torch.float32, device=self.device)
        aspect = size / size.prod(1, keepdim=True).sqrt()
        target = self._target(stimuli, features)
        if isinstance(self.readout, PaperReadout):
            return self.readout(features[self.map_name], aspect, target)
        return self.readout(features, aspect, target)

    # --- the history -------------------------------------------------------------------------

    def _events(self, duration: Tensor, mask: Tensor) -> Events:
        known = mask & torch.isfinite(duration) & (duration > 0)
        typical = self.log_mean.exp()
        lasted = torch.where(known, duration, typical)
        log = torch.where(known, (lasted.log() - self.log_mean) / self.log_sd, 0.0)
        elapsed = torch.where(mask, lasted, 0.0).cumsum(1) / 1000
        return Events(log, known, elapsed)

    def _inputs(self, view: View, xy: Tensor, events: Events, first: int = 0) -> Tensor:
        """Return what the history is fed, (batch, length, inputs)."""
        plain = torch.cat([events.log[..., None], 2 * xy - 1], -1)
        if not self.glimpse:
            return plain
        number = torch.arange(xy.shape[1], device=xy.device).expand(xy.shape[:2]) + first
        more = [plain, torch.stack([(~events.known).float(), events.elapsed, number / 10], -1)]
        if view.local is not None:
            seen = F.grid_sample(
                view.local, (2 * xy - 1)[:, :, None], padding_mode="border", align_corners=False
            )
            more.append(seen.squeeze(-1).transpose(1, 2))
        return torch.cat(more, -1)

    def _stop_logit(self, context: Tensor, events: Events, first: int = 0) -> Tensor:
        """Return the log-odds of ending after each fixation, from the contexts that know it."""
        assert self.stop is not None
        elapsed, number = events.elapsed, torch.arange(
            1, context.shape[1] + 1, device=context.device
        ).expand_as(events.elapsed) + first  # fmt: skip
        centres = torch.linspace(0.4, 1.6, 8, device=context.device)
        typical = self.totals.nanmedian() / 1000
        share = elapsed / torch.where(torch.isfinite(typical), typical, elapsed.new_tensor(1.0))
        bumps = torch.exp(-0.5 * ((share[..., None] - centres) / 0.12) ** 2)
        plain = torch.stack([share, share.square(), number / 10, share * number / 10], -1)
        return self.stop(torch.cat([context, plain, bumps], -1)).squeeze(-1)

    # --- the mixtures -------------------------------------------------------------------------

    def _times(self, context: Tensor) -> LogNormalMixture:
        mean, log_sd, weight = self.time(context).unflatten(-1, (3, -1)).unbind(-2)
        return LogNormalMixture(
            weight.log_softmax(-1),
            self.log_sd * mean + self.log_mean,
            log_sd.clamp(-5.0, 3.0) + self.log_sd.log(),
        )

    def _paper_positions(self, context: Tensor, temperature: float = 1.0) -> GaussianMixture:
        mean, log_sd, weight = self.position(context).split(
            [2 * self.components, 2 * self.components, self.components], -1
        )
        mean = mean.unflatten(-1, (-1, 2)).tanh()
        log_sd = log_sd.unflatten(-1, (-1, 2)).clamp(-5.0, 3.0) * temperature
        # the network speaks of [-1, 1], everything else of shares of the stimulus
        return GaussianMixture(weight.log_softmax(-1), (mean + 1) / 2, log_sd - math.log(2.0))

    def _teach(
        self, batch: ScanpathBatch
    ) -> tuple[View, Tensor, Tensor, Events, Positions, LogNormalMixture]:
        rows = self.look(batch.stimuli, batch.features)
        view = rows.of(batch.which)
        events = self._events(batch.duration, batch.mask)
        history = self.history(self._inputs(view, batch.xy, events), self._clock(events))
        context = torch.cat([history, view.z[:, None].expand(-1, history.shape[1], -1)], -1)
        before = context[:, :-1]
        positions: Positions
        if isinstance(self.readout, SpatialReadout):
            bumps = self.readout.bumps_around(view, batch.xy)
            positions = self.readout.mixture(view, before, bumps, batch.xy)
        else:
            positions = self._paper_positions(before)
        return view, before, context[:, 1:], events, positions, self._times(before)

    def _clock(self, events: Events) -> Tensor:
        # published: the normalised log-duration; with a glimpse the time that has passed
        return 10 * events.elapsed if self.glimpse else events.log

    def _log_position(self, mixture: Positions, xy: Tensor) -> Tensor:
        value = mixture.log_prob(xy)
        return value - mixture.log_inside() if self.truncated else value

    def _log_durations(
        self, times: LogNormalMixture, known: Tensor, batch: ScanpathBatch,
        events: Events,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Return the terms of each duration (0 where unknown), and those of survival, (batch,)."""
        duration = torch.where(events.known, batch.duration, 100.0)
        term = torch.where(events.known, times.log_prob(duration), 0.0)
        survived = term.new_zeros(len(term))
        if not self.survival:
            return term, survived
        whole = events.known.sum(1) == batch.mask.sum(1)  # the clock is known
        end = torch.where(batch.mask, duration, 0.0).cumsum(1)
        start, left = end - duration, self.viewing_time - end
        cut = events.known & whole[:, None] & (left <= 0)
        seen = (self.viewing_time - start).clamp_min(1.0)
        term = torch.where(cut, times.log_survival(seen), term)
        # what began at or after the end is no part of the viewing
        term = torch.where(cut & (start >= self.viewing_time), 0.0, term)
        last = (batch.mask.sum(1) - 1).clamp_min(0)[:, None]
        rest = left.gather(1, last).squeeze(1)
        open_ended = whole & (rest > 0) & batch.mask.any(1)
        unseen = self._times(known).log_survival(rest.clamp_min(1.0)[:, None].expand_as(duration))
        return term, torch.where(open_ended, unseen.gather(1, last).squeeze(1), survived)

    def log_likelihood(self, batch: ScanpathBatch) -> dict[str, Tensor]:
        """Return the log-likelihood of every fixation given those before it.

        Returns
        -------
        dict
            ``position`` (batch, length): nats per unit share area. ``duration`` (batch, length):
            nats per ms, NaN where the duration is missing or not above 0. With a learned stop
            ``stop`` (batch, length): nats of having ended or gone on after the fixation. With
            `survival` also ``survival`` (batch,). Padding is NaN.
        """
        _, _, known, events, positions, times = self._teach(batch)
        nothing = torch.tensor(float("nan"), device=batch.xy.device)
        term, survived = self._log_durations(times, known, batch, events)
        found = {
            "position": torch.where(batch.mask, self._log_position(positions, batch.xy), nothing),
            "duration": torch.where(events.known, term, nothing),
        }
        if self.stop is not None:
            found["stop"] = torch.where(
                batch.mask, self._log_stop(self._stop_logit(known, events), batch.mask), nothing
            )
        if self.survival:
            found["survival"] = survived
        return found

    @staticmethod
    def _log_stop(logit: Tensor, mask: Tensor) -> Tensor:
        length = mask.sum(1, keepdim=True)
        ended = torch.arange(1, mask.shape[1] + 1, device=mask.device) == length
        return F.logsigmoid(torch.where(ended, logit, -logit))

    def training_loss(self, batch: ScanpathBatch) -> dict[str, Tensor]:
        """Return the negative log-likelihood per fixation and its parts."""
        count = int(batch.mask.sum())
        if count == 0:
            return {}
        found = self.log_likelihood(batch)
        known = torch.isfinite(batch.duration) & (batch.duration > 0) & batch.mask
        parts = {"position": -found["position"][batch.mask].sum() / count}
        if bool(known.any()):
            parts["duration"] = -found["duration"][known].mean()
        if "stop" in found:
            parts["stop"] = -found["stop"][batch.mask].sum() / count
        if "survival" in found:
            parts["survival"] = -found["survival"].sum() / count
        missing = 1 - known.sum() / count
        return {"loss": torch.stack(list(parts.values())).sum(), **parts, "missing": missing}

    @torch.no_grad()
    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the exact log-mass of every cell for every fixation; see `ScanpathModel`."""
        was, rows, columns = self.training, *grid
        self.eval()
        try:
            positions = self._teach(batch)[4]
            if isinstance(positions, GaussianMixture):
                return positions.cell_log_mass(rows, columns)
            # one scanpath at a time: the masses of all cells and fixations would not fit
            maps = [positions[i].cell_log_mass(rows, columns) for i in range(len(batch.trial))]
            return torch.stack(maps)
        finally:
            self.train(was)

    # --- draws --------------------------------------------------------------------------------

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths, all in one loop over fixations; the picture is read once.

        Every step takes the same number of chance values for all `n`, also for those that have
        ended. Positions are drawn from the density truncated to the stimulus.
        """
        features = {k: v[None].float().to(self.device) for k, v in stimulus.features.items()}
        was = self.training
        self.eval()
        try:
            with torch.no_grad():
                xy, duration, lengths = draw(self, stimulus, features, n, generator)
        finally:
            self.train(was)
        values = torch.cat([xy * torch.tensor(stimulus.size), duration[..., None]], -1).numpy()
        return [values[i, : int(lengths[i])].copy() for i in range(n)]

    # --- published weights ---------------------------------------------------------------------

    def load_published(self, path: str | FilePath) -> LoadReport:
        """Load weights published with the paper into a model of the published architecture.

        Raises
        ------
        DataError
            A weight is missing, unexpected or of another shape, or this model is another one.
        """
        return read_published(self, path)
