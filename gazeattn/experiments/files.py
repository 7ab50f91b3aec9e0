"""What ``gazeattn readers``, ``inspect`` and ``import`` do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn import readers
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


def option(text: str) -> tuple[str, Any]:
    """Return name and value of ``NAME=VALUE``; ``1920,1080`` becomes numbers, ``null`` None."""
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise DataError("an option of a reader is NAME=VALUE", found=repr(text))
    return name, _value(value)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    if text.count(",") and all(map(str.strip, text.split(","))):
        return tuple(map(_value, text.split(",")))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def inspect_file(
    path: PathLike,
    to: PathLike,
    reader: str | None = None,
    options: Mapping[str, Any] | None = None,
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
    recording = readers.read(path, reader, **(options or {}))
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
    options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> tuple[dict[str, int], LossLog]:
    """Write the tables of files of trackers as Parquet, with a list of what was lost.

    The folder gets one file per kind of table (``fixations.parquet`` ...) with all recordings and
    a column ``source``; ``samples/NAME.parquet`` for each recording with samples; ``lost.csv``;
    ``recordings.json`` with the facts of each file. It is written whole or not at all. A
    recording that names no participant gets its file name as participant.

    Returns
    -------
    dict
        Rows of each table.
    LossLog
        What was lost, over all files.

    Raises
    ------
    DataError
        A file cannot be read, two files have one name, or the folder is not empty.
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
    stems = [stem_of(p) for p in paths]
    if len({s.casefold() for s in stems}) < len(stems):
        twice = next(s for s in stems if stems.count(s) > 1 or s.casefold() in stems)
        raise DataError("two files have the same name", found=repr(twice))
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in COMBINED}
    rows: dict[str, int] = {}
    facts, lost, losses = [], LossLog(), []
    with atomic_folder(target) as folder:
        for path, stem in zip(paths, stems, strict=True):
            recording = _with_participant(readers.read(path, reader, **(options or {})), stem)
            for name, table in recording.tables().items():
                rows[name] = rows.get(name, 0) + len(table)
                if name == "samples":
                    write_parquet(folder / "samples" / f"{stem}.parquet", table)
                else:
                    parts[name].append(table.assign(source=recording.source))
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
        for name, tables in parts.items():
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
