"""Visual search: how soon the eyes reach the target, and by how straight a way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.metrics._arrays import EVERY, as_floats
from gazeattn.metrics._options import labels, whole
from gazeattn.metrics.scanpath._packed import Floats, Packed, pack
from gazeattn.registry import register_metric

__all__ = [
    "TargetFixation",
    "probability_mismatch",
    "scanpath_ratio",
    "scanpath_ratios",
    "steps_to_target",
    "target_fixation_auc",
    "target_fixation_probability",
]

_YANG = "Yang, Huang, Chen, Wei, Ahn, Zelinsky, Samaras & Hoai 2020, CVPR, pp. 193-202"


def _packed(paths: Packed | Sequence[ArrayLike]) -> Packed:
    return paths if isinstance(paths, Packed) else pack(paths)


def _boxes(boxes: ArrayLike, n: int) -> Floats:
    """Return one box x, y, width, height per trial, (n, 4)."""
    values = as_floats(boxes, "boxes", EVERY).astype(np.float64)
    if values.ndim == 1 and values.shape == (4,):
        values = np.broadcast_to(values, (n, 4))
    if values.shape != (n, 4):
        raise DataError(
            "boxes is wrong: the target boxes have another shape",
            expected=f"({n}, 4), one x, y, width, height per trial, or one box for all",
            found=str(values.shape),
        )
    bad = ~np.isfinite(values).all(axis=1) | (values[:, 2:] <= 0).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            "boxes is wrong: a target box is not a box",
            row=row,
            expected="finite x, y, width, height in pixels; width and height above 0",
            found=str(values[row].tolist()),
        )
    return values


def steps_to_target(paths: Packed | Sequence[ArrayLike], boxes: ArrayLike) -> Floats:
    """Return the number of the first fixation on the target, counted from 1.

    Parameters
    ----------
    paths : sequence of array_like, or Packed
        One scanpath per trial, in pixels, the first fixation (at the centre) included.
    boxes : array_like, shape (n_trials, 4) or (4,)
        x, y, width, height of the target, in pixels. A fixation on the border is outside.

    Returns
    -------
    ndarray, shape (n_trials,), float64
        Infinite where the target was never fixated; NaN where the trial has no fixation.
    """
    packed = _packed(paths)
    box = _boxes(boxes, len(packed))
    if packed.x.shape[1] == 0:
        return np.full(len(packed), np.nan)
    left, top = box[:, 0, None], box[:, 1, None]
    right, bottom = left + box[:, 2, None], top + box[:, 3, None]
    inside = (packed.x > left) & (packed.x < right) & (packed.y > top) & (packed.y < bottom)
    inside &= packed.valid()
    steps = np.where(inside.any(axis=1), inside.argmax(axis=1) + 1.0, np.inf)
    steps[packed.length == 0] = np.nan
    return steps


@dataclass(frozen=True)
class TargetFixation:
    """The target-fixation-probability curve.

    Attributes
    ----------
    curve : ndarray, shape (max_step + 1,)
        Share of trials in which the target was fixated after at most 0, 1, ..., `max_step`
        saccades; the unweighted mean over tasks where tasks were given. NaN without trials.
    by_task : dict of str to ndarray
        The curve of each task; empty where none were given.
    trials : int
        Trials behind the curve.
    undefined : int
        Trials left out because they have no fixation.
    """

    curve: Floats
    by_task: dict[str, Floats] = field(default_factory=dict)
    trials: int = 0
    undefined: int = 0

    @property
    def auc(self) -> float:
        """Area under the curve: the sum of its values."""
        return target_fixation_auc(self.curve)


def _curve(steps: Floats, max_step: int) -> Floats:
    if len(steps) == 0:
        return np.full(max_step + 1, np.nan)
    share: Floats = (steps[:, None] <= np.arange(1, max_step + 2)).mean(axis=0)
    return share


def target_fixation_probability(
    steps: ArrayLike, *, max_step: int, tasks: Sequence[str] | None = None
) -> TargetFixation:
    """Return the cumulative probability of fixating the target (TFP).

    Parameters
    ----------
    steps : array_like, shape (n_trials,)
        From `steps_to_target`.
    max_step : int
        Most saccades. The curve has ``max_step + 1`` values, since the first fixation, at the
        centre, is on the target after 0 saccades when it is inside the box.
    tasks : sequence of str, optional
        Of each trial; every task then has the same weight.

    References
    ----------
    Yang et al. 2020, Predicting goal-directed human attention using inverse reinforcement
    learning, CVPR.
    """
    values = as_floats(steps, "steps", EVERY).astype(np.float64)
    most = whole("max_step", max_step, least=0)
    if values.ndim != 1 or bool((values < 1).any()):
        raise DataError(
            "steps is wrong: these are no steps to a target",
            expected="one number of at least 1 per trial; inf where never, NaN where undefined",
            found=str(values.shape) if values.ndim != 1 else str(values[values < 1][:3].tolist()),
        )
    known = ~np.isnan(values)
    trials, undefined = int(known.sum()), int((~known).sum())
    if tasks is None:
        return TargetFixation(_curve(values[known], most), {}, trials, undefined)
    names = labels("tasks", tasks)
    if names.shape != values.shape:
        raise DataError(
            "tasks and steps differ in number", expected=str(len(values)), found=str(len(names))
        )
    by_task = {
        str(task): _curve(values[known & (names == task)], most) for task in np.unique(names[known])
    }
    mean = np.mean(list(by_task.values()), axis=0) if by_task else np.full(most + 1, np.nan)
    return TargetFixation(mean, by_task, trials, undefined)


def _one_curve(curve: ArrayLike | TargetFixation, name: str) -> Floats:
    values = curve.curve if isinstance(curve, TargetFixation) else curve
    array = as_floats(values, name, EVERY).astype(np.float64)
    outside = (array < 0) | (array > 1)
    if array.ndim != 1 or len(array) == 0 or outside.any():
        raise DataError(
            f"{name} is no curve of probabilities",
            expected="one value between 0 and 1 per step",
            found=str(array.shape) if not outside.any() else str(array[outside][:3].tolist()),
        )
    return array


@register_metric(
    "target_fixation_auc",
    task="search",
    bounds=(0.0, np.inf),
    higher_is_better=True,
    symmetric=None,
    description="area under the target-fixation-probability curve",
    formula="sum over k = 0..max_step of P(target fixated after at most k saccades)",
    citation=_YANG,
    convention="sum of all max_step + 1 values, not divided",
)
def target_fixation_auc(curve: ArrayLike | TargetFixation) -> float:
    """Return the area under a target-fixation-probability curve: the sum of its values (TFP-AUC).

    From 0 to the number of values; NaN for a curve without trials.
    """
    return float(_one_curve(curve, "the curve").sum())


@register_metric(
    "probability_mismatch",
    task="search",
    bounds=(0.0, np.inf),
    higher_is_better=False,
    symmetric=True,
    description="difference of two target-fixation-probability curves",
    formula="sum over k of |P_model(k) - P_human(k)|",
    citation=_YANG,
    convention="sum over all steps, not divided",
)
def probability_mismatch(
    curve: ArrayLike | TargetFixation, reference: ArrayLike | TargetFixation
) -> float:
    """Return the summed absolute difference of two target-fixation-probability curves.

    Parameters
    ----------
    curve, reference : array_like of shape (n_steps,), or TargetFixation
        The model's and the human one, with the same number of steps.

    Returns
    -------
    float
        0 or more; NaN when a curve has no trials.
    """
    ours, theirs = _one_curve(curve, "the first curve"), _one_curve(reference, "the reference")
    if len(ours) != len(theirs):
        raise DataError(
            "the curves differ in length", expected=f"{len(theirs)} steps", found=str(len(ours))
        )
    return float(np.abs(ours - theirs).sum())


def scanpath_ratios(
    paths: Packed | Sequence[ArrayLike], boxes: ArrayLike, *, max_step: int | None = None
) -> Floats:
    """Return, per trial, the straight way to the target as a share of the way that was taken.

    Parameters
    ----------
    paths, boxes
        As in `steps_to_target`.
    max_step : int, optional
        Most saccades; trials that took more count as not found.

    Returns
    -------
    ndarray, shape (n_trials,)
        Distance from the first fixation to the centre of the box, over the length of the path up
        to the first fixation on the target, at most 1. NaN where the target was not found (within
        `max_step` saccades), was under the first fixation, or the trial is empty.
    """
    packed = _packed(paths)
    box = _boxes(boxes, len(packed))
    steps = steps_to_target(packed, box)
    last = np.inf if max_step is None else whole("max_step", max_step, least=0) + 1
    out = np.full(len(packed), np.nan)
    found = np.flatnonzero((steps > 1) & (steps <= last) & np.isfinite(steps))
    if len(found) == 0:
        return out
    x, y, box = packed.x[found], packed.y[found], box[found]
    amplitude = np.hypot(np.diff(x), np.diff(y))
    amplitude[np.arange(1, x.shape[1]) >= steps[found, None]] = 0.0
    straight = np.hypot(box[:, 0] + box[:, 2] / 2 - x[:, 0], box[:, 1] + box[:, 3] / 2 - y[:, 0])
    # the path may stop short of the centre of the box
    out[found] = np.minimum(straight / amplitude.sum(axis=1), 1.0)
    return out


@register_metric(
    "scanpath_ratio",
    task="search",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    symmetric=None,
    description="straight way to the target as a share of the way taken, mean over found trials",
    formula="mean over trials of min(1, |first - centre| / path length to the target)",
    citation=_YANG,
    convention="trials found within max_step saccades, not at the first fixation",
)
def scanpath_ratio(
    paths: Packed | Sequence[ArrayLike], boxes: ArrayLike, *, max_step: int | None = None
) -> float:
    """Return the mean of `scanpath_ratios` over the trials that have one; NaN when none has.

    Parameters
    ----------
    paths, boxes, max_step
        As in `scanpath_ratios`.

    References
    ----------
    Yang et al. 2020, CVPR.
    """
    ratios = scanpath_ratios(paths, boxes, max_step=max_step)
    known = ratios[~np.isnan(ratios)]
    return float(known.mean()) if len(known) else float("nan")
