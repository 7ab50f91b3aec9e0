"""A model in the manner of DeepGaze III: saliency from the picture, modulated by the history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import DataError
from gazeattn.models.layers.coordconv import cell_centres
from gazeattn.models.scanpath.base import FeatureSpec, Grid, NetworkModel, Path
from gazeattn.models.scanpath.center_bias import CenterBias, cell_of, draw_cells, resample
from gazeattn.models.scanpath.uniform import as_paths, need_fit
from gazeattn.registry import register_scanpath_model

__all__ = ["DeepGaze3"]

LONGEST = 1024
"""Training scanpaths with more fixations than this are refused."""


class _Layer(nn.Module):
    """Layer normalisation over all channels and cells, then a convolution of one pixel.

    The gain and shift per channel that normalisation usually has are left out: the convolution
    after it already has them.
    """

    def __init__(self, inputs: int, outputs: int, norm: bool = True, bias: bool = True) -> None:
        super().__init__()
        self.norm = norm
        self.convolution = nn.Conv1d(inputs, outputs, 1, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, outputs, cells) of (n, inputs, cells)."""
        return self.convolution(F.layer_norm(x, x.shape[1:]) if self.norm else x)


@dataclass(frozen=True)
class _View:
    """Distinct stimuli, one row each.

    Attributes
    ----------
    saliency : Tensor, shape (n_stimuli, selection[0], cells)
        What the picture adds to the first layer of the selection network.
    across, down : Tensor, shape (n_stimuli, fine columns or rows, same)
        The blur along each axis.
    aspect : Tensor, shape (n_stimuli, 2)
        Width and height, in sides of a square with the area of the stimulus.
    """

    saliency: Tensor
    across: Tensor
    down: Tensor
    aspect: Tensor


@dataclass(frozen=True)
class _History:
    """The last fixations before each of some fixations, latest first.

    Attributes
    ----------
    xy : Tensor, shape (n, lags, 2)
        Shares of the stimulus; anything where there is none.
    there : Tensor of bool, shape (n, lags)
    which : Tensor of int64, shape (n,)
        Row of the stimulus.
    """

    xy: Tensor
    there: Tensor
    which: Tensor

    def __len__(self) -> int:
        return len(self.which)

    def rows(self, part: slice) -> _History:
        """Return some of them."""
        return replace(self, xy=self.xy[part], there=self.there[part], which=self.which[part])


