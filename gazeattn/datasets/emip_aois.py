"""Tokens and area measures of code-reading stimuli (EMIP toolkit; McChesney & Bond, 2021)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpus import Corpus, register_corpus
from gazeattn.datasets.corpusfiles import find_files
from gazeattn.datasets.parts import build, correction, join_ids, numbers, read_text
from gazeattn.errors import DataError
from gazeattn.losses import LossLog

_TEXTS = ["Participant", "Timeline", "TOI", "Interval", "Media", "AOI"]
_LAYOUTS = {"C": "crowded", "S": "spaced"}
_FIRST = "Time_to_first_fixation"


@register_corpus("emip_aois")
def load(folder: Path, page: Corpus) -> GazeDataset:
    """Load the tables: there are measures per area, and no fixations.

    ``reports["areas"]``: the published measures, one row per participant, program, window and
    area, numbers as float, missing where the area was never looked at; with ``stimulus, trial,
    window`` (seconds, missing for the whole time) and ``word``. Words are the areas of the six
    displays and the tokens of two EMIP programs (layouts ``Rectangle.java``, ``Vehicle.java``,
    which nobody reads here); none has a box. A trial is one person and one display.
    """
    lost = LossLog()
    hidden = list(correction(page, "health attribute")["columns"])
    areas, n_tables, n_columns = read_measures(folder, hidden, lost)
    tokens = read_tokens(folder)
    never = areas[_FIRST].isna() if _FIRST in areas else pd.Series(dtype=bool)
    reason = "area never fixated: times to it and durations of the first are missing, not 0"
    lost.add("areas", "undefined", reason, int(never.sum()))
    words = areas[["stimulus", "word"]].drop_duplicates()
    words = words.assign(text=words["word"], layout=words["stimulus"])
    reason = "areas overlap (identifier in line in program): not to be added up"
    lost.add("words", "note", reason, len(words), "areas")
    whole = areas["window"].isna()
    trials = areas[["participant", "trial", "stimulus"]].drop_duplicates()
    trials["program"] = trials["stimulus"].str[:2]
    trials["layout_condition"] = trials["stimulus"].str[2].map(_LAYOUTS)
    trials["condition"] = trials["layout_condition"]
    seen = areas[["stimulus", "window", "participant"]].drop_duplicates()
    seen["name"] = seen["stimulus"].str[:3]
    timed = seen["window"].notna()
    if timed.any():
        seen.loc[timed, "name"] += "_" + seen.loc[timed, "window"].map("{:02.0f}s".format)
    counts = {
        "area_tables": n_tables,
        "area_rows": len(areas),
        "area_columns": n_columns,
        "never_fixated": int(never.sum()),
    }
    counts |= {f"participants_{k}": int(n) for k, n in seen["name"].value_counts().items()}
    for program, group in areas[whole].groupby(areas["stimulus"].str[:2]):
        counts[f"areas_{program}"] = int(group["word"].nunique())
    for name, n in tokens["stimulus"].value_counts().to_dict().items():
        counts[f"tokens_{str(name).split('.')[0].lower()}"] = int(n)
    stimuli, counts["pictures"] = _stimuli(folder, sorted(trials["stimulus"].unique()), tokens)
    counts["stimuli"] = int(trials["stimulus"].nunique())
    return build(
        page,
        None,
        pd.concat([words, tokens], ignore_index=True),
        trials,
        units="code tokens",
        stimuli=stimuli,
        lost=lost,
        counts=counts,
        reports={"areas": areas},
    )


def read_measures(folder: Path, hidden: list[str], lost: LossLog) -> tuple[pd.DataFrame, int, int]:
    """Read the tables of area measures; an empty cell is a missing number, a word stays a word.

    Returns
    -------
    DataFrame, number of tables, number of published columns (without the `hidden` ones)
    """
    tables, n_columns = [], 0
    for path in find_files(folder, "mcchesney_aoi_metrics/*.tsv"):
        name = re.fullmatch(r"(P\d[CS]a?)(?:-(\d+)s)?\.tsv(?:\.gz)?", path.name)
        if name is None:
            raise DataError(
                "the name says neither program nor layout",
                source=path,
                expected="such as P1Ca.tsv or P1Ca-05s.tsv",
            )
        table = read_text(path, "\t", ["Participant", "AOI"], quote=None)
        there = [c for c in hidden if c in table]
        lost.add(
            "areas", "dropped", "column on the health of the participant", len(there), "columns"
        )
        table = table.drop(columns=there)
        n_columns = max(n_columns, len(table.columns))
        for column in table.columns.difference(_TEXTS):
            table[column] = numbers(table[column], column, path)
        window = float(name[2]) if name[2] else float("nan")
        tables.append(table.assign(stimulus=name[1], window=window, file=path.name))
    areas = pd.concat(tables, ignore_index=True)
    areas["participant"], areas["word"] = areas["Participant"], areas["AOI"]
    areas["trial"] = join_ids(areas["stimulus"], areas["participant"])
    twice = areas.duplicated(["file", "participant", "word"])
    if twice.any():
        row = areas[twice].iloc[0]
        raise DataError(
            "an area stands twice for one participant",
            source=row["file"],
            found=f"{row['participant']}, {row['word']}",
        )
    return areas, len(tables), n_columns


def read_tokens(folder: Path) -> pd.DataFrame:
    """Read the token lists; ``line i part j`` counts from 1, ours from 0.

    The token ``null`` is a word.
    """
    tables = []
    for path in find_files(folder, "emip_tokens/*.tsv"):
        table = read_text(path, "\t", ["stimulus_file", "token", "AOI"], quote=None)
        place = table["AOI"].str.extract(r"^line (\d+) part (\d+)$")
        if place[0].isna().any():
            row = int(place[0].isna().to_numpy().argmax())
            raise DataError(
                "the place of a token is not readable",
                source=path,
                row=row + 2,
                expected="line i part j",
                found=repr(table["AOI"].iloc[row]),
            )
        words = table.rename(columns={"stimulus_file": "stimulus", "token": "text", "AOI": "word"})
        words["line"] = place[0].astype("int64") - 1
        words["part"] = place[1].astype("int64") - 1
        tables.append(words.assign(layout=words["stimulus"]))
    return pd.concat(tables, ignore_index=True)


def _stimuli(
    folder: Path, displays: list[str], tokens: pd.DataFrame
) -> tuple[dict[str, dict[str, Any]], int]:
    """Return facts per display and program, and how many pictures are there."""
    stimuli: dict[str, dict[str, Any]] = {}
    pictures = find_files(folder, "mcchesney_stimuli/*.png")
    for display in displays:
        stimuli[display] = {"language": "java", "layout": _LAYOUTS[display[2]]}
        for path in pictures:
            if path.stem.endswith(display):
                stimuli[display] |= {"image": str(path), "size": image_size(path)}
    for program, rows in tokens.groupby("stimulus", sort=False):
        lines = rows.sort_values(["line", "part"]).groupby("line")["text"].agg(" ".join)
        stimuli[str(program)] = {"language": "java", "text": "\n".join(lines)}
    return stimuli, len(pictures)


def image_size(path: Path) -> tuple[int, int]:
    """Return width and height from the head of a PNG file."""
    head = path.read_bytes()[:24]
    if head[:8] != b"\x89PNG\r\n\x1a\n" or head[12:16] != b"IHDR":
        raise DataError("not a PNG picture", source=path)
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
