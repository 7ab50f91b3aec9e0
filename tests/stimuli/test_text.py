"""Words and characters of a monospaced text: boxes worked out by hand."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.stimuli.grid import SIDES, Grid, char_cells, split_lines
from gazeattn.stimuli.text import layout_text
from gazeattn.tables import check_words

GRID = Grid(10, 20, x=100, y=50)


def sides(frame: pd.DataFrame) -> list[list[float]]:
    return frame[SIDES].to_numpy().tolist()


def test_words_of_two_lines_by_hand():
    layout = layout_text("ab cde\n f", GRID, stimulus="s")
    assert layout.words["text"].tolist() == ["ab", "cde", "f"]
    assert sides(layout.words) == [
        [100, 50, 120, 70],
        [130, 50, 160, 70],
        [110, 70, 120, 90],
    ]
    assert layout.words["line"].tolist() == [0, 0, 1]
    assert layout.words["column"].tolist() == [0, 3, 1]
    checked, log = check_words(layout.words)
    assert len(log) == 0 and checked["word"].tolist() == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("spaces", "expected"),
    [
        ("none", [(100, 120), (140, 150)]),
        ("split", [(100, 130), (130, 150)]),
        ("before", [(100, 140), (140, 150)]),
        ("after", [(100, 120), (120, 150)]),
    ],
)
def test_who_gets_the_space(spaces, expected):
    words = layout_text("ab  c", GRID, spaces=spaces).words
    assert list(zip(words["left"], words["right"], strict=True)) == expected


def test_space_is_not_shared_across_lines():
    words = layout_text("ab\nc", GRID, spaces="split").words
    assert words["right"].tolist() == [120, 110] and words["left"].tolist() == [100, 100]


@pytest.mark.parametrize("hyphen", ["-", "\u2010", "\u00ad"])
def test_broken_word_is_one_word_with_two_boxes(hyphen):
    text = f"an exam{hyphen}\nple here"
    layout = layout_text(text, GRID, hyphenated="all")
    assert layout.words["text"].tolist() == ["an", "example", "here"]
    assert layout.words["n_boxes"].tolist() == [1, 2, 1]
    two = layout.boxes[layout.boxes["word"] == "1"]
    assert sides(two) == [[130, 50, 180, 70], [100, 70, 130, 90]]
    assert two["part"].tolist() == [0, 1] and two["line"].tolist() == [0, 1]
    assert [loss.count for loss in layout.log] == [1]


def test_only_a_soft_hyphen_is_sure_to_break_a_word():
    assert layout_text("well-\nknown", GRID).words["text"].tolist() == ["well-", "known"]
    assert layout_text("exam\u00ad\nple", GRID).words["text"].tolist() == ["example"]
    assert len(layout_text("exam\u00ad\nple", GRID, hyphenated="none").words) == 2


def test_rule_for_all_hyphens_leaves_dashes_numbers_and_names_alone():
    for text in ("yes -\nno", "1990-\n91", "Anne-\nMarie", "a-\n\nb"):
        assert layout_text(text, GRID, hyphenated="all").words["n_boxes"].tolist() == [1] * len(
            text.split()
        )


def test_lines_named_by_hand_and_a_wrong_one():
    text = "well-\nknown exam-\nple"
    assert layout_text(text, GRID, hyphenated=[1]).words["text"].tolist() == [
        "well-",
        "known",
        "example",
    ]
    with pytest.raises(DataError, match="does not end in a broken word"):
        layout_text(text, GRID, hyphenated=[2])


def test_a_word_may_break_twice():
    layout = layout_text("su-\nper-\nb", GRID, hyphenated=[0, 1])
    assert layout.words["text"].tolist() == ["superb"]
    assert layout.boxes["line"].tolist() == [0, 1, 2]


def test_right_to_left_text_begins_at_the_right():
    words = layout_text("אב גדה", Grid(10, 20, x=500, y=0, rtl=True)).words
    assert words["index"].tolist() == [0, 1]
    assert sides(words) == [[480, 0, 500, 20], [440, 0, 470, 20]]
    right_first = layout_text("mi tu", Grid(8, 20, x=80, rtl=True)).words
    assert right_first["left"].tolist() == [64, 40]


def test_wide_and_combining_characters():
    assert [char_cells(c) for c in "a漢Ａé\u0301\u200b"] == [1, 2, 2, 1, 0, 0]
    words = layout_text("漢字 e\u0301x", GRID).words
    assert sides(words) == [[100, 50, 140, 70], [150, 50, 170, 70]]
    chars = layout_text("e\u0301x 漢", GRID, unit="character").words
    assert chars["text"].tolist() == ["e\u0301", "x", "漢"]
    assert chars["left"].tolist() == [100, 110, 130]
    assert chars["right"].tolist() == [110, 120, 150]
    assert chars["of_word"].tolist() == ["0", "0", "1"]


@pytest.mark.parametrize(
    ("line", "tab", "starts"),
    [
        ("\ta", 4, [0, 4, 5]),
        ("ab\tc", 4, [0, 1, 2, 4, 5]),
        ("abcd\tc", 4, [0, 1, 2, 3, 4, 8, 9]),
        ("漢\tx", 3, [0, 2, 3, 4]),
        ("a\t\tb", 8, [0, 1, 8, 16, 17]),
    ],
)
def test_tabs_go_to_the_next_stop(line, tab, starts):
    assert Grid(1, 1, tab_width=tab).cells(line).tolist() == starts


@pytest.mark.parametrize("text", ["a\nb\n\nc", "a\r\nb\r\n\r\nc", "a\rb\r\rc"])
def test_line_breaks_of_all_systems(text):
    words = layout_text(text, GRID).words
    assert words["line"].tolist() == [0, 1, 3]
    assert words["top"].tolist() == [50, 70, 110]


def test_scrolled_view_and_map_of_lines():
    layout = layout_text("a\nb\nc\nd", Grid(10, 20, y=5, first_line=1, n_lines=2))
    assert layout.words["top"].fillna(-1).tolist() == [-1, 5, 25, -1]
    assert [(x.count, x.kind) for x in layout.log] == [(2, "undefined")]
    mapped = layout_text("a\nb\nc", Grid(10, 20, line_tops={0: 7, 2: 100}))
    assert mapped.words["top"].fillna(-1).tolist() == [7, -1, 100]
    assert mapped.words["n_boxes"].tolist() == [1, 0, 1]


def test_errors_say_what_is_wrong():
    with pytest.raises(DataError, match="no word"):
        layout_text(" \n\t", GRID)
    with pytest.raises(DataError, match="above 0"):
        Grid(0, 20)
    with pytest.raises(DataError, match="finite"):
        Grid(1, 20, x=float("nan"))
    with pytest.raises(DataError, match="rule for spaces"):
        layout_text("a", GRID, spaces="both")
    with pytest.raises(DataError, match="hyphenated"):
        layout_text("a", GRID, hyphenated="maybe")


LINES = st.lists(st.text("ab漢\u0301é -\t", max_size=12), min_size=1, max_size=5)


@settings(deadline=None)
@given(LINES, st.sampled_from(["none", "split", "before", "after"]), st.booleans())
def test_boxes_of_a_line_do_not_overlap_and_keep_their_order(lines, spaces, rtl):
    if not "".join(lines).split():
        return
    layout = layout_text(lines, Grid(10, 20, x=1000, rtl=rtl), spaces=spaces)
    assert layout.words["text"].tolist() == " ".join(lines).split()
    for _, line in layout.boxes.groupby("line"):
        left, right = line["left"].to_numpy(), line["right"].to_numpy()
        assert (left <= right).all()
        if rtl:
            assert (right[1:] <= left[:-1]).all()
        else:
            assert (right[:-1] <= left[1:]).all()


@settings(deadline=None)
@given(st.text(max_size=60))
def test_lines_and_breaks_are_the_text(text):
    spans = split_lines(text)
    assert spans[0][0] == 0 and spans[-1][1] == len(text)
    for (_, end), (start, _) in pairwise(spans):
        assert text[end:start] in ("\n", "\r\n", "\r")
    assert not any(set(text[a:b]) & {"\n", "\r"} for a, b in spans)


def test_passages_of_the_drift_corpus(shared_data):
    folder = shared_data / "reading_drift"
    passages = json.loads((folder / "passages.json").read_text(encoding="utf-8"))
    lines = pd.read_csv(folder / "passage_lines.csv", dtype={"passage_id": "str"})
    n_words = 0
    for name, passage in passages.items():
        block = passage["__TextBlock__"]
        grid = Grid(16, block["line_height"], x=block["position"][0], y=155 - 32)
        words = layout_text(block["text"], grid, stimulus=name).words
        expected = lines[lines["passage_id"] == name]
        by_line = words.groupby("line")
        assert by_line.size().tolist() == expected["n_words"].tolist()
        middle = (by_line["top"].first() + by_line["bottom"].first()) / 2
        assert middle.tolist() == expected["line_y"].tolist()
        stripped = expected["text"].str.rstrip().str.len().to_numpy()
        assert (by_line["right"].max().to_numpy() == 360 + 16 * stripped).all()
        n_words += len(words)
    assert n_words == 1537 and np.isclose(grid.x, 360)
