"""How the report looks: colours, numbers in words, and figures as SVG and PNG.

Neutral colours of figures are fixed; browsers exchange them for their dark counterparts by a
style sheet (`dark_rules`), so that one SVG is legible on light and on dark paper and stays a
plain picture in programs that know no style sheets.
"""

from __future__ import annotations

import functools
import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Literal, ParamSpec, TypeVar
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure

WIDTH = 5.2
"""Width of the figures in inches: at 375 px the texts stay readable."""

P = ParamSpec("P")
R = TypeVar("R")

INK, MUTED, GRID, PAPER = "#1f2430", "#59616e", "#d5d9df", "#ffffff"
DARK = {INK: "#e7e9ed", MUTED: "#a3abb8", GRID: "#3a414d", PAPER: "#14171c"}
"""Neutral colours of light figures and what they become on dark paper."""

MODEL, HUMAN, BASELINE, CEILING = "#c8611a", "#2f78c4", "#7d8694", "#2a8c78"
"""Colours of series: at least 3:1 against both papers, told apart with any colour vision."""

SERIES = (MODEL, HUMAN, "#9a5fb0", CEILING, "#a8862b", "#c2527e")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)))

DIVERGING = LinearSegmentedColormap.from_list(
    "gazeattn_diverging",
    ["#173f75", "#4a86c5", "#b9d2ea", "#f1efea", "#f2c79c", "#cc7426", "#7a3a08"],
)
SEQUENTIAL = "cividis"
ORDER = LinearSegmentedColormap.from_list(
    "gazeattn_order", ["#3a6fd0", "#8c62c4", "#c8568a", "#d9662f"]
)
"""Colours of first to last: of equal lightness, so that they show on both papers."""

LEVELS = 9
"""Number of steps in the colour scale of words."""

WORD_ENDS = {  # (palest, strongest) background of words
    ("human", "light"): ("#f3f7fc", "#68a3e0"),
    ("model", "light"): ("#fdf5ec", "#e59a55"),
    ("human", "dark"): ("#1a2029", "#2a65a2"),
    ("model", "dark"): ("#231d18", "#8c4d12"),
}

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"

RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "text.color": INK,
    "text.parse_math": False,  # words may hold dollar signs
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "gazeattn",
    "svg.image_inline": True,
    "savefig.dpi": 200,
}

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def _settings() -> Any:
    defaults: Any = matplotlib.rcParamsDefault
    return {**defaults, **RC, "font.family": [*RC["font.family"], *_more_fonts()], "backend": "agg"}


SCRIPTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Hebrew", "Noto Sans Arabic",
           "Noto Sans Devanagari", "WenQuanYi Zen Hei", "Hiragino Sans", "PingFang SC", "Yu Gothic",
           "Microsoft YaHei", "Malgun Gothic", "Arial Unicode MS", "Segoe UI")  # fmt: skip
"""Fonts of further scripts; those that are installed draw what the first font lacks."""


@functools.cache
def _more_fonts() -> list[str]:
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return [name for name in SCRIPTS if name in installed]


def styled(function: Callable[P, R]) -> Callable[P, R]:
    """Run a drawing function under the report's settings, whatever the user's settings are."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context(_settings()):
            return function(*args, **kwargs)

    return run


def new_figure(
    width: float, height: float, layout: Literal["constrained", "none"] = "constrained"
) -> Figure:
    """Return an empty figure (inches) without any global plotting state."""
    figure = Figure(figsize=(width, height), layout=None if layout == "none" else layout)
    FigureCanvasAgg(figure)
    return figure


def empty(text: str) -> Figure:
    """Return a small figure that says why there is nothing to see."""
    figure = new_figure(WIDTH, 1.2)
    figure.text(0.5, 0.5, text, ha="center", va="center", color=MUTED)
    return figure


# numbers and words ------------------------------------------------------------------------------


def missing(value: object) -> bool:
    """Return whether a cell holds nothing: None, NaN or NA."""
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def number(value: Any) -> str:
    """Write a number with two or three significant digits, a missing one as a dash."""
    if missing(value) or not math.isfinite(float(value)):
        return "–"
    v = float(value)
    size = abs(v)
    if size == 0:
        text = "0"
    elif size >= 100:
        text = f"{v:,.0f}"
    elif size >= 10:
        text = f"{v:.1f}"
    elif size >= 0.1:
        text = f"{v:.2f}"
    elif size >= 1e-4:
        text = f"{v:.{1 - math.floor(math.log10(size))}f}"
    else:
        mantissa, exponent = f"{v:.1e}".split("e")
        text = f"{mantissa} × 10^{int(exponent)}".replace("^-", "^−")
    return text.replace("-", "−")


def decimals(values: np.ndarray) -> Callable[[Any], str]:
    """Return how to write a column of agreements: two decimals, three below 0.1.

    A column without any value from 0.02 on keeps two significant digits instead.
    """
    known = np.abs(values[np.isfinite(values)])
    if not len(known) or known.max() < 0.02 or known.max() >= 10:
        return number

    def write(value: Any) -> str:
        if missing(value) or not math.isfinite(float(value)):
            return "–"
        text = f"{float(value):.2f}" if abs(float(value)) >= 0.0995 else f"{float(value):.3f}"
        return "0" if float(text) == 0 else text.replace("-", "−")

    return write


def p_value(value: Any) -> str:
    """Write a probability: three digits below 0.1, and ``< 0.001`` for small ones."""
    if missing(value):
        return "–"
    p = float(value)
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def percent(value: Any) -> str:
    """Write a share as a whole percentage (one decimal below 10 %)."""
    if missing(value) or not math.isfinite(float(value)):
        return "–"
    v = 100 * float(value)
    text = "0 %" if v == 0 else f"{v:,.0f} %" if abs(v) >= 10 else f"{v:.1f} %"
    return text.replace("-", "−").replace(" %", "\u202f%")


def count(value: Any) -> str:
    """Write a whole number with separators between thousands."""
    return "–" if missing(value) else f"{int(value):,}"


def label(name: object) -> str:
    """Write a code name as words: ``gaze_duration`` becomes ``gaze duration``."""
    text = clean(name).replace("_", " ").strip()
    return text or "–"


METRIC_NAMES = {
    "spearman": "Spearman correlation",
    "kendall": "Kendall correlation",
    "pearson": "Pearson correlation",
    "cosine": "cosine similarity",
    "js_divergence": "Jensen-Shannon divergence",
    "topk_overlap": "top-k overlap",
    "kappa_topk": "Cohen's kappa of the top k",
    "partial_spearman": "partial Spearman correlation",
    "partial_pearson": "partial Pearson correlation",
}


def metric_label(name: object) -> str:
    """Write a metric's name in full where it is a usual one."""
    return METRIC_NAMES.get(str(name)) or label(name)


