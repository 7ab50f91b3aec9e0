"""Documentation that is complete, whose links resolve and whose commands exist."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
README = REPOSITORY / "README.md"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [p for p in (README, REPOSITORY / "CONTRIBUTING.md", *PAGES) if p.exists()]
COMMANDS = {"compare", "heads", "datasets", "models", "methods", "metrics", "fetch"} | {
    "readers",
    "inspect",
    "import",
    "plot",
    "score",
    "train",
    "benchmark",
    "predict",
    "explain",
    "reproduce",
}

FENCE = re.compile(
    r"^(?P<mark>`{3,})(?P<language>\w*).*?\n(?P<body>.*?)^(?P=mark)\s*$", re.M | re.S
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)|!\[[^\]]*\]\((?P<image>[^)\s]+)\)")


def relative(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def blocks(text: str, *languages: str) -> Iterator[str]:
    for match in FENCE.finditer(text):
        if match["language"] in languages:
            yield match["body"]


def shell_lines(text: str) -> Iterator[list[str]]:
    """Yield the words of every command in shell blocks; a prompt and a path before it are cut."""
    for body in blocks(text, "sh", "bash", "shell", "console"):
        for line in body.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words and re.fullmatch(r"\w+=\S*", words[0]):  # environment of the command
                words = words[1:]
            if words:
                yield [words[0].rsplit("/", 1)[-1], *words[1:]]


def nav_targets(nav: list) -> Iterator[str]:
    for item in nav:
        for value in item.values() if isinstance(item, dict) else [item]:
            if isinstance(value, list):
                yield from nav_targets(value)
            else:
                yield value


def mkdocs() -> dict:
    return yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Return the anchors that headings of a page get."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        plain = re.sub(r"[^\w\s-]", "", heading).strip().lower()
        found.add(re.sub(r"[\s-]+", "-", plain))
    return found | set(re.findall(r"\{ *#([\w-]+)", text))


def test_every_page_is_in_the_navigation() -> None:
    listed = sorted(nav_targets(mkdocs()["nav"]))
    assert listed == sorted(str(p.relative_to(DOCS)) for p in PAGES)


def test_the_site_asks_no_other_host() -> None:
    theme = mkdocs()["theme"]
    assert theme["font"] is False
    assert not {"extra_javascript", "extra_css"} & set(mkdocs())


@pytest.mark.parametrize("path", TEXTS, ids=relative)
def test_internal_links_resolve(path: Path) -> None:
    broken = []
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text(encoding="utf-8")))
    for match in LINK.finditer(prose):
        target = match["target"] or match["image"]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        generated = file.is_relative_to(DOCS / "reference")
        if generated:
            continue
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("path", TEXTS, ids=relative)
def test_commands_in_the_texts_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.M))
    wrong = []
    for words in shell_lines(path.read_text(encoding="utf-8")):
        if words[0] == "gazeattn":
            known = len(words) > 1 and words[1] in {*COMMANDS, "--help", "--version"}
        elif words[0] == "make":
            names = [w for w in words[1:] if "=" not in w and not w.startswith("-")]
            known = set(names) <= targets
        else:
            continue
        if not known:
            wrong.append(" ".join(words))
    assert wrong == []


@pytest.mark.parametrize("path", TEXTS, ids=relative)
def test_overrides_in_the_texts_are_known(path: Path) -> None:
    """Every KEY=VALUE after an experiment composes, so that no documented key is stale."""
    config = pytest.importorskip("gazeattn.experiments.config")
    from hydra import compose, initialize_config_dir

    config.store_registered()
    for words in shell_lines(path.read_text(encoding="utf-8")):
        if words[0] != "gazeattn" or words[1:2] not in (["compare"], ["train"], ["benchmark"]):
            continue
        name = "_".join(words[1:3]) if words[1] == "benchmark" else words[1]
        overrides = [w for w in words[2:] if "=" in w and not w.startswith("-")]
        overrides = [o for o in overrides if not o.startswith(("hydra.", "lm=path/", "lm=org/"))]
        if "-m" in words:  # a sweep: the first of each list of values
            overrides = [re.sub(r"=([^\[\],]+),.*", r"=\1", o) for o in overrides]
        with initialize_config_dir(str(config.conf_folder()), version_base=None):
            compose(name, overrides=overrides)


@pytest.mark.parametrize("path", TEXTS, ids=relative)
def test_python_in_the_texts_parses(path: Path) -> None:
    for body in blocks(path.read_text(encoding="utf-8"), "python", "py"):
        if ">>>" not in body:
            ast.parse(body)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("scanpath-models", marks=pytest.mark.slow),
        "object-search",
        "search-asymmetry",
        "joint-attention",
    ],
)
def test_python_of_the_pages_on_models_runs_as_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The blocks of a page, one after the other, as someone pastes them."""
    if name == "scanpath-models":
        monkeypatch.setenv("GAZEATTN_SHARED", str(request.getfixturevalue("shared_data")))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": name}
    for body in blocks((DOCS / f"{name}.md").read_text(encoding="utf-8"), "python", "py"):
        exec(compile(body, name, "exec"), names)