@register_scanpath_model(
    "deepgaze3",
    description="density of the next fixation from a saliency map and the last four fixations",
    citation="Kümmerer, Bethge & Wallis 2022, Journal of Vision 22(5):7",
    needs=("image",),
    kind="network",
)
class DeepGaze3(NetworkModel):
    """Where the next fixation lands, given the picture and the last fixations.

    Maps of a frozen backbone are brought to one grid and read out by convolutions of one pixel to
    one map. A scanpath network sees, for each cell and each of the last `lags` fixations, the
    displacement, the distance, and whether there was such a fixation; a selection network joins
    both to one map. That is enlarged, blurred by a Gaussian of learned width, added to the
    weighted logarithm of the centre bias, and normalised over the map.

    Fixations of the history that do not exist (the first one has none before it) are zeros told
    by their own mask channel, where the published program has NaN. The centre bias is a
    kernel density of the *training* fixations, its bandwidth chosen by leaving one picture out;
    the first fixations of scanpaths have a density of their own. Where published models
    mix ten such networks over a DenseNet-201, this is one over whatever backbone is named, and
    distances are in sides of a square with the area of the stimulus, not in degrees.

    There are no durations and no rule for stopping: drawn scanpaths are as long as random
    training scanpaths.

    Parameters
    ----------
    grid : (rows, columns)
        On which readout, scanpath and selection networks work.
    finer
        The map is enlarged this many times before the blur. The density is constant inside a
        cell of this finer grid; masses on any other grid follow by the area of overlap.
    readout, scanpath, selection
        Channels of the hidden layers of the three networks. The readout ends in one map, the
        scanpath network in the last of its numbers.
    lags
        Earlier fixations that are seen.
    blur
        Standard deviation of the blur before training, in sides of a square with the area of the
        stimulus (the published 8 pixels at 35 per degree are about 0.01 of a common picture).
    chunk
        Fixations whose maps are in memory at once. In training with more than that, inner maps
        are computed again in the backward pass.
    backbone, image_size, strides, channels
        Of the features.
    """

    durations: ClassVar[bool] = False
    density: ClassVar[bool] = True
    whole_stimuli: ClassVar[bool] = True

    centre: Tensor
    lengths: Tensor

    def __init__(
        self,
        *,
        channels: Mapping[str, int],
        grid: Sequence[int] = (60, 80),
        finer: int = 2,
        readout: Sequence[int] = (8, 16),
        scanpath: Sequence[int] = (128, 16),
        selection: Sequence[int] = (128, 16),
        lags: int = 4,
        blur: float = 0.01,
        chunk: int = 512,
        backbone: str = "efficientnet_lite0",
        image_size: Sequence[int] = (512, 512),
        strides: Sequence[int] = (16, 32),
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs)
        channels = {str(k): int(v) for k, v in channels.items() if str(k).startswith("stride")}
        grid, strides = [int(v) for v in grid], [int(s) for s in strides]
        readout, scanpath = [int(v) for v in readout], [int(v) for v in scanpath]
        selection, image_size = [int(v) for v in selection], [int(v) for v in image_size]
        self.save_hyperparameters()
        if not channels:
            raise DataError("channels names no map of the backbone", expected="{'stride32': 320}")
        least = {"lags": lags, "finer": finer, "chunk": chunk, "grid": min(grid)}
        for what, value in least.items():
            if value < 1:
                raise DataError(f"{what} must be 1 or more", found=value)
        if not blur > 0:
            raise DataError("blur must be above 0", found=blur)
        if len(scanpath) < 1 or len(selection) < 1:
            raise DataError("scanpath and selection networks need a hidden layer")
        self.feature_spec = FeatureSpec(backbone, (image_size[0], image_size[1]), tuple(strides))
        self.names = sorted(channels, key=lambda k: int(k.removeprefix("stride")))
        self.grid, self.lags, self.chunk = (grid[0], grid[1]), int(lags), int(chunk)
        self.fine = (grid[0] * finer, grid[1] * finer)
        sizes = [sum(channels.values()), *readout, 1]
        self.readout = _stack(sizes)
        sizes = [4 * lags, *scanpath]
        # raw coordinates are comparable as they are, a norm over the map would blur their scale
        self.scanpath = _stack(sizes, norm_first=False)
        self.from_saliency = _Layer(1, selection[0])
        self.from_scanpath = _Layer(scanpath[-1], selection[0], bias=False)
        self.selection = _stack([*selection, 1])
        for parameter in self.selection[-1].parameters():
            nn.init.zeros_(parameter)  # before training the model is the centre bias
        self.log_blur = nn.Parameter(torch.tensor(math.log(blur)))
        self.bias_weight = nn.Parameter(torch.tensor(1.0))
        for name, depth in channels.items():
            self.register_buffer(f"{name}_mean", torch.zeros(depth))
            self.register_buffer(f"{name}_sd", torch.ones(depth))
        # of first fixations, of the others
        self.register_buffer("centre", torch.full((2, *self.fine), -math.log(math.prod(self.fine))))
        self.register_buffer("lengths", torch.zeros(LONGEST + 1, dtype=torch.int64))

    # --- what is taken from the training part -------------------------------------------------

    def fit_statistics(self, train: Scanpaths) -> None:
        """Take centre bias, lengths, and the scales of features from the training part."""
        if int(train.lengths.max(initial=0)) > LONGEST:
            raise DataError(
                "a training scanpath is too long", expected=f"at most {LONGEST} fixations",
                found=int(train.lengths.max()),
            )  # fmt: skip
        self.lengths.copy_(torch.from_numpy(np.bincount(train.lengths, minlength=LONGEST + 1)))
        self.lengths[0] = 0
        first = np.zeros(len(train.x), dtype=bool)
        first[train.starts[:-1][train.lengths > 0]] = True
        for row, chosen in enumerate((first, ~first)):
            if chosen.any():
                self.centre[row].copy_(self._centre_bias(_only(train, chosen)))
        pictures = [s.features for s in train.stimuli.values() if s.features]
        for name in self.names if pictures else ():
            means = torch.stack([p[name].float().mean((1, 2)) for p in pictures])
            squares = torch.stack([p[name].float().square().mean((1, 2)) for p in pictures])
            mean = means.mean(0)
            spread = (squares.mean(0) - mean.square()).clamp_min(0).sqrt()
            getattr(self, f"{name}_mean").copy_(mean)
            getattr(self, f"{name}_sd").copy_(spread.clamp_min(1e-3))

    def _centre_bias(self, train: Scanpaths) -> Tensor:
        """Return the log-mass of the cells of the finer grid."""
        # one picture cannot be left out of itself: then a width of 5 % and 1 % uniform
        alone = len(train.stimuli) < 2
        model = CenterBias(bandwidth=0.05, uniform=0.01) if alone else CenterBias()
        model.fit_statistics(train)
        anywhere = Stimulus("\0 none of the training part", (1.0, 1.0))
        return model.map_of(anywhere, self.fine).log().float()

    # --- the picture --------------------------------------------------------------------------

    def look(self, stimuli: Sequence[Stimulus], features: Mapping[str, Tensor]) -> _View:
        """Return what is the same for all fixations on distinct stimuli."""
        parts = []
        for name in self.names:
            if name not in features:
                raise DataError(
                    f"stimuli have no features {name!r}", expected=", ".join(self.names),
                    found=", ".join(features) or "none",
                )  # fmt: skip
            mean, sd = getattr(self, f"{name}_mean"), getattr(self, f"{name}_sd")
            maps = (features[name] - mean[:, None, None]) / sd[:, None, None]
            parts.append(
                F.interpolate(maps, self.grid, mode="bilinear", align_corners=False).flatten(2)
            )
        saliency = _run(self.readout, torch.cat(parts, 1))
        size = torch.tensor([s.size for s in stimuli], dtype=torch.float32, device=self.device)
        aspect = size / size.prod(1, keepdim=True).sqrt()
        sigma = self.log_blur.exp() / aspect  # shares of width and height
        return _View(
            self.from_saliency(F.softplus(saliency)),
            _blur(sigma[:, 0], self.fine[1]),
            _blur(sigma[:, 1], self.fine[0]),
            aspect,
        )

    # --- the density --------------------------------------------------------------------------

    def _maps(self, view: _View, history: _History) -> Tensor:
        """Return log-masses of the cells of the finer grid, (n, fine rows, fine columns)."""
        which = history.which
        aspect = view.aspect[which][:, None, :, None]
        there = history.there[..., None].float()  # (n, lags, 1)
        cells = cell_centres(*self.grid).T.to(self.device)
        shift = (cells - history.xy[..., None]) * aspect * there[..., None]  # (n, lags, 2, cells)
        # as a root of squares, with no gradient wanted: positions are data
        distance = shift.square().sum(2).sqrt()
        seen = torch.cat([shift[:, :, 0], shift[:, :, 1], distance,
                          there.expand_as(distance)], 1)  # fmt: skip
        scanpath = F.softplus(_run(self.scanpath, seen))
        joined = F.softplus(view.saliency[which] + self.from_scanpath(scanpath))
        chosen = _run(self.selection, joined).unflatten(2, self.grid)
        large = F.interpolate(chosen, self.fine, mode="bilinear", align_corners=False)[:, 0]
        blurred = view.down[which] @ large @ view.across[which].transpose(1, 2)
        centre = self.centre[history.there.any(1).long()]
        return (blurred + self.bias_weight * centre).flatten(1).log_softmax(1).view_as(large)

    def _history(self, batch: ScanpathBatch) -> _History:
        """Return the histories of all fixations of a batch, scanpath by scanpath."""
        length = batch.mask.shape[1]
        before = torch.arange(length)[:, None] - torch.arange(1, self.lags + 1)  # (length, lags)
        before = before.to(self.device)
        xy = batch.xy[:, before.clamp_min(0)]  # (batch, length, lags, 2)
        there = (before >= 0).expand(len(batch.xy), -1, -1)
        which = batch.which[:, None].expand(-1, length)
        return _History(xy[batch.mask], there[batch.mask], which[batch.mask])

    def training_loss(self, batch: ScanpathBatch) -> dict[str, Tensor]:
        """Return the mean negative log-density per fixation; 0 is the uniform density."""
        history = self._history(batch)
        if not len(history):
            return {}
        view = self.look(batch.stimuli, batch.features)
        at = cell_of(batch.xy[batch.mask], self.fine)
        again = torch.is_grad_enabled() and len(history) > self.chunk
        found = []
        for start in range(0, len(history), self.chunk):
            part = slice(start, start + self.chunk)
            arguments = (view, history.rows(part), at[part])
            found.append(
                checkpoint(self._log_p, *arguments, use_reentrant=False, preserve_rng_state=False)
                if again
                else self._log_p(*arguments)
            )
        loss = -torch.cat(found).mean() - math.log(math.prod(self.fine))
        return {"loss": loss, "position": loss}

    def _log_p(self, view: _View, history: _History, at: Tensor) -> Tensor:
        return self._maps(view, history).flatten(1).gather(1, at[:, None])[:, 0]

    @torch.no_grad()
    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the exact log-mass of every cell for every fixation; see `ScanpathModel`.

        Maps of padding are uniform.
        """
        view, history = self.look(batch.stimuli, batch.features), self._history(batch)
        cells = grid[0] * grid[1]
        out = torch.full((*batch.mask.shape, *grid), -math.log(cells), device=self.device)
        rows = torch.nonzero(batch.mask)
        for start in range(0, len(history), self.chunk):
            part = slice(start, start + self.chunk)
            maps = self._maps(view, history.rows(part))
            if tuple(grid) != self.fine:
                tiny = torch.finfo(maps.dtype).tiny
                maps = resample(maps.exp(), grid).clamp_min(tiny).log()
            out[rows[part, 0], rows[part, 1]] = maps
        return out

    # --- draws --------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Draw scanpaths, all in one loop over fixations; the picture is read once.

        Lengths are those of random training scanpaths. Places are uniform inside the drawn cell
        of the finer grid, hence always on the stimulus.
        """
        if not int(self.lengths.sum()):
            raise need_fit(self)
        ends = self.lengths.cpu().cumsum(0)
        u = torch.rand(n, generator=generator, dtype=torch.float64) * int(ends[-1])
        lengths = torch.searchsorted(ends, u.long(), right=True)
        longest = int(lengths.max()) if n else 0
        features = {k: v[None].float().to(self.device) for k, v in stimulus.features.items()}
        view = self.look([stimulus], features)
        drawn = torch.zeros(n, longest, 2, dtype=torch.float64)
        for i in range(longest):
            going = torch.nonzero(lengths > i)[:, 0]
            for rows in going.split(self.chunk):
                xy = torch.zeros(len(rows), self.lags, 2)
                there = torch.zeros(len(rows), self.lags, dtype=torch.bool)
                seen = min(i, self.lags)
                xy[:, :seen] = drawn[rows, i - seen : i].flip(1).float()
                there[:, :seen] = True
                which = torch.zeros(len(rows), dtype=torch.int64)
                history = _History(*(v.to(self.device) for v in (xy, there, which)))
                mass = self._maps(view, history).exp().cpu()
                drawn[rows, i] = draw_cells(mass, len(rows), generator)
        mask = torch.arange(longest) < lengths[:, None]
        return as_paths(drawn[mask], lengths, stimulus)


