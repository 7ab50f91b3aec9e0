"""Public corpora: one YAML page of facts each, and a loader function only where one is needed.

A page stands in ``datasets/corpora/NAME.yaml``. Its facts were read from the publications and from
the files; what could not be checked is listed under ``unverified`` and never invented. A loader is
registered with `register_corpus`; it gets the folder and the page, and everything that corpora
have in common (finding the folder, the message where it is absent, provenance and checksums,
listed corrections, counting what was loaded against what was published) is done here.

Published splits stand in ``dataset.reports["folds"]``, one row per fold and trial, with the columns
of `FOLDS`.
"""

from __future__ import annotations

import copy
import functools
import gzip
import hashlib
import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from gazeattn.datasets.base import GazeDataset
from gazeattn.datasets.corpusfiles import find_files, has_file
from gazeattn.errors import ChecksumError, DataError, MissingAssetError, suggest
from gazeattn.losses import LossKind, LossLog
from gazeattn.registry import register_dataset
from gazeattn.storage import data_root, sha256

ENV_SHARED = "GAZEATTN_SHARED"
PAGES = Path(__file__).parent / "corpora"
Loader = Callable[..., GazeDataset]

FOLDS = ("fold", "trial", "part", "regime")
"""Columns of published splits: name of the fold as text, trial id, part (``train``, ``val`` or
``test``), and regime (``unseen_reader``, ``unseen_text``, ``unseen_both``; missing in training
parts and where the publisher makes no difference)."""


@dataclass(frozen=True)
class CorpusFile:
    """One file, or one kind of file, of a corpus.

    Attributes
    ----------
    name : str
        Path below the corpus folder; ``{participant}`` and other ids in braces make it a pattern.
    urls : tuple of str
        Addresses that are tried in order; none where it must be fetched by hand.
    sha256, md5 : str or None
        Checksum of the file as published; None where it is not known.
    size : int or None
        Bytes.
    unpack : bool
        An archive whose members are taken out into the corpus folder.
    optional : bool
        The corpus loads without it.
    unverified : bool
        Address or checksum were not checked by a download.
    note : str
    """

    name: str
    urls: tuple[str, ...] = ()
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    unpack: bool = False
    optional: bool = False
    unverified: bool = False
    note: str = ""


@dataclass(frozen=True)
class Corpus:
    """The page of a corpus.

    Attributes
    ----------
    name, title, task, size, licence, citation, url, description : str
        ``task`` is ``reading``, ``free viewing``, ``search``, ``code reading`` ...
    language, device : str
    screen : tuple of int, or None
        Width and height in pixels.
    distance_cm, screen_cm, rate : number, pair of numbers, number; None where not published
    files : tuple of CorpusFile
    marker : tuple of str
        Paths (or patterns) that must be there for a folder to count as this corpus.
    tables : dict
        Per table: encoding, separator, decimal, missing marks and the column map with units.
    corrections : tuple of dict
        Known faults of the published files and their repair, as data; applied once and counted.
        See `correct` for the keys. An entry with ``rule`` names what the loader does where a
        value table cannot say it.
    expected : dict
        Counts by edition, e.g. ``{"release": {"participants": 57, "trials": 4782}}``.
    labels, tasks : tuple of str
        What can be predicted from it.
    item : str
        Column of the trials that says what counts as one text or image in splits: versions of
        one text, or pages of one passage, belong together.
    readers_note : str
        What the readers did, for a report's first sentence (``"information seeking"``).
    obtain : str
        What a person has to do to get the files, where no address does it.
    unverified : tuple of str
        Facts that could not be checked.
    """

    name: str
    title: str
    task: str
    size: str
    licence: str
    citation: str
    url: str = ""
    description: str = ""
    language: str = ""
    device: str = ""
    screen: tuple[int, int] | None = None
    distance_cm: float | None = None
    screen_cm: tuple[float, float] | None = None
    rate: float | None = None
    files: tuple[CorpusFile, ...] = ()
    marker: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)
    corrections: tuple[Mapping[str, Any], ...] = ()
    expected: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    item: str = "stimulus"
    readers_note: str = ""
    version: str = ""
    obtain: str = ""
    unverified: tuple[str, ...] = ()

    def rule(self, name: str) -> str:
        """Return the reason of the correction that a loader carries out itself.

        Raises
        ------
        DataError
            The page lists no such rule.
        """
        rules = {
            str(c["rule"]): str(c["reason"])
            for c in self.corrections
            if "rule" in c and "reason" in c
        }
        if name not in rules:
            raise DataError(
                f"the page lists no correction with rule {name!r}",
                source=f"{self.name}.yaml",
                found=", ".join(rules) or "none",
            )
        return rules[name]