def test_marks_of_results_choose_rows() -> None:
    """Every mark names rows that are there: no empty table, no empty column."""
    pytest.importorskip("mkdocs")
    sys.path.insert(0, str(REPOSITORY / "scripts"))
    try:
        import docs_hooks
    finally:
        sys.path.pop(0)
    marks = 0
    for page in PAGES:
        for kind, name, rest in docs_hooks.MARK.findall(page.read_text(encoding="utf-8")):
            if kind != "results":
                continue
            lines = docs_hooks.results_table(name, rest.split()).splitlines()
            cells = [[c.strip() for c in x.strip("| ").split(" | ")] for x in lines[2:-2]]
            assert cells, (page.name, rest)
            width = len([w for w in rest.split() if "=" not in w]) + 2
            filled = [any(len(c) > k and c[k] for c in cells) for k in range(width)]
            assert all(filled), (page.name, rest)
            marks += 1
    assert marks >= 8


def test_commands_are_those_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    cli = pytest.importorskip("gazeattn.cli")
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    shown = re.findall(r"^    (\w+)(?: |$)", capsys.readouterr().out, re.M)
    assert set(shown) == COMMANDS


def test_dependencies_page_lists_exactly_the_declared_ones() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *(name for extra in extras.values() for name in extra)]
    names = [re.split(r"[\s<>=!~\[;]", r)[0].lower() for r in declared]
    page = (DOCS / "dependencies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| [^|]+ \| [^|]+ \|$", page, re.M)
    assert sorted(r for r in rows if r != "package") == sorted(names)


def test_environment_variables_are_documented() -> None:
    sources = [*(REPOSITORY / "gazeattn").rglob("*.py"), REPOSITORY / "tests" / "conftest.py"]
    used = {v for p in sources for v in re.findall(r"GAZEATTN_[A-Z_]+", p.read_text("utf-8"))}
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert sorted(v for v in used if f"`{v}" not in page) == []


def test_changelog_keeps_its_form() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.+?)\](?: - (.+))?$", text, re.M)
    assert versions[0][0] == "Unreleased"
    for version, day in versions[1:]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        date.fromisoformat(day)
    kinds = set(re.findall(r"^### (.+)$", text, re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_citation_file_is_valid() -> None:
    import gazeattn

    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "version", "license", "type"} <= set(citation)
    assert citation["type"] == "software"
    assert citation["license"] == "MIT"
    assert citation["version"] == gazeattn.__version__
    assert all("name" in a or "family-names" in a for a in citation["authors"])
    assert isinstance(citation["date-released"], str)
    date.fromisoformat(citation["date-released"])
    licence = (REPOSITORY / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("MIT License") and "The gazeattn developers" in licence


def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    command_line = (tmp_path / "cli.html").read_text(encoding="utf-8")
    assert "onestop_sample" in command_line and "<!-- registry" not in command_line
    configuration = (tmp_path / "configuration.html").read_text(encoding="utf-8")
    assert "<!-- conf" not in configuration
    assert (tmp_path / "reference" / "profiles.html").exists()
