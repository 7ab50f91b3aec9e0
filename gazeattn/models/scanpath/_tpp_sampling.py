"""Scanpaths drawn from TPP-Gaze: all of a picture in one loop over fixations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gazeattn.datamodules import Stimulus
from gazeattn.errors import DataError
from gazeattn.models.layers.mixtures import Positions
from gazeattn.models.scanpath._tpp_readout import SpatialReadout, View

if TYPE_CHECKING:
    from gazeattn.models.scanpath.tpp_gaze import TPPGaze

__all__ = ["QUANTILES", "Events", "draw"]

QUANTILES = 201
"""Numbers that stand for the distribution of the sums of training durations."""


def _append(before: Tensor, new: Tensor) -> Tensor:
    return torch.cat([before, new], 1)


@dataclass(frozen=True)
class Events:
    """Fixations as the history sees them; padding and missing durations are neutral."""

    log: Tensor  # normalised log-duration, 0 where missing
    known: Tensor  # whether the duration can be learned from
    elapsed: Tensor  # seconds of fixations so far, a missing one counted as a typical one


def _most(model: TPPGaze) -> int:
    """Return the number of fixations after which sampling ends in any case."""
    return 2 * int(model.longest) if int(model.longest) else 100


def draw(
    model: TPPGaze,
    stimulus: Stimulus,
    features: Mapping[str, Tensor],
    n: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return places (n, steps, 2) as shares, durations (n, steps) in ms, and lengths (n,).

    The picture is read once; `features` have a batch dimension of 1.
    """
    one = model.look([stimulus], features)
    view = one.of(torch.zeros(n, dtype=torch.int64, device=model.device))
    limit = _limits(model, n, generator)
    history = model.history.start.expand(n, -1)
    state: Any = None
    going = torch.ones(n, dtype=torch.bool)
    lengths = torch.zeros(n, dtype=torch.int64)
    elapsed = torch.zeros(n, device=model.device)
    exact: list[Tensor] = []
    places: list[Tensor] = []
    lasted: list[Tensor] = []
    nothing = torch.zeros(n, 0, 0, 0, device=model.device)
    bumps = (nothing, nothing)
    for i in range(_most(model)):
        context = torch.cat([history, view.z], -1)[:, None]
        duration = model._times(context).sample(generator)
        mixture: Positions
        if isinstance(model.readout, SpatialReadout):
            seen = torch.cat([view.aspect.new_zeros(n, 0, 2), *places], 1)
            mixture = model.readout.mixture(view, context, bumps, seen, first=i)
        else:
            mixture = model._paper_positions(context, model.temperature)
        xy = mixture.sample(generator)
        near = xy.float()
        exact.append(xy)
        places.append(near)
        lasted.append(duration)
        events = model._events(duration, torch.ones_like(duration, dtype=torch.bool))
        elapsed = elapsed + duration[:, 0] / 1000
        events = Events(events.log, events.known, elapsed[:, None])
        event = model._inputs(view, near, events, first=i)[:, 0]
        history, state = model.history.step(event, model._clock(events)[:, 0], state)
        if isinstance(model.readout, SpatialReadout):
            new = model.readout.bumps_around(view, near)
            bumps = new if i == 0 else tuple(map(_append, bumps, new))  # type: ignore[assignment]
        kept, ended = _ends(
            model, i, limit, duration[:, 0], elapsed, history, view, events, generator
        )
        lengths += (going & kept.cpu()).long()
        going &= ~ended.cpu()
        if not bool(going.any()):
            break
    return torch.cat(exact, 1).cpu(), torch.cat(lasted, 1).double().cpu(), lengths


def _limits(model: TPPGaze, n: int, generator: torch.Generator) -> Tensor | None:
    if model.horizon == "stop":
        return None
    if model.horizon != "distribution":
        return torch.full((n,), float(model.horizon), device=model.device)
    if not bool(torch.isfinite(model.totals).all()):
        raise DataError(
            'horizon="distribution" needs the sums of training durations',
            hint="call fit_statistics with scanpaths that have durations",
        )
    u = torch.rand(n, generator=generator).to(model.device) * (QUANTILES - 1)
    low = u.long().clamp_max(QUANTILES - 2)
    return torch.lerp(model.totals[low], model.totals[low + 1], u - low)


def _ends(
    model: TPPGaze,
    i: int,
    limit: Tensor | None,
    duration: Tensor,
    elapsed: Tensor,
    history: Tensor,
    view: View,
    events: Events,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return which fixations are kept, and which scanpaths end with or before them."""
    everything = torch.ones_like(duration, dtype=torch.bool)
    if limit is None:
        context = torch.cat([history, view.z], -1)[:, None]
        chance = model._stop_logit(context, events, first=i)[:, 0].sigmoid()
        return everything, torch.rand(len(duration), generator=generator).to(chance) < chance
    end = 1000 * elapsed
    crossing = end > limit if model.horizon != "distribution" else end >= limit
    if i == 0:
        return everything, crossing
    half = 0.5 * duration if model.horizon == "distribution" else torch.zeros_like(duration)
    return end - half <= limit, crossing
