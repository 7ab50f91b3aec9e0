"""What ``gazeattn readers``, ``inspect`` and ``import`` do."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn import readers, registry
from gazeattn.errors import DataError, GazeattnError
from gazeattn.losses import LossLog
from gazeattn.readers.quality import quality
from gazeattn.recordings import Recording
from gazeattn.report import style
from gazeattn.report.recordings import recording_figure
from gazeattn.storage import atomic_folder, atomic_path, write_json, write_parquet, write_text

COMBINED = ("fixations", "saccades", "blinks", "messages", "areas", "trials")
"""Tables of all files together; samples, which are long, keep one file per recording."""

PathLike = str | os.PathLike[str]


def options_for(function: Callable[..., Any], texts: Iterable[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` texts as the options of a reader or data set.

    The type that the function states decides: ``1920,1080`` is two numbers and ``true`` a truth
    value only where such are meant; an id such as ``007`` or ``null`` stays text.
    """
    parameters = inspect.signature(function).parameters
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise DataError("an option is NAME=VALUE", found=repr(text))
        kind = str(parameters[name].annotation) if name in parameters else "str"
        found[name] = _value(name, value, kind)
    return found


def _value(name: str, text: str, kind: str) -> Any:
    plain = "str" in kind.replace("Sequence[str]", "") or "Path" in kind or kind == "Any"
    if "bool" in kind and text in ("true", "false"):
        return text == "true"
    if "tuple" in kind or "Sequence" in kind:
        parts = tuple(part.strip() for part in text.split(","))
        return parts if "str" in kind else tuple(_number(name, part) for part in parts)
    if ("int" in kind or "float" in kind) and not plain:
        return None if text == "null" and "None" in kind else _number(name, text)
    return text


def _number(name: str, text: str) -> float:
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise DataError(f"option {name} takes numbers", found=repr(text)) from None


def read_file(
    path: PathLike, reader: str | None, options: Iterable[str], participant: str | None = None
) -> Recording:
    """Read a file with options as they were typed; `participant` where the reader takes one."""
    entry = registry.readers.get(reader or readers.identify(path))
    chosen = options_for(entry.obj, options)
    if participant is not None and "participant" in inspect.signature(entry.obj).parameters:
        chosen["participant"] = participant
    return readers.read(path, entry.name, **chosen)


def inspect_file(
    path: PathLike,
    to: PathLike,
    reader: str | None = None,
    options: Iterable[str] = (),
) -> tuple[Recording, pd.DataFrame, Path]:
    """Read a file, measure its quality and draw it.

    Returns
    -------
    Recording
    DataFrame
        See `gazeattn.readers.quality.quality`.
    Path
        The picture (SVG; a PNG lies beside it).
    """
    recording = read_file(path, reader, options)
    figure = recording_figure(recording)
    stem = Path(to) / f"{stem_of(path)}_gaze"
    alt = f"Gaze of {recording.source} on the screen and over time"
    write_text(f"{stem}.svg", style.svg_file(style.svg_tree(figure, stem.name, alt)))
    with atomic_path(f"{stem}.png") as temporary:
        temporary.write_bytes(style.png_bytes(figure))
    return recording, quality(recording), Path(f"{stem}.svg")


def stem_of(path: PathLike) -> str:
    """Return a file's name without its endings, safe as part of a file name."""
    name = Path(path).name.removesuffix(".gz")
    stem = name.rpartition(".")[0] or name
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in stem)


