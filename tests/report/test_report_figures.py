from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gazeattn.attention.comparison import SUMMARY_COLUMNS
from gazeattn.report import content, figures, scanpaths, style

HOSTILE = [
    "<script>alert(1)</script>", '"onmouseover="x', "]]>", "$x^2$", "a_b%", "שלום", "👩‍🔬",
    "\u200b", "&amp;", "nan", "\x00\x1b", "w" * 10_000, "--", "\u2028",
]  # fmt: skip


def svg(figure: Figure, name: str = "f") -> str:
    return style.svg_file(style.svg_tree(figure, name, "what is seen"))


def png_size(data: bytes) -> tuple[int, int]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.fixture(scope="module")
def drawn(
    comparison_factory: Callable[..., Any], dataset_factory: Callable[..., Any]
) -> Callable[[], dict[str, Figure]]:
    def draw() -> dict[str, Figure]:
        d = dataset_factory()
        c = comparison_factory(d)
        chosen = content.select(c)
        s = c.summary
        rows = s[(s["metric"] == "spearman") & (s["measure"] == "total_reading_time")]
        trial = d.fixations[d.fixations["trial"] == "r1-a"]
        words = d.words[d.words["layout"] == "a"]
        own = content.aggregates(c, "mean")
        own = own[(own["metric"] == "spearman") & (own["measure"] == "total_reading_time")]
        weights = np.linspace(0, 1, len(words))
        return {
            "intervals": figures.method_intervals(content.table(c, chosen), metric="spearman"),
            "heads": figures.head_map(rows[rows["method"] == "raw"], method="raw"),
            "layers": figures.layer_curve(rows, best="raw"),
            "trials": figures.trial_distribution(own, ["raw", "uniform", "gone"]),
            "moves": figures.transition_matrix(c.transitions, len(words)),
            "text": figures.text_side_by_side(list(words["text"]), weights, weights[::-1]),
            "path": figures.scanpath(trial, words),
        }

    return draw


@pytest.fixture(scope="module")
def once(drawn: Callable[[], dict[str, Figure]]) -> dict[str, Figure]:
    return drawn()


def test_every_figure_is_a_sane_svg_and_png(once: dict[str, Figure]) -> None:
    for name, figure in once.items():
        tree = ElementTree.fromstring(svg(figure, name))
        _, _, width, height = map(float, tree.attrib["viewBox"].split())
        assert 200 < width < 900 and 60 < height < 900, name
        assert tree.attrib["role"] == "img" and tree.attrib["aria-label"] == "what is seen"
        w, h = png_size(style.png_bytes(figure))
        assert 500 < w < 3000 and 150 < h < 3000, name


def test_equal_input_gives_equal_bytes(
    once: dict[str, Figure], drawn: Callable[[], dict[str, Figure]]
) -> None:
    first, second = once, drawn()
    for name, figure in first.items():
        assert svg(figure, name) == svg(second[name], name)
        assert style.png_bytes(figure) == style.png_bytes(second[name])


def test_user_settings_do_not_leak_in_or_out(
    once: dict[str, Figure], drawn: Callable[[], dict[str, Figure]]
) -> None:
    plain = {k: svg(f, k) for k, f in once.items()}
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.hashsalt": "x"}):
        before = dict(matplotlib.rcParams)
        assert {k: svg(f, k) for k, f in drawn().items()} == plain
        assert dict(matplotlib.rcParams) == before


def test_drawing_leaves_pyplot_alone(drawn: Callable[[], dict[str, Figure]]) -> None:
    drawn()
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_svg_has_no_date_no_program_and_no_address(once: dict[str, Figure]) -> None:
    for name, figure in once.items():
        tree = style.svg_tree(figure, name, "alt")
        text = style.svg_inline(tree)
        assert "http" not in text and "xmlns" not in text and "<!DOCTYPE" not in text
        assert "matplotlib" not in text.lower() and "DejaVu" not in text
        ids = [e.attrib["id"] for e in tree.iter() if "id" in e.attrib]
        assert len(ids) == len(set(ids)) and all(i.startswith(f"{name}-") for i in ids)
        for e in tree.iter():
            target = e.attrib.get("href", "")
            assert target == "" or target[1:] in ids or target.startswith("data:image/png")


