"""Published annotation files of joint attention as the three tables of the neutral layout.

Nothing here was tried on the published files themselves; `UNVERIFIED` says what rests on public
loaders alone. Neither set states gaze directions; ``gaze="target"`` takes the direction from the
head to the noted target, which is the answer and so serves only for comparisons with true
attributes (the paper's second setting). Otherwise they are missing, to be joined from a detector.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from gazeattn.errors import DataError
from gazeattn.losses import LossLog

PathLike = str | os.PathLike[str]
Size = tuple[float, float]
Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]

UNVERIFIED = {
    "videocoatt": (
        "columns (target id, frame, target box, then one box per head of those who attend) and "
        "pixel units, as a public loader reads them",
        "the size of the frames, which the files do not state",
        "frames without a line hold no joint attention",
    ),
    "volleyball": (
        "tracking columns, as their authors' README states them",
        "ball files: one line of x y per frame, 41 of them, the 21st the clip's own frame, as two "
        "public loaders read them",
        "annotations.txt: the README states the action before the four numbers of a box, public "
        "loaders read it after them; both are read",
        "licences of all files",
    ),
}
"""What could not be checked against the files."""

BALL_LINES = 41
TRACKING = ("player", "xmin", "ymin", "xmax", "ymax", "frame", "lost", "grouping", "generated")


def videocoatt_tables(
    files: Mapping[str, PathLike],
    *,
    size: Size | Mapping[str, Size],
    frames: Mapping[str, int] | None = None,
    every: int = 10,
    gaze: Literal["target"] | None = None,
    lost: LossLog | None = None,
) -> Tables:
    """Return the tables of VideoCoAtt annotation files (Fan et al., 2018).

    Parameters
    ----------
    files
        Text file of each video. A line: target id, frame, box of the target, boxes of the heads.
    size
        Width and height of the frames, of all videos or of each.
    frames
        Number of frames of each video. Where given, frames without a line become scenes without
        joint attention; nothing is said about who is in them.
    every
        Frames ``1, 1 + every, ...`` are taken, as in published evaluations.
    gaze
        See the module.
    lost
        Receives what is left out.

    Raises
    ------
    DataError
        Names the file and the line.
    """
    if every < 1:
        raise DataError("every must be 1 at least", found=every)
    lost = LossLog() if lost is None else lost
    scenes: dict[str, tuple[str, Size]] = {}
    people: list[tuple[object, ...]] = []
    targets: list[tuple[object, ...]] = []
    for video, path in files.items():
        own = _size_of(size, video)
        counts: dict[str, int] = {}
        again: dict[tuple[str, str], int] = {}
        for number, words in _lines(path):
            values = _whole(words, path, number)
            if len(values) < 6 or (len(values) - 6) % 4:
                raise DataError(
                    "a line of another length", source=path, row=number,
                    expected="target, frame, 4 numbers of the target's box, 4 per head",
                    found=f"{len(values)} numbers",
                )  # fmt: skip
            frame = values[1]
            if (frame - 1) % every:
                lost.add("videocoatt", "dropped", f"lines of frames between every {every}th", 1,
                         "lines")  # fmt: skip
                continue
            scene = f"{video}_{frame}"
            scenes[scene] = (video, own)
            box = np.array(values[2:6], dtype=np.float64)
            middle = (box[:2] + box[2:]) / 2
            if _off(middle, own):
                lost.add("videocoatt", "dropped", "targets whose centre is off the frame", 1,
                         "targets", [scene])  # fmt: skip
                continue
            ids = []
            for head in np.array(values[6:], dtype=np.float64).reshape(-1, 4):
                at = (head[:2] + head[2:]) / 2
                if _off(at, own):
                    lost.add("videocoatt", "dropped", "heads whose centre is off the frame", 1,
                             "people", [scene])  # fmt: skip
                    continue
                counts[scene] = counts.get(scene, 0) + 1
                ids.append(f"h{counts[scene]}")
                people.append((scene, ids[-1], *at, *_towards(at, middle, gaze), None))
            nth = (scene, str(values[0]))  # an id can stand twice in a frame
            again[nth] = again.get(nth, 0) + 1
            name = nth[1] + (f".{again[nth]}" if again[nth] > 1 else "")
            targets.append((scene, name, *middle, *box, ";".join(ids) or "-"))
        for frame in range(1, (frames or {}).get(video, 0) + 1, every):
            scenes.setdefault(f"{video}_{frame}", (video, own))
    return _tables(scenes, people, targets)


def volleyball_tables(
    clips: Mapping[tuple[str, str], tuple[PathLike, PathLike]],
    *,
    size: Size | Mapping[str, Size],
    offsets: Sequence[int] = (0,),
    head: float = 0.1,
    gaze: Literal["target"] | None = None,
    lost: LossLog | None = None,
) -> Tables:
    """Return the tables of Volleyball tracking and ball files (Sendo and Ukita, 2019).

    The ball is the target of the group; who attends to it is not noted.

    Parameters
    ----------
    clips
        (video, frame of the clip) -> tracking file, ball file.
    size
        Width and height of the frames, of all videos or of each.
    offsets
        Frames that are taken, counted from the clip's own.
    head
        The files have boxes of bodies, not heads. The head is taken to be on the middle line of
        the box, this share of its height below the top. Counted as a note: a stand-in for a head
        detector.
    gaze, lost
        As in `videocoatt_tables`.
    """
    lost = LossLog() if lost is None else lost
    scenes: dict[str, tuple[str, Size]] = {}
    people: list[tuple[object, ...]] = []
    targets: list[tuple[object, ...]] = []
    for (video, clip), (tracking, ball) in clips.items():
        own, centre = _size_of(size, video), int(clip)
        places = [_whole(words, ball, number) for number, words in _lines(ball)]
        if len(places) != BALL_LINES or any(len(p) != 2 for p in places):
            raise DataError(
                "not a ball file", source=ball, expected=f"{BALL_LINES} lines of x y",
                found=f"{len(places)} lines",
            )  # fmt: skip
        wanted = {centre + o: f"{video}_{clip}_{centre + o}" for o in offsets}
        for frame, scene in wanted.items():
            if not 0 <= frame - centre + BALL_LINES // 2 < BALL_LINES:
                raise DataError("no ball is noted so far away", source=ball,
                                expected="offsets of -20 to 20", found=frame - centre)  # fmt:skip
            scenes[scene] = (video, own)
            place = np.array(places[frame - centre + BALL_LINES // 2], dtype=np.float64)
            if _off(place, own) or not place.any():
                lost.add("volleyball", "dropped", "balls off the frame", 1, "targets", [scene])
                continue
            targets.append((scene, "ball", *place, *[np.nan] * 4, None))
        at_ball = {t[0]: np.array(t[2:4], dtype=np.float64) for t in targets}
        for number, words in _lines(tracking):
            if len(words) < 10:
                raise DataError("a line of another length", source=tracking, row=number,
                                expected=f"{', '.join(TRACKING)}, action",
                                found=f"{len(words)} values")  # fmt: skip
            values = dict(zip(TRACKING, _whole(words[:9], tracking, number), strict=True))
            name = wanted.get(values["frame"])
            if name is None:
                continue
            if values["lost"]:
                lost.add("volleyball", "dropped", "players out of view", 1, "people", [name])
                continue
            at = np.array([(values["xmin"] + values["xmax"]) / 2,
                           values["ymin"] + head * (values["ymax"] - values["ymin"])])  # fmt: skip
            if _off(at, own):
                lost.add("volleyball", "dropped", "heads off the frame", 1, "people", [name])
                continue
            action = " ".join(words[9:]).strip("\"'").lower()
            seen = _towards(at, at_ball[name], gaze) if name in at_ball else (np.nan, np.nan)
            people.append((name, str(values["player"]), *at, *seen, action))
    lost.add("volleyball", "note", "heads placed by the box of the body", len(people), "people")
    return _tables(scenes, people, targets)


def read_volleyball_annotations(path: PathLike) -> pd.DataFrame:
    """Return the players of an ``annotations.txt`` of the Volleyball set (Ibrahim et al., 2016).

    Returns
    -------
    DataFrame
        frame, activity, player (0, 1, ...), x, y, width, height (pixels), action.
    """
    rows: list[tuple[object, ...]] = []
    for number, words in _lines(path):
        rest = words[2:]
        if len(words) < 2 or len(rest) % 5:
            raise DataError("a line of another length", source=path, row=number,
                            expected="frame, activity, and 5 values per player",
                            found=f"{len(words)} values")  # fmt: skip
        for k in range(0, len(rest), 5):
            player = rest[k : k + 5]
            first = not player[0].lstrip("-").isdigit()
            box = _whole(player[1:] if first else player[:4], path, number)
            action = player[0] if first else player[4]
            rows.append((words[0].removesuffix(".jpg"), words[1], k // 5, *box, action))
    names = ["frame", "activity", "player", "x", "y", "width", "height", "action"]
    return pd.DataFrame(rows, columns=names)


def _lines(path: PathLike) -> list[tuple[int, list[str]]]:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError("no such file", source=path) from None
    except UnicodeDecodeError as error:
        raise DataError("not a text file", source=path, found=f"byte {error.start}") from None
    split = [(n, line.split()) for n, line in enumerate(text.splitlines(), start=1)]
    return [(n, words) for n, words in split if words]


def _whole(words: Sequence[str], path: PathLike, number: int) -> list[int]:
    try:
        return [int(w) for w in words]
    except ValueError:
        bad = next(w for w in words if not w.lstrip("+-").isdigit())
        raise DataError("not a whole number", source=path, row=number,
                        expected="whole numbers", found=repr(bad)) from None  # fmt: skip


def _size_of(size: Size | Mapping[str, Size], video: str) -> Size:
    if not isinstance(size, Mapping):
        return float(size[0]), float(size[1])
    if video not in size:
        raise DataError("the size of the frames of a video is not given", found=video)
    return float(size[video][0]), float(size[video][1])


def _off(xy: np.ndarray, size: Size) -> bool:
    return bool((xy < 0).any() or (xy > np.array(size)).any())


def _towards(at: np.ndarray, goal: np.ndarray, gaze: str | None) -> tuple[float, float]:
    away = goal - at
    length = float(np.hypot(*away))
    if gaze is None or length == 0:
        return float("nan"), float("nan")
    if gaze != "target":
        raise DataError("no such source of gaze directions", expected="'target'", found=gaze)
    return float(away[0] / length), float(away[1] / length)


def _tables(
    scenes: Mapping[str, tuple[str, Size]],
    people: Sequence[tuple[object, ...]],
    targets: Sequence[tuple[object, ...]],
) -> Tables:
    first = pd.DataFrame(
        [(s, size[0], size[1], video) for s, (video, size) in scenes.items()],
        columns=["scene", "width", "height", "sequence"],
    )
    second = ["scene", "person", "head_x", "head_y", "gaze_x", "gaze_y", "action"]
    third = ["scene", "target", "x", "y", "xmin", "ymin", "xmax", "ymax", "attended_by"]
    return (
        first,
        pd.DataFrame(people, columns=second),
        pd.DataFrame(targets, columns=third),
    )