def import_files(
    paths: Sequence[PathLike],
    to: PathLike,
    reader: str | None = None,
    options: Sequence[str] = (),
    overwrite: bool = False,
) -> tuple[dict[str, int], LossLog]:
    """Write the tables of files of trackers as Parquet, with a list of what was lost.

    The folder gets one file per kind of table (``fixations.parquet`` ...) with all recordings and
    a column ``source``; ``samples/NAME.parquet`` for each recording with samples; ``lost.csv``;
    ``recordings.json`` with the facts of each file. It is written whole or not at all. A
    recording that names no participant gets its file name as participant (the folder's name
    before it where files share one). A trial of one participant that stands in several files
    becomes ``FILE:TRIAL`` in all of them, which is counted: they are different recordings.

    Returns
    -------
    dict
        Rows of each table.
    LossLog
        What was lost, over all files.

    Raises
    ------
    DataError
        A file cannot be read, stands twice, or the folder is not empty.
    """
    target = Path(to)
    if target.exists() and not target.is_dir():
        raise DataError("not a folder", source=target)
    if target.is_dir() and any(target.iterdir()):
        # only what an import wrote may be replaced: other files would be lost with the folder
        ours = {f"{name}.parquet" for name in COMBINED} | {"samples", "lost.csv", "recordings.json"}
        others = sorted(p.name for p in target.iterdir() if p.name not in ours)
        if others or not overwrite:
            raise DataError(
                "the folder is not empty",
                source=target,
                found=", ".join(others[:5]) or "an earlier import",
                hint="Choose another folder" + ("" if others else ", or say --overwrite"),
            )
    stems = unique_stems(paths)
    labels = dict(zip(stems, _labels(paths), strict=True))
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in COMBINED}
    rows: dict[str, int] = {}
    facts, lost, losses = [], LossLog(), []
    with atomic_folder(target) as folder:
        for path, stem in zip(paths, stems, strict=True):
            named = any(o.startswith("participant=") for o in options)
            # where files share a name, it alone names nobody
            name = None if named or stem == stem_of(path) else stem
            recording = _with_participant(read_file(path, reader, options, name), stem)
            for name, table in recording.tables().items():
                rows[name] = rows.get(name, 0) + len(table)
                if name == "samples":
                    write_parquet(folder / "samples" / f"{stem}.parquet", table)
                else:
                    parts[name].append(table.assign(source=stem))
            lost.extend(recording.lost)
            losses.append(recording.lost.to_frame().assign(source=recording.source))
            facts.append(
                {
                    "source": recording.source,
                    "reader": recording.reader,
                    **recording.info,
                    "quality": quality(recording).to_dict("records"),
                }
            )
        lost.extend(_part_trials(parts, folder / "samples"))
        for name, tables in parts.items():
            for table in tables:
                table["source"] = table["source"].map(labels)
            if tables:
                write_parquet(folder / f"{name}.parquet", pd.concat(tables, ignore_index=True))
        write_text(folder / "lost.csv", pd.concat(losses).to_csv(index=False))
        write_json(folder / "recordings.json", facts)
    if not rows:
        raise GazeattnError("nothing was imported")
    return rows, lost


def _with_participant(recording: Recording, stem: str) -> Recording:
    """Give tables without a participant the file's name as one, so that files stay apart."""
    for name, table in recording.tables().items():
        if "participant" not in table or table["participant"].isna().all():
            named = table.assign(participant=pd.Series(stem, index=table.index, dtype="str"))
            setattr(recording, name, named)
            note = "no participant in the file: its name is used"
            recording.lost.add(name, "note", note, 1, "files", [recording.source])
    return recording


def unique_stems(paths: Sequence[PathLike]) -> list[str]:
    """Return a short name for each file; files that share one get their folder's before it.

    Raises
    ------
    DataError
        A file stands twice, or folder and name together are not unique either.
    """
    stems = [stem_of(p) for p in paths]
    folded = [s.casefold() for s in stems]
    for i, path in enumerate(paths):
        if folded.count(stems[i].casefold()) > 1:
            stems[i] = stem_of(f"{Path(path).resolve().parent.name}_{Path(path).name}")
    again = [s.casefold() for s in stems]
    twice = [s for s, f in zip(stems, again, strict=True) if again.count(f) > 1]
    if twice:
        raise DataError(
            "two files have the same name in folders of the same name",
            found=repr(twice[0]),
            hint="Import them one by one, or rename one",
        )
    return stems


def _labels(paths: Sequence[PathLike]) -> list[str]:
    """Return the file names, with the folder's before those that occur twice."""
    names = [Path(p).name for p in paths]
    return [
        f"{Path(p).resolve().parent.name}/{n}" if names.count(n) > 1 else n
        for p, n in zip(paths, names, strict=True)
    ]


def _part_trials(parts: Mapping[str, list[pd.DataFrame]], samples: Path) -> LossLog:
    """Keep trials of different files apart that have one participant and one id."""
    lost = LossLog()
    tables = [t for many in parts.values() for t in many if {"participant", "trial"} <= set(t)]
    if not tables:
        return lost
    keys = pd.concat([t[["participant", "trial", "source"]] for t in tables]).dropna()
    files = keys.drop_duplicates().groupby(["participant", "trial"])["source"].nunique()
    shared = files.index[files > 1]
    if not len(shared):
        return lost
    sources = set(keys.set_index(["participant", "trial"]).loc[shared, "source"])
    paths = {source: samples / f"{source}.parquet" for source in sources}
    stored = {s: pd.read_parquet(p) for s, p in paths.items() if p.exists()}
    for table, source in [(t, None) for t in tables] + [(t, s) for s, t in stored.items()]:
        if "trial" not in table:
            continue
        where = pd.MultiIndex.from_frame(table[["participant", "trial"]]).isin(shared)
        prefix = table.loc[where, "source"] if source is None else source
        table.loc[where, "trial"] = prefix + ":" + table.loc[where, "trial"]
    for source, table in stored.items():
        write_parquet(paths[source], table)
    lost.add(
        "trials",
        "repaired",
        "trials of one participant and id in several files: now FILE:TRIAL",
        len(shared),
        "trials",
        [f"{p}, {t}" for p, t in shared[:3]],
    )
    return lost
