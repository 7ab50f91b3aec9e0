"""What the listing commands print: data sets, models, methods, metrics, readers."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from gazeattn import registry
from gazeattn.errors import GazeattnError
from gazeattn.experiments.terminal import print_table


def datasets(options: argparse.Namespace) -> int:
    """Run ``gazeattn datasets``."""
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
    print_table(f"{name} {edition}".strip(), ("what", "loaded", "published"), rows)
    return int(any(found.get(what) != number for what, number in expected.items()))


def models(options: argparse.Namespace) -> int:
    """Run ``gazeattn models``."""
    from gazeattn.experiments.building import model_names

    others = {
        "scanpath models": registry.scanpath_models,
        "reading models": registry.reading_models,
        "goal models": registry.goal_models,
        "gaze priors": registry.gaze_priors,
    }
    for title, known in others.items():
        if options.name in known:
            return _entries(title, known, options)
    if options.name in model_names() and (row := _settings_of(options.name)) is not None:
        print_table(row[0], ("fact", "value"), [("settings of", row[1]), ("what it is", row[2])])
        return 0
    code = _entries("models", registry.models, options)
    if options.name is None:
        for title, known in others.items():
            rows = [
                (e.name, str(e.info.get("kind", "–")), str(e.info.get("description", "–")),
                 _short(str(e.info.get("citation", "–"))))
                for e in known
            ]  # fmt: skip
            print_table(title, ("name", "kind", "what it is", "paper"), rows)
        settings = [row for n in model_names() if (row := _settings_of(n)) is not None]
        print_table("further settings of models", ("name", "of", "what it is"), settings)
        print(f"model= of gazeattn train and benchmark: {', '.join(model_names())}")
    print("Any Hugging Face model works too: lm=FOLDER, lm=ORG/NAME or lm=FILE.gguf")
    return code


def _settings_of(name: str) -> tuple[str, str, str] | None:
    """Return what a configuration says that is of a model by another name, or None."""
    from gazeattn.experiments.building import read_model
    from gazeattn.experiments.config import conf_folder

    of = str(read_model(name)["name"])
    if of == name:
        return None
    lines = (conf_folder() / "model" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    said = " ".join(x.lstrip("# ") for x in lines if x.startswith("#") and "@package" not in x)
    return name, of, said.partition(". ")[0] or "–"


def _entries(title: str, known: registry.Registry, options: argparse.Namespace) -> int:
    from gazeattn.downloads import installed_state

    if options.name is not None:
        entry = known.get(options.name)
        facts = {k: v for k, v in entry.info.items() if isinstance(v, str | int | float | tuple)}
        shown = {k: ", ".join(v) if isinstance(v, tuple) else str(v) for k, v in facts.items()}
        shown["installed"] = installed_state(entry.name, options.root)
        print_table(entry.name, ("fact", "value"), list(shown.items()))
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
    print_table(title, ("name", "task", "size", "licence", "citation", "installed"), rows)
    return 0


def _short(citation: str) -> str:
    """Return the first author and the year; the whole citation is in the facts of the entry."""
    pattern = r"(?P<first>[^,(&]+?)(?P<more>[,&].*?| et al\.)?\s*\((?P<year>\d{4})\)"
    match = re.match(pattern, citation)
    if match is None:
        return citation
    return f"{match['first'].strip()}{' et al.' if match['more'] else ''} ({match['year']})"


def methods(options: argparse.Namespace) -> int:
    """Run ``gazeattn methods``."""
    rows = [
        (e.name, str(e.info.get("family", "–")), str(e.info.get("description", "–")))
        for e in registry.attention_methods
    ]
    rows += [(e.name, "baseline", str(e.info.get("description", "–"))) for e in registry.baselines]
    print_table("attention methods and baselines", ("name", "family", "what it is"), rows)
    return 0


def metrics(options: argparse.Namespace) -> int:
    """Run ``gazeattn metrics``."""
    others = functions()
    if options.name in others:
        room, function = others[options.name]
        shown = [
            ("where", f"gazeattn.metrics.{room}.{options.name}"),
            ("parameters", _parameters(function) or "–"),
            ("description", _summary(function)),
            ("citation", _references(function)),
        ]
        print_table(options.name, ("fact", "value"), shown)
        return 0
    if options.name is not None:
        entry = registry.metrics.get(options.name)
        facts = {
            "range": _range(entry.info.get("bounds")),
            "parameters": _parameters(entry.obj),
            **entry.info,
        }
        shown = [
            (k, ", ".join(map(str, v)) if isinstance(v, tuple) else str(v))
            for k, v in facts.items()
            if isinstance(v, str | bool | tuple) and k != "bounds" and v != ()
        ]
        print_table(entry.name, ("fact", "value"), shown)
        return 0
    rows = [
        (
            e.name,
            str(e.info.get("task", "–")),
            _range(e.info.get("bounds")),
            "higher" if e.info.get("higher_is_better") else "lower",
            str(e.info.get("description", "–")),
            str(e.info.get("formula") or "–"),
            _short(str(e.info.get("citation") or "–")),
        )
        for e in sorted(registry.metrics, key=lambda e: (str(e.info.get("task")), e.name))
    ]
    columns = ("name", "of", "range", "better", "what it is", "formula", "paper")
    print_table("metrics", columns, rows)
    more = [(n, room, _summary(f), _short(_references(f))) for n, (room, f) in others.items()]
    print_table("statistics and distributions", ("name", "where", "what it is", "paper"), more)
    return 0


FUNCTIONS = {
    "scanpath": (
        "amplitude_distribution", "direction_distribution", "auto_recurrence",
        "target_fixation_probability", "scanpath_ratios", "search_behaviour",
    ),
    "saliency": ("fixation_map", "centre_bias", "gold_standard"),
    "agreement": ("partial", "matrix_agreement"),
}  # fmt: skip
"""Functions that are no metric of two things but belong to them; statistics come all."""


def functions() -> dict[str, tuple[str, Callable[..., Any]]]:
    """Return the statistics, and the functions beside the metrics: name to room and function."""
    statistics = import_module("gazeattn.metrics.statistics")
    every = [n for n in statistics.__all__ if inspect.isfunction(getattr(statistics, n))]
    found: dict[str, tuple[str, Callable[..., Any]]] = {}
    for room, names in {**FUNCTIONS, "statistics": every}.items():
        module = import_module(f"gazeattn.metrics.{room}")
        found |= {n: (room, getattr(module, n)) for n in names}
    return found


def _summary(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "–").partition("\n\n")[0].replace("\n", " ")


def _references(function: Callable[..., Any]) -> str:
    text = (inspect.getdoc(function) or "").partition("References\n----------\n")[2]
    return " ".join(text.split("\n\n")[0].split()) or "–"


def _parameters(metric: Any) -> str:
    """Return the parameters that are given by name, with their defaults."""
    named = [p for p in inspect.signature(metric).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in named)


def _range(bounds: Any) -> str:
    if not isinstance(bounds, tuple) or len(bounds) != 2:
        return "–"
    return " to ".join("∞" if b == float("inf") else f"{b:g}" for b in bounds)


def readers(options: argparse.Namespace) -> int:
    """Run ``gazeattn readers``."""
    rows = [
        (
            e.name,
            *(str(e.info.get(k, "–")) for k in ("vendor", "formats", "description", "tested_on")),
        )
        for e in registry.readers
    ]
    print_table("readers", ("name", "vendor", "files", "what it reads", "tested on"), rows)
    return 0
