"""Metrics for training loops: the same values, gathered batch by batch and over processes.

`streaming` turns any registered metric of two things (profiles, scanpaths, maps) into a
`torchmetrics.Metric`. Its state is a sum, the number of defined values and the number of undefined
ones, so that any cut of the data into batches or processes gives the same mean, also where the
shares are unequal.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.registry import metrics

if TYPE_CHECKING:
    from torchmetrics import Metric

TASKS = ("agreement", "scanpath", "saliency")


def streaming(name: str, part: int | str | None = None, **params: Any) -> Metric:
    """Return a metric to update with batches.

    Parameters
    ----------
    name
        A registered metric that compares two things: ``"spearman"``, ``"scanmatch"``, ``"nss"``.
    part
        Which value of a metric with several, such as ``"shape"`` or 0 of ``"multimatch"``.
    **params
        Passed to the metric, e.g. ``size=(800, 600)``.

    Returns
    -------
    torchmetrics.Metric
        ``update(ours, references)`` takes two sequences of equal length, one entry per item;
        ``compute()`` returns the mean of the defined values (float64, NaN with a warning where
        there is none); ``n`` and ``undefined`` count.

    Raises
    ------
    UnknownNameError
        No such metric, or none that compares two things; no such part.
    """
    entry = metrics.get(name)
    if entry.info.get("task") not in TASKS:
        known = [e.name for e in metrics if e.info.get("task") in TASKS]
        raise UnknownNameError("metric of two things", name, known)
    columns = entry.info.get("columns")
    if columns and part is None:
        raise DataError(
            f"metric {name!r} has several values", expected=f"part= {', '.join(columns)}"
        )
    if isinstance(part, str):
        if not columns or part not in columns:
            raise UnknownNameError(f"part of metric {name!r}:", part, columns or ())
        part = tuple(columns).index(part)
    given = inspect.signature(entry.obj).parameters
    for parameter in params:
        if parameter not in given:
            raise UnknownNameError(f"parameter of metric {name!r}:", parameter, list(given)[2:])
    needed = [p.name for p in list(given.values())[2:] if p.default is p.empty]
    missing = [p for p in needed if p not in params]
    if missing:
        raise DataError(f"metric {name!r} needs more", expected=", ".join(f"{p}=" for p in missing))
    if part is not None and not 0 <= part < len(columns or ()):
        raise UnknownNameError(f"part of metric {name!r}:", str(part), columns or ())
    return _class()(entry.obj, name, part, params)


@functools.cache
def _class() -> Any:
    import torch
    from torchmetrics import Metric

    class Streaming(Metric):
        """Mean of a metric over items; see `streaming`."""

        total: torch.Tensor
        n: torch.Tensor
        undefined: torch.Tensor
        is_differentiable = False
        full_state_update = False

        def __init__(self, function: Any, name: str, part: int | None, params: dict[str, Any]):
            super().__init__()
            self.function, self.name, self.part, self.params = function, name, part, params
            zero = torch.zeros((), dtype=torch.float64)
            for state in ("total", "n", "undefined"):
                self.add_state(state, zero.clone(), dist_reduce_fx="sum")

        def __reduce__(self) -> Any:
            # made by a function: processes and files get the call, and the state beside it
            remake = functools.partial(streaming, self.name, self.part, **self.params)
            return remake, (), self.__getstate__()

        def update(self, ours: Sequence[Any], references: Sequence[Any]) -> None:
            """Add items; tensors are moved to the processor."""
            if len(ours) != len(references):
                raise DataError(
                    "as many references as items are needed",
                    expected=len(ours),
                    found=len(references),
                )
            for a, b in zip(ours, references, strict=True):
                value = self.function(_array(a), _array(b), **self.params)
                number = float(value if self.part is None else value[self.part])
                if number == number:
                    self.total += number
                    self.n += 1
                else:
                    self.undefined += 1

        def compute(self) -> torch.Tensor:
            """Return the mean of the defined values."""
            if not self.n:
                text = f"{self.name}: no defined value ({int(self.undefined)} undefined)"
                warnings.warn(text, UserWarning, stacklevel=2)
                return torch.full((), float("nan"), dtype=torch.float64)
            return self.total / self.n

    return Streaming


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().to("cpu").numpy()
    return np.asarray(value)
