"""Scanpaths drawn as pictures of several channels, many at once, on any device.

Everything is scattered into the picture: a disc is a small square of pixels around its middle, a
saccade a row of points along its length. So the work grows with the fixations, not with the
pixels, and trials of any length stand in one batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SAME, FORWARD, RETURN, BACK, UP, OTHER = range(6)
DIRECTIONS = ("same word", "forward", "return sweep", "back", "back and up", "off the text")
CHANNELS = ("fixations", "time", "first", "last", *DIRECTIONS)
"""Of a picture: how many discs cover a pixel, the time they stand for, the places in the order of
the first and of the last disc, and saccades by `DIRECTIONS`."""

MOST_PIXELS = 8_000_000
"""Pixels of discs that are drawn at once."""


@dataclass(frozen=True)
class Canvas:
    """How scanpaths are drawn.

    Attributes
    ----------
    height, width : int
        Pixels.
    margin : float
        Share of each side that the box of the text leaves free.
    radius : float
        Of the disc of a fixation of median duration, as a share of the height.
    most : float
        Largest radius, as a share of the height; longer fixations are no larger, but brighter in
        the channel of time.
    """

    height: int
    width: int
    margin: float = 0.1
    radius: float = 0.03
    most: float = 0.08


def text_box(positions: Tensor, on_text: Tensor, least: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return middle and size of the box around the fixations on words, each (batch, 2).

    Parameters
    ----------
    positions : Tensor, shape (batch, length, 2)
    on_text : Tensor of bool, shape (batch, length)
    least
        Smallest size: a text that was read along one line is not stretched over the picture.
        Where no fixation is on a word, the middle is 0 and the size is `least`.
    """
    huge = torch.finfo(positions.dtype).max
    off = ~on_text[..., None]
    low = positions.masked_fill(off, huge).amin(1)
    high = positions.masked_fill(off, -huge).amax(1)
    some = on_text.any(1)[:, None]
    low, high = torch.where(some, low, 0.0), torch.where(some, high, 0.0)
    return (low + high) / 2, (high - low).clamp_min(least)


def directions(dx: Tensor, word: Tensor) -> Tensor:
    """Return the class of every saccade, from a fixation to the next, (batch, length - 1).

    A step to a later word is forward where it goes right and a return sweep where it goes left; a
    step to an earlier word is back where it goes left, and back and up, to an earlier line, where
    it goes right. This holds for text from left to right.

    Parameters
    ----------
    dx : Tensor, shape (batch, length - 1)
        Horizontal step, in any unit.
    word : Tensor of int64, shape (batch, length)
        Number of the fixated word, -1 off the text.
    """
    step = word[:, 1:] - word[:, :-1]
    later = torch.where(dx >= 0, FORWARD, RETURN)
    earlier = torch.where(dx <= 0, BACK, UP)
    kind = torch.where(step > 0, later, torch.where(step < 0, earlier, SAME))
    return kind.masked_fill((word[:, 1:] < 0) | (word[:, :-1] < 0), OTHER)


