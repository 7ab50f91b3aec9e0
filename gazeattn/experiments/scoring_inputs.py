"""Scanpaths and saliency maps of any tool, as `gazeattn score` reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gazeattn import registry
from gazeattn.columns import Column, cast
from gazeattn.errors import DataError, UnknownNameError, suggest
from gazeattn.losses import LossLog
from gazeattn.readers.delimited import FIRST_ROW, name_columns, read_table
from gazeattn.readers.textfile import Format
from gazeattn.tables import FIXATIONS

KEYS = ("stimulus", "participant", "trial")
"""Columns that name a scanpath; a model may go without the last two."""

SCHEMA = {name: FIXATIONS[name] for name in (*KEYS, "index", "x", "y", "duration")}
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".npy")

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Paths:
    """Scanpaths of one side.

    Attributes
    ----------
    keys : DataFrame
        One row per scanpath: ``stimulus, participant, trial`` as text, missing where not given.
    paths : list of ndarray, each (n, 2) or (n, 3)
        x, y in pixels and, where the table has durations, duration in ms.
    source : str
    lost : LossLog
    """

    keys: pd.DataFrame
    paths: list[np.ndarray]
    source: str
    lost: LossLog = field(default_factory=LossLog)

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, keep: np.ndarray) -> Paths:
        """Return the scanpaths at some positions."""
        keys = self.keys.iloc[keep].reset_index(drop=True)
        return Paths(keys, [self.paths[k] for k in keep], self.source, self.lost)


def is_maps(path: PathLike) -> bool:
    """Return whether a path is a folder or an npz file, which hold maps, not a table."""
    return Path(path).is_dir() or Path(path).suffix.lower() == ".npz"


def read_paths(
    source: PathLike,
    *,
    role: str,
    columns: Mapping[str, str] | None = None,
    root: PathLike | None = None,
    decimal: str = ".",
) -> Paths:
    """Read scanpaths from a table, or from a data set by name where there is no such file.

    Parameters
    ----------
    source
        CSV, TSV or Parquet with a row per fixation: ``stimulus, x, y`` and, where they exist,
        ``participant, trial, index, duration``; see `paths_of`.
    role : {"human", "model"}
    columns
        Our name to the file's name, where they differ.
    root
        Data folder of a data set by name.
    decimal : {".", ","}
        Decimal mark of a text file; its separator is found out.

    Raises
    ------
    DataError, UnknownNameError
        Not readable, a column is missing, or neither a file nor a data set.
    """
    path = Path(source).expanduser()
    if not path.exists() and path.name == str(source) and not path.suffix:
        if str(source) not in registry.datasets:
            raise UnknownNameError("file or data set", str(source), registry.datasets.names())
        from gazeattn.datasets import load

        frame, log = name_columns(
            load(str(source), root=root).fixations, SCHEMA, columns, step=role, source=source
        )
        return paths_of(frame, role=role, source=str(source), log=log)
    frame, log = read_table(path, SCHEMA, columns, step=role, form=Format(decimal=decimal))
    try:
        return paths_of(frame, role=role, source=str(source), log=log, first_row=FIRST_ROW)
    except DataError as error:
        if not error.hint or "decimal=','" not in error.hint:
            raise
        hint = error.hint.replace("decimal=','", "--decimal , (decimal=',' in Python)")
        raise DataError(
            error.message, source=error.source, row=error.row,
            expected=error.expected, found=error.found, hint=hint,
        ) from None  # fmt: skip


def paths_of(
    table: pd.DataFrame,
    *,
    role: str = "human",
    source: str = "table",
    log: LossLog | None = None,
    first_row: int = 0,
) -> Paths:
    """Return the scanpaths of a table with a row per fixation.

    Rows of the same stimulus, participant and trial are one scanpath, in the order of ``index``,
    or of the rows without it (noted). A fixation without a position is left out and counted; a
    scanpath without any stays, empty. A model may have neither participants nor trials: then
    each stimulus has one scanpath.

    Raises
    ------
    DataError
        A column or a name is missing, a number is infinite or no number, a duration is negative,
        or two fixations of a scanpath have the same index.
    """
    log = LossLog() if log is None else log
    needed = ("stimulus", "x", "y", *(("participant",) if role == "human" else ()))
    for name in needed:
        if name not in table:
            near = suggest(name, map(str, table.columns))
            raise DataError(
                f"the {role} table has no column {name!r}",
                source=source,
                expected=", ".join(needed),
                found=", ".join(map(str, table.columns)),
                hint=f"{'Is it ' + ' or '.join(map(repr, near)) + '? ' if near else ''}"
                f"Name it with {name}=COLUMN in the column map",
            )
    table = table.reset_index(drop=True)
    frame = pd.DataFrame(
        {
            name: cast(table[name], name, SCHEMA[name], source, first_row)
            for name in SCHEMA
            if name in table
        }
    )
    for name in KEYS:
        if name in frame and name not in needed and frame[name].isna().any():
            row = int(frame[name].isna().to_numpy().argmax())
            raise DataError(f"a missing {name}", source=source, row=row + first_row)
    duration = frame["duration"].to_numpy(float) if "duration" in frame else None
    if duration is not None and (duration < 0).any():
        row = int((duration < 0).argmax())
        raise DataError(
            "a fixation has a negative duration",
            source=source, row=row + first_row, found=duration[row],
        )  # fmt: skip
    by = [name for name in KEYS if name in frame]
    code = frame.groupby(by, sort=False).ngroup().to_numpy()
    order = _ordered(frame, code, role, source, log, first_row)
    xy = frame[["x", "y"]].to_numpy(float)[order]
    there = np.isfinite(xy).all(axis=1)
    reason = "fixations without a position left out of their scanpath"
    log.add(role, "dropped", reason, int((~there).sum()), "fixations")
    values = xy
    if duration is not None and np.isfinite(duration).any():
        values = np.column_stack([xy, duration[order]])
        unknown = int(np.isnan(duration[order][there]).sum())
        log.add(role, "undefined", "fixations without a duration", unknown, "fixations")
    else:
        log.add(role, "note", "no durations: parts that need them are undefined", 1, "tables")
    counts = np.bincount(code[order][there], minlength=int(code.max()) + 1)
    paths = np.split(values[there], np.cumsum(counts)[:-1])
    log.add(role, "note", "scanpaths of one fixation", int((counts == 1).sum()), "scanpaths")
    log.add(role, "note", "scanpaths without a fixation", int((counts == 0).sum()), "scanpaths")
    if "index" not in frame:
        _doubt_duplicates(paths, role, log)
    keys = frame[by].drop_duplicates().reset_index(drop=True).reindex(columns=list(KEYS))
    return Paths(keys.astype("str"), list(paths), source, log)


def _doubt_duplicates(paths: list[np.ndarray], role: str, log: LossLog) -> None:
    """Count rows like the one before, and scanpaths that stand twice, where no index tells."""
    again = sum(
        int((p[1:] == p[:-1]).all(axis=1).sum()) for p in paths if len(p) > 1
    )  # a missing duration equals nothing
    reason = "doubt: fixations equal to the one before, in place and duration: duplicate rows?"
    log.add(role, "note", reason, again, "fixations")
    halves = [p for p in paths if len(p) > 3 and len(p) % 2 == 0]
    twice = sum(np.array_equal(p[: len(p) // 2], p[len(p) // 2 :], equal_nan=True) for p in halves)
    reason = "doubt: scanpaths whose second half repeats the first: rows that stand twice?"
    log.add(role, "note", reason, twice, "scanpaths")


def _ordered(
    frame: pd.DataFrame, code: np.ndarray, role: str, source: str, log: LossLog, first_row: int
) -> np.ndarray:
    if "index" not in frame:
        log.add(role, "note", "no column index: fixations in the order of the rows", 1, "tables")
        return np.argsort(code, kind="stable")
    index = frame["index"].to_numpy()
    order = np.lexsort((index, code))
    twice = np.flatnonzero((np.diff(code[order]) == 0) & (np.diff(index[order]) == 0))
    if len(twice):
        row, before = int(order[twice[0] + 1]), int(order[twice[0]])
        what = [k for k in ("x", "y", "duration") if k in frame]
        if frame[what].iloc[row].equals(frame[what].iloc[before]):
            raise DataError(
                "duplicate rows: the same fixation of one scanpath stands twice",
                source=source,
                row=row + first_row,
                found=", ".join(f"{k} {frame[k][row]!r}" for k in (*KEYS, "index") if k in frame),
                hint=f"Row {before + first_row} is equal; leave one of them out",
            )
        raise DataError(
            "two fixations of one scanpath have the same index",
            source=source,
            row=row + first_row,
            found=", ".join(f"{k} {frame[k][row]!r}" for k in (*KEYS, "index") if k in frame),
            hint="Scanpaths of one participant on one stimulus need a column trial",
        )
    return np.asarray(order)


def common(human: Paths, model: Paths, log: LossLog) -> tuple[Paths, Paths]:
    """Return the scanpaths of stimuli that both sides have, and count the others.

    Raises
    ------
    DataError
        No stimulus stands on both sides.
    """
    sides = (human, model)
    names = [set(s.keys["stimulus"]) for s in sides]
    both = names[0] & names[1]
    if not both:
        raise no_common(sorted(names[0]), sorted(names[1]), model.source)
    out = []
    for side, own, role in zip(sides, names, ("human", "model"), strict=True):
        keep = np.flatnonzero(side.keys["stimulus"].isin(both))
        log.add(role, "dropped", "scanpaths of stimuli that the other side does not have",
                len(side) - len(keep), "scanpaths", sorted(own - both))  # fmt: skip
        out.append(side.take(keep))
    return out[0], out[1]


def no_common(human: list[str], model: list[str], source: object) -> DataError:
    """Return the error for two sides without a common stimulus."""
    folded = {stem(n) for n in human} & {stem(n) for n in model}
    numbers = {n.removesuffix(".0") for n in human} & {n.removesuffix(".0") for n in model}
    hint = "They differ by file endings; write them alike" if folded else None
    if numbers:
        hint = "Numbers of one side became decimal numbers (1001.0); write them as whole numbers"
    return DataError(
        "no stimulus stands on both sides",
        source=source,
        expected="human stimuli such as " + ", ".join(human[:3]),
        found=", ".join(model[:3]),
        hint=hint,
    )


def at_stimulus(error: DataError, name: str, source: object, sized: bool) -> DataError:
    """Return an error of a metric with its stimulus, and its hint in options of the command."""
    hint = error.hint
    if hint and "outside=" in hint:
        hint = "Say --option outside=drop to leave them out, with a count"
        if not sized:
            hint += ", or --size WIDTH,HEIGHT of the picture that x and y refer to"
    elif hint and "size=(" in hint:
        hint = "Say --size WIDTH,HEIGHT of the picture that x and y refer to"
    elif hint and "to_density" in hint:
        hint = "Say --density 0 (or a floor above 0) to make a density of each map"
    return DataError(
        f"{error.message.replace(' of image 0', '')}, stimulus {name!r}",
        source=source, row=error.row, expected=error.expected, found=error.found, hint=hint,
    )  # fmt: skip


def stem(name: str) -> str:
    """Return the name of a picture without its ending."""
    base, dot, ending = name.rpartition(".")
    return base if dot and base and f".{ending.lower()}" in PICTURES else name


def read_size(text: PathLike) -> tuple[float, float] | dict[str, tuple[float, float]]:
    """Return ``WIDTH,HEIGHT`` as numbers, or the sizes of a table ``stimulus, width, height``.

    Raises
    ------
    DataError
        Neither two numbers nor such a table, or two sizes of one stimulus.
    """
    parts = str(text).lower().replace("x", ",").split(",")
    try:
        if len(parts) == 2:
            return float(parts[0]), float(parts[1])
    except ValueError:
        pass
    if not Path(text).expanduser().is_file():
        raise DataError(
            "not a size", expected="WIDTH,HEIGHT, or a table stimulus, width, height", found=text
        )
    schema = {
        "stimulus": FIXATIONS["stimulus"],
        **{n: Column("float", n, True, False) for n in ("width", "height")},
    }
    table, _ = read_table(text, schema, step="sizes")
    for name in schema:
        if name not in table:
            raise DataError(f"the table of sizes has no column {name!r}", source=text,
                            found=", ".join(map(str, table.columns)))  # fmt: skip
    table = table[list(schema)].drop_duplicates()
    columns = [cast(table[n], n, schema[n], text, FIRST_ROW) for n in schema]
    if columns[0].duplicated().any():
        found = columns[0][columns[0].duplicated()].iloc[0]
        raise DataError("two sizes of one stimulus", source=text, found=found)
    return {str(s): (float(w), float(h)) for s, w, h in zip(*columns, strict=True)}


def read_columns(text: str) -> dict[str, str]:
    """Return ``OURS=THEIRS,...`` as a column map.

    Raises
    ------
    DataError, UnknownNameError
        Not of that form, or a column that we do not know.
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        ours, sign, theirs = (p.strip() for p in part.partition("="))
        if not sign or not theirs or ours in found:
            raise DataError("a column map is OURS=THEIRS,...", found=repr(part))
        if ours not in SCHEMA:
            raise UnknownNameError("column", ours, SCHEMA)
        found[ours] = theirs
    return found