def test_svg_follows_the_dark_scheme(once: dict[str, Figure]) -> None:
    for name, figure in once.items():
        text = svg(figure, name)
        assert "prefers-color-scheme:dark" in text
        tree = style.svg_tree(figure, name, "alt")
        styles = " ".join(e.attrib.get("style", "") for e in tree.iter())
        # the selectors only hold if the file writes colours like this
        assert f"fill: {style.INK}" in styles or f"fill: {style.MUTED}" in styles


def summary(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS)).astype(
        {"layer": "Int64", "head": "Int64"}
    )


def texts_of(figure: Figure) -> str:
    tree = style.svg_tree(figure, "f", "")
    return "|".join(e.text or "" for e in tree.iter() if e.tag.endswith("}text"))


def test_intervals_say_undefined_and_show_no_point_for_missing_values() -> None:
    rows = summary(
        [{"method": m, "kind": "baseline", "value": np.nan} for m in ("uniform", "other")]
    )
    figure = figures.method_intervals(rows)
    assert texts_of(figure).count("undefined") == 2
    drawn: Any = figure.axes[0]
    points = [line for line in drawn.lines if line.get_marker() in ("o", "s")]
    assert sum(len(p.get_xdata()) for p in points) == 0


def test_intervals_put_values_and_the_ceiling_where_they_are() -> None:
    rows = summary(
        [
            {"method": "raw", "kind": "model", "value": 0.3, "low": 0.2, "high": 0.4,
             "ceiling": 0.5, "ceiling_upper": 0.7},
            {"method": "length", "kind": "baseline", "value": 0.1, "low": 0.0, "high": 0.2,
             "ceiling": 0.5, "ceiling_upper": 0.7},
        ]
    )  # fmt: skip
    ax: Any = figures.method_intervals(rows).axes[0]
    markers = {m.get_marker(): m for m in ax.lines if m.get_marker() in ("o", "s")}
    assert markers["o"].get_xydata().tolist() == [[0.3, 0]]
    assert markers["s"].get_xydata().tolist() == [[0.1, 1]]
    assert any(list(m.get_xdata()) == [0.5, 0.5] for m in ax.lines)
    assert any(
        p.get_width() == pytest.approx(0.2) and p.get_x() == pytest.approx(0.5) for p in ax.patches
    )


def test_head_map_marks_significant_heads_and_leaves_missing_cells_open() -> None:
    rows = summary(
        [
            {"method": "raw", "layer": layer, "head": head, "value": value, "q": q}
            for layer, head, value, q in [
                (0, 0, 0.2, 0.01), (1, 0, 0.3, 0.2), (0, 1, np.nan, np.nan), (1, 1, -0.1, 0.04)
            ]
        ]
    )  # fmt: skip
    ax: Any = figures.head_map(rows, method="raw").axes[0]
    mesh = next(c for c in ax.collections if hasattr(c, "norm") and c.get_array() is not None)
    assert np.ma.getmaskarray(mesh.get_array()).reshape(2, 2).tolist() == [
        [False, False],
        [True, False],
    ]
    dots = np.concatenate(
        [c.get_offsets() for c in ax.collections if c is not mesh and len(c.get_offsets())]
    )
    assert sorted(map(tuple, dots.tolist())) == [(0.0, 0.0), (1.0, 1.0)]
    assert ax.patches[0].get_hatch()


@pytest.mark.parametrize("values", [[np.nan] * 4, [0.2] * 4, [-0.2] * 4, [0.0] * 4])
def test_head_map_of_equal_or_missing_values(values: list[float]) -> None:
    rows = summary(
        [{"method": "raw", "layer": i, "head": 0, "value": v} for i, v in enumerate(values)]
    )
    svg(figures.head_map(rows))
    svg(figures.layer_curve(rows))


def test_big_head_maps_stay_small() -> None:
    rows = summary(
        [
            {"method": "raw", "layer": i, "head": k, "value": 0.1, "q": 0.5}
            for i in range(80)
            for k in range(64)
        ]
    )
    assert len(svg(figures.head_map(rows))) < 150_000


