"""One HTML file that needs nothing beside it: no network, no other files, no script to be read."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

import gazeattn
from gazeattn import registry
from gazeattn.attention.answer import orientation
from gazeattn.attention.comparison import Comparison
from gazeattn.attention.human import MEASURE_NOTES
from gazeattn.datasets.base import GazeDataset
from gazeattn.report import content, lost, style
from gazeattn.report.content import Selection
from gazeattn.report.pictures import Pictures, draw_figures, draw_paths, heads_note
from gazeattn.report.style import clean, count, label, shorten
from gazeattn.storage import write_text

SECTIONS = (
    ("methods", "Methods"),
    ("heads", "Layers and heads"),
    ("text", "The text"),
    ("scanpath", "Path of the eyes"),
    ("order", "Reading order"),
    ("trials", "Text by text"),
    ("lost", "What was lost"),
    ("conventions", "Conventions"),
    ("cite", "How to cite"),
    ("again", "How to do it again"),
)


def write_report(
    comparison: Comparison,
    dataset: GazeDataset,
    folder: str | os.PathLike[str],
    *,
    command: str,
    environment: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``figures/*.svg``, ``figures/*.png`` and ``report.html`` into a folder.

    Parameters
    ----------
    comparison
        What `gazeattn.compare` returned.
    dataset
        The corpus that was compared: its fixations and word boxes are drawn.
    folder
        Run folder; created where needed. Every file is written whole or not at all, the page
        last.
    command
        The command that repeats the run, shown as it is given.
    environment
        Versions and the like; nested mappings are shown with dotted names.

    Returns
    -------
    Path of ``report.html``.
    """
    folder = Path(folder)
    page = render(comparison, dataset, Pictures(folder / "figures"), command, environment or {})
    target = folder / "report.html"
    write_text(target, page)
    return target


def render(
    comparison: Comparison,
    dataset: GazeDataset,
    pictures: Pictures,
    command: str,
    environment: Mapping[str, Any],
) -> str:
    """Return the page as text; figures are written on the way."""
    chosen = content.select(comparison)
    trials = content.aggregates(comparison, chosen.level)
    measures, metrics = (content.names(comparison, c) for c in ("measure", "metric"))
    tables = {
        f"{m}|{k}": content.method_table(comparison, chosen, m, k, trials)
        | {"caption": _caption(m, k)}
        for m in measures
        for k in metrics
    }
    methods = tables.get(f"{chosen.measure}|{chosen.metric}", {"rows": [], "notes": []})
    texts, left_out = content.texts(comparison, chosen)
    text, human, model = _first_text(texts, chosen)
    paths, paths_note = draw_paths(comparison, dataset, pictures)
    mass_columns, mass_rows = lost.masses(comparison)
    notes = {
        m: f"{style.sentence(label(m))}: {MEASURE_NOTES[m]}."
        for m in measures
        if m in MEASURE_NOTES
    }
    data = {
        "tables": tables,
        "measures": notes,
        "metric": style.sentence(style.metric_label(chosen.metric)),
        "texts": texts,
        "human": human["name"],
        "model": model["name"],
    }
    partial = content.partial_name(comparison, chosen.metric)
    facts = comparison.info
    return fill(
        "report.html.j2",
        script_name="report.js",
        title=_title(comparison, dataset),
        rules=_word_rules(),
        answer=split_answer(clean(comparison.answer)),
        notes=[
            style.sentence(clean(n)) + ("" if clean(n).endswith((".", "!", "?")) else ".")
            for n in facts.get("notes", [])
        ],
        facts=_facts(comparison, dataset, chosen),
        sections=SECTIONS,
        chosen=chosen,
        measures=[(m, style.sentence(label(m))) for m in measures],
        metrics=[(m, style.sentence(style.metric_label(m))) for m in metrics],
        methods=methods,
        methods_caption=_caption(chosen.measure, chosen.metric),
        partial=partial,
        columns_note=_columns_note(facts.get("settings", {}), partial),
        measure_note=notes.get(chosen.measure, ""),
        heads_note=heads_note(comparison, chosen),
        figures=draw_figures(comparison, chosen, trials, text, human, model, pictures),
        texts=texts,
        texts_left_out=left_out,
        text=text,
        human=human,
        model=model,
        text_agreement=_text_agreement(text, human, model, chosen),
        paths=paths,
        paths_note=paths_note,
        losses=lost.losses(comparison),
        mass_columns=mass_columns,
        mass_rows=mass_rows,
        unscored=lost.unscored(comparison),
        undefined=lost.undefined(trials),
        conventions=content.conventions(comparison),
        settings=list(content.flatten(facts.get("settings", {}))),
        citations=_citations(comparison, dataset),
        licences=_licences(comparison, dataset),
        command=clean(command),
        environment=list(content.flatten(environment)),
        version=gazeattn.__version__,
        data=json_for_html(data),
    )


