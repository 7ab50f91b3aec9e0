"""Saliency from contrast of intensity, colour and orientation, and a gaze that follows it."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Sequence
from pathlib import Path as FilePath

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter, maximum_filter
from torch import Tensor

from gazeattn.datamodules import ScanpathBatch, Scanpaths, Stimulus
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.models.scanpath.base import Grid, Path, ScanpathModel, log_density_of
from gazeattn.models.scanpath.center_bias import CenterBias, cell_of, resample
from gazeattn.models.scanpath.uniform import TrainingLengths, as_paths, need_fit, spread
from gazeattn.registry import register_scanpath_model

CENTRES = (2, 3, 4)
DELTAS = (3, 4)
MAP_LEVEL = 4
ANGLES = (0.0, 45.0, 90.0, 135.0)
FLOOR = 0.01
"""Added to saliency of largest value 1, so that no place is impossible."""


def normalise(values: Tensor) -> Tensor:
    """Return a map that is promoted where one peak stands out.

    The range becomes 0 to 1, then the map is multiplied with ``(1 - m) ** 2``, m the mean of the
    local maxima (3 x 3 cells) above .1 other than the largest. A flat map becomes 0.
    """
    low, high = values.min(), values.max()
    if not bool(high - low > 1e-6 * max(1.0, abs(float(high)))):
        return torch.zeros_like(values)
    scaled = ((values - low) / (high - low)).numpy()
    peaks = scaled[(scaled == maximum_filter(scaled, 3, mode="nearest")) & (scaled > 0.1)]
    rest = np.sort(peaks)[:-1]
    m = float(rest.mean()) if len(rest) else 0.0
    return torch.from_numpy(scaled * np.float32((1 - m) ** 2))


def _halve(values: Tensor) -> Tensor:
    """Return maps at half of the resolution, (channels, rows, columns)."""
    line = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
    kernel = (line[:, None] * line)[None, None]
    padded = F.pad(values[:, None], (2, 2, 2, 2), mode="replicate")
    return F.conv2d(padded, kernel)[:, 0, ::2, ::2]


def pyramid(values: Tensor, levels: int = 9) -> list[Tensor]:
    """Return a Gaussian pyramid, each level half of the last."""
    found = [values]
    for _ in range(levels - 1):
        found.append(_halve(found[-1]))
    return found


def _to(values: Tensor, shape: tuple[int, int]) -> Tensor:
    return F.interpolate(values[:, None], size=shape, mode="bilinear", align_corners=False)[:, 0]


def gabors(size: int = 9, wavelength: float = 5.0, sigma: float = 2.2) -> Tensor:
    """Return even and odd Gabor filters without a mean, (2 * angles, 1, size, size)."""
    at = torch.arange(size, dtype=torch.float32) - size // 2
    y, x = torch.meshgrid(at, at, indexing="ij")
    envelope = torch.exp(-0.5 * (x**2 + y**2) / sigma**2)
    filters = []
    for angle in ANGLES:
        along = x * math.cos(math.radians(angle)) + y * math.sin(math.radians(angle))
        for wave in (torch.cos, torch.sin):
            f = envelope * wave(2 * math.pi * along / wavelength)
            f = f - envelope * (f.sum() / envelope.sum())
            filters.append(f / f.abs().sum())
    return torch.stack(filters)[:, None]


def _contrast(levels: Sequence[Tensor]) -> list[Tensor]:
    """Return the six centre-surround differences, (channels, rows, columns) each."""
    return [
        (levels[c] - _to(levels[c + d], (levels[c].shape[-2], levels[c].shape[-1]))).abs()
        for c in CENTRES
        for d in DELTAS
    ]


def _combined(maps: Sequence[Tensor], shape: tuple[int, int]) -> Tensor:
    """Return the sum over scales of normalised maps, per channel, (channels, *shape)."""
    total = torch.zeros(maps[0].shape[0], *shape)
    for m in maps:
        total += F.adaptive_avg_pool2d(torch.stack([normalise(c) for c in m]), shape)
    return total


def saliency(picture: NDArray[np.float32]) -> Tensor:
    """Return the saliency map of a picture, about 1/16 of its size, largest value 1.

    Parameters
    ----------
    picture : ndarray, shape (height, width, 3)
        Red, green, blue from 0 to 1.

    Notes
    -----
    Centre scales 2, 3, 4, surrounds 3 and 4 scales coarser; intensity (6 maps), red-green and
    blue-yellow opponency (12), Gabor energy at 4 angles (24). A picture without any contrast has
    a map of zeros.

    References
    ----------
    Itti, Koch, Niebur (1998), IEEE PAMI 20(11), 1254-1259.
    """
    rgb = torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1))).float()
    intensity = rgb.mean(0, keepdim=True)
    light = pyramid(intensity)
    shape = (light[MAP_LEVEL].shape[-2], light[MAP_LEVEL].shape[-1])
    # hue is not perceived in the dark: below a tenth of the largest intensity there is none
    bright = intensity > 0.1 * intensity.max()
    r, g, b = torch.where(bright, rgb / intensity.clamp_min(1e-6), torch.zeros_like(rgb))
    red, green = (r - (g + b) / 2).clamp_min(0), (g - (r + b) / 2).clamp_min(0)
    blue = (b - (r + g) / 2).clamp_min(0)
    yellow = ((r + g) / 2 - (r - g).abs() / 2 - b).clamp_min(0)
    opponent = pyramid(torch.stack([red - green, blue - yellow]))
    filters = gabors()
    energy = []
    for scale, level in enumerate(light):
        if scale < CENTRES[0]:  # the two finest scales are in no contrast
            energy.append(level)
            continue
        padded = F.pad(level[None], (4, 4, 4, 4), mode="replicate")
        pair = F.conv2d(padded, filters)[0].view(len(ANGLES), 2, *level.shape[-2:])
        energy.append(pair.square().sum(1).sqrt())
    total = torch.zeros(shape)
    for levels in (light, opponent, energy):
        conspicuous = _combined(_contrast(levels), shape)
        if levels is energy:  # each angle competes with itself first
            conspicuous = torch.stack([normalise(c) for c in conspicuous])
        total += normalise(conspicuous.sum(0)) / 3
    high = total.max()
    return total / high if bool(high > 0) else total


def read_picture(content: bytes, longest: int) -> NDArray[np.float32]:
    """Return a picture as red, green, blue from 0 to 1, its longer side of a given length."""
    with Image.open(io.BytesIO(content)) as opened:
        image = opened.convert("RGBA") if opened.has_transparency_data else opened.convert("RGB")
        if image.mode == "RGBA":  # transparent places show the white page behind
            page = Image.new("RGBA", image.size, "white")
            image = Image.alpha_composite(page, image).convert("RGB")
        scale = longest / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        return np.asarray(image.resize(size, Image.Resampling.BICUBIC), np.float32) / np.float32(
            255
        )


@register_scanpath_model(
    "itti_koch",
    description="contrast of intensity, colour and orientation; winner-take-all with inhibition "
    "of return",
    citation="Itti, Koch, Niebur (1998), IEEE PAMI 20(11), 1254-1259; Itti, Koch (2000), Vision "
    "Research 40, 1489-1506",
    needs=("image",),
    kind="baseline",
)
class IttiKoch(ScanpathModel):
    """The saliency map of the picture as a density, and the path of its winners.

    ``log p = g log(S + .01) + k log centre``, normalised, with S the blurred saliency; the blur
    and the weights g and k are those that make fixations on training pictures most likely.

    Parameters
    ----------
    center_bias : bool
        Without it k is 0 and the density knows the picture alone.
    image_size : int
        The longer side of the picture in pixels when it is analysed.
    map_size : int
        Cells of the longer side of the density.
    fit_images : int
        So many evenly spaced training images are used to fit.
    blurs : sequence of float
        Standard deviations to choose from, as shares of the longer side.
    radius : float
        Of inhibition of return, as a share of the shorter side of the picture; 1/6 in the paper.
    recovery : float
        Inhibition left after each further fixation, as a factor in [0, 1].
    noise : float
        Standard deviation of normal noise on the logarithm of the density, new for every
        scanpath and fixation. Without noise the winners are the same in all samples of a picture,
        which then differ in length only.

    Attributes
    ----------
    fitted : dict of str to float
        blur, saliency (g), centre (k).

    Notes
    -----
    Samples have the lengths of random training scanpaths, fixations at the middle of the winning
    cell, and no durations. The winners are those of the density, so that with `center_bias` the
    centre takes part. Saliency is kept in memory by the content of the picture's file. A density
    over other grids shares cells by area.
    """

    def __init__(
        self,
        *,
        center_bias: bool = True,
        image_size: int = 640,
        map_size: int = 96,
        fit_images: int = 200,
        blurs: Sequence[float] = (0.0, 0.01, 0.02, 0.03, 0.045, 0.07),
        radius: float = 1 / 6,
        recovery: float = 0.9,
        noise: float = 0.0,
    ) -> None:
        if not (radius > 0 and 0 <= recovery <= 1 and noise >= 0 and len(blurs)):
            raise DataError(
                "radius is positive, recovery in [0, 1], noise 0 or more, and blurs are given",
                found=f"{radius}, {recovery}, {noise}, {list(blurs)}",
            )
        self.center_bias, self.image_size, self.map_size = center_bias, image_size, map_size
        self.fit_images, self.blurs = fit_images, tuple(float(b) for b in blurs)
        self.radius, self.recovery, self.noise = radius, recovery, noise
        self.centre = CenterBias()
        self.lengths: TrainingLengths | None = None
        self.fitted: dict[str, float] = {}
        self._maps: dict[str, Tensor] = {}

    def saliency_of(self, stimulus: Stimulus) -> Tensor:
        """Return the saliency of a stimulus at about 1/16 of `image_size`.

        Raises
        ------
        DataError
            The stimulus has no picture.
        MissingAssetError
            Its file is not there.
        """
        if stimulus.image is None:
            raise DataError("the model needs the picture", source=stimulus.name, found="no image")
        file = FilePath(stimulus.image)
        if not file.is_file():
            raise MissingAssetError(f"the picture of {stimulus.name} is not there: {file}")
        content = file.read_bytes()
        key = hashlib.sha256(content).hexdigest()
        if key not in self._maps:
            self._maps[key] = saliency(read_picture(content, self.image_size))
        return self._maps[key]

    def _grid(self, stimulus: Stimulus) -> Grid:
        scale = self.map_size / max(stimulus.size)
        width, height = (max(1, round(v * scale)) for v in stimulus.size)
        return height, width

    def _blurred(self, stimulus: Stimulus, blur: float) -> Tensor:
        """Return the blurred saliency on the grid of a stimulus, largest value 1."""
        found = _to(self.saliency_of(stimulus)[None], self._grid(stimulus))[0]
        if blur > 0:
            sigma = blur * self.map_size
            found = torch.from_numpy(gaussian_filter(found.numpy(), sigma, mode="nearest"))
        high = found.max()
        return found / high if bool(high > 0) else found

    def _parts(self, stimulus: Stimulus, blur: float) -> Tensor:
        """Return the logarithms that are weighted, (2, rows, columns)."""
        grid = self._grid(stimulus)
        centre = self.centre.map_of(stimulus, grid).float()
        return torch.stack([(self._blurred(stimulus, blur) + FLOOR).log(), centre.log()])

    def fit_statistics(self, train: Scanpaths) -> None:
        """Fit the blur and the weights on pictures of the training part."""
        self.lengths = TrainingLengths(train)
        self.centre.fit_statistics(train)
        stimuli = list(train.stimuli.values())
        if self.fit_images < len(stimuli):
            spaced = np.linspace(0, len(stimuli) - 1, max(1, self.fit_images)).round().astype(int)
            stimuli = [stimuli[i] for i in spaced]
        shares, names = torch.from_numpy(train.relative), train.stimulus[train.of]
        cells = []
        for stimulus in stimuli:
            rows = torch.from_numpy(np.flatnonzero(names == stimulus.name))
            cells.append(cell_of(shares[rows], self._grid(stimulus)))
        found = [self._weigh(stimuli, cells, blur) for blur in self.blurs]
        best = int(np.argmin([loss for loss, _ in found]))
        weights = found[best][1]
        self.fitted = dict(
            zip(("blur", "saliency", "centre"), (self.blurs[best], *weights), strict=True)
        )

    def _weigh(
        self, stimuli: Sequence[Stimulus], cells: Sequence[Tensor], blur: float
    ) -> tuple[float, list[float]]:
        """Return the loss and the two weights of the log-linear density; it has one optimum."""
        parts = [self._parts(s, blur).flatten(1) for s in stimuli]
        # the likelihood needs the sum of the parts at fixations, and the sum of each map only
        seen = torch.stack([p[:, c].sum(1) for p, c in zip(parts, cells, strict=True)]).sum(0)
        n = torch.tensor([float(len(c)) for c in cells])
        longest = max(p.shape[1] for p in parts)
        padded = torch.stack([F.pad(p, (0, longest - p.shape[1]), value=0.0) for p in parts])
        real = torch.stack([torch.arange(longest) < p.shape[1] for p in parts])
        used = torch.tensor([1.0, float(self.center_bias)])
        weights = torch.tensor([1.0, 1.0], requires_grad=True)
        search = torch.optim.LBFGS([weights], max_iter=30, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            search.zero_grad()
            loss = self._loss(weights * used, seen, n, padded, real)
            loss.backward()
            return loss

        with torch.enable_grad():
            search.step(closure)
        final = (weights * used).detach()
        return float(self._loss(final, seen, n, padded, real)), final.tolist()

    @staticmethod
    def _loss(weights: Tensor, seen: Tensor, n: Tensor, padded: Tensor, real: Tensor) -> Tensor:
        logits = torch.einsum("k,ikc->ic", weights, padded)
        norm = torch.logsumexp(logits.masked_fill(~real, -math.inf), dim=1)
        return ((n * norm).sum() - (weights * seen).sum()) / n.sum()

    def map_of(self, stimulus: Stimulus) -> Tensor:
        """Return the fitted density of a picture, (rows, columns), longer side `map_size`."""
        if not self.fitted:
            raise need_fit(self)
        parts = self._parts(stimulus, self.fitted["blur"])
        logits = self.fitted["saliency"] * parts[0] + self.fitted["centre"] * parts[1]
        return torch.softmax(logits.flatten(), 0).view(logits.shape)

    def log_density(self, batch: ScanpathBatch, grid: Grid) -> Tensor:
        """Return the same map for all fixations on a picture."""
        maps = torch.stack([resample(self.map_of(s).double(), grid) for s in batch.stimuli])
        return spread(log_density_of(maps)[batch.which.cpu()], batch)

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Follow the winners, each of which inhibits a disc around itself."""
        if self.lengths is None:
            raise need_fit(self)
        lengths = self.lengths.draw(n, generator)
        if not n:
            return []
        density = self.map_of(stimulus)
        shares = self.winners(density, stimulus, int(lengths.max()), n, generator)
        real = torch.arange(shares.shape[1]) < lengths[:, None]
        return as_paths(shares[real], lengths, stimulus)

    def winners(
        self, density: Tensor, stimulus: Stimulus, length: int, n: int, generator: torch.Generator
    ) -> Tensor:
        """Return n series of winning places as shares of the stimulus, (n, length, 2)."""
        rows, columns = density.shape
        width, height = stimulus.size
        y = (torch.arange(rows, dtype=torch.float64) + 0.5) / rows
        x = (torch.arange(columns, dtype=torch.float64) + 0.5) / columns
        places = torch.cartesian_prod(y, x).flip(1)
        pixels = places * torch.tensor([width, height], dtype=torch.float64)
        reach = self.radius * min(width, height)
        series = n if self.noise else 1
        inhibited = torch.zeros(series, rows * columns)
        found = torch.empty(series, length, 2, dtype=torch.float64)
        for i in range(length):
            drive = density.flatten() * (1 - inhibited)
            if self.noise:
                extra = torch.randn(drive.shape, generator=generator)
                drive = drive * torch.exp(self.noise * extra)
            at = drive.argmax(1)
            found[:, i] = places[at]
            disc = torch.cdist(pixels[at], pixels) <= reach
            inhibited = torch.where(disc, 1.0, inhibited * self.recovery)
        return found.expand(n, -1, -1)