# maps ------------------------------------------------------------------------------------------


class Maps(Mapping[str, np.ndarray]):
    """Maps of a folder or an npz file by name, read when they are asked for.

    Pictures must be grey; names are file names without their ending, or keys of the npz file.
    """

    def __init__(self, source: PathLike) -> None:
        self.source = Path(source).expanduser()
        self._files: dict[str, Path] = {}
        self._arrays: dict[str, np.ndarray] = {}
        if self.source.is_dir():
            for path in sorted(self.source.iterdir()):
                if path.suffix.lower() not in PICTURES or path.name.startswith("."):
                    continue
                if path.stem in self._files:
                    raise DataError("two maps of one name", source=self.source, found=path.stem)
                self._files[path.stem] = path
        else:
            self._arrays = {stem(k): v for k, v in self._npz().items()}
        if not len(self):
            raise DataError(
                "no maps", source=self.source, expected=f"files {' '.join(PICTURES)}, or an npz"
            )

    def _npz(self) -> dict[str, np.ndarray]:
        try:
            with np.load(self.source, allow_pickle=False) as file:
                return {k: file[k] for k in file.files}
        except FileNotFoundError:
            raise DataError("no such file", source=self.source) from None
        except (OSError, ValueError, EOFError, TypeError, AttributeError) as error:
            raise DataError(f"not a readable npz file ({error})", source=self.source) from None
        except Exception as error:  # a damaged archive: zipfile and zlib have errors of their own
            raise DataError(f"the npz file is damaged ({error})", source=self.source) from None

    def file_of(self, name: str) -> Path:
        """Return the file that holds a map."""
        return self._files.get(name, self.source)

    def __len__(self) -> int:
        return len(self._files) + len(self._arrays)

    def __iter__(self) -> Iterator[str]:
        return iter([*self._files, *self._arrays])

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._arrays:
            return self._arrays[name]
        path = self._files[name]
        try:
            if path.suffix.lower() == ".npy":
                return np.asarray(np.load(path, allow_pickle=False))
            from PIL import Image

            with Image.open(path) as picture:
                values: Any = np.asarray(picture)
        except (OSError, ValueError, EOFError, SyntaxError) as error:
            raise DataError(f"not a readable map ({error})", source=path) from None
        if values.ndim == 3:
            if (values[..., :3] != values[..., :1]).any():
                raise DataError("a map must be grey", source=path, found="a picture in colour")
            values = values[..., 0]
        return np.asarray(values)