# small parts -------------------------------------------------------------------------------------


def fill(template: str, *, script_name: str = "", rules: str = "", **values: Any) -> str:
    """Return a page: a template with the common style sheet and, by its hash, its one script.

    Texts are escaped unless they are marked as HTML, and a value that is missing raises.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    if script_name:
        script = template_text(script_name)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        values |= {"script": Markup(script), "script_hash": f"'sha256-{digest}'"}
    css = Markup(template_text("report.css") + rules + style.dark_rules())
    return environment.get_template(template).render(css=css, **values)


def template_text(name: str) -> str:
    """Return a template, style sheet or script of the package."""
    path = Path(__file__).with_name("templates") / name
    return path.read_text(encoding="utf-8")


def json_for_html(data: Any) -> Markup:
    """Write strict JSON that cannot end a script element: no <, >, & or line separators."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def linked(text: str) -> Markup:
    """Escape a text and turn its web addresses into links."""
    parts = re.split(r"(https?://[^\s<>\"'{}|\\^`]+[^\s<>\"'{}|\\^`.,;:)\]])", clean(text))
    out = [
        Markup('<a href="{0}" rel="noopener noreferrer">{0}</a>').format(part)
        if i % 2
        else escape(part)
        for i, part in enumerate(parts)
    ]
    return Markup("").join(out)


