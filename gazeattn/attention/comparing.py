"""Compare human reading attention with a language model's attention."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.attention.align import Text, aggregate_rows, group_texts, head_rows
from gazeattn.attention.answer import write_answer
from gazeattn.attention.arguments import (
    BASELINES,
    CONTROLS,
    DEFAULT_MEASURES,
    METHODS,
    METRICS,
    check_arguments,
)
from gazeattn.attention.collect import AlignmentRows, Average, families, log_undefined
from gazeattn.attention.comparison import Comparison
from gazeattn.attention.conventions import conventions, notes
from gazeattn.attention.human import MEASURE_NOTES, human_profiles
from gazeattn.attention.nulls import Orders
from gazeattn.attention.scores import PARTIAL, Ceiling, Metric, Scorer, make_metric
from gazeattn.attention.sources import Seen, Sources, profile_table
from gazeattn.datasets import GazeDataset
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.profiles import AttentionProfile
from gazeattn.reading.measures import word_measures_with_log
from gazeattn.reading.transitions import transitions
from gazeattn.tables import LossLog

Progress = Callable[[str, int, int | None], None]

__all__ = ["check_arguments", "compare"]


def compare(
    dataset: GazeDataset | str,
    lm: Any,
    *,
    measures: Sequence[str] = DEFAULT_MEASURES,
    methods: Sequence[str] = METHODS,
    baselines: Sequence[str] = BASELINES,
    metrics: Sequence[str] = METRICS,
    controls: Sequence[str] = CONTROLS,
    level: str = "reader",
    topk: int | float = 0.2,
    question: bool = False,
    n_permutations: int = 1000,
    n_bootstrap: int = 2000,
    head_metrics: Sequence[str] = ("spearman",),
    average: str = "mean",
    missing: str = "keep",
    seed: int = 0,
    trials: Sequence[str] | None = None,
    max_texts: int | None = None,
    progress: Progress | None = None,
    attention_options: Mapping[str, Any] | None = None,
) -> Comparison:
    """Say how far a language model's attention agrees with human reading attention.

    Every reader's measure becomes shares over the words of the text; every attention method and
    baseline is compared with the mean over readers (level ``"mean"``) and with each reader
    (level ``"reader"``), text by text, and the results are averaged. Both levels are always
    computed; per-layer and per-head rows only at level ``"mean"`` and in `head_metrics`.

    Parameters
    ----------
    dataset
        A `GazeDataset` or the name of one.
    lm
        A `LanguageModel` or what `LanguageModel.load` takes.
    measures
        Human measures; the first one makes the headline.
    methods
        Attention methods; the first one is the one that was chosen beforehand.
    baselines
        Baselines; one that the model cannot give (surprisal of an encoder without a
        language-model head) is left out, with a record in ``lost``.
    metrics
        Agreement metrics; the first one makes the headline.
    controls
        Baselines that the partial correlation ``"partial_spearman"`` holds fixed; it is added
        to the metrics unless there are none.
    level
        Level of the headline: ``"mean"`` or ``"reader"``.
    topk
        For the top-k metrics: a number of words, or a share of the scored words below 1.
    question
        Put the trial's question before the text in the model's context. Readings with different
        questions are then compared apart.
    n_permutations, n_bootstrap
        Draws; 0 leaves p values or intervals missing.
    head_metrics
        Metrics that are also computed for every layer and head.
    average
        ``"mean"`` or ``"fisher_z"`` (correlations only) over trials.
    missing
        ``"keep"`` or ``"zero"`` for words without a value, see `human_profiles`; yes/no measures
        always keep them missing.
    seed
        For permutations, bootstrap and the random baseline. Results do not depend on the order
        of trials or on which other methods are asked for (but for q values, whose family they
        are).
    trials
        Ids of the trials to use; all if not given.
    max_texts
        Use the first so many texts, by stimulus id.
    progress
        Called with a description, how many steps are done and how many there are.
    attention_options
        Options of `LanguageModel.attend`.

    Returns
    -------
    Comparison

    Raises
    ------
    UnknownNameError
        A measure, method, baseline, metric, control or trial is not known.
    DataError
        There is nothing to compare.
    """
    check_arguments(
        measures=measures,
        methods=methods,
        baselines=baselines,
        metrics=metrics,
        head_metrics=head_metrics,
        controls=controls,
        level=level,
        average=average,
        topk=topk,
    )
    if missing not in ("keep", "zero"):
        raise UnknownNameError("rule for missing values", missing, ("keep", "zero"))
    all_metrics = list(dict.fromkeys([*metrics, *([PARTIAL] if controls else [])]))
    settings: dict[str, Any] = {
        "measures": list(dict.fromkeys(measures)),
        "methods": list(dict.fromkeys(methods)),
        "baselines": list(dict.fromkeys(baselines)),
        "metrics": all_metrics,
        "head_metrics": list(dict.fromkeys(head_metrics)),
        "controls": list(dict.fromkeys(controls)),
        "level": level,
        "topk": topk,
        "question": question,
        "n_permutations": int(n_permutations),
        "n_bootstrap": int(n_bootstrap),
        "average": average,
        "missing": missing,
        "seed": int(seed),
        "trials": None if trials is None else [str(t) for t in trials],
        "max_texts": max_texts,
        "attention_options": dict(attention_options or {}),
    }
    if isinstance(dataset, str):
        from gazeattn.datasets import load

        dataset = load(dataset)
    if not hasattr(lm, "attend"):
        from gazeattn.lm import LanguageModel

        lm = LanguageModel.load(lm)
    return _Run(dataset, lm, settings, progress or (lambda *_: None)).comparison()


@dataclass
class _Run:
    """One comparison on its way: the parts that its steps hand to each other."""

    dataset: GazeDataset
    lm: Any
    settings: dict[str, Any]
    progress: Progress
    lost: LossLog = field(default_factory=LossLog)
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def _timed(self, name: str) -> Any:
        start = time.perf_counter()
        yield
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - start

    def comparison(self) -> Comparison:
        """Do all steps."""
        self.lost.extend(self.dataset.lost)
        with self._timed("reading measures"):
            texts = self._texts()
        chosen = self.dataset.trials[
            self.dataset.trials["trial"].isin([t for x in texts for t in x.trials])
        ]
        sources = Sources(
            self.lm, self.settings, str(self.dataset.info.get("language") or "en"), self.lost
        )
        seen = self._profiles(sources, texts)
        with self._timed("agreement"):
            alignment, averages = self._agreement(texts, seen)
        with self._timed("averages"):
            summary = self._summary(averages)
        with self._timed("tables"):
            profiles = profile_table(self.dataset.name, texts, seen)
            moves = self._transitions(chosen)
        info = self._info(texts, chosen, sources)
        answer = write_answer(summary, info)
        return Comparison(answer, alignment, summary, profiles, moves, self.lost, info)

    # -- human side --------------------------------------------------------------------------------

    def _texts(self) -> list[Text]:
        self.progress("computing reading measures", 0, None)
        s, table = self.settings, self.dataset.trials
        if type(self.dataset).measures is GazeDataset.measures:
            self.dataset.require("has_words", by="compare")
            d = self.dataset
            measures, log = word_measures_with_log(d.fixations, d.words, d.trials)
            self.lost.extend(log)
        else:
            measures = self.dataset.measures()
        if s["trials"] is not None:
            for trial in s["trials"]:
                if trial not in set(table["trial"]):
                    raise UnknownNameError("trial", trial, table["trial"])
            table = table[table["trial"].isin(s["trials"])]
        measures = measures[measures["trial"].isin(table["trial"])]
        empty = table[~table["trial"].isin(measures["trial"])]
        self.lost.add(
            "comparison",
            "dropped",
            "the layout of the trial has no words",
            len(empty),
            "trials",
            empty["trial"],
        )
        by_measure = {}
        for m in s["measures"]:
            rule = "keep" if m in ("skip", "regression_in", "regression_out") else s["missing"]
            by_measure[m] = human_profiles(measures, m, missing=rule)  # type: ignore[arg-type]
            self._log_human(m, by_measure[m])
        texts = group_texts(by_measure, table, question=s["question"])
        lists: dict[str, set[str]] = {}
        for t in texts:
            lists.setdefault(t.stimulus, set()).add(t.units.key)
        several = {k: v for k, v in lists.items() if len(v) > 1}
        self.lost.add(
            "comparison",
            "note",
            "stimuli that were shown with different word lists: each list is compared apart",
            len(several),
            "stimuli",
            several,
        )
        if s["max_texts"] is not None:
            keep = sorted({t.stimulus for t in texts})[: s["max_texts"]]
            left_out = [t for t in texts if t.stimulus not in keep]
            texts = [t for t in texts if t.stimulus in keep]
            n = sum(len(t.trials) for t in left_out)
            self.lost.add("comparison", "dropped", f"max_texts = {s['max_texts']}", n, "trials")
        if not texts:
            raise DataError(
                "there is nothing to compare",
                source=self.dataset.name,
                expected="at least one trial with words",
                found=f"{len(table)} trials selected, none of them with words",
            )
        return texts

    def _log_human(self, measure: str, profiles: Sequence[AttentionProfile]) -> None:
        add = self.lost.add
        read = [p for p in profiles if "reason" not in p.lost]
        for p in profiles:
            if "reason" in p.lost:
                reason = f"{measure}: {p.lost['reason']}"
                add("human profiles", "undefined", reason, 1, "trials", [p.how["trial"]])
        for rule, missing in (("counted as 0", "zero"), ("left missing", "keep")):
            under = [p for p in read if p.how["missing"] == missing]
            total = sum(len(p.units) for p in under)
            add(
                "human profiles",
                "note",
                f"{measure}: words without a value, {rule}",
                sum(p.lost["words_without_value"] for p in under),
                f"reader x word values (of {total:,})",
            )

    # -- model side --------------------------------------------------------------------------------

    def _profiles(self, sources: Sources, texts: Sequence[Text]) -> dict[tuple[str, str], Seen]:
        """Return methods, baselines and covariates for every different text (and question)."""
        different = {t.content: t for t in sorted(texts, key=lambda t: t.content)}
        seen = {}
        for i, (key, text) in enumerate(different.items()):
            self.progress("model attention", i, len(different))
            with self._timed("model attention"):
                methods = sources.attend(text)
            with self._timed("baselines and surprisal"):
                seen[key] = sources.known(text, methods)
        self.progress("model attention", len(different), len(different))
        return seen

    # -- agreement ---------------------------------------------------------------------------------

    def _agreement(
        self, texts: Sequence[Text], seen: Mapping[tuple[str, str], Seen]
    ) -> tuple[pd.DataFrame, list[Average]]:
        s = self.settings
        controls = tuple(s["controls"])
        own = [make_metric(m, s["topk"], controls) for m in s["metrics"]]
        of_heads = [make_metric(m, s["topk"], controls) for m in s["head_metrics"]]
        table = AlignmentRows(self.dataset.name)
        averages: dict[tuple[str, str, str, str], Average] = {}
        orders: Orders | None = None
        for i, text in enumerate(texts):
            self.progress("agreement and permutation tests", i, len(texts))
            here = seen[text.content]
            if s["n_permutations"] > 0:
                # texts are sorted, so that readings of one text follow each other
                orders = Orders(s["seed"], text.units.key, len(text.units), s["n_permutations"])
            reasons = {
                p.name: str(p.lost["reason"])
                for p in (*here.methods, *here.baselines)
                if "reason" in p.lost
            }
            blocks = (
                ("own", aggregate_rows([*here.methods, *here.baselines]), own),
                # method by method: the draws of a few hundred rows stay in the cache
                *((f"parts of {p.name}", head_rows([p]), of_heads) for p in here.methods),
            )
            ceilings: dict[tuple[str, str], Ceiling] = {}
            for block, rows, metrics in blocks:
                if not len(rows):
                    continue
                scorer = Scorer(rows, orders, here.covariates, reasons)
                groups = families(rows)
                for measure in s["measures"]:
                    for metric in metrics:
                        key = (measure, metric.name)
                        if key not in ceilings:
                            ceilings[key] = scorer.ceiling(
                                metric, text.human[measure].trials, text.participants
                            )
                        self._score_text(
                            table,
                            averages,
                            block,
                            scorer,
                            groups,
                            text,
                            measure,
                            metric,
                            ceilings[key],
                        )
        self.progress("agreement and permutation tests", len(texts), len(texts))
        frame = table.frame()
        log_undefined(frame, self.lost)
        return frame, list(averages.values())

    def _score_text(
        self,
        table: AlignmentRows,
        averages: dict[tuple[str, str, str, str], Average],
        block: str,
        scorer: Scorer,
        groups: Sequence[np.ndarray],
        text: Text,
        measure: str,
        metric: Metric,
        ceiling: Ceiling,
    ) -> None:
        human = text.human[measure]
        targets: list[tuple[str, str, str | None, np.ndarray, AttentionProfile, Any]] = [
            (
                "mean",
                text.trial,
                None,
                human.mean,
                human.profiles[-1],
                (ceiling.lower, ceiling.upper, ceiling.reason),
            )
        ]
        if block == "own":
            for i, trial in enumerate(text.trials):
                bounds = (float(ceiling.per_trial[i]), float(ceiling.per_trial_upper[i]))
                why = ceiling.reason
                if np.isnan(bounds[0]) and not np.isnan(ceiling.lower):
                    why = "this reader's agreement with the others is undefined"
                targets.append(
                    (
                        "reader",
                        trial,
                        text.participants[i],
                        human.trials[i],
                        human.profiles[i],
                        (*bounds, why),
                    )
                )
        for level, trial, participant, weights, profile, bounds in targets:
            scores = scorer.score(metric, weights, str(profile.lost.get("reason", "")))
            table.add(
                scorer.rows,
                scores,
                groups,
                len(text.units),
                bounds,
                stimulus=text.stimulus,
                trial=trial,
                participant=participant,
                level=level,
                condition=text.condition,
                measure=measure,
                metric=metric.name,
                convention=metric.convention,
            )
            key = (block, level, measure, metric.name)
            if key not in averages:
                fisher = self.settings["average"] == "fisher_z" and metric.is_correlation
                averages[key] = Average(scorer.rows, metric, measure, level, fisher)
            elif averages[key].rows.index != scorer.rows.index:
                raise DataError(
                    "the model gave other methods, layers or heads for this text",
                    source=text.stimulus,
                    expected=f"{len(averages[key].rows)} rows as for the first text",
                    found=f"{len(scorer.rows)} rows",
                )
            reader = participant or "\x1f".join(sorted(set(text.participants)))
            averages[key].add(scores, reader, text.units.key, bounds[:2])

    def _summary(self, averages: Sequence[Average]) -> pd.DataFrame:
        s = self.settings
        frames = []
        for i, a in enumerate(averages):
            self.progress("averages and intervals", i, len(averages))
            frames.append(a.frame(self.dataset.name, s["seed"], s["n_bootstrap"], self.notes))
        self.progress("averages and intervals", len(averages), len(averages))
        frames = [f for f in frames if len(f)]
        for f in frames:
            for column in ("dataset", "measure", "method", "kind", "metric", "level", "convention"):
                f[column] = f[column].astype("str")
        return pd.concat(frames, ignore_index=True)

    # -- tables and facts --------------------------------------------------------------------------

    def _transitions(self, chosen: pd.DataFrame) -> pd.DataFrame:
        d = self.dataset
        fixations = d.fixations[d.fixations["trial"].isin(chosen["trial"])]
        moves = transitions(fixations, d.words, chosen)
        stimulus = chosen.set_index("trial")["stimulus"]
        moves.insert(0, "stimulus", moves["trial"].map(stimulus).astype("str"))
        moves.insert(0, "dataset", pd.Series(d.name, index=moves.index, dtype="str"))
        columns = ["dataset", "stimulus", "trial", "participant", "source", "target", "count"]
        return moves[columns]

    def _info(
        self, texts: Sequence[Text], chosen: pd.DataFrame, sources: Sources
    ) -> dict[str, Any]:
        d, s = self.dataset, self.settings
        conditions = sorted({t.condition for t in texts if t.condition})
        facts = {
            **d.info,
            "name": d.name,
            "readers_note": d.info.get("readers_note") or ", ".join(conditions),
            "n_readers": int(chosen["participant"].nunique()),
            "n_trials": sum(len(t.trials) for t in texts),
            "n_texts": len({t.units.key for t in texts}),
            "n_words": sum(len(t.units) for t in {t.units.key: t for t in texts}.values()),
            "conditions": conditions,
        }
        lm_facts = dict(getattr(self.lm, "info", {}) or {})
        lm_facts.setdefault("name", getattr(self.lm, "name", type(self.lm).__name__))
        lm_facts["capabilities"] = dict(getattr(self.lm, "capabilities", {}) or {})
        own = notes(s, facts, texts)
        return {
            "dataset": facts,
            "lm": lm_facts,
            "conventions": conventions(s, sources.hows, MEASURE_NOTES),
            "settings": s,
            "model_lost": sources.mean_masses(),
            "notes": list(dict.fromkeys([*own, *self.notes])),
            "timings": {k: round(v, 3) for k, v in self.timings.items()},
        }
