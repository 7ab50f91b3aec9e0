"""Scenes of people who look at things together: one neutral layout, and batches of tensors.

The layout is three tables, CSV, TSV or Parquet, ``scenes``, ``people`` and ``targets``; their
columns are `SCENES`, `PEOPLE` and `TARGETS`. Positions are pixels from the top left of the
picture. In batches they are shares of the picture, so that pictures of any size stand in one
batch; gaze directions are turned into the same shares, where straight lines stay straight.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from gazeattn.columns import Column, plain
from gazeattn.errors import DataError
from gazeattn.losses import LossLog
from gazeattn.readers.delimited import FIRST_ROW, read_table
from gazeattn.storage import atomic_folder
from gazeattn.tables import conform

PathLike = str | os.PathLike[str]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SCENES: Mapping[str, Column] = {
    "scene": Column("text", "id of one picture or frame", required=True, nullable=False),
    "width": Column("float", "pixels", required=True, nullable=False),
    "height": Column("float", "pixels", required=True, nullable=False),
    "image": Column("text", "path of the picture"),
    "sequence": Column("text", "what the frame was taken from; parts of a split share none"),
}
PEOPLE: Mapping[str, Column] = {
    "scene": Column("text", "scene id", required=True, nullable=False),
    "person": Column("text", "person id, unique in the scene", required=True, nullable=False),
    "head_x": Column("float", "centre of the head, pixels", required=True, nullable=False),
    "head_y": Column("float", "centre of the head, pixels", required=True, nullable=False),
    "gaze_x": Column("float", "gaze direction to the right; any length but 0"),
    "gaze_y": Column("float", "gaze direction downwards"),
    "action": Column("text", "what the person does"),
}
TARGETS: Mapping[str, Column] = {
    "scene": Column("text", "scene id", required=True, nullable=False),
    "target": Column("text", "target id, unique in the scene", required=True, nullable=False),
    "x": Column("float", "centre, pixels; may be left out where there is a box"),
    "y": Column("float", "centre, pixels"),
    "xmin": Column("float", "box, pixels"),
    "ymin": Column("float", "box, pixels"),
    "xmax": Column("float", "box, pixels"),
    "ymax": Column("float", "box, pixels"),
    "attended_by": Column(
        "text", "person ids with ';' between, '-' for nobody; missing = not noted"
    ),
}
NOBODY = "-"
BOX = ("xmin", "ymin", "xmax", "ymax")
TABLES = {"scenes": SCENES, "people": PEOPLE, "targets": TARGETS}
SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True)
class JointScenes:
    """Many scenes, their people and their targets, one after the other.

    Attributes
    ----------
    scene, sequence, image : ndarray, shape (n,), object
        `sequence` is the scene itself where none was given; `image` is None where missing.
    size : ndarray, shape (n, 2)
        Width and height in pixels.
    people_starts : ndarray, shape (n + 1,), int64
        People of scene i are ``people_starts[i]:people_starts[i + 1]``.
    person : ndarray, shape (n_people,), object
    head : ndarray, shape (n_people, 2)
        Pixels.
    gaze : ndarray, shape (n_people, 2)
        Unit vectors in pixels, NaN where missing.
    action : ndarray, shape (n_people,), int64
        Position in `actions`, -1 where missing.
    attends : ndarray, shape (n_people,), int64
        Number of the target within the scene, -1 where no target is known.
    target_starts : ndarray, shape (n + 1,), int64
    target : ndarray, shape (n_targets,), object
    place : ndarray, shape (n_targets, 2)
        Centre in pixels.
    extent : ndarray, shape (n_targets, 2)
        Width and height of the box in pixels, NaN where missing.
    joint : ndarray, shape (n_targets,), bool
        Whether two people at least attend to it. A target of which it is not noted who attends
        counts as the group's.
    actions : tuple of str
        Names of the actions, in alphabetical order unless given.
    features : mapping of str to Tensor
        Map of a backbone by scene id, (channels, rows, columns); filled by `with_features`.
    """

    scene: NDArray[np.object_]
    sequence: NDArray[np.object_]
    image: NDArray[np.object_]
    size: Floats
    people_starts: Ints
    person: NDArray[np.object_]
    head: Floats
    gaze: Floats
    action: Ints
    attends: Ints
    target_starts: Ints
    target: NDArray[np.object_]
    place: Floats
    extent: Floats
    joint: NDArray[np.bool_]
    actions: tuple[str, ...]
    features: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scene)

    @property
    def n_people(self) -> Ints:
        """People of each scene, (n,)."""
        return np.diff(self.people_starts)

    @property
    def people_of(self) -> Ints:
        """Number of the scene of each person, (n_people,)."""
        return np.repeat(np.arange(len(self)), self.n_people)

    @property
    def target_of(self) -> Ints:
        """Number of the scene of each target, (n_targets,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.target_starts))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether there is joint attention in each scene, (n,)."""
        return np.bincount(self.target_of, self.joint, minlength=len(self)) > 0

    def take(self, which: NDArray[Any] | Sequence[int]) -> JointScenes:
        """Return the scenes at some positions (or of a mask), in that order."""
        which = np.asarray(which)
        at = np.flatnonzero(which) if which.dtype == bool else which.astype(np.int64)
        people, p_starts = _rows(self.people_starts, at)
        targets, t_starts = _rows(self.target_starts, at)
        names = self.scene[at]
        return JointScenes(
            names, self.sequence[at], self.image[at], self.size[at],
            p_starts, self.person[people], self.head[people], self.gaze[people],
            self.action[people], self.attends[people],
            t_starts, self.target[targets], self.place[targets], self.extent[targets],
            self.joint[targets], self.actions,
            {n: self.features[n] for n in names if n in self.features},
        )  # fmt: skip

    def with_features(self, source: Callable[[JointScenes, int], Tensor]) -> JointScenes:
        """Return the same scenes with the map of a backbone for each of them.

        `source` gets the scenes and a position, and returns (channels, rows, columns).
        """
        return replace(self, features={n: source(self, i) for i, n in enumerate(self.scene)})

    def split(self, shares: Sequence[float], seed: int = 0) -> list[JointScenes]:
        """Return parts in which no sequence stands twice; shares are of the sequences."""
        if not np.isclose(sum(shares), 1):
            raise DataError("shares of a split sum to 1", expected=1, found=sum(shares))
        names = np.unique(self.sequence.astype(str))
        names = names[np.random.default_rng(seed).permutation(len(names))]
        cuts = np.round(np.cumsum(shares)[:-1] * len(names)).astype(int)
        own = self.sequence.astype(str)
        return [self.take(np.isin(own, part)) for part in np.split(names, cuts)]


def _rows(starts: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Return the rows of the groups at some positions, and the starts of the new groups."""
    lengths = np.diff(starts)[at]
    ends = np.cumsum(lengths)
    rows = np.repeat(starts[at] - (ends - lengths), lengths) + np.arange(int(lengths.sum()))
    return rows, np.concatenate([[0], ends]).astype(np.int64)


