"""Fetching the files of public corpora: resumable, checked, never over a file that is there.

Where a checksum is published, another content is refused. Where none is known, the sum of the
first download is written down beside the files (``fetched.json``), and a later download that
differs is refused too: the page is marked ``unverified`` and says what is not known.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from datetime import date
from pathlib import Path

from gazeattn.assets import is_safe
from gazeattn.datasets.corpus import Corpus, CorpusFile, corpus, has_file
from gazeattn.errors import ChecksumError, DataError, MissingAssetError
from gazeattn.storage import atomic_path, data_root, sha256, write_json
from gazeattn.wheels import TransferError, copy_limited, local_path, stream

Progress = Callable[[int, int | None], None]
RECORD = "fetched.json"
MAX_MEMBERS = 200_000
MAX_UNPACKED = 200 << 30
MAX_RATIO = 200
"""Bounds of an archive: files, bytes once unpacked, and how many times larger than packed."""


def fetch_corpus(
    name: str, root: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Path:
    """Download what can be downloaded of a corpus and return its folder.

    Files that are there already stay as they are; a broken download goes on where it stopped.

    Parameters
    ----------
    name
        Name of the corpus' page.
    root
        Data folder, see `gazeattn.storage.data_root`; the files go to ``datasets/NAME`` in it.
    progress
        Called with bytes done and in all.

    Raises
    ------
    ChecksumError
        A file has another content than published, or than at the first download.
    MissingAssetError
        A file cannot be had from here: its addresses do not answer, or there is none. The message
        lists what to fetch by hand and where to put it. What could be fetched is kept.
    """
    page = corpus(name)
    folder = data_root(root) / "datasets" / page.name
    by_hand: list[str] = []
    for file in page.files:
        if is_there(file, folder):
            continue
        if not file.urls or "{" in file.name:
            if not file.optional:
                where = page.url or "see the publication"
                ids = re.findall(r"\{(\w+)\}", file.name)
                each = f" (one for each {' and '.join(ids)})" if ids else ""
                by_hand.append(f"- {file.name}{each}: {file.note or where}")
            continue
        try:
            _fetch_file(page, file, folder, progress)
        except TransferError as error:
            by_hand.append(f"- {file.name}: {error}")
    if by_hand:
        how = f"\n{page.obtain}" if page.obtain else ""
        raise MissingAssetError(
            f"data set {page.name!r}: these files have to be fetched by hand{how}\n"
            + "\n".join(by_hand)
            + f"\nPut them into {folder}"
        )
    return folder


def is_there(file: CorpusFile, folder: Path) -> bool:
    """Tell whether a file of a corpus, or the content of its archive, is in the folder."""
    if file.unpack:
        return file.name in read_record(folder)
    pattern = file.name
    while "{" in pattern:
        start, _, rest = pattern.partition("{")
        pattern = f"{start}*{rest.partition('}')[2]}"
    return has_file(folder, pattern)


def read_record(folder: Path) -> dict[str, dict[str, object]]:
    """Return what was fetched into a folder: per file its address, size, sums and date."""
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _fetch_file(page: Corpus, file: CorpusFile, folder: Path, progress: Progress | None) -> None:
    if not is_safe(file.name):
        raise DataError("a file of a corpus must stay in its folder", found=repr(file.name))
    part = folder / ".parts" / f"{hashlib.sha256(file.name.encode()).hexdigest()[:16]}.part"
    problems = []
    for url in file.urls:
        local = local_path(url)
        try:
            if local is None:
                stream(url, part, progress=progress)
            elif local.is_file():
                part.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(local, part)
            else:
                raise TransferError(f"no file {local}")
        except TransferError as error:
            problems.append(str(error))
            continue
        facts = {"url": url, "size": part.stat().st_size, **sums(part)}
        _compare(page, file, facts, folder)
        if file.unpack:
            unpack(part, folder)
        else:
            with atomic_path(folder / file.name) as temporary:
                shutil.copyfile(part, temporary)
        record = read_record(folder)
        record[file.name] = {**facts, "date": date.today().isoformat()}
        write_json(folder / RECORD, record)
        part.unlink(missing_ok=True)
        return
    raise TransferError("; ".join(problems))


def sums(path: Path) -> dict[str, str]:
    """Return SHA-256 and MD5 of a file; many corpora publish only the second."""
    md5 = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            md5.update(block)
    return {"sha256": sha256(path), "md5": md5.hexdigest()}


def _compare(page: Corpus, file: CorpusFile, facts: dict[str, object], folder: Path) -> None:
    """Refuse a file of another content; the kept part goes, so that the next try starts anew."""
    earlier = read_record(folder).get(file.name, {})
    for key, expected, why in (
        ("size", file.size, "as published"),
        ("sha256", file.sha256, "as published"),
        ("md5", file.md5, "as published"),
        ("sha256", earlier.get("sha256"), "at the first download"),
    ):
        if expected is not None and facts[key] != expected:
            part = folder / ".parts"
            shutil.rmtree(part, ignore_errors=True)
            raise ChecksumError(
                f"data set {page.name!r}, file {file.name!r} from {facts['url']}: expected {key} "
                f"{expected} ({why}), found {facts[key]}"
            )


def unpack(archive: Path, folder: Path) -> list[str]:
    """Take the files of a zip archive into a folder; files that are there stay as they are.

    Raises
    ------
    DataError
        No zip archive or a damaged one, a name that leaves the folder, a link, or an archive that
        would grow beyond all reason.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = [e for e in opened.infolist() if not e.is_dir()]
            _check_entries(entries, archive)
            for entry in entries:
                target = folder / entry.filename
                if target.exists():
                    continue
                with atomic_path(target) as temporary:
                    with opened.open(entry) as source, temporary.open("wb") as file:
                        done, _ = copy_limited(source, file, entry.file_size)
                    if done != entry.file_size:
                        raise DataError(
                            "a file in the archive has another size than stated",
                            source=archive.name,
                            expected=f"{entry.file_size} bytes",
                            found=done,
                        )
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"the archive is damaged or no zip ({error})", source=archive.name
        ) from None
    return [e.filename for e in entries]


def _check_entries(entries: list[zipfile.ZipInfo], archive: Path) -> None:
    size = sum(e.file_size for e in entries)
    packed = max(sum(e.compress_size for e in entries), 1)
    problem = None
    if len(entries) > MAX_MEMBERS or size > MAX_UNPACKED or size > MAX_RATIO * packed + (1 << 20):
        problem = f"{len(entries)} files of {size} bytes from {packed} bytes"
    for entry in entries:
        mode = entry.external_attr >> 16
        if not is_safe(entry.filename):
            problem = f"the path {entry.filename!r}"
        elif mode and stat.S_IFMT(mode) and not stat.S_ISREG(mode):
            problem = f"a link or special file {entry.filename!r}"
    if problem:
        raise DataError(
            "the archive is refused",
            source=archive.name,
            expected="plain files below its own folder, of a reasonable size",
            found=problem,
        )
