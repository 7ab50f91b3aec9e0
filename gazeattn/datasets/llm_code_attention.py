"""Key words of programmers and attention of language models on prompts (Kou et al., 2024)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, need_file, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.parts import (
    build,
    correction,
    join_ids,
    one_file,
    read_json,
    read_parquet,
    read_string,
    text,
)
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

_SPAN = ["benchmark", "task", "word", "label_type", "start", "end_published"]
_SCORED = ["task", "method", "tokens", "start", "end", "score"]


@register_corpus("llm_code_attention")
def load(folder: Path, page: Corpus, *, attention: bool = True) -> GazeDataset:
    """Load prompts, human labels and the stored attention of the models; there is no gaze.

    Words are what stands between blanks of a prompt, with ``start`` and ``end`` (characters of
    ``stimuli[id]["text"]``, end exclusive), ``labelled`` (a human span touches the word) and
    ``labelled_share`` (of its characters). A trial is one prompt; its participant stands for all
    annotators together.

    ``reports``: ``human_spans`` (``start``, ``end`` exclusive, ``end_published``, ``word``,
    ``label_type``), ``human_spans_as_scored`` (the lists of the authors' scoring, whose MBPP
    ends cut the last character) and ``attention``: one row per prompt, ``model`` and ``method``
    with the lists ``tokens, start, end, score`` of equal length (-1: no place in the prompt).

    Parameters
    ----------
    attention
        Read the stored attention (some seconds and 300 MB with all models).
    """
    lost = LossLog()
    prompts = read_prompts(need_file(folder, page, "prompts.jsonl"))
    spans = read_parquet(need_file(folder, page, "human_spans.parquet"), _SPAN)
    inclusive = list(correction(page, "inclusive ends")["inclusive"])
    spans = exclusive_ends(_with_stimulus(spans, prompts, "human_spans"), prompts, inclusive, lost)
    reports = {"human_spans": spans}
    scored = one_file(folder, "human_spans_as_scored.parquet")
    if scored is not None:
        table = read_parquet(scored, ["benchmark", "task", "start", "end_as_scored"])
        reports["human_spans_as_scored"] = _with_stimulus(table, prompts, scored)
    counts = {
        **{f"prompts_{k}": int(n) for k, n in prompts["benchmark"].value_counts().items()},
        "prompts_with_two_ids": int((prompts["n_ids"] == 2).sum()),
        **{f"human_spans_{k}": int(n) for k, n in spans["benchmark"].value_counts().items()},
        **{k: len(v) for k, v in reports.items()},
    }
    if attention:
        limit = float(correction(page, "absurd scores")["limit"])
        scores, found = read_attention(folder, prompts, limit, lost)
        counts |= found
        reports["attention"] = scores
    words = words_of(prompts, spans)
    person = str(correction(page, "pooled people")["participant"])
    lost.add("trials", "note", "labels of all annotators together", len(prompts), "trials")
    trials = pd.DataFrame(
        {
            "participant": person,
            "trial": prompts["stimulus"],
            "stimulus": prompts["stimulus"],
            "condition": prompts["benchmark"],
            "task": prompts["task"],
        }
    )
    n_spans = spans["stimulus"].value_counts()
    trials["n_spans"] = trials["trial"].map(n_spans).fillna(0).astype("int64")
    share = words.groupby("stimulus")["labelled"].mean()
    trials["share_labelled"] = trials["trial"].map(share)
    bare = trials.loc[trials["n_spans"] == 0, "trial"]
    lost.add("trials", "note", "prompt without a usable label", len(bare), "prompts", bare)
    info: dict[str, Any] = {}
    path = one_file(folder, "reference_alignment.json")
    if path is not None:
        info["reference_alignment"] = read_json(path)
    stimuli: dict[str, dict[str, Any]] = {
        str(s): {"text": str(t), "benchmark": str(b)}
        for s, t, b in prompts[["stimulus", "prompt", "benchmark"]].itertuples(index=False)
    }
    return build(
        page,
        None,
        words,
        trials,
        units="words",
        stimuli=stimuli,
        lost=lost,
        counts=counts,
        reports=reports,
        **info,
    )


def read_prompts(path: Path) -> pd.DataFrame:
    """Read the prompts: ``benchmark, task, prompt, n_ids, stimulus`` (such as ``mbpp_0274``)."""
    rows, row = [], 0
    try:
        for line in read_string(path).split("\n"):
            row += 1
            if line.strip():
                entry = json.loads(line)
                ids = entry.get("prompt_ids", [entry["task"]])
                if not entry["prompt"].strip():
                    raise ValueError("an empty prompt")
                key = str(entry["benchmark"]), int(entry["task"])
                rows.append((*key, entry["prompt"], len(ids)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            "not a prompt",
            source=path,
            row=row,
            expected="benchmark, task and prompt",
            found=f"{type(error).__name__}: {error}",
        ) from None
    prompts = pd.DataFrame(rows, columns=["benchmark", "task", "prompt", "n_ids"])
    prompts["benchmark"] = text(prompts["benchmark"])
    prompts["stimulus"] = _stimulus(prompts)
    twice = prompts["stimulus"].duplicated()
    if twice.any():
        raise DataError(
            "a prompt stands twice", source=path, found=prompts["stimulus"][twice].iloc[0]
        )
    return prompts


def _stimulus(table: pd.DataFrame) -> pd.Series:
    return join_ids(text(table["benchmark"]), text(table["task"]).str.zfill(4))


def _with_stimulus(table: pd.DataFrame, prompts: pd.DataFrame, source: object) -> pd.DataFrame:
    table = table.assign(stimulus=_stimulus(table))
    lone = ~table["stimulus"].isin(prompts["stimulus"])
    if lone.any():
        raise DataError(
            "a row has no prompt",
            source=source,
            found=f"{table['stimulus'][lone].iloc[0]} ({int(lone.sum())} rows)",
        )
    return table


def exclusive_ends(
    spans: pd.DataFrame, prompts: pd.DataFrame, inclusive: list[str], lost: LossLog
) -> pd.DataFrame:
    """Return the spans with ends that are not part of them, checked against the marked words.

    Parameters
    ----------
    spans
        ``stimulus, benchmark, word, start, end_published``.
    inclusive
        Benchmarks whose published end is the last character of the span.

    Raises
    ------
    DataError
        ``prompt[start:end]`` is not the word of a span.
    """
    last = spans["benchmark"].isin(inclusive)
    spans = spans.assign(end=spans["end_published"] + last)
    lost.add(
        "human_spans",
        "repaired",
        "published end is the last character: end is the one after it",
        int(last.sum()),
        "spans",
    )
    texts = dict(zip(prompts["stimulus"], prompts["prompt"], strict=True))
    columns = spans[["stimulus", "start", "end", "word"]].itertuples(index=False)
    wrong = np.array([texts[s][b:e] != w or b < 0 for s, b, e, w in columns], dtype=bool)
    if wrong.any():
        row = spans[wrong].iloc[0]
        raise DataError(
            "a human span is not where its word stands",
            source="human_spans",
            row=row["stimulus"],
            expected=repr(row["word"]),
            found=f"{texts[row['stimulus']][row['start'] : row['end']]!r} ({wrong.sum()} such)",
        )
    return spans


def words_of(prompts: pd.DataFrame, spans: pd.DataFrame) -> pd.DataFrame:
    """Return what stands between the blanks of each prompt, and how much of it is marked.

    Spans may overlap; a character counts once.
    """
    marks = {s: g for s, g in spans.groupby("stimulus")[["start", "end"]]}
    rows = []
    for stimulus, prompt in zip(prompts["stimulus"], prompts["prompt"], strict=True):
        marked = np.zeros(len(prompt) + 1, dtype=np.int64)
        if stimulus in marks:
            np.add.at(marked, marks[stimulus]["start"].to_numpy(), 1)
            np.add.at(marked, marks[stimulus]["end"].to_numpy(), -1)
        before = np.r_[0, np.cumsum(np.cumsum(marked) > 0)]
        found = [(m.start(), m.end()) for m in re.finditer(r"\S+", prompt)]
        at = np.array(found, dtype=np.int64).reshape(-1, 2)
        lines = np.r_[0, np.cumsum([c == "\n" for c in prompt])]
        rows.append(
            pd.DataFrame(
                {
                    "stimulus": stimulus,
                    "index": np.arange(len(at)),
                    "text": [prompt[b:e] for b, e in found],
                    "line": lines[at[:, 0]],
                    "start": at[:, 0],
                    "end": at[:, 1],
                    "marked": before[at[:, 1]] - before[at[:, 0]],
                }
            )
        )
    words = pd.concat(rows, ignore_index=True)
    words["word"] = text(words["index"])
    words["layout"] = words["stimulus"] = text(words["stimulus"])
    words["labelled_share"] = words.pop("marked") / (words["end"] - words["start"])
    words["labelled"] = words["labelled_share"] > 0
    return words


def read_attention(
    folder: Path, prompts: pd.DataFrame, limit: float, lost: LossLog
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Read ``attention_<benchmark>_<model>.parquet``: one row per prompt, model and method.

    Raises
    ------
    DataError
        Lists of unequal length, a score that is no number, or the same prompt and method twice.
    """
    tables, counts = [], {}
    for path in find_files(folder, "attention_*.parquet"):
        _, benchmark, model = path.name.split(".")[0].split("_", 2)
        table = read_parquet(path, _SCORED)
        table["method"] = text(table["method"])
        table = _with_stimulus(table.assign(benchmark=benchmark, model=model), prompts, path)
        counts[f"attention_rows_{benchmark}_{model}"] = len(table)
        _check_lists(table, path, limit, lost)
        expected = table["method"].nunique() * int((prompts["benchmark"] == benchmark).sum())
        reason = f"prompts without scores of a method: {model} on {benchmark}"
        lost.add("attention", "undefined", reason, expected - len(table), "prompts")
        tables.append(table)
    names = ["stimulus", "benchmark", "model", *_SCORED]
    scores = pd.concat(tables, ignore_index=True)[names] if tables else pd.DataFrame(columns=names)
    counts |= {
        "attention_files": len(tables),
        "attention_rows": len(scores),
        "attention_sets": len(scores[["model", "method"]].drop_duplicates()),
        "models": int(scores["model"].nunique()),
        "methods": int(scores["method"].nunique()),
    }
    return scores, counts


