"""What the numbers of `benchmark scanpath` depend on: kept beside them, compared before more come.

Rows and files of a run folder, and those of a published table, are gone on with. That is right
only where everything was made with the same settings; where not, the command is refused and the
message names what differs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from gazeattn.errors import DataError
from gazeattn.experiments.building import read_run, read_yaml
from gazeattn.experiments.scanpath_rows import FORCED
from gazeattn.storage import write_json

SETTINGS = "settings.json"
KEYS = (
    "dataset", "split", "grid", "shortest", "splits",
    "size.name", "size.stimuli", "size.samples", "size.bootstrap",
)  # fmt: skip
"""Parts of the configuration on which all rows depend."""
NO_CONTENT = ("dataset.root",)
"""Where data lie does not change them."""
MADE = ("runs", "teacher_forced", "samples")
"""Folders of a run folder with something of each model and seed."""
COUNTS = ("people", "stimuli", "scanpaths", "fixations")
HINT = "choose another folder with hydra.run.dir= and publish="


def flat(node: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings by their dotted keys; lists are leaves."""
    if not isinstance(node, Mapping):
        return {prefix: list(node) if isinstance(node, tuple) else node}
    found: dict[str, Any] = {}
    for key, value in node.items():
        found |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def digest_of(settings: Mapping[str, Any]) -> str:
    """Return 12 digits of the SHA-256 of settings, whatever their order."""
    text = json.dumps({k: v for k, v in settings.items() if v is not None}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Settings:
    """What rows depend on.

    Attributes
    ----------
    shared : dict
        Dotted key -> value, of all rows.
    models : dict of str to dict
        The configuration of each model (dotted keys), of its rows.
    """

    shared: dict[str, Any]
    models: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, plain: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> Settings:
        """Return the settings in a configuration of the benchmark and in those of models."""
        known = flat(plain)
        shared = {
            k: v
            for k, v in known.items()
            if any(k == key or k.startswith(f"{key}.") for key in KEYS) and k not in NO_CONTENT
        }
        return cls(shared, {name: flat(config) for name, config in models.items()})

    def digests(self) -> dict[str, str]:
        """Return the digest of the configuration of each model."""
        return {name: digest_of(config) for name, config in sorted(self.models.items())}


def kept(folder: Path) -> Settings:
    """Return what a run folder says of its settings.

    Older folders without ``settings.json`` have their last configuration, and those of trained
    models beside their checkpoints.
    """
    path = folder / SETTINGS
    if path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            made = Settings(
                dict(found["settings"]), {k: dict(v) for k, v in found["models"].items()}
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError("cannot be read", source=path, found=error, hint=HINT) from error
        if digest_of(made.shared) != found.get("digest"):
            raise DataError("the settings are not those that were written", source=path, hint=HINT)
        return made
    config = folder / "config.yaml"
    plain = read_yaml(config) if config.is_file() else {}
    runs = sorted((folder / "runs").glob("*/run.yaml"))
    return Settings.of(plain, {p.parent.name.rpartition("_")[0]: read_run(p.parent) for p in runs})


def keep(folder: Path, ours: Settings) -> None:
    """Write the settings of this command beside those of other models of the folder."""
    before = kept(folder).models if (folder / SETTINGS).is_file() else {}
    content = {
        "digest": digest_of(ours.shared),
        "settings": ours.shared,
        "models": {**before, **ours.models},
    }
    write_json(folder / SETTINGS, content)


def check_folder(folder: Path, rows: pd.DataFrame, ours: Settings) -> None:
    """Raise where a run folder holds rows or files of other settings.

    Parameters
    ----------
    rows
        Of its table; empty where there is none.
    """
    made = {p.stem.rpartition("_")[0] for d in MADE for p in (folder / d).glob("*_*")}
    labels = made | set(rows["model"].astype(str))
    if not labels:
        return
    theirs = kept(folder)
    check_grid(rows, ours.shared["grid"], folder)
    refuse(_shared(theirs.shared, ours.shared), folder)
    for name in sorted(labels & set(theirs.models) & set(ours.models)):
        other = _differences(theirs.models[name], ours.models[name])
        refuse([(f"model {name}: {key}", a, b) for key, a, b in other], folder)


def check_published(
    path: Path, content: Mapping[str, Any], ours: Settings, counts: Mapping[str, int]
) -> None:
    """Raise where a published table was made with other settings.

    Parameters
    ----------
    content
        Of its file. Older files do not state their settings; then the conventions of their rows
        have to agree with the grid, and the numbers of people, stimuli, scanpaths and fixations
        with those at hand.
    counts
        Numbers at hand, by `COUNTS`.
    """
    conventions: Any = content.get("conventions", {})
    rows = pd.DataFrame({"metric": list(conventions), "convention": list(conventions.values())})
    check_grid(rows, ours.shared["grid"], path)
    stated = content.get("settings")
    if isinstance(stated, Mapping):
        refuse(_shared(stated, ours.shared), path)
    theirs, mine = content.get("models", {}), ours.digests()
    for name in sorted(set(theirs) & set(mine)):
        if theirs[name] != mine[name]:
            refuse([(f"configuration of {name}", theirs[name], mine[name])], path)
    names = [k for k in COUNTS if k in content]
    refuse([(f"number of {k}", content[k], counts[k]) for k in names if content[k] != counts[k]],
           path)  # fmt: skip


def check_grid(rows: pd.DataFrame, grid: Sequence[int], source: Path) -> None:
    """Raise where the conventions of teacher-forced rows name another grid."""
    mine = rows["metric"].astype(str).str.removesuffix("_after_first").isin(FORCED)
    for text in rows.loc[mine, "convention"].dropna().unique():
        found = re.search(r"(\d+) x (\d+) cells", str(text))
        other = [int(n) for n in found.groups()] if found else None
        if other is not None and other != [int(n) for n in grid]:
            refuse([("grid", other, list(grid))], source)


def _differences(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], unknown: Sequence[str] = ()
) -> list[tuple[str, Any, Any]]:
    """Return (key, theirs, ours) of what differs; a missing value is as good as none.

    Keys in `unknown` say nothing where they are missing among theirs: older versions had none.
    """
    keys = [k for k in sorted({*theirs, *ours}) if k in theirs or k not in unknown]
    return [(k, theirs.get(k), ours.get(k)) for k in keys if theirs.get(k) != ours.get(k)]


def _shared(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    unknown = [k for k in ours if not theirs or not k.startswith("dataset.")]
    return _differences(theirs, ours, unknown)


def refuse(other: Sequence[tuple[str, Any, Any]], source: Path) -> None:
    """Raise for the first of some differences, and name them all."""
    if not other:
        return
    raise DataError(
        f"there are results of another {other[0][0]}", source=source,
        expected="; ".join(f"{key} {ours}" for key, _, ours in other),
        found="; ".join(f"{key} {theirs}" for key, theirs, _ in other), hint=HINT,
    )  # fmt: skip
