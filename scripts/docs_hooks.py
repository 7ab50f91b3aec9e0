"""MkDocs hooks: reference pages from the packages that exist, and tables from the registries.

A new room or a newly registered thing appears in the documentation without a second edit.

- ``reference/<room>.md`` is generated for every public module of `gazeattn`, one page per room.
- a line ``<!-- registry: datasets -->`` in a page becomes a table of what is registered there.
- a line ``<!-- conf: groups -->`` becomes a table of the configuration groups and their files, and
  ``<!-- conf: compare -->`` becomes the content of ``conf/compare.yaml``.
- a line ``<!-- results: NAME METRIC METRIC ... -->`` becomes a table of ``docs/results/NAME.json``:
  one row per model, means over seeds with the means of their intervals. A word COLUMN=VALUE
  among the metrics keeps the rows with this value alone.
- a line ``<!-- regimes: NAME METRIC -->`` becomes a table of ``docs/results/NAME.json`` with one
  row per model and one column per regime of a task in reading; ``<!-- paired: NAME -->`` one of the
  released models' differences to the best published ones.
- a line ``<!-- says: NAME -->`` becomes the sentences that ``docs/results/NAME.json`` ends with.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "gazeattn"
CONF = REPOSITORY / "conf"
MARK = re.compile(
    r"^<!-- (registry|conf|results|regimes|paired|says): (\w+)((?: [\w=]+)*) -->$", re.MULTILINE
)
PRIVATE_ROOMS = {"cli"}  # the command line has its own page
FACTS = (
    *("task", "size", "licence", "family", "bounds", "formula", "citation", "description"),
    *("vendor", "formats", "tested_on"),
)


def rooms() -> dict[str, list[str]]:
    """Return room -> dotted names of its public modules, packages before single modules."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if any(p.startswith("_") and p != "__init__" for p in parts) or parts == ("__init__",):
            continue
        if parts[0] in PRIVATE_ROOMS or not (path.parent / "__init__.py").exists():
            continue
        names = [p for p in parts if p != "__init__"]
        found.setdefault(parts[0], []).append(".".join(["gazeattn", *names]))
    return dict(sorted(found.items(), key=lambda item: (len(item[1]) == 1, item[0])))


def page(room: str, modules: list[str]) -> str:
    """Return the Markdown of one reference page."""
    lines = [f"# gazeattn.{room}", ""]
    for module in modules:
        lines += [f"::: {module}", ""]
    return "\n".join(lines)