def draw(
    positions: Tensor, duration: Tensor, word: Tensor, there: Tensor, mask: Tensor, canvas: Canvas
) -> Tensor:
    """Return the pictures of some scanpaths.

    Parameters
    ----------
    positions : Tensor, shape (batch, length, 2)
        x and y as shares of the text's box: 0 and 1 are its sides, values beyond lie outside it.
        What lies beyond the picture is drawn at its edge.
    duration : Tensor, shape (batch, length)
        Over the median duration: 1 is the median.
    word : Tensor of int64, shape (batch, length)
        Number of the fixated word, -1 off the text.
    there : Tensor of bool, shape (batch, length)
        Fixations with a position; no other is drawn, nor a saccade to or from it.
    mask : Tensor of bool, shape (batch, length)
        Where a fixation is: order is counted among all of them.
    canvas

    Returns
    -------
    Tensor, shape (batch, len(CHANNELS), height, width)
        Order runs from 0.1 (start) to 1 (end); 0 is an empty pixel. Counts of discs, time and
        saccades are log(1 + value).
    """
    n, length = mask.shape
    squares = length * (2 * _reach(canvas) + 1) ** 2
    step = max(1, MOST_PIXELS // max(squares, 1))
    if n > step:  # a few trials at a time, so that memory does not grow with the batch
        pieces = []
        for k in range(0, n, step):
            at = slice(k, k + step)
            given = (positions[at], duration[at], word[at], there[at], mask[at])
            pieces.append(draw(*given, canvas))
        return torch.cat(pieces)
    size = positions.new_tensor([canvas.width - 1, canvas.height - 1])
    share = canvas.margin + (1 - 2 * canvas.margin) * positions
    pixel = share.clamp(0, 1) * size
    there = there & mask
    discs = _discs(pixel, duration, there, mask, canvas)
    lines = pixel.new_zeros(n, len(DIRECTIONS), canvas.height * canvas.width)
    if length > 1:
        both = there[:, 1:] & there[:, :-1]
        kind = directions(positions[:, 1:, 0] - positions[:, :-1, 0], word)
        lines = _lines(pixel, kind, both, canvas)
    found = torch.cat([discs, lines], dim=1)
    return found.view(n, len(CHANNELS), canvas.height, canvas.width)


def _reach(canvas: Canvas) -> int:
    """Return how many pixels the largest disc reaches from its middle."""
    return math.ceil(canvas.most * canvas.height + 0.5)


def _discs(pixel: Tensor, duration: Tensor, there: Tensor, mask: Tensor, canvas: Canvas) -> Tensor:
    """Return the four channels of fixations, (batch, 4, height * width)."""
    n = len(mask)
    most, reach = canvas.most * canvas.height, _reach(canvas)
    # the area of a disc grows with its duration
    radius = (canvas.radius * canvas.height * duration.clamp_min(0.1).sqrt()).clamp(0.5, most)
    side = torch.arange(-reach, reach + 1, device=pixel.device)
    offset = torch.stack(torch.meshgrid(side, side, indexing="xy"), -1).view(-1, 2)
    at = pixel.round().long()[:, :, None] + offset  # (batch, length, pixels of a square, 2)
    distance = (at - pixel[:, :, None]).norm(dim=-1)
    cover = (radius[..., None] + 0.5 - distance).clamp(0, 1)  # soft over one pixel at the rim
    inside = (
        (at[..., 0] >= 0) & (at[..., 0] < canvas.width)
        & (at[..., 1] >= 0) & (at[..., 1] < canvas.height)
    )  # fmt: skip
    cover = cover * (inside & there[..., None])
    index = (at[..., 1] * canvas.width + at[..., 0]).masked_fill(~inside, 0).view(n, -1)
    place = (mask.cumsum(1) - 1) / (mask.sum(1, keepdim=True) - 1).clamp_min(1)
    shade = (0.1 + 0.9 * place).to(pixel.dtype)
    out = pixel.new_zeros(n, 4, canvas.height * canvas.width)
    time = cover * duration[..., None]
    painted = cover > 0.5
    last = shade[..., None] * painted
    first = (1.1 - shade[..., None]) * painted
    out[:, 0].scatter_add_(1, index, cover.view(n, -1))
    out[:, 1].scatter_add_(1, index, time.view(n, -1))
    out[:, 2].scatter_reduce_(1, index, first.view(n, -1), "amax")
    out[:, 3].scatter_reduce_(1, index, last.view(n, -1), "amax")
    earliest = torch.where(out[:, 2] > 0, 1.1 - out[:, 2], 0.0)
    return torch.stack([out[:, 0].log1p(), out[:, 1].log1p(), earliest, out[:, 3]], dim=1)


def _lines(pixel: Tensor, kind: Tensor, both: Tensor, canvas: Canvas) -> Tensor:
    """Return the channels of saccades, (batch, len(DIRECTIONS), height * width)."""
    n = len(pixel)
    points = max(canvas.width, canvas.height)
    share = torch.linspace(0, 1, points, device=pixel.device, dtype=pixel.dtype)
    begin, way = pixel[:, :-1, None], (pixel[:, 1:] - pixel[:, :-1])[:, :, None]
    at = (begin + way * share[:, None]).round().long()
    index = kind[..., None] * (canvas.height * canvas.width)
    index = (index + at[..., 1] * canvas.width + at[..., 0]).view(n, -1)
    # a line of p pixels has weight 1 on each of them, however many points fall on it
    pixels = way.abs().amax(-1).round() + 1
    weight = (both[..., None] * pixels / points).expand(*both.shape, points).reshape(n, -1)
    out = pixel.new_zeros(n, len(DIRECTIONS) * canvas.height * canvas.width)
    out.scatter_add_(1, index, weight.to(out.dtype))
    return out.log1p().view(n, len(DIRECTIONS), -1)
