"""Leaves of a syntax tree: the programming languages, and the role of each token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gazeattn.errors import UnknownNameError

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

ALIASES = {
    "python": ("py", "python3"),
    "java": (),
    "c": ("h",),
    "cpp": ("c++", "cc", "cxx", "hpp"),
}
"""The programming languages, each with its other names."""

STRINGS = frozenset(
    {
        "string",
        "string_literal",
        "raw_string_literal",
        "char_literal",
        "character_literal",
        "system_lib_string",
    }
)
INTERPOLATIONS = frozenset({"interpolation", "string_interpolation"})
COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
SEALED = frozenset({"string_content", "string_fragment", "multiline_string_fragment"})
"""Kinds whose children do not cover their text: taken as leaves."""

WORD_LITERALS = frozenset({"true", "false", "none", "null", "nullptr", "ellipsis"})
PUNCTUATION = frozenset({*"()[]{},;:.@\\", "::", "...", "[[", "]]"})
BRACKETED = re.compile(r"type_arguments|type_parameters|template_(argument|parameter)_list")
NUMBER = re.compile(r"\d|\.\d")
NAME = re.compile(r"#?[^\W\d]\w*")
LEXEMES = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<literal>\.?\d[\w.]*)"""
    r"|(?P<identifier>[^\W\d]\w*)|(?P<punctuation>[()\[\]{},;])|(?P<operator>[^\s\w()\[\]{},;\"']+|.)"
)


class Leaf(NamedTuple):
    """One token, with byte offsets; `path` ends with its own kind."""

    start: int
    end: int
    kind: str
    role: str
    path: str
    parent: str
    error: bool


class Fault(NamedTuple):
    """An ERROR or MISSING node."""

    fault: str
    kind: str
    start: int
    end: int
    path: str


def language_name(name: str) -> str:
    """Return the name of a language of `ALIASES` (case, aliases and a leading dot understood).

    Raises
    ------
    UnknownNameError
    """
    folded = str(name).strip().lower().removeprefix(".")
    for known, others in ALIASES.items():
        if folded == known or folded in others:
            return known
    raise UnknownNameError("programming language", name, ALIASES)


@cache
def grammar_of(language: str) -> Language:
    """Return the grammar of a language of `ALIASES`."""
    from tree_sitter import Language

    if language == "python":
        from tree_sitter_python import language as grammar
    elif language == "java":
        from tree_sitter_java import language as grammar
    elif language == "c":
        from tree_sitter_c import language as grammar
    else:
        from tree_sitter_cpp import language as grammar
    return Language(grammar())


def parse(data: bytes, language: str) -> Tree:
    """Return the tree of UTF-8 source code; a parser of its own, so that threads do not meet."""
    from tree_sitter import Parser

    return Parser(grammar_of(language)).parse(data)


def leaves_of(tree: Tree, source: bytes) -> tuple[list[Leaf], list[Fault]]:
    """Return the tokens of a tree in their order, and its faults.

    Text that no leaf covers (characters that the parser skipped) becomes tokens of the kind of
    the smallest node around it, so that everything but white space is in some token.
    """
    leaves: list[Leaf] = []
    faults: list[Fault] = []
    for node, path, parent, error in _walk(tree.root_node, faults):
        if node.end_byte > node.start_byte:
            leaves += _leaf(node, path, parent, error, source)
    leaves.sort(key=lambda leaf: leaf.start)
    at, filled = 0, []
    for leaf in leaves:
        filled += _uncovered(tree.root_node, source, at, leaf.start)
        filled.append(leaf)
        at = leaf.end
    return [*filled, *_uncovered(tree.root_node, source, at, len(source))], faults


def _walk(root: Node, faults: list[Fault]) -> Iterator[tuple[Node, str, str, bool]]:
    """Yield (node, path, parent kind, in an ERROR node) of each leaf; no recursion."""
    stack = [(root, root.type, "", False)]
    while stack:
        node, path, parent, error = stack.pop()
        if node.is_missing:
            faults.append(Fault("missing", node.type, node.start_byte, node.end_byte, path))
            continue
        if node.is_error:
            error = True
            faults.append(Fault("error", node.type, node.start_byte, node.end_byte, path))
        children = node.children
        whole = node.is_named and (
            node.type in COMMENTS
            or node.type in SEALED
            or (node.type in STRINGS and not _interpolated(node))
        )
        if whole or not children:
            yield node, path, parent, error
        else:
            stack += [(c, f"{path}/{c.type}", node.type, error) for c in reversed(children)]


