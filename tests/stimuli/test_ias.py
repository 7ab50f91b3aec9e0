"""Interest-area files, and areas against the report and the code of a real study."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.errors import DataError
from gazeattn.reading.tokens import map_to_interest_areas, map_to_units
from gazeattn.stimuli.alignment import align_texts, boxes_from_areas
from gazeattn.stimuli.code import parse_code
from gazeattn.stimuli.grid import SIDES
from gazeattn.stimuli.ias import in_outline, read_ias
from gazeattn.tables import check_words

FILE = (
    "\ufeff# EyeLink Interest Area Set\r\n"
    "\r\n"
    "RECTANGLE\t1\t492.0\t213.0\t628.0\t279.0\t#Helper\r\n"
    "ELLIPSE 2 0 0 100 50 the moon\r\n"
    "# between\r\n"
    "FREEHAND 3 10,10 20,10 20,30 tail\r\n"
    "rectangle\t7\t0\t0\t5\t5\r\n"
).encode()


def test_shapes_labels_comments_and_byte_order_mark():
    areas = read_ias(FILE, stimulus="s")
    assert areas.words["word"].tolist() == ["1", "2", "3", "7"]
    assert areas.words["text"].tolist() == ["#Helper", "the moon", "tail", "7"]
    assert areas.boxes["shape"].tolist() == ["rectangle", "ellipse", "freehand", "rectangle"]
    assert areas.boxes[SIDES].to_numpy().tolist() == [
        [492, 213, 628, 279],
        [0, 0, 100, 50],
        [10, 10, 20, 30],
        [0, 0, 5, 5],
    ]
    assert areas.boxes["row"].tolist() == [3, 4, 6, 7]
    assert areas.outlines[2].tolist() == [[10, 10], [20, 10], [20, 30]]
    assert not areas.plain and len(areas.log) == 0
    check_words(areas.words)


def test_points_in_each_shape():
    areas = read_ias(FILE, stimulus="s")
    x = np.array([492, 628, 50, 99, 18, 11, np.nan, 4.9, 95])
    y = np.array([213, 213, 49, 1, 12, 29, 20, 4.9, 25])
    found, several = areas.find(x, y)
    # 99, 1 is in the box of the ellipse and not in it; 18, 12 is in ellipse and outline.
    assert found.tolist() == [0, -1, 1, -1, 2, 1, -1, 3, 1]
    assert several == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding):
    data = "RECTANGLE 1 0 0 5 5 caf\u00e9 \u201cx\u201d\n".encode(encoding)
    areas = read_ias(data)
    assert areas.words["text"].tolist() == ["café “x”"]
    assert len(areas.log) == (encoding == "cp1252")


def test_the_name_of_the_file_is_the_stimulus(tmp_path):
    path = tmp_path / "IA-7.ias"
    path.write_bytes(FILE)
    assert read_ias(path).words["stimulus"].unique().tolist() == ["IA-7"]


def test_areas_with_a_time():
    data = b"-0 -199 RECTANGLE 1 0 0 10 10 target\n-200 -450 ELLIPSE 1 20 0 30 10 target\n"
    areas = read_ias(data + b"RECTANGLE 2 50 0 60 10 always\n")
    assert areas.words["word"].tolist() == ["1", "2"]
    assert areas.boxes["start"].fillna(-1).tolist() == [0, 200, -1]
    assert areas.boxes["end"].fillna(-1).tolist() == [199, 450, -1]
    x, y = np.array([5, 5, 25, 25, 55, 5.0]), np.full(6, 5.0)
    found, _ = areas.find(x, y, np.array([0, 200, 200, 451, 9999, np.nan]))
    assert found.tolist() == [0, -1, 0, -1, 1, -1]
    ends = areas.find(np.array([5.0, 25, 25]), np.full(3, 5.0), np.array([199, 450, 450.5]))
    assert ends[0].tolist() == [0, 0, -1]
    with pytest.raises(DataError, match="part of the trial"):
        areas.find(x, y)
    with pytest.raises(DataError, match="before it begins"):
        read_ias(b"-450 -200 RECTANGLE 1 0 0 10 10 x")


def test_an_id_in_several_lines_is_one_area():
    areas = read_ias(b"RECTANGLE 1 0 0 10 10 exam-\nRECTANGLE 1 0 20 10 30 ple\n")
    assert len(areas.words) == 1 and areas.words["n_boxes"].tolist() == [2]
    assert areas.boxes["part"].tolist() == [0, 1]
    found, several = areas.find(np.array([5.0, 5.0, 5.0]), np.array([5.0, 25.0, 15.0]))
    assert found.tolist() == [0, 0, -1] and several == 0
    assert sum(loss.count for loss in areas.log) == 2  # several lines, another label


def test_two_areas_of_one_id_keep_both_boxes_and_labels():
    areas = read_ias(
        b"RECTANGLE 1 0 0 10 10 cat\nRECTANGLE 2 0 0 1 1 x\nRECTANGLE 1 50 0 60 9 dog\n"
    )
    assert areas.words["text"].tolist() == ["cat", "x"]
    assert areas.boxes["text"].tolist() == ["cat", "x", "dog"]
    assert areas.boxes["word"].tolist() == ["1", "2", "1"]
    counted = {loss.reason: (loss.count, loss.examples) for loss in areas.log}
    assert counted == {
        "an id stands in several lines: one area with several shapes": (1, "1"),
        "an id has another label further down: the first one is kept": (1, "1"),
    }


@pytest.mark.parametrize(
    ("line", "sides", "label"),
    [
        ("RECTANGLE 1 10,5 20,5 30,5 40,5 word", [10.5, 20.5, 30.5, 40.5], "word"),
        ("RECTANGLE\t1\t10,25\t20\t30,5\t40\ttwo words", [10.25, 20, 30.5, 40], "two words"),
        ("ELLIPSE 1 -10,5 20,5 30,5 40,5", [-10.5, 20.5, 30.5, 40.5], "1"),
        ("RECTANGLE 1 10,5 20,5 30,5 40,5 1,5 2", [10.5, 20.5, 30.5, 40.5], "1,5 2"),
        ("-2,5 -4,5 RECTANGLE 1 10,5 20,5 30,5 40,5 w", [10.5, 20.5, 30.5, 40.5], "w"),
        ("FREEHAND 1 10,5,20,5 30,5,20,5 30,5,40,5 w", [10.5, 20.5, 30.5, 40.5], "w"),
        ("FREEHAND 1 10,5;20,5 30,5;20,5 30,5;40,5 w", [10.5, 20.5, 30.5, 40.5], "w"),
    ],
)
def test_decimal_commas_are_read_and_noted(line, sides, label):
    areas = read_ias(f"RECTANGLE 9 0 0 1 1 ok\n{line}\n".encode())
    assert areas.boxes[SIDES].to_numpy()[1].tolist() == sides
    assert areas.boxes["text"][1] == label
    assert [(x.reason, x.count, x.examples) for x in areas.log] == [("decimal commas read", 1, "2")]
    if line.startswith("-"):
        assert areas.boxes[["start", "end"]].to_numpy()[1].tolist() == [2.5, 4.5]


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("RECTANGLE 1 10,20,30,40 word", "word"),
        ("RECTANGLE 1 10, 20, 30, 40 word", "word"),
        ("RECTANGLE 1 10,20 30,40 word", "word"),
        ("RECTANGLE 1 10.0,20.0,30.0,40.0\tword", "word"),
        ("RECTANGLE 1 10 20 30 40 5,5", "5,5"),
        ("FREEHAND 1 10,20 30,20 30,40 word", "word"),
    ],
)
def test_commas_between_the_sides_are_no_decimals(line, label):
    areas = read_ias(line.encode())
    assert areas.boxes[SIDES].to_numpy().tolist() == [[10, 20, 30, 40]]
    assert areas.boxes["text"].tolist() == [label] and len(areas.log) == 0


@pytest.mark.parametrize(
    "lines",
    [
        "RECTANGLE 1 10,5 20,5 30,5 label",
        "RECTANGLE 1 10,5 20,5 30 label",
        "RECTANGLE 1 10.5 20,5 30 40 label",
        "FREEHAND 1 10,20 30,20 30,40 10,5,20 label",
        "RECTANGLE 1 10,5 20,5 30,5 40,5 a\nRECTANGLE 2 10.5 20.5 30.5 40.5 b",
        "RECTANGLE 1 10,5 20,5 30,5 40,5 a\nRECTANGLE 2 10,20,30,40 b",
        "RECTANGLE 1 10,20 30,40 a\nRECTANGLE 1 10,5 20,5 30,5 40,5 a",
    ],
)
def test_commas_that_can_be_meant_in_two_ways_are_refused(lines):
    with pytest.raises(DataError, match=r"decimal comma"):
        read_ias(lines.encode())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("RECTANGLE 1 0 0 5", "lacks some of its sides"),
        ("RECTANGLE 1 0 0 5 x label", "lacks some of its sides"),
        ("RECTANGLE 1 9 0 5 5 label", "ends before it begins"),
        ("RECTANGLE 1 0 0 1e999 5 label", "finite"),
        ("FREEHAND 1 0,0 5,5 1e999,0 label", "finite"),
        ("RECTANGLE 1 0 0 nan 5 label", "lacks some of its sides"),
        ("ELLIPSE 1 0 9 5 5 label", "ends before it begins"),
        ("FREEHAND 1 0,0 5,5 label", "three corners"),
        ("TRIANGLE 1 0 0 5 5 label", "no interest area"),
        ("1\t0\t0\t5\t5\tlabel", "no interest area"),
        ("# nothing", "no interest area"),
        ("", "no interest area"),
        ("-5 RECTANGLE 1 0 0 5 5 label", "no interest area"),
    ],
)
def test_damaged_lines_say_where(line, message):
    with pytest.raises(DataError, match=message) as error:
        read_ias(b"RECTANGLE 9 0 0 1 1 ok\n" + line.encode() if line[:1] not in ("#", "") else b"#")
    if line[:1] not in ("#", ""):
        assert error.value.row == 2


def test_overlapping_areas_by_either_rule():
    areas = read_ias(b"RECTANGLE 1 0 0 20 10 a\nRECTANGLE 2 16 0 20 10 b\n")
    x, y = np.array([5, 17, 19.0]), np.full(3, 5.0)
    assert areas.find(x, y)[0].tolist() == [0, 1, 1]
    assert areas.find(x, y, overlap="first")[0].tolist() == [0, 0, 0]
    assert areas.find(x, y)[1] == 2
    with pytest.raises(DataError, match="overlap rule"):
        areas.find(x, y, overlap="last")


coordinates = st.integers(-4, 14)


@settings(deadline=None)
@given(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=30))
def test_an_outline_of_a_rectangle_is_the_rectangle(points):
    x, y = np.array(points, dtype=float).T
    corners = np.array([[0, 0], [10, 0], [10, 7], [0, 7]], dtype=float)
    expected = (0 <= x) & (x < 10) & (0 <= y) & (y < 7)
    assert (in_outline(x, y, corners) == expected).all()
    assert (in_outline(x, y, corners[::-1]) == expected).all()


def test_pieces_of_one_text_cut_in_two_ways():
    pairs = align_texts(["a", "(", "self", ",", "key"], ["a", "(self,", "key"])
    assert pairs[["first", "second", "characters"]].to_numpy().tolist() == [
        [0, 0, 1],
        [1, 1, 1],
        [2, 1, 4],
        [3, 1, 1],
        [4, 2, 3],
    ]
    assert pairs["from_"].tolist() == [0, 0, 1 / 6, 5 / 6, 0]
    assert pairs["to"].tolist() == [1, 1 / 6, 5 / 6, 1, 1]


def test_pieces_of_texts_that_differ():
    pairs = align_texts(["ab", "cd", "ef"], ["ab", "cXd", "ef"])
    assert pairs[["first", "second", "characters"]].to_numpy().tolist() == [
        [0, 0, 2],
        [1, 1, 2],
        [2, 2, 2],
    ]


def test_tokens_take_their_share_of_an_area():
    areas = read_ias(b"RECTANGLE 1 0 0 60 20 (self,\nRECTANGLE 2 70 0 100 20 key\n")
    code = parse_code("(self, key)", "python")
    tokens, boxes, log = boxes_from_areas(code.tokens, areas.words)
    assert tokens["text"].tolist() == ["(", "self", ",", "key", ")"]
    assert tokens["area"].fillna("-").tolist() == ["1", "1", "1", "2", "-"]
    assert boxes[["left", "right"]].to_numpy().tolist() == [[0, 10], [10, 50], [50, 60], [70, 100]]
    assert [(x.kind, x.count) for x in log] == [("undefined", 1)]


NAMES = {"10-117-V1": "10-177-V1", "10-117-V2": "10-177-V2"}
COLUMNS = [
    *("CURRENT_FIX_X", "CURRENT_FIX_Y", "CURRENT_FIX_INTEREST_AREA_ID"),
    *("CURRENT_FIX_INTEREST_AREAS", "code_snippet_id"),
]


@pytest.fixture(scope="module")
def study(shared_data):
    folder = shared_data / "code_comprehension"
    areas = {p.stem[3:]: read_ias(p) for p in sorted(folder.glob("interest_areas/*.ias"))}
    reports = [
        pd.read_csv(p, sep="\t", dtype=str, keep_default_na=False, usecols=COLUMNS)
        for p in sorted(folder.glob("fixation_reports/*.txt.gz"))
    ]
    report = pd.concat(reports, ignore_index=True)
    report["stimulus"] = report["code_snippet_id"].replace(NAMES)
    return folder, areas, report


def test_our_areas_are_those_of_the_report(study):
    _, areas, report = study
    assert len(areas) == 19 and sum(len(a.words) for a in areas.values()) == 1638
    assert all(a.plain for a in areas.values()) and len(report) == 112_681
    known = report[report["stimulus"].isin(areas)]
    agree, near, lists = 0, 0, 0
    for stimulus, rows in known.groupby("stimulus"):
        x, y = (rows[c].astype(float).to_numpy() for c in ("CURRENT_FIX_X", "CURRENT_FIX_Y"))
        ids = np.append(areas[stimulus].words["word"].to_numpy(), ".")
        stated = rows["CURRENT_FIX_INTEREST_AREA_ID"].to_numpy()
        agree += int((ids[areas[stimulus].find(x, y, overlap="first")[0]] == stated).sum())
        found, several = areas[stimulus].find(x, y)
        near += int((ids[found] == stated).sum())
        assert several == rows["CURRENT_FIX_INTEREST_AREAS"].str.contains(",").sum()
        lists += several
    assert len(known) == 87_549 and agree == 87_549
    # Six fixations lie in two areas; in five of them the second one's centre is nearer.
    assert lists == 6 and near == 87_544


def test_tokens_of_the_code_are_those_of_the_areas(study):
    folder, areas, _ = study
    n_tokens = n_areas = 0
    for name, area in areas.items():
        source = (folder / "code_snippets" / f"{name}.py.txt").read_bytes()
        code = parse_code(source, "python", strings="words", comments="words")
        assert code.faults.empty
        tokens, boxes, log = boxes_from_areas(code.tokens, area.words)
        assert len(log) == 0 and tokens["area"].notna().all()
        pairs = align_texts(code.tokens["text"].tolist(), area.words["text"].tolist())
        shared = pairs.groupby("second")["characters"].sum()
        bare = area.words["text"].str.replace(r"\s", "", regex=True).str.len()
        assert shared.tolist() == bare.tolist()
        assert (boxes["left"] < boxes["right"]).all()
        n_tokens, n_areas = n_tokens + len(tokens), n_areas + len(shared)
    assert (n_tokens, n_areas) == (2474, 1638)


def test_fixations_on_tokens_are_those_in_the_areas_of_the_tokens(study):
    folder, areas, report = study
    parts, all_boxes = [], []
    for name, area in areas.items():
        source = (folder / "code_snippets" / f"{name}.py.txt").read_bytes()
        code = parse_code(source, "python", stimulus=name, strings="words", comments="words")
        placed = boxes_from_areas(code.tokens, area.words)
        parts.append(placed[0])
        all_boxes.append(placed[1])
    known = report[report["stimulus"].isin(areas)].rename(
        columns={"CURRENT_FIX_X": "x", "CURRENT_FIX_Y": "y"}
    )
    frame = known[["stimulus", "x", "y"]].assign(participant="all", trial=known["stimulus"])
    trials = frame[["participant", "trial", "stimulus"]].drop_duplicates()
    tokens = pd.concat(parts, ignore_index=True)
    boxes = pd.concat(all_boxes, ignore_index=True)
    mapped, _ = map_to_units(frame, tokens, trials, boxes)
    by_area, log = map_to_interest_areas(frame, areas)
    of_box = boxes.set_index(["layout", "word", "part"])["area"]
    keys = pd.MultiIndex.from_frame(mapped[["stimulus", "word", "word_part"]])
    area = of_box.reindex(keys).to_numpy()
    assert (mapped["word"].notna() == by_area["area"].notna()).all()
    on = mapped["word"].notna().to_numpy()
    # Tokens tile their areas; only where areas overlap may the nearest centre be another's.
    assert int((area[on] != by_area["area"].to_numpy()[on]).sum()) <= 6
    # In the words of strings and comments the areas cut more finely.
    assert (tokens["n_boxes"] > 1).sum() == 25
    assert tokens.loc[tokens["n_boxes"] > 1, "role"].isin(["string", "comment"]).all()
    assert log.count(kind="note") == int((~on).sum()) + 6


def test_tokens_of_two_java_programs_are_those_of_the_published_tables(shared_data):
    for name, n_areas, n_tokens in (("rectangle", 144, 176), ("vehicle", 112, 136)):
        path = shared_data / "emip_aois" / "emip_tokens" / f"{name}.tsv"
        table = pd.read_csv(path, sep="\t", keep_default_na=False, dtype=str)
        line = table["AOI"].str.extract(r"line (\d+) part")[0].astype(int)
        source = "\n".join(" ".join(words) for _, words in table["token"].groupby(line))
        code = parse_code(source, "java")
        pairs = align_texts(code.tokens["text"].tolist(), table["token"].tolist())
        assert len(table) == n_areas and len(code.tokens) == n_tokens and code.faults.empty
        assert pairs["second"].nunique() == n_areas and pairs["first"].nunique() == n_tokens
        # A token of ours never crosses two of theirs.
        assert len(pairs) == n_tokens
