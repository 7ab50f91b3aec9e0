"""The command `explain`: what a reading model looks at, by taking features and words away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.datamodules.reading import ReadingTrials
from gazeattn.datamodules.reading_aggregates import aggregates
from gazeattn.datamodules.reading_batches import ReadingInputs
from gazeattn.datamodules.reading_features import fixation_features, names_of
from gazeattn.datamodules.reading_scaling import FittedFeatures
from gazeattn.datamodules.reading_tasks import ReadingTask
from gazeattn.datasets.splits import Split
from gazeattn.errors import CapabilityError, DataError, GazeattnError, UnknownNameError
from gazeattn.experiments.building import read_run, read_yaml
from gazeattn.experiments.reading_data import TaskData, task_data
from gazeattn.experiments.reading_fitting import Fitted, load
from gazeattn.experiments.reading_scores import ALL, Draws, interval, over_folds
from gazeattn.experiments.terminal import print_table
from gazeattn.models.reading.base import ReadingModel
from gazeattn.models.reading.ensemble import Ensemble
from gazeattn.storage import write_parquet, write_text

SHOWN = 12


@dataclass(frozen=True)
class Options:
    """What `gazeattn explain` can be told."""

    model: str
    trial: str = ""
    to: str = ""
    root: str = ""


@dataclass(frozen=True)
class Run:
    """A reading model with the data it was trained on.

    Attributes
    ----------
    fitted : Fitted
    data : TaskData
    fold, seed : int
    name : str
        Of the model.
    """

    fitted: Fitted
    data: TaskData
    fold: int
    seed: int
    name: str


def read_options(arguments: Sequence[str]) -> Options:
    """Return the options of KEY=VALUE texts.

    Raises
    ------
    GazeattnError
        No such option, one without a value, or no model.
    """
    known = [f.name for f in fields(Options)]
    given: dict[str, Any] = {}
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise GazeattnError(f"cannot read {text!r}: options are KEY=VALUE, such as model=RUN")
        if key not in known:
            raise UnknownNameError("option of explain", key, known)
        given[key] = value
    if "model" not in given:
        raise GazeattnError("model= is needed; see gazeattn explain --help")
    return Options(**given)


def read_reading_run(folder: Path, root: str | None = None) -> Run:
    """Return the reading model of a run folder of `gazeattn train`.

    Raises
    ------
    DataError
        The folder holds no finished reading model.
    """
    config = read_run(folder)
    if not (folder / "config.yaml").is_file():
        raise DataError("the run has no configuration", source=folder, expected="config.yaml")
    plain = read_yaml(folder / "config.yaml")
    if not plain.get("task"):
        raise DataError(
            "this run predicts scanpaths, it reads nothing off them", source=folder,
            hint="gazeattn train experiment=copco/dyslexia makes one that does",
        )  # fmt: skip
    task = ReadingTask.of(plain["task"])
    prefix = plain.get("prefix") or {}
    root = root or plain.get("root")
    data = task_data(
        task,
        plain["dataset"],
        root,
        share=float(prefix.get("share", 1.0)),
        by=str(prefix.get("by", "time")),
        surprisal=plain.get("surprisal"),
    )
    missing = [k for k in ("dataset", "fold", "seed") if k not in plain]
    if missing:
        raise DataError("the configuration is not whole", source=folder / "config.yaml",
                        expected=missing[0])  # fmt: skip
    fold = int(plain["fold"])
    if (folder / "split.json").is_file():
        then, now = Split.load(folder / "split.json").digest, data.split(fold).digest
        if then != now:
            raise DataError("the readings or their folds are not those of the training",
                            source=folder / "split.json", expected=then[:12],
                            found=now[:12])  # fmt: skip
    fitted = load(config, task, folder, root)
    return Run(fitted, data, fold, int(plain["seed"]), str(config["name"]))


Groups = dict[tuple[str, str], list[int]]


def groups_of(features: FittedFeatures, trials: ReadingTrials) -> Groups:
    """Return columns that are taken away together: (scope, name) -> columns.

    A feature goes with the column that says where it is missing; aggregates go by their set, each
    with the first set that holds it.
    """
    found: Groups = {}
    for scope, scale in features.scales.items():
        of: dict[str, str] = {}
        if scope == "trial":
            first = trials.take(np.array([0]))
            for name in features.choice.sets:
                for column in aggregates(first, [name]).columns:
                    of.setdefault(str(column), name)
        for k, channel in enumerate(scale.channels):
            base = channel.removesuffix(" missing")
            found.setdefault((scope, of.get(base, base)), []).append(k)
    return found


def occlude_features(run: Run, part: str = "val", draws: int = 500) -> pd.DataFrame:
    """Return how much worse a model does without a feature, on one part of its fold.

    A feature is replaced by its training median for all trials at once; the model is not fitted
    again. What two features share is therefore in neither row.

    Returns
    -------
    DataFrame
        scope, feature, score, loss (of score), low, high: intervals over readers.
    """
    task = run.data.task
    split = run.data.split(run.fold)
    trials = run.data.trials.part(split, part)
    trials = trials.take(trials.table["y"].notna().to_numpy())
    inputs = run.fitted.inputs(trials)
    draw = Draws.of(trials.table["participant"], draws)
    base, base_drawn = _score(run, inputs, task, draw)
    rows = []
    for scope, name, without, given in _without(run, trials, inputs):
        value, drawn = _score(without, given, task, draw)
        low, high = interval(base_drawn - drawn)
        row: dict[str, Any] = {"scope": scope, "feature": name, "score": value}
        rows.append({**row, "loss": base - value, "low": low, "high": high})
    return pd.DataFrame(rows).sort_values("loss", ascending=False)


def blanked(inputs: ReadingInputs, scope: str, columns: Sequence[int]) -> ReadingInputs:
    """Return trials with some columns at their training median, which is 0 once scaled."""
    values = inputs.scaled[scope].copy()
    values[:, list(columns)] = 0
    return replace(inputs, scaled={**inputs.scaled, scope: values})


@dataclass(frozen=True)
class Blind:
    """A model that some columns are hidden from."""

    model: ReadingModel
    scope: str
    columns: tuple[int, ...]

    def predict(self, inputs: ReadingInputs) -> np.ndarray:
        """Return the predictions without the columns."""
        if not self.columns:
            return self.model.predict(inputs)
        return self.model.predict(blanked(inputs, self.scope, self.columns))


def _without(
    run: Run, trials: ReadingTrials, inputs: ReadingInputs
) -> Iterator[tuple[str, str, Run, ReadingInputs]]:
    """Yield scope, name, a run and its inputs for every group of columns that is taken away.

    The members of an ensemble prepare features of their own: a group is taken from all of them.
    """
    model = run.fitted.model
    if not isinstance(model, Ensemble):
        for (scope, name), columns in groups_of(run.fitted.features, trials).items():
            yield scope, name, run, blanked(inputs, scope, columns)
        return
    if any(isinstance(m.model, Ensemble) for m in model.members):
        raise CapabilityError("an ensemble of ensembles cannot be explained; explain its members")
    each = [groups_of(m.features, trials) for m in model.members]
    for scope, name in dict.fromkeys(key for groups in each for key in groups):
        made = copy(model)
        made.members = [
            replace(m, model=Blind(m.model, scope, tuple(groups.get((scope, name), ()))))  # type: ignore[arg-type]
            for m, groups in zip(model.members, each, strict=True)
        ]
        yield scope, name, replace(run, fitted=replace(run.fitted, model=made)), inputs


def _score(
    run: Run, inputs: ReadingInputs, task: ReadingTask, draws: Draws
) -> tuple[float, np.ndarray]:
    table = run.fitted.table(inputs)
    table = table.assign(fold=str(run.fold), seed=run.seed, regime=ALL)
    value, drawn = over_folds(table, task.metric, ALL, draws)
    assert drawn is not None
    return value, drawn


def without_word(trials: ReadingTrials, i: int, word: int) -> ReadingTrials:
    """Return one trial as if its reader had never looked at a word.

    The fixations on it are taken out; steps and saccades to and from what is left are measured
    anew, reported saccades beside the gap are missing, and the word has no measures.
    """
    one = trials.take([i])
    keep = one.word != word
    if keep.all():
        return one
    names = names_of("fixation")
    old = one.fixations
    place = {n: names.index(n) for n in names}
    duration, gap = old[:, place["duration"]], np.nan_to_num(old[:, place["gap"]])
    onset = np.cumsum(duration + gap) - (duration + gap)
    table = pd.DataFrame({"duration": duration, "onset": onset})
    saccade = ["saccade_amplitude", "saccade_duration", "saccade_peak_velocity"]
    for name in ("x", "y", "pupil", *saccade):
        table[name] = old[:, place[name]]
    torn = np.append(~keep[1:], False)  # their next saccade went to what is no longer there
    table.loc[torn, saccade] = np.nan
    left = one.word[keep]
    starts = np.array([0, len(left)], dtype=np.int64)
    boxes = pd.DataFrame({"line": old[keep, place["line"]]})
    values = fixation_features(table[keep].reset_index(drop=True), starts, left, one.n_words, boxes)
    for name in ("landing", "entry"):
        values[:, place[name]] = old[keep, place[name]]
    gaze = one.gaze.copy()
    gaze[word] = np.nan
    measures = names_of("gaze")
    for name in ("total_reading_time", "fixation_count", "dwell_share", "fixation_share"):
        gaze[word, measures.index(name)] = 0
    gaze[word, measures.index("skip")] = 1
    return replace(one, fixations=values, word=left, starts=starts, gaze=gaze)


def occlude_words(run: Run, trial: str) -> pd.DataFrame:
    """Return what each fixated word of a trial does to its prediction.

    Returns
    -------
    DataFrame
        word (from 0), text, fixations, prediction (without it), change (with it less without).
    """
    one = run.data.trials.named([trial])
    whole = float(run.fitted.table(run.fitted.inputs(one))["p"].iloc[0])
    words = one.texts[str(one.table["text"].iloc[0])].words
    rows = []
    for word in np.unique(one.word[one.word >= 0]):
        left = without_word(one, 0, int(word))
        if not len(left.word):
            continue
        p = float(run.fitted.table(run.fitted.inputs(left))["p"].iloc[0])
        rows.append({"word": int(word), "text": words[int(word)],
                     "fixations": int((one.word == word).sum()), "prediction": p,
                     "change": whole - p})  # fmt: skip
    return pd.DataFrame(rows, columns=["word", "text", "fixations", "prediction", "change"])


def explain(options: Options) -> Path:
    """Write what a model looks at: a table of features, and of the words of a trial.

    Returns
    -------
    Path
        The folder with ``features.parquet``, ``words.parquet`` and ``report.html``.
    """
    folder = Path(options.model).expanduser()
    run = read_reading_run(folder, options.root or None)
    to = Path(options.to).expanduser() if options.to else folder / "explained"
    to.mkdir(parents=True, exist_ok=True)
    features = occlude_features(run)
    trial = options.trial or _telling(run)
    words = occlude_words(run, trial)
    write_parquet(to / "features.parquet", features)
    write_parquet(to / "words.parquet", words)
    write_text(to / "features.csv", features.to_csv(index=False))
    write_text(to / "words.csv", words.to_csv(index=False))
    from gazeattn.report.reading_looks import write_explanation

    text = run.data.trials.named([trial])
    write_explanation(
        features,
        words,
        to,
        model=run.name,
        task=run.data.task.name,
        metric=run.data.task.metric,
        trial=trial,
        text=text.texts[str(text.table["text"].iloc[0])].words,
        command=f"gazeattn explain model={options.model} trial={trial}",
    )
    return to


def _telling(run: Run) -> str:
    """Return the validation trial of which the model is most sure, and right."""
    split = run.data.split(run.fold)
    trials = run.data.trials.part(split, "val")
    table = run.fitted.table(run.fitted.inputs(trials))
    known = table[table["y"].notna()]
    error = (known["p"] - known["y"]).abs().to_numpy()
    return str(known["trial"].iloc[int(error.argmin())])


def main(arguments: list[str]) -> int:
    """Run `gazeattn explain`."""
    import sys

    try:
        options = read_options(arguments)
        to = explain(options)
    except GazeattnError as error:
        print(f"gazeattn: {error}", file=sys.stderr)
        return 2
    table = pd.read_parquet(to / "features.parquet").head(SHOWN)
    rows = [
        [r["scope"], r["feature"], *(f"{r[k]:.4f}" for k in ("loss", "low", "high"))]
        for r in table.to_dict("records")
    ]
    print_table("without a feature", ["scope", "feature", "loss of score", "low", "high"], rows)
    print(f"report: {(to / 'report.html').resolve()}")
    return 0