# reading and checking ----------------------------------------------------------------------------


def read_joint_scenes(
    folder: PathLike, *, actions: Sequence[str] | None = None, lost: LossLog | None = None
) -> JointScenes:
    """Read a folder with the files ``scenes``, ``people`` and ``targets``.

    Parameters
    ----------
    folder
        Each file is one of .parquet, .csv, .tsv (.gz); ``targets`` may be absent, as for
        pictures to be predicted.
    actions
        Names of the actions in the order of a model; by default those of the file.
    lost
        Receives what was repaired or is missing.

    Raises
    ------
    DataError
        Names the file, the row as the file counts it, what was expected and what was found.
    """
    lost = LossLog() if lost is None else lost
    folder = Path(folder).expanduser()
    found: dict[str, pd.DataFrame | None] = {}
    sources: dict[str, object] = {}
    for name, schema in TABLES.items():
        paths = [p for s in SUFFIXES if (p := folder / f"{name}{s}").exists()]
        if len(paths) > 1:
            raise DataError(
                f"the {name} table stands twice",
                source=folder,
                expected="one file",
                found=", ".join(p.name for p in paths),
            )
        if not paths:
            if name == "targets":
                found[name] = None
                continue
            raise DataError(
                f"no {name} table",
                source=folder,
                expected=f"one of {', '.join(name + s for s in SUFFIXES)}",
                found="no such file",
            )
        found[name], more = read_table(paths[0], schema, step=name)
        lost.extend(more)
        sources[name] = paths[0]
    assert found["scenes"] is not None and found["people"] is not None
    return joint_scenes_of(
        found["scenes"], found["people"], found["targets"],
        actions=actions, lost=lost, sources=sources, first_row=FIRST_ROW,
    )  # fmt: skip


