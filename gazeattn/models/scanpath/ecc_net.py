"""Zero-shot search by the likeness of places to a target, seen with a fovea or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from gazeattn.datamodules import Stimulus
from gazeattn.errors import CapabilityError, DataError, MissingAssetError
from gazeattn.models.layers.backbones import Backbone, load_backbone
from gazeattn.models.layers.eccentricity import SLOPES, look_at, strided_layers, with_eccentricity
from gazeattn.models.scanpath.base import Path, ScanpathModel
from gazeattn.registry import register_scanpath_model

STRIDE = 16
"""Pixels per cell of the attention map."""
PictureArray = NDArray[np.float32]


@dataclass(frozen=True)
class Trace:
    """One search.

    Attributes
    ----------
    path : ndarray, shape (length, 2)
        x, y in pixels, the start position first.
    found : bool or None
        Whether the last fixation is on the target; None without recognition.
    """

    path: Path
    found: bool | None

    @property
    def saccades(self) -> int:
        """Fixations without the start position."""
        return len(self.path) - 1


def gaussian(size: int, sigma: float) -> Tensor:
    """Return a row of weights that sum to 1; ``sigma`` 0 gives binomial weights."""
    if size < 1 or size % 2 == 0 or sigma < 0:
        raise DataError("a Gaussian needs an odd size and a sigma of at least 0",
                        found=f"{size}, {sigma}")  # fmt: skip
    if sigma == 0:
        row = torch.ones(1)
        for _ in range(size - 1):
            row = F.pad(row, (0, 1)) + F.pad(row, (1, 0))
    else:
        row = torch.exp(-0.5 * ((torch.arange(size) - size // 2) / sigma) ** 2)
    return row / row.sum()


def blurred(values: Tensor, size: int, sigma: float) -> Tensor:
    """Return a map (rows, columns) under a Gaussian; borders are mirrored without the edge cell."""
    row, half = gaussian(size, sigma).to(values.dtype), size // 2
    if min(values.shape) <= half:
        raise DataError("a map is too small to be sharpened", expected=f"over {half} cells",
                        found=str(tuple(values.shape)))  # fmt: skip
    padded = F.pad(values[None, None], (half, half, half, half), mode="reflect")
    return F.conv2d(F.conv2d(padded, row[None, None, None]), row[None, None, :, None])[0, 0]


def sharpened(
    values: Tensor, narrow: tuple[int, float], wide: tuple[int, float], rounds: int = 3
) -> Tensor:
    """Return a map after rounds of adding the difference of a narrow and a wide Gaussian."""
    for _ in range(rounds):
        values = values + blurred(values, *narrow) - blurred(values, *wide)
    return values


def correlation(stimulus: Tensor, target: Tensor) -> Tensor:
    """Return the correlation of feature maps, (channels, ., .), at every place of the first.

    Beyond the border the stimulus is 0. The target is not moved by half a cell where its size is
    even: of two middle cells the first lies on the place (TensorFlow's "same").
    """
    rows, columns = target.shape[-2:]
    pads = ((columns - 1) // 2, columns // 2, (rows - 1) // 2, rows // 2)
    return F.conv2d(F.pad(stimulus[None], pads), target[None])[0, 0]


def scaled(values: Tensor) -> Tensor:
    """Return values from 0 to 1; a flat map becomes 0."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if bool(high > low) else torch.zeros_like(values)


def _halved(values: Tensor, times: int) -> Tensor:
    """Return maps (channels, ., .) averaged by 2, sizes rounded up, without a border effect."""
    for _ in range(times):
        values = F.avg_pool2d(values[None], 2, ceil_mode=True)[0]
    return values


@register_scanpath_model(
    "ecc_net",
    description="search without training: likeness to the target, sharp at the fixation only",
    citation="Gupta et al. 2021 (NeurIPS), arXiv:2106.02953",
    needs=("image", "target"),
    kind="baseline",
)
class EccNet(ScanpathModel):
    """Visual search with eccentricity-dependent pooling and attention from the target.

    Nothing is learned and nothing is drawn at random: all samples of a stimulus are equal. There
    is no density of the next fixation, as the next fixation is the largest value of a map that
    has no scale. Search starts at the centre; no place is visited twice.

    Parameters
    ----------
    backbone, root, weights
        See `gazeattn.models.layers.backbones.load_backbone`. Any backbone that halves its maps
        with poolings or convolutions will do; vision transformers will not.
    eccentricity : bool
        False: the plain network, the same everywhere (ablation).
    levels : sequence of int
        Halvings whose input is compared: stride ``2 ** (level - 1)``.
    slopes, pixels_per_degree, fovea, ring, border
        See `gazeattn.models.layers.eccentricity`.
    frame : {"display", "canvas"}
        What the network sees: the display and a margin, the fovea moving over it; or, as
        published, a canvas of twice the display and margin with the fixation in its centre, which
        takes about four times as long.
    margin : int
        Pixels of background around the display.
    sharpening : ((size, sigma), (size, sigma))
        Narrow and wide Gaussian, in cells of the attention map; sigma 0: binomial weights.
    rounds : int
        Of sharpening.
    weighting : {"response", "equal"}
        Levels weighted by their largest raw response, or equally (natural pictures).
    inhibition : int
        Side of the square around a fixation in which the target is recognised, and which is not
        visited again where no places are given. Published: 10 (the six experiments), 45 (arrays
        of objects), 64 (natural pictures).
    paint : bool
        Cover visited places with the background (only where places are given).
    recognition : {"oracle", "none"}
        Stop on the target, whose place is known to the referee, or go on to the last fixation.
    max_fixations : int
        Without the start. The search also ends when all places were visited.

    Notes
    -----
    Attention of a level is the correlation of its map with the target's map, both from the input
    of the level's halving: that of the stimulus averaged down to 1/16, that of the target to 1/32
    (the published scales). Attention of the levels is scaled to 0..1 each, weighted, summed,
    sharpened. The gaze goes to the centre of the best cell's part that lies on an open place
    (published: its upper left pixel).

    `Stimulus.objects` names the places that may be visited (``xmin`` to ``ymax``, ends excluded),
    and in a column ``target`` the place of the target for the referee.

    References
    ----------
    Gupta, Zhang, Wu, Wolfe, Kreiman (2021), NeurIPS 34, arXiv:2106.02953.
    """

    density: ClassVar[bool] = False

    def __init__(
        self,
        *,
        backbone: str = "efficientnet_lite0",
        root: str | None = None,
        weights: str | None = None,
        eccentricity: bool = True,
        levels: Sequence[int] = (3, 4, 5),
        slopes: Sequence[float] = SLOPES,
        pixels_per_degree: float = 30.0,
        fovea: float = 4.0,
        ring: float = 1.0,
        border: str = "valid",
        frame: str = "display",
        margin: int = 64,
        sharpening: Sequence[Sequence[float]] = ((3, 1), (5, 3)),
        rounds: int = 3,
        weighting: str = "response",
        inhibition: int = 10,
        paint: bool = True,
        recognition: str = "oracle",
        max_fixations: int = 60,
    ) -> None:
        for name, value, known in (
            ("frame", frame, ("display", "canvas")),
            ("weighting", weighting, ("response", "equal")),
            ("recognition", recognition, ("oracle", "none")),
        ):
            if value not in known:
                raise DataError(f"unknown {name}", expected=" or ".join(known), found=value)
        if not levels or min(levels) < 1 or max(levels) > 5:
            raise DataError("levels lie from 1 to 5", found=str(list(levels)))
        if max_fixations < 1 or inhibition < 1 or margin < 0 or rounds < 0:
            raise DataError("max_fixations, inhibition, margin or rounds too small")
        self.source, self.root, self.weights = backbone, root, weights
        self.eccentricity, self.levels = eccentricity, tuple(int(k) for k in levels)
        self.slopes, self.pixels_per_degree = tuple(map(float, slopes)), pixels_per_degree
        self.fovea, self.ring, self.border = fovea, ring, border
        self.frame, self.margin, self.rounds = frame, int(margin), rounds
        narrow, wide = ((int(size), float(sigma)) for size, sigma in sharpening)
        self.narrow, self.wide = narrow, wide
        self.weighting, self.inhibition, self.paint = weighting, int(inhibition), paint
        self.recognition, self.max_fixations = recognition, int(max_fixations)
        self._network: Backbone | None = None
        self._taps: dict[int, str] = {}

    # -- features ---------------------------------------------------------------------------------

    @property
    def network(self) -> Backbone:
        """The backbone, with the model's pooling; loaded at first use."""
        if self._network is None:
            self.use(load_backbone(self.source, root=self.root, weights=self.weights))
        assert self._network is not None
        return self._network

    def use(self, backbone: Backbone) -> None:
        """Take a backbone that is in memory already."""
        halvings = strided_layers(backbone)
        missing = [k for k in self.levels if k not in halvings]
        if missing:
            raise CapabilityError(
                f"{backbone.name} has no halving of level {', '.join(map(str, missing))}"
            )
        self._taps = {k: halvings[k][0] for k in self.levels}
        if self.eccentricity:
            backbone = with_eccentricity(
                backbone, self.slopes, pixels_per_degree=self.pixels_per_degree,
                fovea=self.fovea, ring=self.ring, border=self.border,
            )  # fmt: skip
        self._network = backbone

    def features(self, picture: PictureArray) -> dict[int, Tensor]:
        """Return what goes into the halving of each level, (channels, rows, columns)."""
        network, found = self.network, {}
        modules = dict(network.network.named_modules())

        def hook(level: int):  # type: ignore[no-untyped-def]
            def seen(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                found[level] = inputs[0][0]

            return seen

        handles = [modules[n].register_forward_pre_hook(hook(k)) for k, n in self._taps.items()]
        try:
            x = network.normalised(torch.from_numpy(picture).permute(2, 0, 1)[None])
            try:
                for _, part in network.stages():
                    x = part(x)
                    if len(found) == len(self.levels):
                        break
            except CapabilityError:  # not a chain: nothing can be left out
                network.network(x)
        finally:
            for handle in handles:
                handle.remove()
        return {k: found[k].float() for k in self.levels}

    def kernels(self, target: PictureArray) -> dict[int, Tensor]:
        """Return the target's maps at 1/32, seen in the fovea."""
        height, width = target.shape[:2]
        look_at(self.network.network, (width / 2, height / 2), 0.0)
        return {k: _halved(f, 6 - k) for k, f in self.features(target).items()}

    def attention(
        self,
        picture: PictureArray,
        kernels: dict[int, Tensor],
        fixation: tuple[float, float],
        reach: float | None = None,
    ) -> Tensor:
        """Return attention of a whole picture from a fixation in it, one value per 16 pixels.

        Parameters
        ----------
        picture : ndarray of float32, shape (height, width, 3)
        kernels
            See `kernels`.
        fixation : (x, y)
            Pixels.
        reach
            Half of the field of view in pixels, see `EccentricityPool`.
        """
        look_at(self.network.network, fixation, reach)
        total, weights = [], []
        for level, f in self.features(picture).items():
            raw = correlation(_halved(f, 5 - level), kernels[level])
            total.append(scaled(raw))
            weights.append(raw.max() if self.weighting == "response" else torch.ones(()))
        share = torch.stack(weights).clamp_min(0)
        share = (
            share / share.sum() if bool(share.sum() > 0) else torch.ones_like(share) / len(share)
        )
        values = (torch.stack(total) * share[:, None, None]).sum(0)
        return sharpened(values, self.narrow, self.wide, self.rounds)

    # -- search -----------------------------------------------------------------------------------

    @torch.inference_mode()
    def search(
        self,
        picture: PictureArray,
        target: PictureArray,
        places: NDArray[np.int64] | None = None,
        target_box: Sequence[float] | None = None,
    ) -> Trace:
        """Search for a target.

        Parameters
        ----------
        picture, target : ndarray of float32, shape (height, width, 3)
            From 0 to 1.
        places : ndarray, shape (n, 4), optional
            xmin, ymin, xmax, ymax (ends excluded) of the places that can be visited; else any.
        target_box : four numbers, optional
            For recognition; without it nothing is recognised.
        """
        height, width = picture.shape[:2]
        shown, open_ = picture.copy(), np.ones((height, width), dtype=bool)
        ground = np.median(_edge(picture), axis=0).astype(np.float32)
        kernels = self.kernels(target)
        here = (width // 2, height // 2)
        path: list[tuple[float, float]] = [here]
        box = target_box if self.recognition == "oracle" else None
        left = None if places is None else np.ones(len(places), dtype=bool)
        if places is not None:
            open_[:] = False
            for x0, y0, x1, y1 in places:
                open_[y0:y1, x0:x1] = True
        found = box is not None and places is None and self._on(here, box)
        while not found and len(path) <= self.max_fixations:
            if places is None:  # the start counts as visited; with places it lies on none
                self._close(open_, here)
            if not open_.any():
                break
            here = self._next(shown, kernels, path[-1], open_, ground)
            path.append(here)
            found = box is not None and self._on(here, box)
            if places is not None and left is not None:
                x, y = here
                at = places.T
                hit = (at[0] <= x) & (x < at[2]) & (at[1] <= y) & (y < at[3]) & left
                for x0, y0, x1, y1 in places[hit]:
                    open_[y0:y1, x0:x1] = False
                    if self.paint:
                        shown[y0:y1, x0:x1] = ground
                left &= ~hit
        return Trace(np.array(path, dtype=np.float64), None if box is None else bool(found))

    def _next(
        self, shown: PictureArray, kernels: dict[int, Tensor], fixation: tuple[float, float],
        open_: NDArray[np.bool_], ground: PictureArray,
    ) -> tuple[float, float]:  # fmt: skip
        """Return the pixel in the middle of the open part of the best cell."""
        height, width = open_.shape
        x, y = (int(v) for v in fixation)
        if self.frame == "display":
            left = top = self.margin
            right, bottom = (self.margin + -(n + 2 * self.margin) % 32 for n in (width, height))
        else:
            half = max(height, width) + self.margin
            left, top = half - x, half - y
            right, bottom = 2 * half - left - width, 2 * half - top - height
        # the field of view is that of the published canvas in either frame
        reach = max(height, width) + self.margin
        seen = np.empty((top + height + bottom, left + width + right, 3), dtype=np.float32)
        seen[:] = ground
        seen[top : top + height, left : left + width] = shown
        values = self.attention(seen, kernels, (x + left, y + top), reach).numpy()
        # rows and columns of the map that the pixels of the display lie in
        row, column = (np.arange(height) + top) // STRIDE, (np.arange(width) + left) // STRIDE
        pixels = np.where(open_, values[row[:, None], column[None, :]], -np.inf)
        best = int(np.argmax(pixels))
        at = row[best // width], column[best % width]
        rows, columns = np.nonzero(open_ & (row == at[0])[:, None] & (column == at[1])[None, :])
        # an open pixel: the middle of a part that is not convex may be closed
        gap = (rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2
        nearest = int(np.argmin(gap))
        return int(columns[nearest]), int(rows[nearest])

    def _square(self, here: tuple[float, float]) -> tuple[int, int, int, int]:
        half = self.inhibition // 2
        x, y = int(here[0]) - half, int(here[1]) - half
        return x, y, x + max(1, 2 * half), y + max(1, 2 * half)

    def _close(self, open_: NDArray[np.bool_], here: tuple[float, float]) -> None:
        x0, y0, x1, y1 = self._square(here)
        open_[max(0, y0) : max(0, y1), max(0, x0) : max(0, x1)] = False

    def _on(self, here: tuple[float, float], box: Sequence[float]) -> bool:
        """Return whether the square at a fixation overlaps a box."""
        x0, y0, x1, y1 = self._square(here)
        return bool(x0 < box[2] and box[0] < x1 and y0 < box[3] and box[1] < y1)

    def sample(self, stimulus: Stimulus, n: int, generator: torch.Generator) -> list[Path]:
        """Return n equal scanpaths; `generator` is not used.

        Raises
        ------
        DataError
            The stimulus has no picture, or its target is no picture.
        MissingAssetError
            A file is not there.
        """
        places = box = None
        if stimulus.objects is not None and len(stimulus.objects):
            table = stimulus.objects
            width, height = (int(v) for v in stimulus.size)
            corners = table[["xmin", "ymin", "xmax", "ymax"]].to_numpy(dtype=np.float64)
            places = np.rint(corners.clip(0, [width, height, width, height])).astype(np.int64)
            if "target" in table and bool(table["target"].any()):
                box = corners[int(np.flatnonzero(table["target"].to_numpy(dtype=bool))[0])]
        picture = _read(stimulus.image, stimulus, "image")
        if picture.shape[1::-1] != tuple(int(v) for v in stimulus.size):
            raise DataError(
                "a picture has another size than its stimulus", source=stimulus.name,
                expected=str(stimulus.size), found=str(picture.shape[1::-1]),
            )  # fmt: skip
        trace = self.search(picture, _read(stimulus.target, stimulus, "target"), places, box)
        return [trace.path.copy() for _ in range(n)]


@register_scanpath_model(
    "ivsn",
    description="search without training: likeness to the target, equally sharp everywhere",
    citation="Zhang et al. 2018 (Nature Communications), doi:10.1038/s41467-018-06217-x",
    needs=("image", "target"),
    kind="baseline",
)
class Ivsn(EccNet):
    """The invariant visual search network: plain pooling and one level.

    The arguments are those of `EccNet` without those of eccentricity.

    References
    ----------
    Zhang, Feng, Ma, Lim, Zhao, Kreiman (2018), Nature Communications 9, 3730.
    """

    def __init__(
        self,
        *,
        backbone: str = "efficientnet_lite0",
        root: str | None = None,
        weights: str | None = None,
        levels: Sequence[int] = (5,),
        frame: str = "display",
        margin: int = 64,
        sharpening: Sequence[Sequence[float]] = ((3, 1), (5, 3)),
        rounds: int = 3,
        weighting: str = "response",
        inhibition: int = 10,
        paint: bool = True,
        recognition: str = "oracle",
        max_fixations: int = 60,
    ) -> None:
        super().__init__(
            backbone=backbone, root=root, weights=weights, eccentricity=False, levels=levels,
            frame=frame, margin=margin, sharpening=sharpening, rounds=rounds,
            weighting=weighting, inhibition=inhibition, paint=paint, recognition=recognition,
            max_fixations=max_fixations,
        )  # fmt: skip


def places_of(objects: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the boxes of places, (n, 4), and that of the target, (4,)."""
    boxes = objects[["xmin", "ymin", "xmax", "ymax"]].to_numpy(dtype=np.int64)
    return boxes, boxes[int(np.flatnonzero(objects["target"].to_numpy(dtype=bool))[0])]


def _edge(picture: PictureArray) -> PictureArray:
    """Return the pixels along the border, (n, 3)."""
    return np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])


def _read(path: str | None, stimulus: Stimulus, what: str) -> PictureArray:
    if path is None:
        raise DataError(f"the model needs a picture as {what}", source=stimulus.name, found="none")
    file = FilePath(path)
    if not file.is_file():
        raise MissingAssetError(
            f"the {what} of {stimulus.name} is no picture that is there: {file}"
        )
    with Image.open(file) as opened:
        values = np.asarray(opened.convert("RGB"), dtype=np.float32)
    return (values / np.float32(255)).astype(np.float32)