def page_names() -> list[str]:
    """Return the names of all corpus pages."""
    return sorted(p.stem for p in PAGES.glob("*.yaml"))


def corpus(name: str) -> Corpus:
    """Return the page of a corpus; a page is never shared, so that nothing can change it.

    Raises
    ------
    DataError
        A key that a page does not have, or a required one is missing.
    """
    return copy.deepcopy(_read_page(name))


@functools.cache
def _read_page(name: str) -> Corpus:
    path = PAGES / f"{name}.yaml"
    raw = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    if not isinstance(raw, dict):
        raise DataError("a corpus page is a mapping", source=path.name)
    facts: dict[str, Any] = {str(k): _frozen(v) for k, v in raw.items()}
    _known_keys(facts, Corpus, path.name)
    files = []
    for entry in facts.pop("files", ()):
        _known_keys(entry, CorpusFile, path.name)
        files.append(CorpusFile(**entry))
    missing = [k for k in ("title", "task", "size", "licence", "citation") if not facts.get(k)]
    if missing or facts.get("name", name) != name:
        raise DataError(
            "a corpus page lacks facts or has another name",
            source=path.name,
            expected=f"name: {name}, and a value for each of title, task, size, licence, citation",
            found=f"name {facts.get('name', name)!r}, missing: {', '.join(missing) or 'none'}",
        )
    return Corpus(**{"name": name, **facts, "files": tuple(files)})


def _frozen(value: Any) -> Any:
    """Return lists as tuples."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return {k: _frozen(v) for k, v in value.items()} if isinstance(value, dict) else value


def _known_keys(given: Mapping[str, Any], cls: type, source: str) -> None:
    known = [f.name for f in fields(cls)]
    for key in given:
        if key not in known:
            near = suggest(key, known)
            raise DataError(
                f"a corpus page has no key {key!r}",
                source=source,
                expected=", ".join(known),
                hint=f"Did you mean {' or '.join(map(repr, near))}?" if near else None,
            )


def find_folder(page: Corpus, root: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder of a corpus: `root` itself, or ``NAME`` below one of the data folders.

    Looked at in this order: `root`, ``root/NAME``, ``root/datasets/NAME``, ``NAME`` below the
    folder of the environment variable ``GAZEATTN_SHARED``, ``datasets/NAME`` below the data
    folder (see `gazeattn.storage.data_root`). Where `root` is given, only the first three.
    """
    if root is not None:
        base = Path(root).expanduser()
        folders = [base, base / page.name, base / "datasets" / page.name]
    else:
        shared = os.environ.get(ENV_SHARED)
        folders = [Path(shared).expanduser() / page.name] if shared else []
        folders.append(data_root() / "datasets" / page.name)
    for folder in folders:
        if folder.is_dir() and all(has_file(folder, m) for m in page.marker):
            return folder
    return None


def need_file(folder: Path, page: Corpus, name: str) -> Path:
    """Return one file of a corpus, or raise `MissingAssetError` that says which one is missing."""
    found = find_files(folder, name)
    if not found:
        raise MissingAssetError(
            f"{folder} lacks {name} (or {name}.gz), without which data set {page.name!r} cannot "
            f"be loaded\n{missing_message(page, folder)}"
        )
    return found[0]