def split_answer(answer: str) -> tuple[str, str]:
    """Return the first sentence of a paragraph and the rest."""
    parts = re.split(r"(?<=[.!?])\s+(?=[^\W\d_])", answer.strip(), maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else ""


def _word_rules() -> str:
    def rules(mode: str, ink: str) -> str:
        return "".join(
            f".{side[0]}{i}{{background:{colour};color:{ink}}}"
            for side in ("human", "model")
            for i, colour in enumerate(style.word_colours(side, mode))
        )

    dark = rules("dark", style.DARK[style.INK])
    return rules("light", style.INK) + f"@media screen and (prefers-color-scheme:dark){{{dark}}}"


def _title(comparison: Comparison, dataset: GazeDataset) -> str:
    names = comparison.info
    data = names.get("dataset", {}).get("name") or dataset.name
    return f"Human attention in {shorten(data)} and the attention of {shorten(_model(comparison))}"


def _model(comparison: Comparison) -> str:
    return str(comparison.info.get("lm", {}).get("name") or "the model")


def _caption(measure: str, metric: str) -> str:
    text = f"{style.sentence(style.metric_label(metric))} of every method with {label(measure)}"
    return text + (" (lower is closer)" if orientation(metric, measure) < 0 else "")


def _columns_note(settings: Mapping[str, Any], partial: str) -> str:
    if settings.get("level") == "mean":
        level = "Values compare with the average reader of a text and are averaged over texts."
        share = ""
    else:
        level = "Values compare with single readers and are averaged over trials."
        share = " Of ceiling: the value as a share of the agreement between readers."
    text = (
        f"{level} In brackets the bootstrap interval.{share} p: permutation of words within the "
        "text; q: the same after Benjamini-Hochberg over methods, and over baselines apart. "
        "Chance: mean value under permutation."
    )
    if partial:
        controls = ", ".join(label(c) for c in settings.get("controls", ())) or "the covariates"
        text += (
            f" Partial: {style.metric_label(partial)}, what is left with {controls} held constant."
        )
    return text


def _facts(
    comparison: Comparison, dataset: GazeDataset, chosen: Selection
) -> list[tuple[str, str]]:
    data = comparison.info.get("dataset", {})
    profiles = comparison.profiles
    readers = data.get("n_readers", profiles["participant"].nunique())
    texts = data.get("n_texts", profiles["stimulus"].nunique())
    note = data.get("readers_note") or dataset.info.get("readers_note")
    facts = [
        ("Data", shorten(data.get("name") or dataset.name)),
        ("Model", shorten(_model(comparison)) + _weights(comparison)),
        ("Readers", count(readers) + (f" ({clean(note)})" if note else "")),
        ("Texts", count(texts)),
    ]
    if "n_trials" in data:
        facts.append(("Trials", count(data["n_trials"])))
    facts.append(
        (
            "Headline",
            style.sentence(f"{style.metric_label(chosen.metric)}, {label(chosen.measure)}"),
        )
    )
    return facts


def _weights(comparison: Comparison) -> str:
    """Return which weights stand behind the short name, e.g. the instruction-tuned 4-bit ones."""
    weights = comparison.info.get("lm", {}).get("weights")
    return f" ({shorten(weights)})" if weights else ""


def _first_text(
    texts: list[dict[str, Any]], chosen: Selection
) -> tuple[dict[str, Any] | None, dict[str, Any], dict[str, Any]]:
    blank = {
        "name": "", "label": "–", "levels": "", "values": [], "ends": ["–", "–"], "missing": 0
    }  # fmt: skip
    if not texts:
        return None, blank, blank
    text = texts[0]
    sides = []
    for side, wanted in (("human", chosen.measure), ("model", chosen.best)):
        there = text[side]
        name = wanted if wanted in there else next(iter(there), "")
        n = len(text["words"])
        empty = {**blank, "levels": "-" * n, "values": ["–"] * n, "missing": n}
        sides.append({**there.get(name, empty), "name": name})
    return text, sides[0], sides[1]


def _text_agreement(
    text: Mapping[str, Any] | None,
    human: Mapping[str, Any],
    model: Mapping[str, Any],
    chosen: Selection,
) -> str:
    found = (text or {}).get("agreement", {}).get(f"{human['name']}|{model['name']}")
    if not found:
        return ""
    return f"{style.sentence(style.metric_label(chosen.metric))} on this text: {found}."


def _licences(comparison: Comparison, dataset: GazeDataset) -> list[tuple[str, Markup]]:
    data, lm = comparison.info.get("dataset", {}), comparison.info.get("lm", {})
    licence = data.get("licence") or dataset.info.get("licence")
    rows = [("Data", licence or "not stated: ask the owners before you pass the texts on")]
    rows.append(("Model", lm.get("licence") or "not stated"))
    rows.append(("gazeattn", "MIT"))
    rows.append(
        (
            "This page",
            "shows words and eye movements of the data, so the data's licence covers it too",
        )
    )
    return [(k, linked(str(v))) for k, v in rows]


def _entries(value: Any) -> list[Markup]:
    if not value:
        return []
    values = [value] if isinstance(value, str) else list(value)
    return [linked(str(v)) for v in values]


def _citations(comparison: Comparison, dataset: GazeDataset) -> list[tuple[str, list[Markup]]]:
    data, lm = comparison.info.get("dataset", {}), comparison.info.get("lm", {})
    unknown = [Markup("no citation is recorded")]
    rows = [
        (f"Data: {shorten(data.get('name') or dataset.name)}",
         _entries(data.get("citation") or dataset.info.get("citation")) or unknown),
        (f"Model: {shorten(_model(comparison))}{_weights(comparison)}",
         _entries(lm.get("citation")) or unknown),
    ]  # fmt: skip
    given: dict[str, list[str]] = {}
    for name, citation in method_citations(comparison):
        given.setdefault(citation, []).append(label(name))
    rows += [(f"Method: {', '.join(n)}", _entries(c)) for c, n in given.items()]
    rows.append(
        (
            "This package",
            [escape(f"The gazeattn developers. gazeattn, version {gazeattn.__version__}.")],
        )
    )
    return rows


def method_citations(comparison: Comparison) -> Iterable[tuple[str, str]]:
    """Yield the compared methods that have a paper, from the comparison or the registry."""
    stated = comparison.info.get("citations", {})
    registered = {e.name: e.info for e in registry.attention_methods} | {
        e.name: e.info for e in registry.baselines
    }
    for name in comparison.summary["method"].dropna().astype(str).unique():
        citation = stated.get(name) or registered.get(name, {}).get("citation")
        if citation:
            yield name, str(citation)
