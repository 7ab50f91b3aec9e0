"""The command `gazeattn`."""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import gazeattn
from gazeattn import registry
from gazeattn.errors import GazeattnError, UnknownNameError

DESCRIPTION = """\
Eye tracking and human attention modelling: human against model attention on text.

  gazeattn compare                       the main experiment, with its defaults
  gazeattn compare lm=minilm             the same with another model
  gazeattn compare --help                every option of it
"""

COMPARE_HELP = """\
usage: gazeattn compare [KEY=VALUE ...] [-m] [--cfg job]

Compare human reading attention with a language model's attention: word measures from fixations,
attention methods, baselines, a noise ceiling and significance. Ends with a table and report.html.

examples:
  gazeattn compare
  gazeattn compare dataset=onestop_sample lm=minilm attention.methods=[raw,rollout]
  gazeattn compare dataset=table dataset.fixations=F.csv dataset.words=W.csv
  gazeattn compare lm=path/to/model measures=[gaze_duration] hydra.run.dir=outputs/mine
  gazeattn compare -m lm=smollm2-135m,minilm question=true,false

choices:
{choices}

values (see conf/compare.yaml):
  measures, metrics, baselines, controls, head_metrics     lists of names
  topk, level, average, question, limit, seed              numbers and switches
  root, fetch, overwrite                                   files
  attention.*                                              conventions of the model side

options of Hydra:
  -m, --multirun      run every combination of comma-separated values
  --cfg job           show the whole configuration and stop
  --hydra-help        everything else that Hydra can do
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
    if arguments and arguments[0] == "compare":
        return _compare(arguments[1:])
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
    compare = commands.add_parser("compare", help=_COMMANDS["compare"], add_help=False)
    compare.set_defaults(run=lambda options: _compare([]))
    for name, show in (
        ("datasets", _datasets),
        ("models", _models),
        ("methods", _methods),
        ("metrics", _metrics),
    ):
        sub = commands.add_parser(name, help=_COMMANDS[name], description=_COMMANDS[name])
        if name in ("datasets", "models", "metrics"):
            sub.add_argument("name", nargs="?", metavar="NAME", help="show every fact of this one")
            sub.add_argument("--root", help="folder of downloads (default: GAZEATTN_DATA or cache)")
        if name == "datasets":
            sub.add_argument(
                "--counts", action="store_true", help="load it and count, beside what is published"
            )
        sub.set_defaults(run=show)
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
    for name, run in (("readers", _readers), ("inspect", _inspect), ("import", _import)):
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


def _compare(arguments: list[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        from gazeattn.experiments.config import choices, groups

        width = max(len(g) for g in groups())
        lines = [f"  {g:<{width}}  {', '.join(choices(g))}" for g in groups()]
        print(COMPARE_HELP.format(choices="\n".join(lines)))
        return 0
    # Read when torch starts its threads. Active waiting is up to ten times slower where other
    # work holds a core, and hardly faster where none does.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from gazeattn.experiments.compare import main as compare_main

    return compare_main(arguments)


def _datasets(options: argparse.Namespace) -> int:
    if options.counts:
        if options.name is None:
            raise GazeattnError("--counts needs the name of a data set")
        return _counts(options.name, options.root)
    return _entries("data sets", registry.datasets, options)


def _counts(name: str, root: str | None) -> int:
    """Load a data set and print its counts; 1 where they differ from the published ones."""
    from gazeattn.datasets import load
    from gazeattn.datasets.corpus import counts

    page = registry.datasets.get(name).info.get("page")
    dataset = load(name, root)
    edition = dataset.info.get("edition", "")
    expected = page.expected.get(edition, {}) if page is not None else {}
    found = counts(dataset)
    rows = [
        (what, f"{found[what]:,}" if what in found else "–", f"{number:,}")
        for what, number in expected.items()
    ]
    rows += [(what, f"{n:,}", "") for what, n in found.items() if what not in expected]
    _table(f"{name} {edition}".strip(), ("what", "loaded", "published"), rows)
    return int(any(found.get(what) != number for what, number in expected.items()))


def _models(options: argparse.Namespace) -> int:
    code = _entries("models", registry.models, options)
    print("Any Hugging Face model works too: lm=FOLDER, lm=ORG/NAME or lm=FILE.gguf")
    return code


def _entries(title: str, known: registry.Registry, options: argparse.Namespace) -> int:
    from gazeattn.downloads import installed_state

    if options.name is not None:
        entry = known.get(options.name)
        facts = {k: v for k, v in entry.info.items() if isinstance(v, str | int | float | tuple)}
        shown = {k: ", ".join(v) if isinstance(v, tuple) else str(v) for k, v in facts.items()}
        shown["installed"] = installed_state(entry.name, options.root)
        _table(entry.name, ("fact", "value"), list(shown.items()))
        return 0
    rows = [
        (
            entry.name,
            *(str(entry.info.get(key, "–")) for key in ("task", "size", "licence")),
            _short(str(entry.info.get("citation", "–"))),
            installed_state(entry.name, options.root),
        )
        for entry in known
    ]
    _table(title, ("name", "task", "size", "licence", "citation", "installed"), rows)
    return 0


def _short(citation: str) -> str:
    """Return the first author and the year; the whole citation is in the facts of the entry."""
    pattern = r"(?P<first>[^,(&]+?)(?P<more>[,&].*?| et al\.)?\s*\((?P<year>\d{4})\)"
    match = re.match(pattern, citation)
    if match is None:
        return citation
    return f"{match['first'].strip()}{' et al.' if match['more'] else ''} ({match['year']})"


def _methods(options: argparse.Namespace) -> int:
    rows = [
        (e.name, str(e.info.get("family", "–")), str(e.info.get("description", "–")))
        for e in registry.attention_methods
    ]
    rows += [(e.name, "baseline", str(e.info.get("description", "–"))) for e in registry.baselines]
    _table("attention methods and baselines", ("name", "family", "what it is"), rows)
    return 0


def _metrics(options: argparse.Namespace) -> int:
    if options.name is not None:
        entry = registry.metrics.get(options.name)
        facts = {"range": _range(entry.info.get("bounds")), **entry.info}
        shown = [
            (k, ", ".join(map(str, v)) if isinstance(v, tuple) else str(v))
            for k, v in facts.items()
            if isinstance(v, str | bool | tuple) and k != "bounds" and v != ()
        ]
        _table(entry.name, ("fact", "value"), shown)
        return 0
    rows = [
        (
            e.name,
            str(e.info.get("task", "–")),
            _range(e.info.get("bounds")),
            "higher" if e.info.get("higher_is_better") else "lower",
            str(e.info.get("description", "–")),
            _short(str(e.info.get("citation") or "–")),
        )
        for e in sorted(registry.metrics, key=lambda e: (str(e.info.get("task")), e.name))
    ]
    columns = ("name", "of", "range", "better", "what it is", "paper")
    _table("metrics", columns, rows)
    return 0


def _range(bounds: Any) -> str:
    if not isinstance(bounds, tuple) or len(bounds) != 2:
        return "–"
    return " to ".join("∞" if b == float("inf") else f"{b:g}" for b in bounds)


def _fetch(options: argparse.Namespace) -> int:
    from gazeattn.downloads import ASSETS, fetch_all

    assets, corpora = [], []
    for name in options.names:
        if name not in ASSETS and name not in registry.datasets:
            raise UnknownNameError("data set or model", name, [*ASSETS, *registry.datasets.names()])
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
    return 0


def _readers(options: argparse.Namespace) -> int:
    rows = [
        (
            e.name,
            *(str(e.info.get(k, "–")) for k in ("vendor", "formats", "description", "tested_on")),
        )
        for e in registry.readers
    ]
    _table("readers", ("name", "vendor", "files", "what it reads", "tested on"), rows)
    return 0


def _inspect(options: argparse.Namespace) -> int:
    from gazeattn.experiments.files import inspect_file
    from gazeattn.readers.quality import overview

    recording, found, picture = inspect_file(
        options.files, options.to, options.reader, options.option
    )
    _table(recording.source, ("fact", "value"), overview(recording))
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
        _table(title, list(found.columns), shown.to_numpy().tolist())
    _losses(recording.lost)
    print(f"picture: {picture.resolve()}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from gazeattn.experiments.files import import_files

    rows, lost = import_files(
        options.files, options.to, options.reader, options.option, overwrite=options.overwrite
    )
    _table("imported", ("table", "rows"), [(k, f"{v:,}") for k, v in rows.items()])
    _losses(lost)
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
        draws=options.draws,
        seed=options.seed,
        workers=options.workers,
        overwrite=options.overwrite,
        command=shlex.join(["gazeattn", *options.arguments]),
    )
    shown = ["metric", "value", "low", "high", "ceiling", "shuffled", "n"]
    columns = [c for c in shown if c in rows]
    numbers = rows[columns].round(3).astype(object).where(rows[columns].notna(), "–")
    _table("scores", columns, numbers.to_numpy().tolist())
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


def _losses(lost: Any) -> None:
    if not len(lost):
        print("nothing was dropped, repaired or left undefined")
        return
    rows = [(x.step, x.kind, f"{x.count:,} {x.unit}", x.reason, x.examples) for x in lost]
    _table("what was lost or is doubtful", ("step", "kind", "count", "what", "first"), rows)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.table import Table

    from gazeattn.experiments.terminal import console

    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=i == 0)  # a name stays in one piece
    for row in rows:
        table.add_row(*map(str, row))
    console().print(table)


if __name__ == "__main__":
    sys.exit(main())