def sentence(text: str) -> str:
    """Return the text with a capital at its start."""
    return text[:1].upper() + text[1:]


_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(text: object) -> str:
    """Replace what no HTML or SVG file can hold (controls, half surrogates) by U+FFFD."""
    return _UNSAFE.sub("\ufffd", str(text))


def shorten(text: object, length: int = 60) -> str:
    """Return the text, or its start with an ellipsis and its full length in characters."""
    shown = clean(text)
    if len(shown) <= length:
        return shown
    return f"{shown[:length]}… ({len(shown):,} characters)"


def floats(frame: pd.DataFrame, column: str) -> np.ndarray:
    """Return a column as floats, NaN where it is missing."""
    if column not in frame:
        return np.full(len(frame), np.nan)
    return pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def records(frame: pd.DataFrame) -> list[Any]:
    """Return the rows as objects with the columns as attributes."""
    return [SimpleNamespace(**{str(k): v for k, v in r.items()}) for r in frame.to_dict("records")]


def extreme(frame: pd.DataFrame, column: str, sign: int = 1) -> Any:
    """Return the row with the highest (sign 1) or lowest (sign -1) value of a column."""
    return records(frame.iloc[[int(np.nanargmax(sign * floats(frame, column)))]])[0]


def wrap(words: Sequence[str], columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the character column and the line of every word in lines of `columns` characters."""
    x, y, at, line = [], [], 0, 0
    for word in words:
        if at and at + len(word) > columns:
            at, line = 0, line + 1
        x.append(at)
        y.append(line)
        at += len(word) + 1
    return np.array(x, dtype=float), np.array(y, dtype=int)


# colours ----------------------------------------------------------------------------------------


def word_levels(weights: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Sort weights into colour steps between their 5th and 95th percentile.

    Parameters
    ----------
    weights : ndarray, shape (n,)
        NaN where there is no score.

    Returns
    -------
    levels : ndarray of int, shape (n,)
        0 to ``LEVELS - 1``; -1 where there is no score; the middle step everywhere if all
        weights are equal.
    low, high : float
        Ends of the scale; NaN where no weight is scored.
    """
    weights = np.asarray(weights, dtype=np.float64)
    known = np.isfinite(weights)
    if not known.any():
        return np.full(len(weights), -1), math.nan, math.nan
    low, high = np.percentile(weights[known], [5, 95])
    if not high > low:
        low, high = weights[known].min(), weights[known].max()
    levels = np.full(len(weights), -1)
    if high - low > 1e-12 * max(abs(low), abs(high)):
        share = np.clip((weights[known] - low) / (high - low), 0, 1)
        levels[known] = np.minimum((share * LEVELS).astype(int), LEVELS - 1)
    else:
        levels[known] = LEVELS // 2
    return levels, float(low), float(high)


def word_colours(side: str, mode: str) -> list[str]:
    """Return the backgrounds of the `LEVELS` steps for a side (human, model) and a mode."""
    low, high = (np.array(to_rgb(c)) for c in WORD_ENDS[side, mode])
    return [to_hex(low + (high - low) * i / (LEVELS - 1)) for i in range(LEVELS)]


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of WCAG 2 between two colours, 1 to 21."""
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def dark_rules(scope: str = "svg") -> str:
    """Return the style rules that exchange neutral colours of figures on dark screens."""
    rules = [
        f'{scope} [style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    ]
    return "@media screen and (prefers-color-scheme:dark){" + "".join(rules) + "}"


# files ------------------------------------------------------------------------------------------


def _save(figure: Figure, target: io.BytesIO, kind: str) -> None:
    metadata: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
    if kind == "png":
        metadata = {"Software": None}
    with (
        matplotlib.rc_context(_settings()),
        warnings.catch_warnings(),
    ):
        # Scripts and emoji that the drawing font lacks are still text in the SVG.
        warnings.filterwarnings("ignore", message=r".*[Gg]lyph.*")
        if figure.get_layout_engine() is not None:  # solved once, for both formats
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        figure.savefig(
            target,
            format=kind,
            metadata=metadata,
            facecolor="none" if kind == "svg" else PAPER,
            edgecolor="none",
        )


def png_bytes(figure: Figure) -> bytes:
    """Return the figure as a PNG on white, without date or program name."""
    buffer = io.BytesIO()
    _save(figure, buffer, "png")
    return buffer.getvalue()


def svg_tree(figure: Figure, name: str, alt: str) -> ElementTree.Element:
    """Return the figure as an SVG tree: ids prefixed by `name`, described by `alt`.

    The tree depends on the figure alone (fixed hash salt, no date), its ground is transparent
    and its texts are texts in the reader's system font.
    """
    buffer = io.BytesIO()
    _save(figure, buffer, "svg")
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("}metadata") or child.tag.endswith("}title"):
                parent.remove(child)
    prefix = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    used = _references(root)
    for element in root.iter():
        _tidy(element, prefix, used)
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib.update({"width": width, "height": height, "role": "img", "aria-label": clean(alt)})
    root.attrib["style"] = f"font-family: {FONTS}"
    return root


def _references(root: ElementTree.Element) -> set[str]:
    found: set[str] = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            if key.endswith("href") and value.startswith("#"):
                found.add(value[1:])
            found.update(re.findall(r"url\(#([^)]+)\)", value))
    return found


def _tidy(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    attributes = element.attrib
    if not element.tag.endswith("}text") and not (element.text or "").strip():
        element.text = None
    if not (element.tail or "").strip():
        element.tail = "\n" if element.tag.endswith("}g") else None
    identity = attributes.pop("id", None)
    if identity in used:
        attributes["id"] = f"{prefix}-{identity}"
    href = attributes.pop(f"{{{_XLINK}}}href", None)
    if href is not None:
        attributes["href"] = f"#{prefix}-{href[1:]}" if href.startswith("#") else href
    for key, value in attributes.items():
        if "url(#" in value:
            attributes[key] = value.replace("url(#", f"url(#{prefix}-")
        elif key in ("d", "x", "y", "transform"):
            attributes[key] = re.sub(r"-?\d+\.\d+", _round, " ".join(value.split()))
    style = attributes.get("style", "")
    if "font" in style:
        # one family on the root replaces the list of fonts on every text
        family = "; font-family: ui-monospace, monospace" if "Mono" in style else ""
        style = re.sub(r"font:\s*([^;]*?)([\d.]+px)[^;]*", _font, style)
        attributes["style"] = re.sub(r";?\s*font-family:[^;]*", family, style)
    if re.fullmatch(r"rotate\(-?0(\.0+)? [-\d. ]+\)", attributes.get("transform", "")):
        del attributes["transform"]


def _round(match: re.Match[str]) -> str:
    return f"{float(match.group()):.2f}".rstrip("0").rstrip(".")


def _font(match: re.Match[str]) -> str:
    weight = match.group(1).strip()
    return f"font-size: {match.group(2)}" + (f"; font-weight: {weight}" if weight else "")


def svg_file(tree: ElementTree.Element) -> str:
    """Write the tree as an SVG document that follows the reader's colour scheme."""
    ElementTree.register_namespace("", _SVG)
    style = ElementTree.Element(f"{{{_SVG}}}style")
    style.text = dark_rules()
    tree.insert(0, style)
    try:
        return ElementTree.tostring(tree, encoding="unicode") + "\n"
    finally:
        tree.remove(style)


def svg_inline(tree: ElementTree.Element) -> str:
    """Write the tree as an element for an HTML page, without namespaces."""
    text = ElementTree.tostring(tree, encoding="unicode")
    plain = ElementTree.fromstring(text)
    for element in plain.iter():
        element.tag = element.tag.rpartition("}")[2]
    return ElementTree.tostring(plain, encoding="unicode")


def plural_unit(number_of: int, unit: str) -> str:
    """Return a unit given in the plural, in the singular where it is one."""
    return unit[:-1] if number_of == 1 and unit.endswith("s") else unit
