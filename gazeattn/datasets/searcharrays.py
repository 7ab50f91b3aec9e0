"""The published arrays of the search sets: axis order, padding, places of the object arrays."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.losses import LossLog

SIZE = (1280, 1024)
SLOTS = {
    0: (640, 512),
    1: (365, 988),
    2: (90, 512),
    3: (365, 36),
    4: (915, 36),
    5: (1190, 512),
    6: (915, 988),
}
"""Places of the object arrays in pixels; 0 is the centre of the screen."""

_FILES = {"human": "human_all", "eccNET": "eccNET", "IVSN": "IVSN"}


def slot_of(x: pd.Series, y: pd.Series) -> pd.Series:
    """Return the place in an object array of each position, -1 where it is none."""
    slot = pd.Series(-1, index=x.index)
    for number, (left, top) in SLOTS.items():
        slot[(x == left) & (y == top)] = number
    return slot


def unpad(array: np.ndarray, counts: np.ndarray, row_column: bool) -> tuple[np.ndarray, ...]:
    """Return the true positions of padded scanpaths.

    Parameters
    ----------
    array
        Shape (n_scanpaths, longest, 2); rows are filled up with (0, 0).
    counts
        Shape (n_scanpaths,): number of positions of each. A true (0, 0) within it stays.
    row_column
        Positions are (row, column) instead of (x, y).

    Returns
    -------
    row, index, x, y
        Four arrays of shape (n_positions,).

    Raises
    ------
    DataError
        Other shapes, or a count beyond the padded length or below 1.
    """
    counts = np.asarray(counts).reshape(-1)
    if array.ndim != 3 or array.shape[2] != 2 or len(array) != len(counts):
        raise DataError(
            "not an array of padded scanpaths",
            expected="(scanpaths, positions, 2) and one count per scanpath",
            found=f"{array.shape} and {counts.shape}",
        )
    bad = np.flatnonzero((counts < 1) | (counts > array.shape[1]) | (counts != np.floor(counts)))
    if len(bad):
        raise DataError(
            "a scanpath cannot have this length",
            row=int(bad[0]),
            expected=f"1 to {array.shape[1]}",
            found=f"{counts[bad[0]]}",
        )
    row, index = np.nonzero(np.arange(array.shape[1]) < counts[:, None])
    pairs = array[row, index].astype("float64")
    x, y = (1, 0) if row_column else (0, 1)
    return row, index, pairs[:, x], pairs[:, y]


def arrays_in(archive: Path) -> zipfile.Path:
    """Return the folder of the arrays in an archive of the repository.

    Raises
    ------
    DataError
        Not a zip archive, or one without ``out/SET/fix/human_all.npy``.
    """
    try:
        names = zipfile.ZipFile(archive).namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"not a zip archive ({error})", source=archive) from None
    hits = [n for n in names if n.endswith("/fix/human_all.npy")]
    if not hits:
        raise DataError(
            "the archive has no human scanpaths",
            source=archive,
            expected="vs_saccade_exp/out/SET/fix/human_all.npy",
            found=f"{len(names)} members",
        )
    return zipfile.Path(archive, hits[0].rsplit("/", 3)[0] + "/" if hits[0].count("/") > 2 else "")


def _load(path: zipfile.Path) -> np.ndarray:
    try:
        return np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise DataError(f"not an array of numbers ({error})", source=path) from None


def read_arrays(
    root: zipfile.Path, row_column: tuple[str, ...], lost: LossLog
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Read ``SET/fix, ifix, cp`` and ``SET/target_pos.npy`` of every set that is there.

    Rows are subject-major: all stimuli of the first person, then of the second.

    Parameters
    ----------
    root
        Folder of the sets in an archive, see `arrays_in`.
    row_column
        Sets whose positions are stored as (row, column).

    Returns
    -------
    fixations
        ``dataset, source, subject, stimulus, index, x, y``.
    trials
        ``dataset, source, subject, stimulus, n_fixations, target_x, target_y,
        last_fixation_on_target_slot``.
    found
        ``dataset, source, row, found_index`` (-1: never).
    """
    fixations, trials, found = [], [], []
    sets = [p for p in root.iterdir() if (p / "fix" / "human_all.npy").is_file()]
    for base in sorted(sets, key=lambda p: p.name):
        name, ends = base.name, {}
        here = {s: f for s, f in _FILES.items() if (base / "fix" / f"{f}.npy").is_file()}
        data = {s: _load(base / "fix" / f"{f}.npy") for s, f in here.items()}
        model = next((len(a) for s, a in data.items() if s != "human"), None)
        targets = _load(base / "target_pos.npy") if (base / "target_pos.npy").is_file() else None
        n = len(targets) if targets is not None else model
        if not n or any(len(a) % n for a in data.values()):
            raise DataError(
                "the rows of the scanpaths are no multiple of the stimuli",
                source=base,
                found=f"{ {s: len(a) for s, a in data.items()} }, {n or 'no'} stimuli",
            )
        for source, file in here.items():
            counts = _load(base / "ifix" / f"I_{file}.npy").reshape(-1)
            row, index, x, y = unpad(data[source], counts, name in row_column)
            people = row // n + 1 if source == "human" else np.zeros(len(row), int)
            fixations.append(
                pd.DataFrame(
                    {"dataset": name, "source": source, "subject": people, "stimulus": row % n + 1}
                    | {"index": index, "x": x, "y": y}
                )
            )
            lost.add(
                "arrays",
                "dropped",
                "padding behind the published number of fixations",
                int(data[source].shape[0] * data[source].shape[1] - len(row)),
                "positions",
            )
            if name in row_column:
                reason = "stored as (row, column): exchanged to x, y"
                lost.add("arrays", "repaired", reason, len(row), "positions")
            rows = np.arange(len(counts))
            trials.append(
                pd.DataFrame(
                    {"dataset": name, "source": source, "stimulus": rows % n + 1}
                    | {"subject": rows // n + 1 if source == "human" else 0 * rows}
                    | {"n_fixations": counts.astype(int), "row": rows}
                )
            )
            last = np.cumsum(counts).astype(int) - 1
            ends[source] = np.stack([x[last], y[last]], axis=1)
            record = base / "cp" / f"CP_{file}.npy"
            if record.is_file():
                hit = _load(record) > 0
                at = np.where(hit.any(axis=1), hit.argmax(axis=1), -1)
                found.append(
                    pd.DataFrame(
                        {"dataset": name, "source": source, "row": rows, "found_index": at}
                    )
                )
        _add_targets(trials[-len(here) :], targets, ends, n)
    table = pd.concat(trials, ignore_index=True)
    hits = (
        pd.concat(found, ignore_index=True)
        if found
        else pd.DataFrame(columns=["dataset", "source", "row", "found_index"])
    )
    return pd.concat(fixations, ignore_index=True), table.drop(columns="row"), hits


def _add_targets(
    trials: list[pd.DataFrame], targets: np.ndarray | None, ends: dict[str, np.ndarray], n: int
) -> None:
    """Add the target: stored as (row, column), or the place on which the models agree."""
    if targets is not None:
        xy = targets[:, ::-1].astype("float64")
    else:
        models = [e for s, e in ends.items() if s != "human"]
        agree = (np.stack(models) == models[0]).all(axis=(0, 2))
        xy = np.where(agree[:, None], models[0], np.nan)
    for table in trials:
        at = table["row"].to_numpy() % n
        table["target_x"], table["target_y"] = xy[at, 0], xy[at, 1]
        on = (ends[str(table["source"].iloc[0])] == xy[at]).all(axis=1)
        known = targets is None and ~np.isnan(xy[at, 0])
        table["last_fixation_on_target_slot"] = pd.array(on, dtype="boolean")
        table.loc[~np.broadcast_to(known, len(table)), "last_fixation_on_target_slot"] = pd.NA
