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

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.metrics._arrays import plain
from gazeattn.metrics._options import wrong
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
        ``update(ours, references)`` takes two sequences of equal length, one entry per item; that
        of ``"shuffled_auc"`` a third, ``other_fixations``, with the fixations of other images for
        each item, unless one `other_fixations` for all items is among `params`;
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
    part = _part(name, entry.info.get("columns"), part)
    given = inspect.signature(entry.obj).parameters
    for parameter in params:
        if parameter not in given:
            raise UnknownNameError(f"parameter of metric {name!r}:", parameter, list(given)[2:])
    needed = [p.name for p in list(given.values())[2:] if p.default is p.empty]
    missing = [p for p in needed if p not in params]
    each = tuple(p for p in missing if p in entry.info.get("needs", ()))
    missing = [p for p in missing if p not in each]
    if missing:
        raise DataError(f"metric {name!r} needs more", expected=", ".join(f"{p}=" for p in missing))
    return _class(each)(entry.obj, name, part, params)


def _part(name: str, columns: Sequence[str] | None, part: int | str | None) -> int | None:
    """Return the place of a value of a metric with several."""
    if part is None:
        if columns:
            raise DataError(
                f"metric {name!r} has several values", expected=f"part= {', '.join(columns)}"
            )
        return None
    known = tuple(columns or ())
    if isinstance(part, str) and part in known:
        return known.index(part)
    if isinstance(part, int) and not isinstance(part, bool) and 0 <= part < len(known):
        return part
    raise UnknownNameError(f"part of metric {name!r}:", str(part), known)


@functools.cache
def _class(each: tuple[str, ...]) -> Any:
    """Return the class whose updates also take the parameters `each`, one entry per item."""
    import torch
    from torchmetrics import Metric

    class Mean(Metric):
        """What both classes share: the state, and how items are added to it."""

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

        def _add(self, ours: Any, references: Any, more: dict[str, Any]) -> None:
            n = _length(ours, "items")
            for name, given in {"references": references, **more}.items():
                if _length(given, name) != n:
                    raise DataError(
                        f"as many {name} as items are needed", expected=n, found=len(given)
                    )
            for i, (a, b) in enumerate(zip(ours, references, strict=True)):
                own = {k: plain(v[i], k) for k, v in more.items()}
                value = self.function(plain(a, "item"), plain(b, "reference"), **self.params, **own)
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

    class Streaming(Mean):
        """Mean of a metric over items; see `streaming`."""

        def update(self, ours: Sequence[Any], references: Sequence[Any]) -> None:
            """Add items; tensors are moved to the processor."""
            self._add(ours, references, {})

    class WithOthers(Mean):
        """Mean of a metric whose items come with fixations of other images; see `streaming`."""

        def update(
            self, ours: Sequence[Any], references: Sequence[Any], other_fixations: Sequence[Any]
        ) -> None:
            """Add items, each with the fixations of other images, (m, 2) or a list of such."""
            self._add(ours, references, {"other_fixations": other_fixations})

    return WithOthers if each else Streaming


def _length(items: Any, name: str) -> int:
    try:
        return len(items)
    except TypeError:
        raise wrong(name, "a sequence with one entry per item", items) from None
