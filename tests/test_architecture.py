"""The shape of the package: layers, file sizes, docstrings, imports, and what no file may hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "gazeattn"
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 500

# Needed by other libraries at run time, so nothing here imports them by name.
INDIRECT = {
    "accelerate": "transformers loads weights straight into a dtype with it",
    "safetensors": "transformers reads and writes weights with it",
}
IMPORT_NAMES = {"hydra-core": "hydra", "pillow": "PIL", "scikit-learn": "sklearn"}


def joined(words: str) -> list[str]:
    """Return the words without the bars, which keep this file from matching itself."""
    return words.replace("|", "").split()


def any_of(words: str, *patterns: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the words (plain text, any case) or patterns."""
    return re.compile("|".join([*map(re.escape, joined(words)), *patterns]), re.IGNORECASE)


REGISTRY_HOSTS = any_of(
    "pypi|.org pypi|.python pythonhosted|.org anaconda|.org npmjs|.org download.pytorch|.org"
)
ONE_MACHINE = re.compile(r"(?<![\w.:~}])/(?:" + "|".join(["work", "root", "Users"]) + r")/\w")
NOT_PUBLIC = any_of(
    "clau|de anthro|pic chat|gpt co|pilot traps|.md DESIGN|.md BRI|EF.md", r"\bissues? #?\d"
)
MARKETING = any_of(
    "seam|less blaz|ing cutting|-edge world|-class game|-chang revolution|ary effort|less "
    "super|charge un|leash"
)


@cache
def repository_files() -> tuple[Path, ...]:
    """Return the files that git tracks or would track; without git, those that we ship."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [REPOSITORY / name for name in listing.stdout.decode().split("\0") if name]
    else:
        roots = ("gazeattn", "conf", "docs", "tests", "benchmarks", ".ci")
        paths = [p for root in roots for p in (REPOSITORY / root).rglob("*")]
        paths += [p for p in REPOSITORY.iterdir() if p.is_file()]
    return tuple(p for p in paths if p.is_file() and "__pycache__" not in p.parts)


def texts() -> Iterator[tuple[str, int, str]]:
    """Yield (file, line number, line) of every text file of the repository."""
    for path in repository_files():
        try:
            content = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # pictures and other binary files
        for number, line in enumerate(content.splitlines(), start=1):
            yield str(path.relative_to(REPOSITORY)), number, line


def found(pattern: re.Pattern[str]) -> list[str]:
    return [f"{f}:{n}: {line.strip()}" for f, n, line in texts() if pattern.search(line)]


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~\[;]", requirement)[0]).lower()


def test_rooms_import_from_lower_layers_only() -> None:
    pytest.importorskip("importlinter")
    result = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "KEPT" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_files_stay_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines < MAX_LINES, f"{lines} lines: split it by noun"


def test_no_file_names_a_package_registry() -> None:
    assert found(REGISTRY_HOSTS) == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    assert found(ONE_MACHINE) == []


def test_texts_speak_of_the_product_alone() -> None:
    assert found(NOT_PUBLIC) == []


def test_patterns_see_what_they_look_for() -> None:
    assert REGISTRY_HOSTS.search("https://py" + "pi.org/simple")
    assert ONE_MACHINE.search("see /ro" + "ot/data")
    assert not ONE_MACHINE.search("docs/work/x and https://a.b/work/x")
    assert NOT_PUBLIC.search("fixes issue " + "#12")
    assert MARKETING.search("a Seam" + "less tool")


def test_texts_are_plain() -> None:
    assert found(MARKETING) == []


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Yield public classes, functions and methods without a docstring.

    Methods of derived classes are left out: the base class documents what they do.
    """
    function = ast.FunctionDef | ast.AsyncFunctionDef

    def overloaded(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        marks = [ast.unparse(d) for d in node.decorator_list]
        return any(m.endswith(("overload", ".setter", ".register")) for m in marks)

    for node in tree.body:
        if not isinstance(node, function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if isinstance(node, function) and overloaded(node):
            continue
        if not ast.get_docstring(node):
            yield f"{node.name} (line {node.lineno})"
        if isinstance(node, ast.ClassDef) and not node.bases:
            for member in node.body:
                if isinstance(member, function) and not member.name.startswith("_"):
                    if not ast.get_docstring(member) and not overloaded(member):
                        yield f"{node.name}.{member.name} (line {member.lineno})"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_public_things_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    content = [n for n in tree.body if not isinstance(n, ast.ImportFrom | ast.Import)]
    assert not content or ast.get_docstring(tree), "the module has no docstring"
    if path.name == "__init__.py" or not path.name.startswith("_"):
        assert list(undocumented(tree)) == []


def test_undocumented_sees_each_kind_of_gap() -> None:
    source = 'def f(): pass\nclass A:\n  """A."""\n  def m(self): pass\n  def _p(self): pass\n'
    assert list(undocumented(ast.parse(source))) == ["f (line 1)", "A.m (line 4)"]


def optional_imports(tree: ast.Module) -> set[ast.AST]:
    """Return the import statements that fall back to something else: `try: import x`."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            caught = " ".join(ast.unparse(h.type) for h in node.handlers if h.type)
            if "ImportError" in caught or "ModuleNotFoundError" in caught:
                found.update(n for statement in node.body for n in ast.walk(statement))
    return found


def imported_names(*, optional: bool) -> dict[str, str]:
    """Return the top-level packages that gazeattn imports, each with the first file that does."""
    names: dict[str, str] = {}
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        left_out = set() if optional else optional_imports(tree)
        for node in ast.walk(tree):
            if node in left_out:
                continue
            if isinstance(node, ast.Import):
                modules = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                modules = [node.module]
            else:
                continue
            for module in modules:
                names.setdefault(module.split(".")[0], str(path.relative_to(REPOSITORY)))
    return names


def declared() -> dict[str, str]:
    """Return import name -> distribution of the declared run-time dependencies."""
    names = [canonical(r) for r in PYPROJECT["project"]["dependencies"]]
    return {IMPORT_NAMES.get(n, n.replace("-", "_")): n for n in names}


def test_every_import_is_a_declared_dependency() -> None:
    known = {*declared(), *sys.stdlib_module_names, "gazeattn"}
    assert {n: f for n, f in imported_names(optional=False).items() if n not in known} == {}


def test_every_declared_dependency_is_used() -> None:
    used = {*imported_names(optional=True), *INDIRECT}
    assert sorted(d for name, d in declared().items() if name not in used) == []


def test_constraints_pin_every_requirement() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [p for p in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.!]*", p)] == []
    pinned = {canonical(p) for p in pins}
    groups = [PYPROJECT["project"]["dependencies"]]
    groups += PYPROJECT["project"]["optional-dependencies"].values()
    assert sorted({canonical(r) for group in groups for r in group} - pinned) == []
    assert {"numba", "torchvision", "timm"} & pinned == set()


def test_import_is_quick_and_does_not_load_torch() -> None:
    heavy = "{'torch', 'transformers', 'pandas', 'matplotlib'}"
    code = f"import sys, gazeattn; sys.exit(sorted({heavy} & set(sys.modules)) or 0)"
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        seconds.append(time.perf_counter() - start)
        assert result.returncode == 0, result.stderr
    assert min(seconds) < 0.5


def test_public_names_are_there() -> None:
    import gazeattn

    for name in gazeattn.__all__:
        assert getattr(gazeattn, name) is not None
        assert name in dir(gazeattn)
    with pytest.raises(AttributeError, match="no attribute 'comparee'"):
        _ = gazeattn.comparee
