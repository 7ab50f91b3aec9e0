"""Pooling whose window grows with the distance from the point that is looked at.

`with_eccentricity` puts it into any convolutional backbone: maximum and average poolings by 2 are
exchanged for it, and in front of convolutions with a step of 2 it is added with a step of 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.errors import CapabilityError, DataError
from gazeattn.models.layers.backbones import Backbone

SLOPES = (0.0, 0.0, 0.07, 0.16, 0.32)
"""Growth of the window per cell of distance, of the five halvings of the published network."""
PROBE = 128
"""Width of the picture that tells at which resolution each layer works."""


def cells_per_degree(pixels_per_degree: float, level: int) -> int:
    """Return the cells of one degree at the input of the `level`-th halving (1: the picture).

    Rounded half to even, as in the published network: 30 pixels give 30, 15, 8, 4, 2.
    """
    return round(pixels_per_degree / 2 ** (level - 1))


def ring_windows(
    per_degree: int, slope: float, *, stride: int = 2, smallest: int = 2, fovea: float = 4.0,
    ring: float = 1.0, reach: float,
) -> tuple[list[int], list[int]]:  # fmt: skip
    """Return the outer radii of the rings around the fixation and the window of each.

    Parameters
    ----------
    per_degree
        Cells of the input in one degree.
    slope
        Growth of the window.
    stride
        Of the pooling; radii count cells of its output.
    smallest
        Window inside the fovea, a disc of radius `fovea` degrees.
    ring
        Width of a ring, degrees.
    reach
        Half of the field of view in cells of the output: one last ring covers all beyond.

    Returns
    -------
    radii, windows : list of int
        A cell at distance d has the window of the first radius greater than d; one beyond all
        radii has the last window.

    Notes
    -----
    The window of a ring of outer radius e is ``smallest + round(slope * (e * stride - fovea *
    per_degree))``; all rounding is half to even.
    """
    radius, step = round(fovea * per_degree / stride), max(1, round(ring * per_degree / stride))
    radii, windows = [radius], [smallest]
    if radius > reach:
        return radii, windows
    while True:
        radius += step
        radii.append(radius)
        windows.append(smallest + round(slope * (radius * stride - fovea * per_degree)))
        if radius >= reach:
            return radii, windows


class EccentricityPool(nn.Module):
    """Average pooling with a window that grows in rings around the fixation.

    The sums come from one table of cumulative sums in double precision, so memory does not grow
    with the number or the size of the windows.

    Parameters
    ----------
    level
        Number of the halving, from 1; the input has a stride of ``2 ** (level - 1)`` pixels.
    slope, pixels_per_degree, fovea, ring
        See `ring_windows`.
    stride
        2, or 1 in front of a convolution that does the halving.
    smallest
        Window in the fovea.
    border : {"valid", "zero"}
        A window that reaches over the border is divided by the cells inside, or by all of its
        cells, which darkens borders.

    Attributes
    ----------
    fixation : (x, y) or None
        Pixels of the picture that the network sees; None: its centre.
    reach : float or None
        Half of the field of view, pixels; None: half of the longer side.
    """

    def __init__(
        self, level: int, slope: float, *, pixels_per_degree: float = 30.0, stride: int = 2,
        smallest: int | None = None, fovea: float = 4.0, ring: float = 1.0, border: str = "valid",
    ) -> None:  # fmt: skip
        super().__init__()
        if border not in ("valid", "zero"):
            raise DataError("unknown border rule", expected="valid or zero", found=border)
        if level < 1 or stride not in (1, 2) or slope < 0:
            raise DataError("a level from 1, a stride of 1 or 2 and a slope of at least 0 needed",
                            found=f"level {level}, stride {stride}, slope {slope:g}")  # fmt: skip
        self.level, self.slope, self.stride, self.border = level, slope, stride, border
        self.smallest = stride if smallest is None else smallest
        self.per_degree = cells_per_degree(pixels_per_degree, level)
        self.fovea, self.ring = fovea, ring
        self.fixation: tuple[float, float] | None = None
        self.reach: float | None = None

    def extra_repr(self) -> str:
        """Return what the numbers depend on (part of a backbone's fingerprint)."""
        return (
            f"level={self.level}, slope={self.slope:g}, stride={self.stride}, "
            f"smallest={self.smallest}, per_degree={self.per_degree}, fovea={self.fovea:g}, "
            f"ring={self.ring:g}, border={self.border}"
        )

    def windows(self, height: int, width: int) -> Tensor:
        """Return the window of every output cell for an input of this size, (rows, columns)."""
        step = self.stride
        rows, columns = -(-height // step), -(-width // step)
        pixels = step * 2 ** (self.level - 1)
        if self.fixation is None:
            x, y = columns // 2, rows // 2
        else:
            x, y = (int(v // pixels) for v in self.fixation)
        reach = max(rows, columns) / 2 if self.reach is None else self.reach / pixels
        radii, sizes = ring_windows(
            self.per_degree, self.slope, stride=step, smallest=self.smallest, fovea=self.fovea,
            ring=self.ring, reach=reach,
        )  # fmt: skip
        square = (torch.arange(rows) - y)[:, None] ** 2 + (torch.arange(columns) - x) ** 2
        edges = torch.tensor([r * r for r in radii])
        which = torch.searchsorted(edges, square.contiguous(), right=True)
        return torch.tensor(sizes)[which.clamp_max(len(sizes) - 1)]

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, ceil(height / stride), ceil(width / stride))."""
        height, width = x.shape[-2:]
        sizes = self.windows(height, width)
        flat_sizes = sizes.flatten()
        kept = self.stride == 1 and self.smallest == 1
        todo = torch.arange(sizes.numel()) if not kept else (flat_sizes != 1).nonzero()[:, 0]
        if not len(todo):
            return x
        # channels last: a cell's channels lie together, which makes looking them up fast
        last = x.permute(0, 2, 3, 1).contiguous()
        table = F.pad(last.double().cumsum_(2).cumsum_(1), (0, 0, 1, 0, 1, 0)).flatten(1, 2)
        size = flat_sizes[todo]
        top, bottom = self._bounds(todo // sizes.shape[1], size, height, sizes.shape[0])
        left, right = self._bounds(todo % sizes.shape[1], size, width, sizes.shape[1])
        wide = width + 1
        total = table.index_select(1, bottom * wide + right)
        total -= table.index_select(1, top * wide + right)
        total -= table.index_select(1, bottom * wide + left)
        total += table.index_select(1, top * wide + left)
        cells = (bottom - top) * (right - left) if self.border == "valid" else size * size
        total /= cells[:, None]
        if kept:
            flat = last.flatten(1, 2).index_copy(1, todo, total.to(x.dtype))
        else:
            flat = total.to(x.dtype)
        return flat.unflatten(1, tuple(sizes.shape)).permute(0, 3, 1, 2)

    def _bounds(
        self, index: Tensor, size: Tensor, length: int, outputs: int
    ) -> tuple[Tensor, Tensor]:
        """Return begin and end of windows along one axis, padded as "same" in TensorFlow."""
        padding = ((outputs - 1) * self.stride + size - length).clamp_min(0)
        begin = index * self.stride - padding // 2
        return begin.clamp(0, length), (begin + size).clamp(0, length)


def strided_layers(backbone: Backbone) -> dict[int, list[str]]:
    """Return the layers that halve the map, by level (1: the picture), in order of execution.

    Poolings and convolutions with a step of 2 count; several of one level are the branches of a
    block.

    Raises
    ------
    CapabilityError
        There is none, as in vision transformers.
    """
    found: dict[int, list[str]] = {}
    handles = []

    def hook(name: str):  # type: ignore[no-untyped-def]
        def seen(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            level = round(PROBE / inputs[0].shape[-1]).bit_length()
            names = found.setdefault(level, [])
            if name not in names:
                names.append(name)

        return seen

    for name, module in backbone.network.named_modules():
        if isinstance(module, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d) and _step(module) == 2:
            handles.append(module.register_forward_pre_hook(hook(name)))
    try:
        with torch.inference_mode():
            backbone.network(torch.zeros(1, 3, PROBE, PROBE))
    finally:
        for handle in handles:
            handle.remove()
    if not found:
        raise CapabilityError(f"{backbone.name} has no layer that halves its map")
    return dict(sorted(found.items()))


def _step(module: nn.Module) -> int:
    stride = getattr(module, "stride", 1)
    return int(stride[0] if isinstance(stride, tuple) else stride)


def with_eccentricity(
    backbone: Backbone, slopes: Sequence[float] = SLOPES, *, pixels_per_degree: float = 30.0,
    fovea: float = 4.0, ring: float = 1.0, border: str = "valid",
) -> Backbone:  # fmt: skip
    """Return a copy of a convolutional backbone that sees less far from the fixation.

    Parameters
    ----------
    slopes
        Of each halving; those that are missing count as 0.

    Notes
    -----
    A pooling by 2 becomes an `EccentricityPool` of stride 2 whose window in the fovea is 2: with a
    slope of 0 it is the plain average. In front of a convolution with a step of 2 a pooling of
    stride 1 is put whose window in the fovea is 1, so that inside the fovea the network is the one
    that was trained; with a slope of 0 nothing is put there.
    """
    modules = dict(backbone.network.named_modules())
    new: dict[str, nn.Module] = {}
    for level, names in strided_layers(backbone).items():
        slope = slopes[level - 1] if level <= len(slopes) else 0.0
        for name in names:
            pooling = not isinstance(modules[name], nn.Conv2d)
            if slope == 0 and not pooling:
                continue
            pool = EccentricityPool(
                level, slope, pixels_per_degree=pixels_per_degree, stride=2 if pooling else 1,
                fovea=fovea, ring=ring, border=border,
            )  # fmt: skip
            new[name] = pool if pooling else nn.Sequential(pool, modules[name])
    return backbone.replaced(new) if new else backbone


def look_at(
    network: nn.Module, fixation: tuple[float, float] | None, reach: float | None = None
) -> None:
    """Move the fixation of all poolings of a network, in pixels of its picture."""
    for module in network.modules():
        if isinstance(module, EccentricityPool):
            module.fixation, module.reach = fixation, reach


__all__ = [
    "SLOPES",
    "EccentricityPool",
    "cells_per_degree",
    "look_at",
    "ring_windows",
    "strided_layers",
    "with_eccentricity",
]