def _interpolated(node: Node) -> bool:
    return node.has_error or any(child.type in INTERPOLATIONS for child in node.children)


def _leaf(node: Node, path: str, parent: str, error: bool, source: bytes) -> list[Leaf]:
    """Return the token of a leaf without white space at its ends; macro bodies are cut up."""
    text = source[node.start_byte : node.end_byte]
    start = node.start_byte + len(text) - len(text.lstrip())
    end = node.end_byte - (len(text) - len(text.rstrip()))
    if end <= start:
        return []
    if node.type == "preproc_arg":
        return list(_lexemes(source[start:end], start, "preproc_arg", path, parent, error))
    role = role_of(node.type, source[start:end].decode("utf-8"), parent, named=node.is_named)
    return [Leaf(start, end, node.type, role, path, parent, error)]


def _lexemes(
    text: bytes, offset: int, kind: str, path: str, parent: str, error: bool
) -> Iterator[Leaf]:
    """Cut text that the grammar leaves whole (the body of a macro) into tokens."""
    characters = text.decode("utf-8")
    for match in LEXEMES.finditer(characters):
        if match.group().isspace():
            continue
        start = offset + len(characters[: match.start()].encode())
        end = start + len(match.group().encode())
        yield Leaf(start, end, kind, str(match.lastgroup), path, parent, error)


def _uncovered(root: Node, source: bytes, start: int, end: int) -> list[Leaf]:
    """Return tokens for the text between two leaves that is no white space."""
    found: list[Leaf] = []
    if end <= start or source[start:end].isspace():
        return found
    text = source[start:end].decode("utf-8")
    for match in re.finditer(r"[^\s\ufeff]+", text):
        a = start + len(text[: match.start()].encode())
        b = a + len(match.group().encode())
        node = root.descendant_for_byte_range(a, b) or root
        kinds, at, error = [node.type], node.parent, node.is_error
        while at is not None:
            kinds.append(at.type)
            error |= at.is_error
            at = at.parent
        kind = node.type
        if kind in STRINGS | COMMENTS | SEALED | {"format_specifier"}:
            role = "comment" if kind in COMMENTS else "string"
        else:
            role = role_of("", match.group(), kind, named=False)
        parent = kinds[1] if len(kinds) > 1 else ""
        found.append(Leaf(a, b, kind, role, "/".join(reversed(kinds)), parent, error))
    return found


def role_of(kind: str, text: str, parent: str, *, named: bool) -> str:
    """Return what a token is for.

    Returns
    -------
    str
        identifier, keyword, literal, operator, punctuation, comment or string. Built-in types of
        Java, C and C++ (``int``) are keywords; ``true``, ``None`` and ``null`` are literals;
        characters in quotes are strings. Brackets, commas, semicolons, colons, dots, ``@`` and
        ``::`` are punctuation, and so are ``<`` and ``>`` around type parameters; other signs are
        operators.
    """
    if kind in COMMENTS:
        return "comment"
    inside_string = parent in STRINGS and kind not in INTERPOLATIONS
    if (named and kind in STRINGS) or kind in SEALED or inside_string:
        return "string"
    if kind in ("format_specifier", "type_conversion", "escape_sequence"):
        return "string"
    if kind.endswith("identifier"):
        return "identifier"
    literal_kind = named and ("literal" in kind or kind in ("integer", "float"))
    if literal_kind or kind in WORD_LITERALS or text in ("nullptr",) or NUMBER.match(text):
        return "literal"
    if NAME.fullmatch(text):
        given_by_grammar = not named or kind == text
        is_keyword = kind and (
            given_by_grammar or kind.endswith(("type", "specifier", "qualifier"))
        )
        return "keyword" if is_keyword else "identifier"
    if text in PUNCTUATION or (text in "<>" and BRACKETED.fullmatch(parent)):
        return "punctuation"
    return "operator"
