"""Pairs from Python packages: pinned wheels, read as archives, nothing installed or run."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pandas as pd

from gazeattn.errors import ChecksumError, DataError, MissingAssetError
from gazeattn.losses import LossLog
from gazeattn.storage import data_root, sha256
from gazeattn.summaries.extraction import RULES, Limits, functions
from gazeattn.summaries.pairs import STEP, CodePairs, without_duplicates
from gazeattn.wheels import TransferError, pip_download, stream, wheel_address

NAME = "code_summaries"
MEMBER_LIMIT = 4 << 20
"""Most bytes of one file of a package."""
SKIPPED = ("tests", "test", "testing", "vendor", "_vendor", "vendored", "extern", "examples")
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Package:
    """A wheel whose functions are read.

    Attributes
    ----------
    name, version : str
    sha256 : str
        Of the wheel.
    licence : str
    split : str
    """

    name: str
    version: str
    sha256: str
    licence: str
    split: str

    @property
    def file(self) -> str:
        """Name of the wheel while it is kept."""
        return f"{self.name}-{self.version}-{self.sha256[:12]}.whl"


PACKAGES: tuple[Package, ...] = (
    Package(
        "networkx",
        "3.4.2",
        "df5d4365b724cf81b8c6a7312509d0c22386097011ad1abe274afd5e9d3bbc5f",
        "BSD-3-Clause",
        "test",
    ),
    Package(
        "xarray",
        "2024.11.0",
        "6ee94f63ddcbdd0cf3909d1177f78cdac756640279c0e32ae36819a89cdaba37",
        "Apache-2.0",
        "test",
    ),
    Package(
        "rich",
        "13.9.4",
        "6049d5e6ec054bf2779ab3358186963bac2ea89175919d699e378b99738c2a90",
        "MIT",
        "test",
    ),
    Package(
        "werkzeug",
        "3.1.3",
        "54b78bf3716d19a65be4fceccc0d1d7b89e608834989dfae50ea87564639213e",
        "BSD-3-Clause",
        "test",
    ),
    Package(
        "scrapy",
        "2.12.0",
        "c33e2dc7da42e727390bacb32dd9938a54ac210fa71972b5c392754f478669cd",
        "BSD-3-Clause",
        "test",
    ),
    Package(
        "requests",
        "2.32.3",
        "70761cfe03c773ceb22aa2f671b4757976145175cdfca038c02654d061d6dcc6",
        "Apache-2.0",
        "test",
    ),
    Package(
        "celery",
        "5.4.0",
        "369631eb580cf8c51a82721ec538684994f8277637edde2dfc0dacd73ed97f64",
        "BSD-3-Clause",
        "val",
    ),
    Package(
        "boltons",
        "24.1.0",
        "a1776d47fdc387fb730fba1fe245f405ee184ee0be2fb447dd289773a84aed3b",
        "BSD-3-Clause",
        "val",
    ),
    Package(
        "fsspec",
        "2024.12.0",
        "b520aed47ad9804237ff878b504267a3b0b441e97508bd6d2d8774e3db85cee2",
        "BSD-3-Clause",
        "val",
    ),
    Package(
        "django",
        "5.1.4",
        "236e023f021f5ce7dee5779de7b286565fdea5f4ab86bae5338e3f7b69896cf0",
        "BSD-3-Clause",
        "train",
    ),
    Package(
        "mne",
        "1.9.0",
        "c26da9ac59bce963c5b25a3be9f5f61dd128f980cdc178a6fceef27743734306",
        "BSD-3-Clause",
        "train",
    ),
    Package(
        "nltk",
        "3.9.1",
        "4fa26829c5b00715afe3061398a8989dc643b92ce7dd93fb4585a70930d168a1",
        "Apache-2.0",
        "train",
    ),
    Package(
        "twisted",
        "24.11.0",
        "fe403076c71f04d5d2d789a755b687c5637ec3bcd3b2b8252d76f2ba65f54261",
        "MIT",
        "train",
    ),
    Package(
        "dask",
        "2024.12.1",
        "1f32acddf1a6994e3af6734756f0a92467c47050bc29f3555bb9b140420e8e19",
        "BSD-3-Clause",
        "train",
    ),
    Package(
        "keras",
        "3.7.0",
        "546a64f302e4779c129c06d9826fa586de752cdfd43d7dc4010c31b282587969",
        "Apache-2.0",
        "train",
    ),
    Package(
        "bokeh",
        "3.6.2",
        "fddc4b91f8b40178c0e3e83dfcc33886d7803a3a1f041a840834255e435a18c2",
        "BSD-3-Clause",
        "train",
    ),
)
"""Their parts are fixed: a package stands in one of them alone."""


def pairs_of_wheel(
    package: Package, wheel: Path, limits: Limits, lost: LossLog
) -> list[dict[str, str]]:
    """Return the pairs of one wheel, in the order of its files.

    Raises
    ------
    ChecksumError
        The archive is damaged, or a file in it is larger than any source file.
    """
    rows, reasons = [], Counter[str]()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for entry in sorted(archive.infolist(), key=lambda e: e.filename):
                path = PurePosixPath(entry.filename)
                if path.suffix != ".py" or entry.is_dir() or set(path.parts) & set(SKIPPED):
                    continue
                if path.name.startswith("test_") or path.parts[0].endswith(".data"):
                    continue
                if entry.file_size > MEMBER_LIMIT:
                    reasons["file larger than 4 MiB"] += 1
                    continue
                with archive.open(entry) as file:
                    data = file.read(MEMBER_LIMIT + 1)
                if len(data) > MEMBER_LIMIT:
                    raise ChecksumError(f"{wheel.name}: {path} is larger than it says")
                try:
                    source = data.decode("utf-8")
                except UnicodeDecodeError:
                    reasons["file not in UTF-8"] += 1
                    continue
                for found in functions(source, limits):
                    if found.reason:
                        reasons[found.reason] += 1
                        continue
                    rows.append({
                        "id": f"{package.name}/{path}:{found.line}", "project": package.name,
                        "path": str(path), "name": found.name, "language": "python",
                        "code": found.code, "summary": found.summary, "split": package.split,
                    })  # fmt: skip
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, ChecksumError):
            raise
        raise ChecksumError(f"{wheel.name}: the archive is damaged ({error})") from None
    for reason, count in sorted(reasons.items()):
        lost.add(STEP, "dropped", reason, count, "functions")
    return rows


def obtain(package: Package, folder: Path) -> Path:
    """Return the wheel of a package, downloaded where it is not there yet.

    Raises
    ------
    ChecksumError
        It has another content than the one that was pinned.
    MissingAssetError
        It cannot be had now.
    """
    target = folder / package.file
    if not target.is_file():
        part = target.with_suffix(".whl.part")
        try:
            stream(wheel_address(package.name, package.version), part)
            os.replace(part, target)
        except (TransferError, OSError) as first:
            try:
                pip_download(package.name, package.version, target)
            except TransferError as error:
                raise MissingAssetError(
                    f"package {package.name}=={package.version} cannot be downloaded now ({first}; "
                    f"{error}). With a network connection run: gazeattn fetch {NAME}"
                ) from None
    found = sha256(target)
    if found != package.sha256:
        target.unlink()
        raise ChecksumError(
            f"{package.name}=={package.version}: expected sha256 {package.sha256}, found {found}"
        )
    return target


def build_summaries(
    folder: Path,
    wheels: Iterable[tuple[Package, Path]],
    limits: Limits | None = None,
    against: Sequence[str] = (),
) -> CodePairs:
    """Read wheels, take out duplicates, and write pairs and facts into a folder.

    Parameters
    ----------
    folder
    wheels
        Packages and their files.
    limits
    against
        Code of eye-tracking studies, which must not be trained on.
    """
    limits = Limits() if limits is None else limits
    lost, rows, packages = LossLog(), [], []
    for package, wheel in wheels:
        rows += pairs_of_wheel(package, wheel, limits, lost)
        packages.append(_fact(package))
    columns = ["id", "project", "path", "name", "language", "code", "summary", "split"]
    table = without_duplicates(pd.DataFrame(rows, columns=columns), lost, against)
    facts = {
        "source": "docstrings of Python packages", "packages": packages,
        "rules": RULES, "limits": limits.plain(), "without": len(against),
        "lost": {str(r["reason"]): int(r["count"]) for r in lost.to_frame().to_dict("records")},
    }  # fmt: skip
    made = CodePairs(table, facts).check()
    made.save(folder)
    return CodePairs.load(folder)


def _fact(package: Package) -> dict[str, str]:
    return {"name": package.name, "version": package.version, "sha256": package.sha256,
            "licence": package.licence, "split": package.split}  # fmt: skip


def _is_current(folder: Path, without: int) -> bool:
    """Return whether whole pairs are there, of these packages and by these rules."""
    try:
        facts = CodePairs.load(folder).facts
    except DataError:
        return False
    now = {"packages": [_fact(p) for p in PACKAGES], "rules": RULES,
           "limits": Limits().plain(), "without": without}  # fmt: skip
    return all(facts.get(k) == v for k, v in now.items())


def summaries_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """Return where the pairs are in the data folder."""
    return data_root(root) / NAME


def fetch_summaries(
    root: str | os.PathLike[str] | None = None,
    report: Report | None = None,
    against: Sequence[str] = (),
) -> Path:
    """Download the packages and build the pairs; finished ones are left alone.

    Pairs that are damaged, or of other packages or rules, are built again. Wheels are kept until
    the pairs are written, so that a run that was stopped goes on.
    """
    folder = summaries_folder(root)
    if _is_current(folder, len(against)):
        return folder
    downloads = data_root(root) / "downloads" / NAME
    downloads.mkdir(parents=True, exist_ok=True)
    wheels = []
    for done, package in enumerate(PACKAGES, 1):
        wheels.append((package, obtain(package, downloads)))
        if report is not None:
            report(f"{package.name} {package.version}", done, len(PACKAGES))
    build_summaries(folder, wheels, against=against)
    for _, wheel in wheels:
        wheel.unlink(missing_ok=True)
    return folder