def correct(frame: pd.DataFrame, page: Corpus, table: str, lost: LossLog) -> pd.DataFrame:
    """Apply a page's corrections of one table, in order, and count the rows that they change.

    A correction has ``table``, ``where`` (column to value, or to a list of values; all must
    hold), ``reason``, and either ``set`` (column to new value, null for missing) or ``drop: true``.
    Values are compared as text; rows that have the new value already are not counted. With
    ``unless`` (column to value) nothing is done where a row has that value: the files were
    corrected already, or the two ids are two people.

    Raises
    ------
    DataError
        The table lacks a column that a correction names.
    """
    for entry in page.corrections:
        if entry.get("table") != table or "where" not in entry:
            continue
        sets, where = dict(entry.get("set", {})), dict(entry["where"])
        absent = [c for c in (*where, *sets, *entry.get("unless", {})) if c not in frame]
        if absent:
            raise DataError(
                f"a correction names column {absent[0]!r}, which the {table} table does not have",
                source=f"{page.name}.yaml",
                found=", ".join(map(str, frame.columns)),
            )
        hit = np.ones(len(frame), dtype=bool)
        for column, value in where.items():
            values = value if isinstance(value, tuple | list) else (value,)
            hit &= frame[column].astype("str").isin([str(v) for v in values]).to_numpy()
        if sets:  # what is right already is not counted
            differ = np.zeros(len(frame), dtype=bool)
            for column, value in sets.items():
                now = frame[column]
                same = now.isna() if value is None else now.astype("str") == str(value)
                differ |= ~same.to_numpy(dtype=bool, na_value=False)
            hit &= differ
        for column, value in dict(entry.get("unless", {})).items():
            if (frame[column].astype("str") == str(value)).any():
                reason = f"not applied, since {column} {value} is there: {entry['reason']}"
                lost.add(table, "note", reason, int(hit.sum()))
                hit[:] = False
        blank = bool(sets) and all(v is None for v in sets.values())
        kind: LossKind = "dropped" if entry.get("drop") else "undefined" if blank else "repaired"
        lost.add(table, kind, str(entry["reason"]), int(hit.sum()))
        if entry.get("drop"):
            frame = frame[~hit].reset_index(drop=True)
        elif hit.any():
            frame = frame.copy()
            for column, value in sets.items():
                frame.loc[hit, column] = pd.NA if value is None else value
    return frame


