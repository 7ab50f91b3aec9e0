"""Tokens of source code: kinds, roles, places, faults."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.stimuli.code import identifier_parts, parse_code, tokenize
from gazeattn.stimuli.grid import SIDES, Grid
from gazeattn.tables import check_words

GRID = Grid(10, 20)
LANGUAGES = ("python", "java", "c", "cpp")

PYTHON = """def add(a, b=1):  # sum of two
    return a + b
"""
JAVA = """package x.y;
/* a
   note */
public class A<T> {
  private final int[] q = {1, 0x1F};
  String s = "a \\n b";
  @Override boolean f() { return this.q != null && 'c' == 'd'; }
}
"""
C = """#include <stdio.h>
#define MAX(a, b) ((a) > (b) ? (a) : "x y")
int main(void) { unsigned int n = 3; printf("%d\\n", n->y); return 0; } // end
"""
CPP = """namespace n { template<class T> auto f(T&& t) -> int {
  std::cout << R"(raw text)" << true; return nullptr; } }
"""
SAMPLES = {"python": PYTHON, "java": JAVA, "c": C, "cpp": CPP}


def joined(source: str, tokens) -> str:
    """Return the source from tokens and gaps, and check that gaps are white space."""
    at, out = 0, ""
    for start, end, text in zip(tokens["start"], tokens["end"], tokens["text"], strict=True):
        gap = source[at:start]
        assert not gap.replace("\ufeff", "").strip()
        out += gap + text
        at = end
    assert not source[at:].replace("\ufeff", "").strip()
    return out + source[at:]


def role(source: str, language: str) -> dict[str, str]:
    tokens = tokenize(source, language)
    return dict(zip(tokens["text"], tokens["role"], strict=True))


def test_python_function_by_hand():
    tokens = tokenize(PYTHON, "python")
    assert tokens["text"].tolist() == [
        *("def", "add", "(", "a", ",", "b", "=", "1", ")", ":", "# sum of two"),
        *("return", "a", "+", "b"),
    ]
    assert tokens["role"].tolist() == [
        *("keyword", "identifier", "punctuation", "identifier", "punctuation", "identifier"),
        *("operator", "literal", "punctuation", "punctuation", "comment"),
        *("keyword", "identifier", "operator", "identifier"),
    ]
    assert tokens["line"].tolist() == [0] * 11 + [1] * 4
    assert tokens["column"].tolist() == [0, 4, 7, 8, 9, 11, 12, 13, 14, 15, 18, 4, 11, 13, 15]
    assert tokens["path"][3] == "module/function_definition/parameters/identifier"
    assert tokens["parent"][3] == "parameters"
    assert tokens["identifier"].sum() == 5
    assert tokens["left"].isna().all() and (tokens["n_boxes"] == 0).all()
    check_words(tokens)


def test_roles_of_java():
    found = role(JAVA, "java")
    assert found["public"] == found["int"] == found["this"] == found["boolean"] == "keyword"
    assert found["null"] == found["0x1F"] == "literal"
    assert found["<"] == found["@"] == found["."] == "punctuation"
    assert found["&&"] == found["!="] == "operator"
    assert found["'c'"] == found['"a \\n b"'] == "string"
    assert found["Override"] == found["String"] == found["T"] == "identifier"
    assert found["/* a\n   note */"] == "comment"


def test_roles_of_c_and_the_body_of_a_macro():
    found = role(C, "c")
    assert found["#include"] == found["#define"] == found["unsigned"] == found["void"] == "keyword"
    assert found["<stdio.h>"] == found['"x y"'] == found['"%d\\n"'] == "string"
    assert found["?"] == found["->"] == "operator"
    assert found["MAX"] == found["printf"] == "identifier" and found["// end"] == "comment"
    assert found["0"] == "literal" and found["#define"] == "keyword"


def test_roles_of_cpp():
    found = role(CPP, "cpp")
    assert found["auto"] == found["namespace"] == found["template"] == "keyword"
    assert found["::"] == found["<"] == "punctuation" and found["<<"] == found["&&"] == "operator"
    assert found['R"(raw text)"'] == "string"
    assert found["true"] == found["nullptr"] == "literal"
    assert found["std"] == found["T"] == "identifier"


def test_less_than_is_an_operator_where_it_compares():
    tokens = tokenize("class A { List<B> q; boolean r = a < b; }", "java")
    assert tokens.loc[tokens["text"] == "<", "role"].tolist() == ["punctuation", "operator"]


@pytest.mark.parametrize(
    ("name", "language"), [("py", "python"), ("C++", "cpp"), (".java", "java"), ("H", "c")]
)
def test_other_names_of_languages(name, language):
    assert parse_code("int x;", name).language == language


def test_unknown_language_has_suggestions():
    with pytest.raises(UnknownNameError, match="did you mean 'python'"):
        tokenize("x", "pythn")


def test_strings_and_comments_cut_into_words():
    source = 'x = "one two"  # three  four\n'
    whole = tokenize(source, "python")
    assert whole["text"].tolist() == ["x", "=", '"one two"', "# three  four"]
    cut = tokenize(source, "python", strings="words", comments="words")
    assert cut["text"].tolist() == ["x", "=", '"one', 'two"', "#", "three", "four"]
    assert cut["token"].tolist() == [0, 1, 2, 2, 3, 3, 3]
    assert cut["part"].tolist() == [0, 0, 0, 1, 0, 1, 2]
    assert cut["role"].tolist()[2:] == ["string"] * 2 + ["comment"] * 3


def test_code_inside_a_string_is_code():
    tokens = tokenize("f'a b {name!r:>3} c\\n'", "python")
    assert tokens["text"].tolist() == [
        *("f'", "a b", "{", "name", "!r", ":", ">3", "}", "c\\n", "'"),
    ]
    assert tokens["role"][3] == "identifier"
    assert tokens["role"][[0, 1, 4, 6, 8, 9]].unique().tolist() == ["string"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("readLine", ["read", "Line"]),
        ("read_line", ["read_", "line"]),
        ("HTTPServer2Go", ["HTTP", "Server", "2", "Go"]),
        ("__init__", ["__init__"]),
        ("_minValue", ["_min", "Value"]),
        ("MAX_SIZE", ["MAX_", "SIZE"]),
        ("x", ["x"]),
        ("i18n", ["i", "18", "n"]),
        ("dict_a", ["dict_", "a"]),
        ("__", ["__"]),
    ],
)
def test_parts_of_names(name, parts):
    assert [name[a:b] for a, b in identifier_parts(name)] == parts


def test_names_cut_in_the_table_have_their_own_boxes():
    tokens = tokenize("readLine = 1", "python", identifiers="parts", grid=GRID)
    assert tokens["text"].tolist() == ["read", "Line", "=", "1"]
    assert tokens["left"].tolist() == [0, 40, 90, 110]
    assert tokens["token"].tolist() == [0, 0, 1, 2]


def test_a_string_over_lines_has_a_box_on_each():
    code = parse_code('def f():\n\t"""one\n\n\t  two"""\n', "python", grid=GRID)
    row = code.tokens[code.tokens["role"] == "string"].iloc[0]
    boxes = code.boxes[code.boxes["word"] == row["word"]]
    # The empty line and the indentation belong to nobody; a tab is four cells wide.
    assert boxes["line"].tolist() == [1, 3]
    assert boxes[SIDES].to_numpy().tolist() == [[40, 20, 100, 40], [60, 60, 120, 80]]
    assert row[SIDES].tolist() == [40, 20, 100, 40] and row["n_boxes"] == 2
    assert (row["line"], row["end_line"], row["end_column"]) == (1, 3, 9)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_in_many_ways(newline):
    # With \r alone the grammar of C sees one line; places on screen still go by our lines.
    source = newline.join(["int a;", "", "int b;"])
    tokens = tokenize(source, "c", grid=GRID)
    assert tokens["line"].tolist() == [0, 0, 0, 2, 2, 2]
    assert tokens["column"].tolist() == [0, 4, 5] * 2
    assert tokens["top"].tolist() == [0] * 3 + [40] * 3
    assert joined(source, tokens) == source


def test_a_comment_does_not_hold_the_carriage_return():
    tokens = tokenize("int a; // x\r\nint b;", "c")
    assert "// x" in tokens["text"].tolist()


def test_offsets_count_code_points_and_bytes():
    source = 's = "é😀" + 漢\n'
    tokens = tokenize(source, "python", grid=GRID)
    assert tokens["start"].tolist() == [0, 2, 4, 9, 11]
    assert tokens["end"].tolist() == [1, 3, 8, 10, 12]
    assert tokens["start_byte"].tolist() == [0, 2, 4, 13, 15]
    assert tokens["end_byte"].tolist() == [1, 3, 12, 14, 18]
    data = source.encode()
    for row in tokens.itertuples():
        assert data[row.start_byte : row.end_byte].decode() == row.text
    # The emoji and the ideograph are two cells wide.
    assert tokens["left"].tolist() == [0, 20, 40, 100, 120]
    assert tokens["right"].tolist()[-1] == 140


def test_bytes_marks_and_encodings():
    assert tokenize(b"\xef\xbb\xbfx = 1", "python")["text"].tolist() == ["x", "=", "1"]
    with pytest.raises(DataError, match=r"not utf-8.*at byte 1"):
        tokenize(b"#\xe9", "python")
    assert tokenize(b"#\xe9", "python", encoding="latin-1")["text"].tolist() == ["#é"]
    with pytest.raises(DataError, match="unknown encoding"):
        tokenize(b"x", "python", encoding="utf-9")
    with pytest.raises(DataError, match="surrogate"):
        tokenize("x = '\ud800'", "python")


def test_syntax_errors_are_kept_and_counted():
    code = parse_code("def f(:\n  return $ 1\n", "python")
    assert joined(code.source, code.tokens) == code.source
    assert (code.faults["fault"] == "error").any()
    assert code.tokens["error"].any() and not code.tokens["error"].all()
    assert sum(loss.count for loss in code.log) == len(code.faults)
    assert "$" in "".join(code.tokens["text"])


def test_missing_tokens_are_counted_and_are_no_rows():
    code = parse_code("int main() { return 0 }", "c")
    assert code.faults["fault"].tolist() == ["missing"]
    assert code.faults["kind"].tolist() == [";"]
    assert (code.faults["start"] == code.faults["end"]).all()
    assert code.tokens["text"].tolist() == ["int", "main", "(", ")", "{", "return", "0", "}"]
    assert not code.tokens["error"].any()
    assert parse_code("int main() { return 0; }", "c").faults.empty


def test_empty_source_and_wrong_options():
    for source in ("", "  \n\t\n", "\ufeff"):
        with pytest.raises(DataError, match="no token"):
            tokenize(source, "python")
    with pytest.raises(DataError, match="cut strings"):
        tokenize("x", "python", strings="letters")


def test_deep_code_needs_no_recursion():
    depth = 3000
    tokens = tokenize("(" * depth + "1" + ")" * depth, "python")
    assert len(tokens) == 2 * depth + 1


def test_scrolled_code_counts_what_is_not_on_screen():
    code = parse_code("a = 1\nb = 2\nc = 3\n", "python", grid=Grid(10, 20, first_line=1, n_lines=1))
    assert code.tokens["n_boxes"].tolist() == [0] * 3 + [1] * 3 + [0] * 3
    assert [(x.count, x.kind) for x in code.log] == [(6, "undefined")]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("cut", [False, True])
def test_tokens_and_gaps_are_the_source(language, cut):
    how = {"strings": "words", "comments": "words", "identifiers": "parts"} if cut else {}
    source = SAMPLES[language]
    for text in (source, source.replace("\n", "\r\n"), "\ufeff" + source, source + "\t é漢 §"):
        assert joined(text, tokenize(text, language, **how)) == text


PIECES = [
    *("def f(a):\n  ", "return ", "class A {", "}", "int x = 1;", "\n", "\r\n", "\t", " ", "\x0b"),
    *("# note\n", "// note\n", "/* a\n b */", '"s t"', "'c'", '"""d\n\n d"""', "f'{x} y'", '"open'),
    *(
        "#define A(b) b + 1 \\\n 2\n",
        "x->y",
        "a<b>",
        "::",
        "$",
        "é",
        "漢",
        "😀",
        "\u0301",
        "\u00a0",
    ),
    *(
        "if (x) {",
        "(",
        ")",
        "[",
        "]",
        ";",
        ":",
        "\\\n",
        "\\",
        "0x1F",
        "\x00",
        "@",
        "`",
        "\ufeff",
        "_",
    ),
]


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join),
    st.sampled_from(LANGUAGES),
    st.booleans(),
)
def test_any_text_is_tokens_and_gaps(source, language, cut):
    how = {"strings": "words", "comments": "words", "identifiers": "parts"} if cut else {}
    try:
        code = parse_code(source, language, grid=GRID, **how)
    except DataError as error:
        assert "no token" in str(error)
        return
    tokens = code.tokens
    assert joined(source, tokens) == source
    assert (tokens["start"].to_numpy()[1:] >= tokens["end"].to_numpy()[:-1]).all()
    data = source.encode()
    starts, ends = tokens["start_byte"], tokens["end_byte"]
    assert [data[a:b].decode() for a, b in zip(starts, ends, strict=True)] == tokens[
        "text"
    ].tolist()
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line, column, text in zip(tokens["line"], tokens["column"], tokens["text"], strict=True):
        head = text.replace("\r", "\n").split("\n")[0]
        assert lines[line][column : column + len(head)] == head
    check_words(tokens)
