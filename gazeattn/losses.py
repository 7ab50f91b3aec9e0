"""Counting what was dropped, repaired or left undefined on the way from a file to a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import pandas as pd

LossKind = Literal["dropped", "repaired", "undefined", "note"]


@dataclass(frozen=True)
class Loss:
    """One kind of thing that happened to the data.

    Attributes
    ----------
    step : str
        Where, e.g. ``"fixations"`` or ``"word alignment"``.
    kind : {"dropped", "repaired", "undefined", "note"}
    reason : str
        What and why, in words.
    count : int
        How many rows, words, trials, ... (`unit` says which).
    unit : str
    examples : str
        The first few ids or rows.
    """

    step: str
    kind: LossKind
    reason: str
    count: int
    unit: str = "rows"
    examples: str = ""


class LossLog:
    """An ordered collection of `Loss` records; equal (step, kind, reason, unit) add up."""

    def __init__(self, losses: Iterable[Loss] = ()) -> None:
        self._losses: dict[tuple[str, str, str, str], Loss] = {}
        for loss in losses:
            self._put(loss)

    def _put(self, loss: Loss) -> None:
        key = (loss.step, loss.kind, loss.reason, loss.unit)
        old = self._losses.get(key)
        if old is not None:
            loss = Loss(
                loss.step,
                loss.kind,
                loss.reason,
                old.count + loss.count,
                loss.unit,
                old.examples or loss.examples,
            )
        self._losses[key] = loss

    def add(
        self,
        step: str,
        kind: LossKind,
        reason: str,
        count: int,
        unit: str = "rows",
        examples: Iterable[object] = (),
    ) -> None:
        """Record a loss; a count of 0 is not recorded."""
        if count <= 0:
            return
        shown = ", ".join(str(e) for e in list(examples)[:3])
        self._put(Loss(step, kind, reason, int(count), unit, shown))

    def extend(self, other: LossLog) -> None:
        """Add all records of another log."""
        for loss in other:
            self._put(loss)

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._losses.values())

    def __len__(self) -> int:
        return len(self._losses)

    def count(self, step: str | None = None, kind: str | None = None) -> int:
        """Return the summed count of the records that match."""
        return sum(
            loss.count
            for loss in self
            if (step is None or loss.step == step) and (kind is None or loss.kind == kind)
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the records as a table: ``step, kind, reason, count, unit, examples``."""
        columns = ["step", "kind", "reason", "count", "unit", "examples"]
        return pd.DataFrame([[getattr(x, c) for c in columns] for x in self], columns=columns)

    def __str__(self) -> str:
        lines = []
        for x in self:
            line = f"{x.step}: {x.count} {x.unit} {x.kind}: {x.reason}"
            lines.append(line + (f" (first: {x.examples})" if x.examples else ""))
        return "\n".join(lines)