def joint_scenes_of(
    scenes: pd.DataFrame,
    people: pd.DataFrame,
    targets: pd.DataFrame | None = None,
    *,
    actions: Sequence[str] | None = None,
    lost: LossLog | None = None,
    sources: Mapping[str, object] | None = None,
    first_row: int = 0,
) -> JointScenes:
    """Check three tables and return them as scenes; see `read_joint_scenes`."""
    lost = LossLog() if lost is None else lost
    if targets is None:
        targets = pd.DataFrame({c: pd.Series(dtype="str" if s.kind == "text" else "float64")
                                for c, s in TARGETS.items()})  # fmt: skip
    given = {"scenes": scenes, "people": people, "targets": targets}
    tables: dict[str, pd.DataFrame] = {}
    for name, frame in given.items():
        source = (sources or {}).get(name, name)
        known = [c for c in TABLES[name] if c in frame]
        table, more = conform(
            frame[known], TABLES[name], source=source, step=name, first_row=first_row
        )
        for column, spec in TABLES[name].items():
            if column not in table:
                empty = np.nan if spec.kind == "float" else pd.Series(dtype="str")
                table[column] = empty
        tables[name] = table
        lost.extend(more)
    check = _Checks({n: (sources or {}).get(n, n) for n in tables}, first_row, lost)
    return check.scenes(tables, actions)