def register_corpus(name: str, **info: Any) -> Callable[[Loader], Loader]:
    """Register a loader ``fn(folder, page, **options) -> GazeDataset`` under a page's name."""
    page = corpus(name)

    def decorate(loader: Loader) -> Loader:
        @functools.wraps(loader)
        def load(root: str | os.PathLike[str] | None = None, **options: Any) -> GazeDataset:
            folder = find_folder(page, root)
            if folder is None:
                raise MissingAssetError(missing_message(page, root))
            own = corpus(name)
            sums = checksums(folder, own)
            dataset = loader(folder, own, **options)
            dataset.info.setdefault("checksums", sums)
            return finish(dataset, own, folder)

        given = list(inspect.signature(loader).parameters.values())[2:]
        where = inspect.Parameter("root", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        load.__signature__ = inspect.Signature([where, *given])  # type: ignore[attr-defined]
        facts = {
            "task": page.task,
            "size": page.size,
            "licence": page.licence,
            "citation": page.citation,
            "description": page.description or page.title,
            "obtain": page.obtain or _addresses(page),
            "installed": lambda root: find_folder(page, root) is not None,
            "page": page,
        }
        register_dataset(name, **{**facts, **info})(load)
        return load

    return decorate


def _addresses(page: Corpus) -> str:
    return page.url or "; ".join(url for file in page.files for url in file.urls[:1])


def missing_message(page: Corpus, root: str | os.PathLike[str] | None = None) -> str:
    """Return what to fetch, from where, and where to put it."""
    base = Path(root).expanduser() if root is not None else data_root()
    target = base / "datasets" / page.name
    lines = [f"the files of data set {page.name!r} are not on this machine"]
    for folder in (base, base / page.name, target):
        there = [m for m in page.marker if has_file(folder, m)]
        if there:
            lacking = [m for m in page.marker if m not in there]
            lines.append(f"{folder} has {', '.join(there)}, but lacks {', '.join(lacking)}")
    if page.obtain:
        lines.append(page.obtain)
    for file in page.files:
        where = ", ".join(file.urls) or page.url or "see the publication"
        doubt = " (not verified)" if file.unverified else ""
        lines.append(f"- {file.name}{' (optional)' if file.optional else ''}: {where}{doubt}")
    lines.append(
        f"Put them into {target}, or give their folder with root=, or set {ENV_SHARED} to the "
        f"folder that holds {page.name}"
    )
    lines.append(
        f"gazeattn fetch {page.name} tries the addresses that are known, and says what is left to "
        "do by hand"
    )
    return "\n".join(lines)


def checksums(folder: Path, page: Corpus) -> dict[str, str]:
    """Return the SHA-256 of every file of the page that is there, by path below the folder.

    Raises
    ------
    ChecksumError
        The page states a checksum for the file, and the file has another one. Where the page
        says that its checksum is unverified, this is a warning.
    """
    sums = {}
    for file in page.files:
        for path in find_files(folder, file.name):
            sums[path.relative_to(folder).as_posix()] = sha256(path)
            _compare(path, file, page)
    return sums


def _compare(path: Path, file: CorpusFile, page: Corpus) -> None:
    expected = file.sha256 or file.md5
    if expected is None:
        return
    digest = hashlib.new("sha256" if file.sha256 else "md5", usedforsecurity=False)
    packed_here = path.name.endswith(".gz") and not file.name.endswith(".gz")
    with gzip.open(path, "rb") if packed_here else path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() == expected:
        return
    message = (
        f"{path} is not the file that the page of {page.name!r} describes"
        f"{f' ({page.version})' if page.version else ''}; expected {digest.name} {expected}; "
        f"found {digest.hexdigest()}. "
    )
    if not file.unverified:
        raise ChecksumError(f"{message}Fetch it again, or remove it")
    warnings.warn(
        f"{message}The checksum of the page was never checked by a download: the publisher may "
        "have packed the file anew, or it is damaged",
        UserWarning,
        stacklevel=5,
    )


def counts(dataset: GazeDataset) -> dict[str, int]:
    """Return how much of everything a data set holds; a loader's own counts stand beside."""
    found = {
        "participants": int(dataset.trials["participant"].nunique()),
        "trials": len(dataset.trials),
        "stimuli": int(dataset.trials["stimulus"].nunique()),
        "fixations": len(dataset.fixations),
        "words": len(dataset.words),
    }
    return found | dict(dataset.info.get("counts", {}))


def finish(dataset: GazeDataset, page: Corpus, folder: Path) -> GazeDataset:
    """Add the facts of the page and compare the counts with those of the edition.

    The edition is ``dataset.info["edition"]`` where the loader says which one it found, else the
    one with the largest share of counts that agree. Counts that differ are noted in
    ``dataset.lost`` and warned of: a corpus of which some files are missing is usable,
    but nobody should take it for the whole.
    """
    own = copy.deepcopy(dataset.info)
    dataset.info = {
        "citation": page.citation,
        "licence": page.licence,
        "version": page.version or "not stated",
        "url": page.url,
        "description": page.description or page.title,
        "checksums": {},
        "readers_note": page.readers_note,
        "language": page.language,
        "device": page.device,
        "screen": page.screen,
        "labels": page.labels,
        "tasks": page.tasks,
        "item": page.item,
        "folder": str(folder),
        **own,
        "unverified": [*page.unverified, *own.get("unverified", ())],
    }
    dataset.trials.attrs["item"] = page.item
    found = dataset.info["counts"] = counts(dataset)
    edition = dataset.info.setdefault("edition", nearest_edition(found, page))
    compare_counts(dataset, page.name, page.expected.get(edition, {}))
    return dataset


def compare_counts(dataset: GazeDataset, name: str, expected: Mapping[str, int]) -> None:
    """Note and warn of counts that differ from those of the edition."""
    found, edition = dataset.info["counts"], dataset.info["edition"]
    reasons = [
        f"{what}: {number} expected for {edition!r}, {found.get(what, 'none')} found"
        for what, number in expected.items()
        if found.get(what) != number
    ]
    for reason in reasons:
        dataset.lost.add("counts", "note", reason, 1, "counts")
    if reasons:
        more = f"; and {len(reasons) - 5} more (see lost)" if len(reasons) > 5 else ""
        message = f"data set {name!r}, {'; '.join(reasons[:5])}{more}"
        warnings.warn(message, UserWarning, stacklevel=5)


def nearest_edition(found: Mapping[str, int], page: Corpus) -> str:
    """Return the edition with the largest share of counts that agree.

    It is the first one where less than half of them agree with any, and "" where none is stated.
    """
    agree = {
        name: sum(found.get(what) == number for what, number in numbers.items()) / len(numbers)
        for name, numbers in page.expected.items()
        if numbers
    }
    best = max(agree, key=lambda name: agree[name], default="")
    return best if agree.get(best, 0) >= 0.5 else next(iter(agree), "")
