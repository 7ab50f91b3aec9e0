"""What people see in the terminal: progress while it runs, the table and the path at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


def console(stderr: bool = False) -> Console:
    """Return a console that keeps whole lines when the output is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 120, highlight=False)


class StageProgress:
    """A progress bar on standard error; without a terminal it stays silent."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task: Any = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def pause(self) -> None:
        """Take the bar away, for example before another one is shown."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        self._progress.stop()

    def stage(self, description: str) -> None:
        """Begin a stage of unknown length."""
        self.update(description, 0, None)

    def update(self, description: str, done: int, total: int | None) -> None:
        """Show how far a stage is."""
        self._progress.start()
        if self._task is None:
            self._task = self._progress.add_task(description, total=total, completed=done)
        else:
            self._progress.update(self._task, description=description, total=total, completed=done)


def number(value: Any, digits: int = 2) -> str:
    """Return a short number; a missing one is a dash."""
    if value is None or pd.isna(value):
        return "–"
    return f"{float(value):.{digits}f}"


def p_value(value: Any) -> str:
    """Return a p value as papers print it."""
    if value is None or pd.isna(value):
        return "–"
    return "<.001" if value < 0.001 else f"{float(value):.3f}".lstrip("0")


def print_comparison(comparison: Any, report: Path, seconds: dict[str, float]) -> None:
    """Print the answer, the method table, the time per stage and where the report is."""
    out = console()
    table = comparison.table()
    first = table.iloc[0] if len(table) else None
    title = f"{first.metric} with {first.measure}" if first is not None else "agreement"
    grid = Table(title=title, title_justify="left", title_style="bold")
    grid.add_column("method")
    for name in ("value", "95 % interval", "ceiling", "of ceiling", "p", "q", "trials"):
        grid.add_column(name, justify="right")
    for row in table.itertuples():
        name = row.method if row.kind == "model" else f"{row.method} (baseline)"
        interval = f"{number(row.low)} to {number(row.high)}" if pd.notna(row.low) else "–"
        relative = f"{100 * row.relative:.0f} %" if pd.notna(row.relative) else "–"
        grid.add_row(
            name,
            number(row.value),
            interval,
            number(row.ceiling),
            relative,
            p_value(row.p),
            p_value(row.q),
            str(row.n_trials),
            style="" if row.kind == "model" else "dim",
        )
    out.print()
    out.print(comparison.answer)
    out.print()
    out.print(grid)
    spent = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    out.print(f"time: {spent}")
    if len(comparison.lost):
        out.print(f"{len(comparison.lost)} kinds of loss are listed in the report")
    # plain print: a path must stay on one line, so that it can be copied
    print(f"report: {report.resolve()}")


def print_benchmark(rows: pd.DataFrame, report: Path) -> None:
    """Print the main numbers of a benchmark and where the report is."""
    from gazeattn.report.benchmark import over_seeds

    shown = {
        "information_gain": "IG bits",
        "nss": "NSS",
        "auc": "AUC",
        "kl_multimatch": "KL MultiMatch",
        "kl_scanmatch": "KL ScanMatch",
        "kl_scanmatch_duration": "KL ScanMatch+t",
        "length_mean": "length",
    }
    table = over_seeds(rows)
    table = table[table["reference"] == ""]
    cells = {(r.model, r.metric): r.value for r in table.itertuples()}
    first = rows.iloc[0]
    title = f"scanpath models on {first['dataset']}, size {first['size']}"
    grid = Table(title=title, title_justify="left", title_style="bold")
    grid.add_column("model")
    for name in shown.values():
        grid.add_column(name, justify="right")
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    for model, kind in kinds.items():
        values = [number(cells.get((model, m)), 3) for m in shown]
        grid.add_row(f"{model} ({kind})", *values, style="" if kind == "model" else "dim")
    console().print(grid)
    print(f"report: {report.resolve()}")


def print_losses(lost: Any) -> None:
    """Print what was dropped, repaired or left undefined."""
    if not len(lost):
        print("nothing was dropped, repaired or left undefined")
        return
    rows = [(x.step, x.kind, f"{x.count:,} {x.unit}", x.reason, x.examples) for x in lost]
    print_table("what was lost or is doubtful", ("step", "kind", "count", "what", "first"), rows)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table whose first column stays in one piece."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=i == 0)  # a name stays in one piece
    for row in rows:
        table.add_row(*map(str, row))
    console().print(table)