@dataclass
class _Checks:
    sources: Mapping[str, object]
    first_row: int
    lost: LossLog

    def fail(
        self, table: str, bad: NDArray[np.bool_], message: str, expected: str, found: pd.Series
    ) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                message, source=self.sources[table], row=row + self.first_row,
                expected=expected, found=plain(found.iloc[row]),
            )  # fmt: skip

    def scenes(
        self, tables: Mapping[str, pd.DataFrame], names: Sequence[str] | None
    ) -> JointScenes:
        scenes, people, targets = tables["scenes"], tables["people"], tables["targets"]
        self.fail("scenes", scenes.duplicated("scene").to_numpy(), "a scene stands twice",
                  "one row per scene", scenes["scene"])  # fmt: skip
        size = scenes[["width", "height"]].to_numpy(np.float64)
        shown = scenes["width"].astype(str) + " x " + scenes["height"].astype(str)
        self.fail(
            "scenes",
            np.asarray((size <= 0).any(axis=1)),
            "a picture has no size",
            "pixels > 0",
            shown,
        )
        number = pd.Series(np.arange(len(scenes)), index=scenes["scene"])
        of: dict[str, Ints] = {}
        for name, key in (("people", "person"), ("targets", "target")):
            table = tables[name]
            code = table["scene"].map(number)
            self.fail(name, code.isna().to_numpy(), "no such scene", "a scene of the scenes table",
                      table["scene"])  # fmt: skip
            self.fail(name, table.duplicated(["scene", key]).to_numpy(),
                      f"a {key} stands twice in a scene", "one row each", table[key])  # fmt: skip
            of[name] = code.to_numpy(np.int64)
        head = people[["head_x", "head_y"]].to_numpy(np.float64)
        self.inside("people", head, size[of["people"]], "a head is off the picture")
        gaze = self.gaze(people)
        action, actions = self.actions(people, names)
        place, extent = self.places(targets, size[of["targets"]])
        attends, joint = self.attending(people, targets)
        p_order = np.argsort(of["people"], kind="stable")
        t_order = np.argsort(of["targets"], kind="stable")
        t_starts = _starts(of["targets"], len(scenes))
        rank = np.empty(len(targets), dtype=np.int64)
        rank[t_order] = np.arange(len(targets)) - np.repeat(t_starts[:-1], np.diff(t_starts))
        within = np.where(attends >= 0, rank[attends] if len(rank) else -1, -1)
        sequence = scenes["sequence"].where(scenes["sequence"].notna(), scenes["scene"])
        image = np.array([None if pd.isna(v) else v for v in scenes["image"]], dtype=object)
        return JointScenes(
            scenes["scene"].to_numpy(dtype=object), sequence.to_numpy(dtype=object),
            image, size,
            _starts(of["people"], len(scenes)), people["person"].to_numpy(dtype=object)[p_order],
            head[p_order], gaze[p_order], action[p_order], within[p_order],
            t_starts, targets["target"].to_numpy(dtype=object)[t_order],
            place[t_order], extent[t_order], joint[t_order], actions,
        )  # fmt: skip

    def inside(self, table: str, xy: Floats, size: Floats, message: str) -> None:
        bad = ((xy < 0) | (xy > size)).any(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                message, source=self.sources[table], row=row + self.first_row,
                expected=f"0 <= x <= {size[row, 0]:g}, 0 <= y <= {size[row, 1]:g}",
                found=f"{xy[row, 0]:g}, {xy[row, 1]:g}",
                hint="Leave out people and targets that are off the picture",
            )  # fmt: skip

    def gaze(self, people: pd.DataFrame) -> Floats:
        gaze = people[["gaze_x", "gaze_y"]].to_numpy(np.float64)
        shown = people["gaze_x"].astype(str) + ", " + people["gaze_y"].astype(str)
        half = np.isnan(gaze).sum(axis=1) == 1
        self.fail("people", half, "a gaze direction has one number", "both or none", shown)
        length = np.hypot(gaze[:, 0], gaze[:, 1])
        self.fail("people", length == 0, "a gaze direction of length 0 points nowhere",
                  "a direction, or nothing where it is not known", shown)  # fmt: skip
        self.lost.add("people", "undefined", "people without a gaze direction",
                      int(np.isnan(length).sum()), "people")  # fmt: skip
        scaled = np.abs(length - 1) > 1e-3
        self.lost.add("people", "repaired", "gaze directions brought to length 1",
                      int(scaled.sum()), "people")  # fmt: skip
        return gaze / length[:, None]

    def actions(
        self, people: pd.DataFrame, names: Sequence[str] | None
    ) -> tuple[Ints, tuple[str, ...]]:
        column = people["action"]
        known = tuple(sorted(column.dropna().unique())) if names is None else tuple(names)
        code = pd.Index(known).get_indexer(pd.Index(column)).astype(np.int64)
        strange = (code < 0) & column.notna().to_numpy()
        self.fail("people", strange, "an action that is not known", ", ".join(known), column)
        return code, known

    def places(self, targets: pd.DataFrame, size: Floats) -> tuple[Floats, Floats]:
        place = targets[["x", "y"]].to_numpy(np.float64)
        box = targets[list(BOX)].to_numpy(np.float64)
        has_box = ~np.isnan(box).any(axis=1)
        extent = box[:, 2:] - box[:, :2]
        shown = targets["xmin"].astype(str)
        for column in BOX[1:]:
            shown = shown + ", " + targets[column].astype(str)
        self.fail("targets", has_box & ~(extent >= 0).all(axis=1), "a box ends before it starts",
                  "xmin <= xmax, ymin <= ymax", shown)  # fmt: skip
        from_box = np.isnan(place).any(axis=1) & has_box
        place[from_box] = (box[from_box, :2] + box[from_box, 2:]) / 2
        self.fail("targets", np.isnan(place).any(axis=1), "a target is nowhere",
                  "x and y, or a box", targets["target"])  # fmt: skip
        self.inside("targets", place, size, "the centre of a target is off the picture")
        return place, np.where(has_box[:, None], extent, np.nan)

    def attending(
        self, people: pd.DataFrame, targets: pd.DataFrame
    ) -> tuple[Ints, NDArray[np.bool_]]:
        noted = targets["attended_by"].notna()
        links = targets.loc[noted, ["scene", "attended_by"]]
        links = links.assign(person=links["attended_by"].str.split(";")).explode("person")
        links["person"] = links["person"].astype("str").str.strip()
        links = links[~links["person"].isin(["", NOBODY])]
        row = links.index.to_numpy(np.int64)
        keys = pd.MultiIndex.from_frame(people[["scene", "person"]])
        at = keys.get_indexer(pd.MultiIndex.from_frame(links[["scene", "person"]]))
        if (at < 0).any():
            first = int(np.argmax(at < 0))
            raise DataError(
                "a target is attended by a person who is not in the scene",
                source=self.sources["targets"], row=int(row[first]) + self.first_row,
                expected="ids of the people table, ';' between", found=links["person"].iloc[first],
            )  # fmt: skip
        twice = pd.Series(at).duplicated().to_numpy()
        if twice.any():
            first = int(np.argmax(twice))
            raise DataError(
                "a person attends to two targets of a scene, or stands twice in one list",
                source=self.sources["targets"], row=int(row[first]) + self.first_row,
                expected="one target per person", found=links["person"].iloc[first],
            )  # fmt: skip
        attends = np.full(len(people), -1, dtype=np.int64)
        attends[at] = row
        count = np.bincount(row, minlength=len(targets))
        joint = np.where(noted.to_numpy(dtype=bool), count >= 2, True)
        self.lost.add("targets", "note", "targets without a note of who attends count as the "
                      "group's", int((~noted).sum()), "targets")  # fmt: skip
        self.lost.add("targets", "note", "targets of one person or none are no joint attention",
                      int((~joint).sum()), "targets")  # fmt: skip
        return attends, joint


def _starts(of: Ints, n: int) -> Ints:
    return np.concatenate([[0], np.cumsum(np.bincount(of, minlength=n))]).astype(np.int64)


def write_joint_tables(
    folder: PathLike, scenes: pd.DataFrame, people: pd.DataFrame, targets: pd.DataFrame
) -> None:
    """Write three tables as a folder of the layout (Parquet); the folder is whole or not there."""
    with atomic_folder(folder) as place:
        for name, frame in (("scenes", scenes), ("people", people), ("targets", targets)):
            frame.to_parquet(place / f"{name}.parquet", index=False)
