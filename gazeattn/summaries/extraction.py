"""Functions of Python files and the first sentence of their docstrings, by their syntax tree."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gazeattn.stimuli.syntax import parse
from gazeattn.summaries.pairs import first_sentence

if TYPE_CHECKING:
    from tree_sitter import Node

WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
RULES = 2
"""Number of the rules below; a corpus that was built by others is built again."""
BREAK = re.compile(
    r"^\s*(:[A-Za-z]+[^:`]*:(\s|$)|@[a-z]+\b|[-=~^]{3,}\s*$|>>>|[-*+]\s"
    r"|(Args|Arguments|Attributes|Example|Examples|Keyword Args|Keyword Arguments|Note|Notes"
    r"|Parameters|Params|Raises|Return|Returns|See Also|Usage|Yields)\s*:?\s*$)"
)
"""Lines behind the description: fields, headings and their underlines, examples, lists."""
EPYTEXT = re.compile(r"\b[A-Z]\{([^{}<]*?)(?:\s*<[^{}]*>)?\}")
SIGNATURE = re.compile(r"[\w.]+\([^)]*\)\s*->")
MARKUP = re.compile(
    r":[a-z:]+:`~?\.?([^`<]*?)(?:\s*<[^>]*>)?`|``([^`]*)``|`([^`]*)`|\*\*([^*]*)\*\*"
)


@dataclass(frozen=True)
class Limits:
    """What counts as a pair.

    Attributes
    ----------
    words : tuple of int
        Fewest and most words of the sentence.
    lines : tuple of int
        Fewest and most lines of code without its docstring.
    characters : int
        Most characters of code.
    """

    words: tuple[int, int] = (4, 30)
    lines: tuple[int, int] = (3, 60)
    characters: int = 2000

    def plain(self) -> dict[str, Any]:
        """Return the limits by name."""
        return {"words": list(self.words), "lines": list(self.lines),
                "characters": self.characters}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A function with a docstring, or why it is no pair.

    Attributes
    ----------
    name : str
        With the classes around it.
    line : int
        First line in the file, from 1.
    code, summary : str
    reason : str
        Empty where it is a pair.
    """

    name: str
    line: int
    code: str
    summary: str
    reason: str


def functions(source: str, limits: Limits | None = None) -> Iterator[Found]:
    """Yield the functions and methods of a file that have a docstring, nested ones left out.

    The code is without decorators and without the docstring, its indentation taken away.
    """
    limits = Limits() if limits is None else limits
    data = source.encode("utf-8")
    stack: list[tuple[Node, str]] = [(parse(data, "python").root_node, "")]
    while stack:
        node, prefix = stack.pop()
        if node.type == "function_definition":
            found = _function(node, prefix, data, limits)
            if found is not None:
                yield found
            continue
        if node.type == "class_definition":
            name = node.child_by_field_name("name")
            prefix = f"{prefix}{_text(name, data)}." if name is not None else prefix
        stack += [(child, prefix) for child in reversed(node.children)]


def _text(node: Any, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8")


def _function(node: Any, prefix: str, data: bytes, limits: Limits) -> Found | None:
    body, name = node.child_by_field_name("body"), node.child_by_field_name("name")
    if body is None or name is None or not body.named_children:
        return None
    first = next((c for c in body.named_children if c.type != "comment"), None)
    if first is None or first.type != "expression_statement" or len(first.children) != 1:
        return None
    string = first.children[0]
    if string.type != "string":
        return None
    try:
        text = ast.literal_eval(_text(string, data))
    except (ValueError, SyntaxError):
        return None
    if not isinstance(text, str) or not text.strip():
        return None
    full = f"{prefix}{_text(name, data)}"
    code = _without(node, first, data)
    summary = plain_sentence(first_sentence(description(textwrap.dedent(text))))
    # the parser goes on behind errors: what it could not read is no example of code
    reason = "could not be parsed" if node.has_error else reason_against(code, summary, limits)
    return Found(full, node.start_point[0] + 1, code, summary, reason)


def _without(node: Any, docstring: Any, data: bytes) -> str:
    """Return the code of a function without its docstring and without its indentation."""
    begin = data.rfind(b"\n", 0, node.start_byte) + 1
    end = data.find(b"\n", docstring.end_byte)
    cut = data.rfind(b"\n", 0, docstring.start_byte) + 1
    stop = node.end_byte if end < 0 or end > node.end_byte else end + 1
    head, tail = data[begin:cut], data[stop : node.end_byte]
    if data[cut : docstring.start_byte].strip() or (
        end >= 0 and data[docstring.end_byte : stop].strip()
    ):  # something stands beside it on its line
        head, tail = data[begin : docstring.start_byte], data[docstring.end_byte : node.end_byte]
    code = textwrap.dedent((head + tail).decode("utf-8"))
    return "\n".join(line.rstrip() for line in code.splitlines() if line.strip()).strip()


def description(docstring: str) -> str:
    """Return what stands before fields, headings, examples and lists."""
    lines = docstring.strip().splitlines()
    end = next((k for k, line in enumerate(lines) if BREAK.match(line)), len(lines))
    return "\n".join(lines[:end])


def plain_sentence(text: str) -> str:
    """Return a sentence without the marks of reStructuredText and Epytext."""
    while (inner := EPYTEXT.sub(r"\1", text)) != text:  # marks inside marks
        text = inner
    found = MARKUP.sub(lambda m: next((g for g in m.groups() if g is not None), ""), text)
    return " ".join(found.replace("\\", "").split()).rstrip(": ")


OPENERS = ("see ", "deprecated", "todo", "fixme", "note", "alias", "docstring", "wrapper for",
           "xxx", "internal", "test ", "tests ", ">>>", "same as")  # fmt: skip


def reason_against(code: str, summary: str, limits: Limits) -> str:
    """Return why a function is no pair, empty where it is one."""
    words = WORD.findall(summary)
    lines = len(code.splitlines())
    if not limits.words[0] <= len(words) <= limits.words[1]:
        return "sentence too short or too long"
    if not summary.isascii():
        return "sentence not in ASCII"
    if summary.lower().startswith(OPENERS) or summary[0] in ":@*-<>|=":
        return "no description of what it does"
    if SIGNATURE.match(summary):
        return "no description of what it does"
    if sum(map(len, words)) < 0.6 * len(summary.replace(" ", "")):
        return "sentence is mostly symbols"
    if not limits.lines[0] <= lines <= limits.lines[1] or len(code) > limits.characters:
        return "code too short or too long"
    if not code.isascii():
        return "code not in ASCII"
    body = code.split("\n", 1)[-1].strip()
    if re.fullmatch(r"(pass|\.\.\.|raise NotImplementedError.*)", body):
        return "nothing is done"
    return ""