def _stack(sizes: Sequence[int], norm_first: bool = True) -> nn.ModuleList:
    pairs = pairwise(sizes)
    return nn.ModuleList(_Layer(a, b, norm_first or i > 0) for i, (a, b) in enumerate(pairs))


def _run(layers: nn.ModuleList, x: Tensor) -> Tensor:
    """Return what the last layer gives, softplus between layers and not after the last."""
    for i, layer in enumerate(layers):
        x = layer(x if i == 0 else F.softplus(x))
    return x


def _blur(sigma: Tensor, cells: int) -> Tensor:
    """Return Gaussian weights between cells, (n, cells, cells); rows sum to 1, also at borders.

    Parameters
    ----------
    sigma : Tensor, shape (n,)
        Share of the axis.
    """
    at = (torch.arange(cells, device=sigma.device) + 0.5) / cells
    squares = (at[:, None] - at).square()
    return (-0.5 * squares / sigma.square()[:, None, None].clamp_min(1e-12)).softmax(-1)


def _only(paths: Scanpaths, kept: np.ndarray) -> Scanpaths:
    """Return scanpaths with some of their fixations, those that have none left out."""
    counts = np.bincount(paths.of[kept], minlength=len(paths))
    made = replace(
        paths,
        x=paths.x[kept],
        y=paths.y[kept],
        duration=paths.duration[kept],
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )
    return made.take(counts > 0)
