"""Public corpora: one YAML page of facts each, and a loader function only where one is needed.

A page stands in ``datasets/corpora/NAME.yaml``. Its facts were read from the publications and from
the files; what could not be checked is listed under ``unverified`` and never invented. A loader is
registered with `register_corpus`; it gets the folder and the page, and everything that corpora
have in common (finding the folder, the message where it is absent, provenance, counting what was
loaded against what was published) is done here.
"""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from gazeattn.datasets.base import GazeDataset
from gazeattn.errors import DataError, MissingAssetError, suggest
from gazeattn.registry import register_dataset
from gazeattn.storage import data_root

ENV_SHARED = "GAZEATTN_SHARED"
PAGES = Path(__file__).parent / "corpora"
Loader = Callable[..., GazeDataset]


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
    expected : dict
        Counts by edition, e.g. ``{"release": {"participants": 57, "trials": 4782}}``.
    labels, tasks : tuple of str
        What can be predicted from it.
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
    readers_note: str = ""
    version: str = ""
    obtain: str = ""
    unverified: tuple[str, ...] = ()


def page_names() -> list[str]:
    """Return the names of all corpus pages."""
    return sorted(p.stem for p in PAGES.glob("*.yaml"))


@functools.cache
def corpus(name: str) -> Corpus:
    """Read the page of a corpus.

    Raises
    ------
    DataError
        A key that a page does not have, or a required one is missing.
    """
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
    """Return lists as tuples, so that a page can be shared."""
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


def has_file(folder: Path, pattern: str) -> bool:
    """Tell whether a file is there, packed (``.gz``) or not; ``*`` stands for any part."""
    return any(next(folder.glob(name), None) is not None for name in (pattern, f"{pattern}.gz"))


def register_corpus(name: str, **info: Any) -> Callable[[Loader], Loader]:
    """Register a loader ``fn(folder, page, **options) -> GazeDataset`` under a page's name."""
    page = corpus(name)

    def decorate(loader: Loader) -> Loader:
        @functools.wraps(loader)
        def load(root: str | os.PathLike[str] | None = None, **options: Any) -> GazeDataset:
            folder = find_folder(page, root)
            if folder is None:
                raise MissingAssetError(missing_message(page, root))
            return finish(loader(folder, page, **options), page, folder)

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
    target = (Path(root).expanduser() if root is not None else data_root()) / "datasets" / page.name
    lines = [f"the files of data set {page.name!r} are not on this machine"]
    if page.obtain:
        lines.append(page.obtain)
    for file in page.files:
        where = ", ".join(file.urls) or page.url or "see the publication"
        doubt = " (not verified)" if file.unverified else ""
        lines.append(f"- {file.name}{' (optional)' if file.optional else ''}: {where}{doubt}")
    lines.append(f"Put them into {target}, or give their folder with root=")
    if any(file.urls for file in page.files):
        lines.append(f"gazeattn fetch {page.name} does that where the addresses can be reached")
    return "\n".join(lines)


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
    first. Counts that differ are noted in ``dataset.lost`` and warned of: a corpus of which some
    files are missing is usable, but nobody should take it for the whole.
    """
    dataset.info = {
        "citation": page.citation,
        "licence": page.licence,
        "version": page.version or "not stated",
        "url": page.url,
        "description": page.description or page.title,
        "checksums": {},
        "readers_note": page.readers_note,
        "labels": page.labels,
        "tasks": page.tasks,
        "folder": str(folder),
        **dataset.info,
        "unverified": [*page.unverified, *dataset.info.get("unverified", ())],
    }
    found = dataset.info["counts"] = counts(dataset)
    edition = dataset.info.setdefault("edition", next(iter(page.expected), ""))
    expected = page.expected.get(edition, {})
    for what, number in expected.items():
        if found.get(what) != number:
            reason = f"{what}: {number} expected for {edition!r}, {found.get(what, 'none')} found"
            dataset.lost.add("counts", "note", reason, 1, "counts")
            warnings.warn(f"data set {page.name!r}, {reason}", UserWarning, stacklevel=4)
    return dataset
