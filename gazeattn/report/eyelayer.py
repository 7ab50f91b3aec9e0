"""The page of the benchmark `eyelayer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.report import style
from gazeattn.report.benchmark import Drawing, panels, write_page
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.report.style import clean, count, label

TITLES = {
    "nll": "nats per token",
    "bleu4_codexglue": "BLEU-4 (CodeXGLUE)",
    "bleu4_sacre": "BLEU-4 (sacreBLEU)",
    "rouge_l": "ROUGE-L",
    "bertscore_f1": "BERTScore F1",
}


def write_eyelayer_page(
    rows: pd.DataFrame, folder: Path, *, facts: Mapping[str, Any], says: Sequence[str],
    command: str, examples: Sequence[Mapping[str, str]], curves: Mapping[str, pd.DataFrame],
    attention: pd.DataFrame | None = None,
) -> Path:  # fmt: skip
    """Write ``report.html`` with all rows, their differences to the controls, and examples.

    Parameters
    ----------
    rows
        Result rows with kind, reference, seeds and spread.
    folder
    facts
        Of the data and the budget.
    says
        Sentences of the outcome.
    command
    examples
        Test pairs with what rows write.
    curves
        Stage A by row.
    attention
        Agreement of attention on code with readers before and after training.
    """
    plain = rows[(rows["reference"] == "") & (rows["metric"] != "gaze_kl")]
    order = plain[plain["metric"] == "bleu4_codexglue"].sort_values("value", ascending=False)
    names = order["model"].tolist()
    metrics = {m: t for m, t in TITLES.items() if (plain["metric"] == m).any()}
    shown = {m: t for m, t in metrics.items() if m in ("nll", "bleu4_codexglue", "rouge_l")}
    drawings = [
        Drawing(
            "rows", "Rows of the table", panels(plain.assign(panel=plain["metric"]), shown, names),
            "Means over seeds; 95 % intervals from drawing test pairs. Names of functions and "
            "neighbours write without a model, so that they have no cross entropy.",
        )
    ]  # fmt: skip
    if curves:
        drawings.append(
            Drawing("stage_a", "Stage A", _curves(curves), "KL of readings to the prior, first "
                    "seed; dashed: training, solid: held-out developers and code.")
        )  # fmt: skip
    if attention is not None:
        drawings.append(
            Drawing("attention", "Attention on code, before and after", _attention(attention),
                    "Spearman correlation with the looking times of single readers over the "
                    "tokens of code; intervals draw readers and code. Dashed: readers with each "
                    "other; dotted: length of tokens.")
        )  # fmt: skip
    columns = {"row": "", "kind": "", "seeds": "n", **dict.fromkeys(metrics.values(), "n")}
    lines = [_line(plain, n, metrics) for n in names]
    note = "Means over seeds, 95 % intervals over test pairs. Fewer nats are better."
    tables = [page_table("All rows", columns, lines, note)]
    gaps = rows[rows["reference"] != ""]
    for reference in dict.fromkeys(gaps["reference"]):
        part = gaps[gaps["reference"] == reference]
        lines = [_line(part, n, metrics) for n in names if (part["model"] == n).any()]
        note = f"Positive: better than {reference} on the same pairs and seeds."
        tables.append(page_table(f"Less {reference}", columns, lines, note))
    gaze = rows[rows["metric"] == "gaze_kl"]
    if len(gaze):
        lines = [[clean(r.model), count(int(r.seeds)), f"{r.value:.3f}",
                  "–" if pd.isna(r.spread) else f"{r.spread:.3f}"]
                 for r in style.records(gaze)]  # fmt: skip
        tables.append(
            page_table(
                "Gaze after training", {"row": "", "seeds": "n", "KL, nats": "n", "sd": "n"},
                lines, "Held-out developers and code; they told stage A when to stop.",
            )
        )  # fmt: skip
    if attention is not None:
        tables.append(_attention_table(attention))
    if examples:
        heads = list(examples[0])
        tables.append(
            page_table("What is written", dict.fromkeys(heads, ""),
                       [[clean(e[h]) for h in heads] for e in examples],
                       "Test pairs by chance, first seed.")
        )  # fmt: skip
    return write_page(
        folder,
        title="Does gaze help to summarise code?",
        sentences=list(says) or ["The full layer is not finished yet."],
        facts={label(k): count(v) if isinstance(v, int) else v for k, v in facts.items()},
        command=command,
        drawings=drawings,
        tables=tables,
    )


def write_row_page(
    rows: pd.DataFrame, table: pd.DataFrame, curves: pd.DataFrame, folder: Path, *,
    facts: Mapping[str, Any], command: str,
) -> Path:  # fmt: skip
    """Write ``report.html`` of one trained row: scores on validation, losses, what it writes.

    Parameters
    ----------
    rows
        Result rows of the validation pairs.
    table
        Pairs with what is written.
    curves
        Losses by epoch.
    folder, facts, command
    """
    first = rows.iloc[0]
    scores = [[label(r.metric), interval_cell(r.value, r.low, r.high)] for r in style.records(rows)]
    losses = [[count(int(r.epoch) + 1), f"{r.train:.4f}", f"{r.val:.4f}"]
              for r in style.records(curves.rename(columns={"train/loss": "train",
                                                            "val/loss": "val"}))]  # fmt: skip
    shown = [[clean(r.true), clean(r.written)] for r in style.records(table.head(20))]
    return write_page(
        folder,
        title=f"{first['model']}: summaries of code",
        sentences=[
            "Scores of the validation part; gazeattn benchmark eyelayer scores the test, beside "
            "every control.",
            *(["size=tiny only tries the steps: its numbers mean nothing."]
              if first["size"] == "tiny" else []),
        ],
        facts={label(str(k)): v for k, v in facts.items()},
        command=command,
        drawings=[],
        tables=[
            page_table("Validation", {"score": "", "value": "n"}, scores, "Intervals draw pairs."),
            page_table("Losses", {"epoch": "n", "training": "n", "validation": "n"}, losses),
            page_table("What is written", {"true": "prose", "written": "prose"}, shown),
        ],
    )  # fmt: skip


def _line(table: pd.DataFrame, name: str, metrics: Mapping[str, str]) -> list[Any]:
    mine = {r.metric: r for r in style.records(table[table["model"] == name])}
    first = next(iter(mine.values()))
    cells = [
        interval_cell(mine[m].value, mine[m].low, mine[m].high) if m in mine else "–"
        for m in metrics
    ]
    return [clean(name), clean(first.kind), count(int(first.seeds)), *cells]


def _attention_table(table: pd.DataFrame) -> dict[str, Any]:
    lines = [
        [clean(r.row), clean(r.method), interval_cell(r.value, r.low, r.high),
         interval_cell(r.change, r.change_low, r.change_high), count(int(r.n))]
        for r in style.records(table[table["kind"] == "model"])
    ]  # fmt: skip
    columns = {"row": "", "method": "", "agreement": "n", "change": "n", "readings": "n"}
    note = "Change: from the model before training, on the same readings."
    return page_table("Attention on code and human looks", columns, lines, note)


@style.styled
def _attention(table: pd.DataFrame) -> Any:
    models = table[table["kind"] == "model"]
    methods = list(dict.fromkeys(models["method"]))
    names = list(dict.fromkeys(models["row"]))
    figure = style.new_figure(1.1 * style.WIDTH, 0.27 * len(names) + 1.1)
    axes = np.atleast_1d(figure.subplots(1, len(methods), sharey=True))
    length = table.loc[table["kind"] != "model", "value"]
    for ax, method in zip(axes, methods, strict=True):
        rows = models[models["method"] == method].set_index("row").loc[names]
        at = np.arange(len(names))
        ax.hlines(at, rows["low"], rows["high"], color=style.MODEL, lw=1.6)
        ax.plot(rows["value"], at, "o", color=style.MODEL, ms=5)
        ax.axvline(float(rows["ceiling"].iloc[0]), ls="--", color=style.HUMAN, lw=1)
        if len(length):
            ax.axvline(float(length.iloc[0]), ls=":", color=style.BASELINE, lw=1)
        ax.set_title(clean(method))
        ax.set_xlabel("agreement")
    axes[0].set_yticks(range(len(names)), [clean(n) for n in names])
    axes[0].invert_yaxis()
    return figure


@style.styled
def _curves(curves: Mapping[str, pd.DataFrame]) -> Any:
    figure = style.new_figure(style.WIDTH, 2.6)
    ax = figure.subplots()
    colours = ("#c45a11", "#2b6cb0", "#7b5ea7", "#009e73", "#666666", "#b8860b")
    for k, (name, curve) in enumerate(curves.items()):
        colour = colours[k % len(colours)]
        ax.plot(curve["epoch"], curve["held"], "-", color=colour, label=clean(name))
        ax.plot(curve["epoch"], curve["train"], "--", color=colour, lw=0.8)
    ax.set_xlabel("epoch")
    ax.set_ylabel("KL, nats")
    ax.set_ylim(0, 1.1 * float(np.nanmax([c["held"].max() for c in curves.values()])))
    ax.legend(ncols=2)
    return figure
