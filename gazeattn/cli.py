"""The command `gazeattn`."""

from __future__ import annotations

import argparse
import functools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import gazeattn
from gazeattn import registry
from gazeattn.errors import GazeattnError, UnknownNameError
from gazeattn.experiments.helptexts import help_text

DESCRIPTION = """\
Eye tracking and human attention modelling: human against model attention on text and images.

  gazeattn compare                       the main experiment, with its defaults
  gazeattn compare lm=minilm             the same with another model
  gazeattn compare --help                every option of it
  gazeattn train model=tpp_gaze          train a scanpath model
  gazeattn benchmark scanpath            all scanpath models in one table
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Exit codes: 0 done, 1 unexpected fault, 2 wrong input or usage, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _main(arguments)
    except GazeattnError as error:
        print(f"gazeattn: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gazeattn: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as head, has left
        sys.stderr.close()
        return 0


def _main(arguments: list[str]) -> int:
    # overrides of an experiment are Hydra's grammar, which argparse must not touch
    if arguments and arguments[0] in _EXPERIMENTS:
        return _experiment(arguments[0], arguments[1:])
    parser = _parser()
    if not arguments:
        parser.print_help()
        return 0
    first = arguments[0]
    if not first.startswith("-") and first not in _COMMANDS:
        raise UnknownNameError("command", first, _COMMANDS)
    options = parser.parse_args(arguments)
    options.arguments = arguments
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return int(options.run(options))


def _show_warning(message: Warning | str, *args: Any, **kwargs: Any) -> None:
    """Print a warning as one line for people, without the place in the source."""
    print(f"gazeattn: warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gazeattn",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gazeattn {gazeattn.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in _EXPERIMENTS:  # shown in the list; they never get here
        commands.add_parser(name, help=_COMMANDS[name], add_help=False)
    for name in ("datasets", "models", "methods", "metrics"):
        sub = commands.add_parser(name, help=_COMMANDS[name], description=_COMMANDS[name])
        if name in ("datasets", "models", "metrics"):
            sub.add_argument("name", nargs="?", metavar="NAME", help="show every fact of this one")
            sub.add_argument("--root", help="folder of downloads (default: GAZEATTN_DATA or cache)")
        if name == "datasets":
            sub.add_argument(
                "--counts", action="store_true", help="load it and count, beside what is published"
            )
        sub.set_defaults(run=_listing(name))
    fetch = commands.add_parser("fetch", help=_COMMANDS["fetch"], description=_COMMANDS["fetch"])
    fetch.add_argument("names", nargs="+", metavar="NAME", help="data sets and models by name")
    fetch.add_argument("--root", help="folder of downloads (default: GAZEATTN_DATA or cache)")
    fetch.set_defaults(run=_fetch)
    _add_score(commands)
    plot = commands.add_parser("plot", help=_COMMANDS["plot"], description=_COMMANDS["plot"])
    plot.add_argument("dataset", metavar="DATASET", help="data set by name")
    plot.add_argument(
        "--trial", metavar="T", help="trial id, or 'first'; without it: an overview of the corpus"
    )
    plot.add_argument(
        "--kind",
        default="scanpath,heatmap,timeline,animation",
        help="pictures of a trial, separated by commas (default: %(default)s)",
    )
    plot.add_argument("--to", metavar="OUT", help="folder (default: outputs/plot/DATASET)")
    plot.add_argument("--root", help="folder of the data set")
    plot.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="option of the data set, such as fixations=F.csv; may stand several times",
    )  # fmt: skip
    plot.set_defaults(run=_plot)
    for name, run in (("readers", _listing("readers")), ("inspect", _inspect), ("import", _import)):
        sub = commands.add_parser(name, help=_COMMANDS[name], description=_COMMANDS[name])
        sub.set_defaults(run=run)
        if name == "readers":
            continue
        many: dict[str, Any] = {"nargs": "+"} if name == "import" else {}
        sub.add_argument("files", metavar="FILE", help="file of an eye tracker", **many)
        sub.add_argument("--reader", metavar="NAME", help="reader (default: found out)")
        sub.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="option of the reader, such as screen=1920,1080; may stand several times",
        )
        if name == "import":
            sub.add_argument("--to", required=True, metavar="OUT", help="new folder for the tables")
            sub.add_argument(
                "--overwrite", action="store_true", help="replace an earlier import there"
            )
        else:
            sub.add_argument(
                "--to", default="outputs/inspect", metavar="OUT", help="folder for the picture"
            )
    return parser


MAX_BLOCKS = 30  # rows of a table in the terminal


_COMMANDS = {
    "compare": "compare human reading attention with a language model's attention",
    "heads": "label the attention heads of a language model, rank them by likeness to readers",
    "train": "train a model: of scanpaths, or of what can be read off a reader's eyes",
    "benchmark": "train and test all models on a data set, beside baselines and ceilings",
    "reproduce": "do published studies again, beside what they found",
    "predict": "scanpaths of a trained model over any picture; labels of readings, also new ones",
    "explain": "say what a trained reading model looks at, by taking features and words away",
    "datasets": "list the data sets: task, size, licence, citation, installed or not",
    "models": "list the models: task, size, licence, citation, installed or not",
    "methods": "list the attention methods and baselines",
    "metrics": "list the metrics: what of, range, direction, paper",
    "score": "score scanpaths or maps of a model against those of people, beside the human ceiling",
    "plot": "draw a trial (scanpath, heat map, timeline, animation), or an overview of a corpus",
    "readers": "list the readers of eye-tracker files and what they were tested on",
    "inspect": "say what a file of an eye tracker holds and how good it is, and draw it",
    "import": "write the tables of eye-tracker files as Parquet, with a list of what was lost",
    "fetch": "download data sets and models, with checksums; finished ones are left alone",
}


_EXPERIMENTS = ("compare", "heads", "train", "benchmark", "reproduce", "predict", "explain")
_BENCHMARKS = {
    "scanpath": "scanpath models over pictures",
    "object_search": "sequences of objects on shelves, collages and pages",
    "search_asymmetry": "zero-shot visual search: six search asymmetries",
    "joint_attention": "where groups of people look together, on generated scenes",
    "reading": "goals, comprehension and traits of readers from their eye movements",
    "early": "the same from the first part of each reading",
    "goals": "which question a reader had in mind: chosen among candidates, or written",
    "gaze_fit": "gaze of unseen developers on unseen code, learned and by baselines",
    "eyelayer": "does gaze help a language model to summarise code? with every control",
}


def _experiment(name: str, arguments: list[str]) -> int:
    """Run an experiment, whose arguments are Hydra's."""
    if name == "benchmark":
        if not arguments or arguments[0] in ("-h", "--help"):
            print(help_text(name, ""))
            return 0
        which = arguments.pop(0)
        if which not in _BENCHMARKS:
            raise UnknownNameError("benchmark", which, _BENCHMARKS)
        name = f"benchmark_{which}"
    if name == "reproduce":
        if not arguments or arguments[0] in ("-h", "--help"):
            told = {e.name: str(e.info["description"]) for e in registry.studies}
            width = max(map(len, told))
            print(help_text(name, "\n".join(f"  {k:<{width}}  {v}" for k, v in told.items())))
            return 0
        which = registry.studies.get(arguments.pop(0)).name
        if "--help" not in arguments and "-h" not in arguments:
            from gazeattn.experiments import reproduce

            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            return reproduce.main(arguments, which)
        name = f"reproduce_{which}"
    if "--help" in arguments or "-h" in arguments:
        from gazeattn.experiments.config import choices, groups_of

        found = groups_of(name)
        width = max((len(g) for g in found), default=0)
        lines = [f"  {g:<{width}}  {', '.join(choices(g))}" for g in found]
        print(help_text(name, "\n".join(lines)))
        return 0
    # Read when torch starts its threads. Active waiting is up to ten times slower where other
    # work holds a core, and hardly faster where none does.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    module, function = _MAINS.get(name, (name, "main"))
    return int(getattr(import_module(f"gazeattn.experiments.{module}"), function)(arguments))