def test_empty_input_is_said_in_words() -> None:
    none = summary([])
    for figure in (
        figures.method_intervals(none),
        figures.head_map(none),
        figures.layer_curve(none),
        figures.trial_distribution(none, []),
        figures.transition_matrix(pd.DataFrame(columns=["source", "target", "count"]), 3),
        figures.scanpath(
            pd.DataFrame(columns=["x", "y", "duration"]), pd.DataFrame(columns=["word", "text"])
        ),
    ):
        assert "." in texts_of(figure)


def test_hostile_words_are_text_in_every_figure() -> None:
    n = len(HOSTILE)
    words = pd.DataFrame(
        {"word": [str(i) for i in range(n)], "text": np.array(HOSTILE, object),
         "left": 10.0 * np.arange(n),
         "right": 10.0 * np.arange(n) + 8, "top": 0.0, "bottom": 20.0}
    )  # fmt: skip
    fixations = pd.DataFrame(
        {"x": 10.0 * np.arange(n), "y": 9.0, "duration": 200.0, "index": range(n), "word": "0"}
    )
    for figure in (
        figures.scanpath(fixations, words),
        figures.text_side_by_side([*HOSTILE, "\ud800"], np.ones(n + 1), np.full(n + 1, np.nan)),
    ):
        text = svg(figure)
        ElementTree.fromstring(text)
        text.encode("utf-8")
        assert "<script" not in text and "$x^2$" in text
        assert len(style.png_bytes(figure)) > 1000


# scanpaths


def path_of(**columns: Any) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"index": range(n), **columns})


BOXES = pd.DataFrame(
    {"word": ["0", "1"], "text": ["one", "two"], "left": [0.0, 100.0], "right": [90.0, 190.0],
     "top": [0.0, 0.0], "bottom": [40.0, 40.0]}
)  # fmt: skip


def test_measured_positions_win_over_word_centres() -> None:
    f = path_of(x=[5.0, np.nan], y=[7.0, np.nan], word=["0", "1"], duration=[100.0, 100.0])
    points = scanpaths.scanpath_points(f, BOXES)
    assert points[["x", "y"]].values.tolist() == [[5.0, 7.0], [145.0, 20.0]]


def test_fixations_by_word_alone_go_to_the_middle_of_their_word() -> None:
    f = path_of(word=["0", "1", np.nan, "1"], duration=[100.0] * 4)
    points = scanpaths.scanpath_points(f, BOXES)
    assert points["x"].iloc[:2].tolist() == [45.0, 145.0]
    assert points[["x", "y"]].iloc[2].isna().all()
    assert points["x"].iloc[3] == 145.0 and points["y"].iloc[3] < points["y"].iloc[1]


def test_positions_are_not_mixed_with_a_made_up_layout() -> None:
    words = BOXES.drop(columns=["left", "right", "top", "bottom"])
    f = path_of(x=[900.0, 901.0], y=[7.0, 7.0], word=["0", "1"], duration=[100.0, 100.0])
    points = scanpaths.scanpath_points(f, words)
    assert (points["x"] < 200).all()
    svg(figures.scanpath(f, words))


@pytest.mark.parametrize(
    "fixations",
    [
        path_of(x=[5.0], y=[7.0], word=["0"], duration=[100.0]),
        path_of(x=[5.0], y=[7.0], word=[np.nan], duration=[np.nan]),
        path_of(x=[np.nan, 5.0], y=[7.0, np.nan], word=[np.nan, np.nan], duration=[1.0, 2.0]),
        path_of(x=[5.0, 6.0], y=[7.0, 7.0], duration=[0.0, 0.0]),
        path_of(x=[5.0, 6.0], y=[7.0, 7.0]),
        path_of(x=[], y=[], word=[], duration=[]),
    ],
    ids=["one", "off text, no duration", "half positions", "zero durations", "bare", "empty"],
)
def test_odd_paths_are_drawn(fixations: pd.DataFrame) -> None:
    ElementTree.fromstring(svg(figures.scanpath(fixations, BOXES)))
    ElementTree.fromstring(svg(figures.scanpath(fixations, BOXES.iloc[:0])))


def test_the_path_numbers_first_tenth_and_last() -> None:
    f = path_of(x=np.arange(25.0), y=np.zeros(25), word=["0"] * 25, duration=[100.0] * 25)
    shown = texts_of(figures.scanpath(f, BOXES)).split("|")
    assert [t for t in shown if t.isdigit()] == ["1", "10", "20", "25"]
