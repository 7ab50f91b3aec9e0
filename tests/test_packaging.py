"""The wheel holds what it must and, installed alone, does the same as the checkout."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = (
    "gazeattn",
    "conf",
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "constraints.txt",
)

# The smallest run that goes all the way; `{out}` is the run folder.
COMPARE = (
    "compare",
    "dataset=onestop_sample",
    "lm=smollm2-135m",
    "size=tiny",
    "limit=1",
    "measures=[total_reading_time]",
    "baselines=[length]",
    "metrics=[spearman]",
    "attention.methods=[raw]",
    "logger=none",
    "fetch=false",
    "hydra.run.dir={out}",
)
ASSETS = ("onestop_sample", "smollm2-135m")
RUN_FILES = ("alignment.parquet", "profiles.parquet", "summary.json", "config.yaml", "report.html")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command and return what it printed; a failure shows all of it."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    result = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env={**inherited, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}"
    return result.stdout


def copy_sources(target: Path) -> Path:
    """Copy what a package is built from, so that no build product lands in the checkout."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        elif source.exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the tree, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = copy_sources(folder / "tree")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, *build, "--wheel-dir", folder, tree, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a new environment with the wheel and, by reference, our libraries.

    The libraries of the running environment are added as a plain folder: its own ``.pth`` files,
    and with them the editable installation of this checkout, have no effect there.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    purelib = Path(run(python, "-c", query, cwd=folder).strip())
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (purelib / "libraries.pth").write_text("\n".join(sorted(libraries)) + "\n", encoding="utf-8")
    run(
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python),
        *("install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", wheel),
        cwd=folder,
    )
    return scripts


def test_wheel_holds_what_it_must(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {
        str(p.relative_to(REPOSITORY))
        for p in (REPOSITORY / "gazeattn").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    configuration = {
        str(Path("gazeattn") / p.relative_to(REPOSITORY))
        for p in (REPOSITORY / "conf").rglob("*.yaml")
    }
    assert sorted(modules - names) == []
    assert sorted(configuration - names) == []
    assert "gazeattn/conf/compare.yaml" in names
    assert "gazeattn/py.typed" in names
    extra = {n for n in names if ".dist-info/" not in n} - modules - configuration
    assert sorted(extra) == []
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)
    metadata = next(n for n in names if n.endswith(".dist-info/METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    assert "License-Expression: MIT" in text
    assert "Requires-Python: >=3.11" in text


def test_wheel_from_source_archive_is_the_same(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("build")
    tree = copy_sources(tmp_path / "tree")
    arguments = ("--no-isolation", "--skip-dependency-check", "--outdir", tmp_path / "dist", tree)
    run(sys.executable, "-m", "build", *arguments, cwd=tmp_path)
    (second,) = (tmp_path / "dist").glob("*.whl")
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")

    def content(path: Path) -> dict[str, int]:
        infos = zipfile.ZipFile(path).infolist()
        return {i.filename: i.CRC for i in infos if not i.filename.endswith("/RECORD")}

    assert content(second) == content(wheel)
    with tarfile.open(archive) as file:
        inside = {n.partition("/")[2] for n in file.getnames()}
    assert {"LICENSE", "pyproject.toml", "conf/compare.yaml", "CITATION.cff"} <= inside
    assert not {n for n in inside if n.startswith(("tests/", "data/", "outputs/"))}


def test_installed_command_works_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    import gazeattn

    where = "import gazeattn; print(gazeattn.__file__)"
    origin = run(installed / "python", "-c", where, cwd=tmp_path).strip()
    assert Path(origin).is_relative_to(installed.parent), f"{origin} is not the installed wheel"
    version = run(installed / "gazeattn", "--version", cwd=tmp_path)
    assert version.strip() == f"gazeattn {gazeattn.__version__}"
    assert "onestop_sample" in run(installed / "gazeattn", "datasets", cwd=tmp_path)
    assert "smollm2-135m" in run(installed / "gazeattn", "models", cwd=tmp_path)
    assert "onestop_sample" in run(installed / "gazeattn", "compare", "--help", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_installed_compare_works_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    from gazeattn.downloads import installed_state
    from gazeattn.storage import data_root

    absent = [a for a in ASSETS if not str(installed_state(a)).startswith("yes")]
    if absent:
        pytest.skip(f"not on this machine: gazeattn fetch {' '.join(absent)}")
    arguments = [a.format(out="run") for a in COMPARE]
    offline = {"HF_HUB_OFFLINE": "1", "GAZEATTN_DATA": str(data_root())}
    printed = run(installed / "gazeattn", *arguments, cwd=tmp_path, **offline)
    assert "report.html" in printed
    assert [f for f in RUN_FILES if not (tmp_path / "run" / f).is_file()] == []
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_checkout_is_what_the_tests_run() -> None:
    """Guards the comparison above: outside the new environment, the checkout is imported."""
    import gazeattn

    assert Path(gazeattn.__file__).resolve().parent == REPOSITORY / "gazeattn"
    assert sysconfig.get_path("purelib") in site.getsitepackages()