_MAINS = {
    "benchmark_scanpath": ("benchmark", "main"),
    "benchmark_joint_attention": ("joint_attention", "main"),
    "benchmark_object_search": ("benchmark_apps", "object_search"),
    "benchmark_search_asymmetry": ("benchmark_apps", "search_asymmetry"),
    "benchmark_reading": ("reading_benchmark", "main"),
    "benchmark_goals": ("goals", "main"),
    "benchmark_gaze_fit": ("gaze_fit", "main"),
    "benchmark_eyelayer": ("eyelayer", "main"),
    "benchmark_early": ("reading_early", "main"),
}


def _listing(name: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        from gazeattn.experiments import listing

        return int(getattr(listing, name)(options))

    return run


def _fetch(options: argparse.Namespace) -> int:
    from gazeattn.downloads import ASSETS, fetch_all

    assets, corpora = [], []
    for name in options.names:
        if name == SUMMARIES:
            continue
        if name not in ASSETS and name not in registry.datasets:
            known = [*ASSETS, *registry.datasets.names(), SUMMARIES]
            raise UnknownNameError("data set or model", name, known)
        info = registry.datasets.get(name).info if name in registry.datasets else {}
        if name in ASSETS:
            assets.append(name)
        elif "page" in info:
            corpora.append(name)
        else:
            how = info.get("obtain", "it is made of your own files")
            raise GazeattnError(f"data set {name!r} is not downloaded: {how}")
    for name, path in fetch_all(assets, options.root).items() if assets else ():
        print(f"{name}: {path}")
    for name in corpora:
        from gazeattn.datasets.obtaining import fetch_corpus
        from gazeattn.experiments.terminal import StageProgress

        with StageProgress() as bar:
            path = fetch_corpus(name, options.root, functools.partial(bar.update, name))
        print(f"{name}: {path}")
    if SUMMARIES in options.names:
        from gazeattn.experiments.terminal import StageProgress
        from gazeattn.summaries.packages import fetch_summaries

        with StageProgress() as bar:
            path = fetch_summaries(options.root, bar.update)
        print(f"{SUMMARIES}: {path}")
    return 0


SUMMARIES = "code_summaries"


def _inspect(options: argparse.Namespace) -> int:
    from gazeattn.experiments.files import inspect_file
    from gazeattn.experiments.terminal import print_losses, print_table
    from gazeattn.readers.quality import overview

    recording, found, picture = inspect_file(
        options.files, options.to, options.reader, options.option
    )
    print_table(recording.source, ("fact", "value"), overview(recording))
    title = "samples"
    if len(found) > MAX_BLOCKS:
        title = f"samples: the {MAX_BLOCKS} of {len(found)} blocks with the most missing"
        found = found.nlargest(MAX_BLOCKS, "missing", keep="first").sort_index()
    if len(found):
        shown = found.assign(
            **{
                c: [f"{100 * v:.1f} %" if v == v else "–" for v in found[c]]
                for c in ("missing", "off_screen", "blink")
            },
            seconds=[f"{v:.1f}" for v in found["seconds"]],
            rate=[f"{v:g}" for v in found["rate"].round(1)],
        )
        print_table(title, list(found.columns), shown.to_numpy().tolist())
    print_losses(recording.lost)
    print(f"picture: {picture.resolve()}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from gazeattn.experiments.files import import_files
    from gazeattn.experiments.terminal import print_losses, print_table

    rows, lost = import_files(
        options.files, options.to, options.reader, options.option, overwrite=options.overwrite
    )
    print_table("imported", ("table", "rows"), [(k, f"{v:,}") for k, v in rows.items()])
    print_losses(lost)
    print(f"tables: {os.path.abspath(options.to)}")
    return 0


def _add_score(commands: Any) -> None:
    score = commands.add_parser("score", help=_COMMANDS["score"], description=_COMMANDS["score"])
    score.add_argument("human", metavar="HUMAN", help="table of people's scanpaths, or a data set")
    score.add_argument("model", metavar="MODEL", help="table of scanpaths, or maps (folder, npz)")
    score.add_argument("--metrics", nargs="+", required=True, metavar="NAME", help="see metrics")
    score.add_argument(
        "--size", metavar="W,H", help="size of the stimuli, or a CSV with a size each"
    )
    score.add_argument("--to", metavar="OUT", help="folder (default: outputs/score/MODEL)")
    score.add_argument("--dataset", help="name of the data in the results")
    score.add_argument("--model", dest="label", help="name of the model in the results")
    score.add_argument("--clusters", metavar="FILE", help="clusters (npz), or 'fit'")
    score.add_argument("--sigma", type=float, help="blur of human maps, pixels")
    score.add_argument(
        "--density", type=float, metavar="FLOOR",
        help="make densities of the maps (add FLOOR, such as 0, and divide by the sum)",
    )  # fmt: skip
    score.add_argument("--decimal", default=".", help="decimal mark of tables (%(default)s)")
    score.add_argument(
        "--human-columns", metavar="A=B,...", help="column map of the people's table"
    )
    score.add_argument("--model-columns", metavar="A=B,...", help="column map of the model's table")
    score.add_argument("--root", help="folder of the data set")
    score.add_argument("--draws", type=int, default=2000, help="bootstrap draws (%(default)s)")
    score.add_argument(
        "--seed", type=int, default=0, help="of bootstrap and baseline (%(default)s)"
    )
    score.add_argument("--workers", type=int, help="processor cores (default: all)")
    score.add_argument("--overwrite", action="store_true", help="replace an earlier result")
    score.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="parameter of the metrics, or METRIC.NAME=VALUE of one; may stand several times",
    )  # fmt: skip
    score.set_defaults(run=_score)


def _score(options: argparse.Namespace) -> int:
    import shlex

    from gazeattn.experiments.scoring import score_files
    from gazeattn.experiments.scoring_inputs import read_columns, read_size
    from gazeattn.experiments.terminal import print_table

    rows, report = score_files(
        options.human,
        options.model,
        metrics=options.metrics,
        size=None if options.size is None else read_size(options.size),
        to=options.to,
        options=options.option,
        dataset=options.dataset,
        label=options.label,
        clusters=options.clusters,
        sigma=options.sigma,
        human_columns=options.human_columns and read_columns(options.human_columns),
        model_columns=options.model_columns and read_columns(options.model_columns),
        root=options.root,
        density=options.density,
        decimal=options.decimal,
        draws=options.draws,
        seed=options.seed,
        workers=options.workers,
        overwrite=options.overwrite,
        command=shlex.join(["gazeattn", *options.arguments]),
    )
    shown = ["metric", "value", "low", "high", "ceiling", "shuffled", "n"]
    columns = [c for c in shown if c in rows]
    numbers = rows[columns].round(3).astype(object).where(rows[columns].notna(), "–")
    print_table("scores", columns, numbers.to_numpy().tolist())
    print(f"report: {os.path.abspath(report)}")
    return 0


def _plot(options: argparse.Namespace) -> int:
    from gazeattn.datasets import load
    from gazeattn.experiments.files import options_for
    from gazeattn.experiments.plots import first_trial, plot_overview, plot_trial

    loader = registry.datasets.get(options.dataset).obj
    dataset = load(options.dataset, options.root, **options_for(loader, options.option))
    to = options.to or os.path.join("outputs", "plot", options.dataset)
    if options.trial is None:
        paths = plot_overview(dataset, to)
    else:
        trial = first_trial(dataset) if options.trial == "first" else options.trial
        kinds = [k.strip() for k in options.kind.split(",") if k.strip()]
        paths = plot_trial(dataset, trial, to, kinds)
    for path in paths:
        print(path.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