def table(kind: str) -> str:
    """Return a Markdown table of everything in one registry of `gazeattn.registry`."""
    from gazeattn import registry

    entries = list(getattr(registry, kind))
    facts = [f for f in FACTS if any(e.info.get(f) for e in entries)]
    rows = [["name", *facts]]
    rows.append(["---"] * len(rows[0]))
    for entry in entries:
        rows.append([f"`{entry.name}`", *(cell(entry.info.get(f)) for f in facts)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def group_table() -> str:
    """Return a Markdown table of the groups in conf/ and the files that each can be set to."""
    rows = ["| group | files | note |", "|---|---|---|"]
    for folder in sorted(p for p in CONF.iterdir() if p.is_dir()):
        files = {
            f.relative_to(folder).with_suffix("").as_posix(): first_comment(f)
            for f in sorted(folder.rglob("*.yaml"))
        }
        note = next((f"`{name}`: {n}" for name, n in files.items() if n), "")
        names = ", ".join(f"`{name}`" for name in files)
        rows.append(f"| `{folder.name}` | {names} | {note} |")
    return "\n".join(rows)


def first_comment(path: Path) -> str:
    """Return the comment on the first line of a YAML file, if there is one."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""


def listing(name: str) -> str:
    """Return one file of conf/ as a code block, without Hydra's own settings."""
    text = (CONF / f"{name}.yaml").read_text(encoding="utf-8").partition("\nhydra:")[0]
    return f"```yaml\n{text.rstrip()}\n```"


def results_table(name: str, words: list[str]) -> str:
    """Return a Markdown table of models and metrics of one file of results.

    Words with ``=`` choose rows, the others are metrics.
    """
    content = json.loads((REPOSITORY / "docs" / "results" / f"{name}.json").read_text("utf-8"))
    chosen = dict(w.split("=", 1) for w in words if "=" in w)
    metrics = [w for w in words if "=" not in w]
    every = [_model_row(r) for r in content["rows"]]
    kept = [r for r in every if all(str(r.get(k)) == v for k, v in chosen.items())]
    found: dict[str, dict[str, list[Any]]] = {}
    seeds: dict[str, set[Any]] = {}
    for row in kept:
        against = row["metric"].endswith(("_explained", "_baseline"))
        if row["metric"] not in metrics or (row.get("reference") and not against):
            continue
        label = row["model"] + (f" ({row['kind']})" if row.get("kind") else "")
        if len({r.get("dataset") for r in kept}) > 1:
            label = f"{row['dataset']}: {label}"
        found.setdefault(label, {}).setdefault(row["metric"], []).append(row)
        known = row.get("seeds")  # a number, where means are over seeds already
        seeds.setdefault(label, set()).update(range(known) if known else [row.get("seed")])
    rows = [["model", "seeds", *(m.replace("_", " ") for m in metrics)]]
    rows.append(["---"] * len(rows[0]))
    for label, values in found.items():
        cells = [figure(values.get(m, [])) for m in metrics]
        named = {str(s) for s in seeds[label]}
        rows.append([label, "all" if named == {"all"} else str(len(named)), *cells])
    size = f"Size `{content['size']}`; `docs/results/{name}.json` has every row with its command."
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + f"\n\n{size}"


def _model_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with model, value, low and high, also where it has name, mean and interval."""
    made = dict(row)
    for ours, theirs in (("model", "name"), ("value", "mean")):
        if ours not in made and theirs in made:
            made[ours] = made.pop(theirs)
    if "interval" in made:
        made["low"], made["high"] = made.pop("interval")
    return made


def sentences(name: str) -> str:
    """Return what a file of results says, as a list."""
    content = json.loads((REPOSITORY / "docs" / "results" / f"{name}.json").read_text("utf-8"))
    return "\n".join(f"- {s}" for s in content["says"])


REGIMES = ("all", "unseen_text", "unseen_reader", "unseen_both")


def regimes_table(name: str, metric: str) -> str:
    """Return a Markdown table of models and regimes of one task in reading."""
    content = json.loads((REPOSITORY / "docs" / "results" / f"{name}.json").read_text("utf-8"))
    cells: dict[str, dict[str, Any]] = {}
    for row in content["rows"]:
        if row["metric"] == metric and row["fold"] == "mean" and not row.get("reference"):
            cells.setdefault(f"{row['model']} ({row['kind']})", {})[row["regime"]] = row
    shown = [r for r in REGIMES if any(r in c for c in cells.values())]
    order = sorted(cells, key=lambda m: -cells[m].get("all", {}).get("value", -1e9))
    rows = [["model", *(r.replace("_", " ") for r in shown)], ["---"] * (len(shown) + 1)]
    for label in order:
        found = cells[label]
        rows.append([label, *(figure([found[r]] if r in found else []) for r in shown)])
    size = (
        f"Size `{content['size']}`, means over folds and seeds with 95 % intervals over readers; "
        f"`docs/results/{name}.json` has every row with its command."
    )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + f"\n\n{size}"


def paired_table(name: str) -> str:
    """Return a Markdown table of differences to the best published model of each regime."""
    content = json.loads((REPOSITORY / "docs" / "results" / f"{name}.json").read_text("utf-8"))
    rows = [["released model", *(r.replace("_", " ") for r in REGIMES)], ["---"] * 5]
    for end in ("", "_single"):
        found = content.get(f"paired{end}") or {}
        rows.append([
            content[f"best{end}"]["model"],
            *(f"{figure([{**found[r], 'value': found[r]['difference']}])} against "
              f"{found[r]['against']}" if r in found else "" for r in REGIMES),
        ])  # fmt: skip
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def figure(rows: list[Any]) -> str:
    """Return the mean of rows over seeds, with the mean of their intervals."""
    values = [r["value"] for r in rows if "value" in r]
    if not values:
        return ""
    text = f"{sum(values) / len(values):.3g}"
    ends = [[r[k] for r in rows if k in r] for k in ("low", "high")]
    if all(len(e) == len(values) for e in ends):
        text += " ({:.3g} to {:.3g})".format(*(sum(e) / len(e) for e in ends))
    return text


def replacement(kind: str, name: str, rest: str = "") -> str:
    """Return what stands in for one mark."""
    if kind == "results":
        return results_table(name, rest.split())
    if kind == "regimes":
        return regimes_table(name, rest.strip())
    if kind == "paired":
        return paired_table(name)
    if kind == "says":
        return sentences(name)
    if kind == "registry":
        return table(name)
    return group_table() if name == "groups" else listing(name)


def cell(value: Any) -> str:
    """Return a value as the text of one table cell."""
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the reference section to the navigation."""
    assert config.nav is not None
    pages = [{f"gazeattn.{room}": f"reference/{room}.md"} for room in rooms()]
    config.nav.append({"Reference": pages})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated reference pages."""
    for room, modules in rooms().items():
        path = f"reference/{room}.md"
        files.append(File.generated(config, path, content=page(room, modules)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks by what they stand for."""
    return MARK.sub(lambda match: replacement(match[1], match[2], match[3]), markdown)