def _check_lists(table: pd.DataFrame, path: Path, limit: float, lost: LossLog) -> None:
    sizes = pd.DataFrame({c: table[c].map(len) for c in ("tokens", "start", "end", "score")})
    uneven = sizes.nunique(axis=1) > 1
    twice = table.duplicated(["stimulus", "method"])
    for bad, message in (
        (uneven, "tokens, start, end and score are not equally many"),
        (twice, "a prompt has two rows of one method"),
    ):
        if bad.any():
            row = table[bad].iloc[0]
            raise DataError(message, source=path, row=f"{row['stimulus']}, {row['method']}")
    values = np.concatenate([*table["score"], np.zeros(0)])
    if not np.isfinite(values).all():
        raise DataError("a score is no finite number", source=path)
    places = np.concatenate([*table["start"], np.zeros(0)])
    reason = f"beyond {limit:g} in size: kept; use ranks, not values"
    lost.add("attention", "note", reason, int((np.abs(values) > limit).sum()), "scores")
    lost.add("attention", "undefined", "no place in the prompt", int((places < 0).sum()), "tokens")
    flat = table["score"].map(lambda s: len(s) == 0 or s.min() == s.max())
    reason = "all scores of the prompt are equal: no order"
    lost.add("attention", "undefined", reason, int(flat.sum()))
