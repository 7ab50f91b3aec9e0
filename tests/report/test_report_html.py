from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.attention.comparison import Comparison
from gazeattn.datasets.base import GazeDataset
from gazeattn.report import content, lost, write_report
from gazeattn.report.html import json_for_html, linked, split_answer

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}
HOSTILE = [
    "<script>alert(1)</script>", '"onmouseover="alert(1)', "'><img src=x onerror=alert(1)>",
    "</script><b>", "{{ 7*7 }}", "שלום", "مرحبا", "👩‍🔬", "\u200b", "\u2028", "&lt;", "NaN",
    "null", "\x00", "w" * 10_000,
]  # fmt: skip


class Page(HTMLParser):
    """Checks that tags balance and keeps what the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.errors: list[str] = []
        self.feed(text)
        self.close()
        if self.stack:
            self.errors.append(f"open at the end: {self.stack}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack[-1] != tag:
            self.errors.append(f"</{tag}> closes {self.stack[-3:]}")
        else:
            self.stack.pop()

    def handle_data(self, data: str) -> None:
        for tag in set(self.stack):
            self.text.setdefault(tag, []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag]

    def words(self, tag: str) -> str:
        return "".join(self.text.get(tag, []))


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])


@pytest.fixture
def make(
    tmp_path: Path,
    dataset_factory: Callable[..., GazeDataset],
    comparison_factory: Callable[..., Comparison],
) -> Callable[..., str]:
    def report(
        dataset: GazeDataset | None = None,
        change: Callable[[Comparison], None] | None = None,
        command: str = "gazeattn compare lm=tiny",
        **options: Any,
    ) -> str:
        d = dataset or dataset_factory()
        c = comparison_factory(d, **options)
        if change:
            change(c)
        path = write_report(
            c, d, tmp_path, command=command, environment={"python": "3.11", "packages": {"a": "1"}}
        )
        assert path == tmp_path / "report.html"
        return path.read_text(encoding="utf-8")

    return report


@pytest.fixture(scope="module")
def standard(
    tmp_path_factory: pytest.TempPathFactory,
    dataset_factory: Callable[..., GazeDataset],
    comparison_factory: Callable[..., Comparison],
) -> Path:
    """Folder of one full report."""
    folder = tmp_path_factory.mktemp("report")
    write_standard(dataset_factory, comparison_factory, folder)
    return folder


def write_standard(
    dataset_factory: Callable[..., GazeDataset],
    comparison_factory: Callable[..., Comparison],
    folder: Path,
) -> Path:
    d = dataset_factory()
    facts = {"python": "3.11", "packages": {"a": "1"}}
    command = "gazeattn compare lm=tiny"
    return write_report(comparison_factory(d), d, folder, command=command, environment=facts)


@pytest.fixture
def page(standard: Path) -> str:
    return (standard / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def quick(make: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write reports without drawing the PNG files and more than one path."""
    monkeypatch.setattr("gazeattn.report.style.png_bytes", lambda figure: b"")
    monkeypatch.setattr("gazeattn.report.pictures.MAX_PATHS", 1)
    return make


def check(text: str) -> Page:
    """Check what must hold for every report."""
    page = Page(text)
    assert page.errors == []
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    levels = [int(t[1]) for t, _ in page.tags if re.fullmatch(r"h[1-6]", t)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert page.all("html")[0]["lang"] == "en"
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href"):
                outside = re.match(r"\s*(https?:|//|file:|javascript:)", value or "")
                assert not outside or (tag == "a" and name == "href"), (tag, name, value)
            if name == "href" and (value or "").startswith("#"):
                assert (value or "")[1:] in ids, value
            if name in ("aria-labelledby", "for"):
                assert value in ids, value
        if tag == "th":
            assert attributes.get("scope") in ("col", "row")
        if tag == "svg":
            assert attributes.get("role") == "img" and attributes.get("aria-label")
        if tag in ("iframe", "object", "embed", "base", "audio", "video"):
            raise AssertionError(tag)
    assert not re.search(r"@import|url\(\s*['\"]?(https?:|//)", page.words("style"))
    assert len(page.all("script")) == 2
    data_of(text)
    return page


def test_the_page_is_well_formed_and_whole(page: str) -> None:
    text, page_ = page, check(page)
    wanted = [
        "methods", "heads", "text", "scanpath", "order", "trials", "lost", "conventions", "cite",
        "again",
    ]  # fmt: skip
    assert [a["id"] for a in page_.all("section") if "id" in a] == wanted
    assert text.index('class="answer"') < text.index('id="methods"')
    strong = page_.words("strong")
    assert (
        strong == "2 readers, information seeking: on 2 texts the attention of tiny agrees at 0.31."
    )
    shown = page_.words("main")
    for part in (
        "Against permuted words, p = 0.001.", "gazeattn compare lm=tiny", "CC BY 4.0",
        "A. Writer (2020). Rivers.", "Pieces of a word are added up.", "off screen", "Apache-2.0",
        "packages.a", "start token mass", "the profile is constant",
    ):  # fmt: skip
        assert part in shown, part
    assert any(a.get("href") == "https://example.org/rivers" for a in page_.all("a"))
    assert len(page_.all("svg")) == 9  # five figures and four paths


def test_policy_allows_nothing_from_outside_and_names_the_one_script(page: str) -> None:
    text = page
    policy = next(
        a["content"] or ""
        for a in Page(text).all("meta")
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy and "http" not in policy and "*" not in policy
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    for word in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch("):
        assert word not in script[0]


def test_equal_input_gives_equal_bytes(
    standard: Path,
    dataset_factory: Callable[..., GazeDataset],
    comparison_factory: Callable[..., Comparison],
    tmp_path: Path,
) -> None:
    write_standard(dataset_factory, comparison_factory, tmp_path)
    first = {p.relative_to(standard): p.read_bytes() for p in standard.rglob("*.*")}
    assert {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*.*")} == first
    assert len(first) == 15


def test_figures_lie_beside_the_page_in_both_formats(standard: Path) -> None:
    found = sorted(p.name for p in (standard / "figures").iterdir())
    names = ["head_map", "layer_curve", "method_intervals", "scanpath", "text_side_by_side",
             "transitions", "trial_distribution"]  # fmt: skip
    assert found == sorted(f"{n}.{kind}" for n in names for kind in ("svg", "png"))
    for name in names:
        assert 2_000 < (standard / "figures" / f"{name}.svg").stat().st_size < 400_000
        assert 5_000 < (standard / "figures" / f"{name}.png").stat().st_size < 1_500_000
    assert sorted(p.name for p in standard.iterdir()) == ["figures", "report.html"]


def test_the_table_has_a_row_per_method_and_a_selector_with_all_data(page: str) -> None:
    text = page
    data = data_of(text)
    assert set(data["tables"]) == {
        f"{m}|{k}"
        for m in ("total_reading_time", "gaze_duration", "skip")
        for k in ("spearman", "js_divergence", "partial_spearman")
    }
    first = data["tables"]["total_reading_time|spearman"]
    assert len(first["rows"]) == 9
    assert first["rows"][-1]["method"] == "uniform"
    assert first["rows"][-1]["value"] == "–"
    assert (
        "the profile is constant (2 texts)"
        in first["notes"][first["rows"][-1]["notes"]["value"] - 1]
    )
    assert first["rows"][-1]["trials"] == "0 of 2"
    # rows are sorted by agreement, where lower is closer for a divergence and for skipping
    for key, sign in (("total_reading_time|spearman", 1), ("skip|spearman", -1),
                      ("total_reading_time|js_divergence", -1)):  # fmt: skip
        values = [
            sign * float(r["value"].replace("−", "-"))
            for r in data["tables"][key]["rows"]
            if r["value"] != "–"
        ]
        assert values == sorted(values, reverse=True), key
    parsed = Page(text)
    body = text[text.index('<tbody id="method-rows"') : text.index("</tbody>")]
    assert body.count("<tr") == 9 and body.count('<tr class="baseline"') == 5
    assert body.count('<span class="tag">baseline</span>') == 5
    options = [a.get("value") for a in parsed.all("option")]
    assert {"total_reading_time", "spearman", "skip"} <= set(options)
    # without a script the menus stay hidden and the default table stands there
    for form in parsed.all("form"):
        assert "hidden" in form
    for row in first["rows"]:
        assert row["interval"] in body and row["p"].replace("<", "&lt;") in body


def test_bars_stand_at_their_values(quick: Callable[..., str]) -> None:
    def change(c: Comparison) -> None:
        own = (c.summary["method"] == "raw") & c.summary["layer"].isna()
        columns = ["value", "low", "high", "ceiling"]
        c.summary.loc[:, columns] = c.summary[columns].astype(float)
        c.summary.loc[c.summary["layer"].isna(), columns] = [0.0, -0.5, 0.5, 0.5]
        c.summary.loc[own, columns] = [0.25, 0.0, 0.5, 0.5]

    table = data_of(quick(change=change))["tables"]["total_reading_time|spearman"]
    assert table["axis"] == ["−0.50", "0.50"]
    assert table["zero"] == 50
    row = next(r for r in table["rows"] if r["method"] == "raw")
    assert row["plot"] == {"value": 75, "low": 50, "high": 100, "ceiling": 100}


def test_words_without_a_score_are_hatched_and_say_so(quick: Callable[..., str]) -> None:
    def change(c: Comparison) -> None:
        own = (c.summary["method"] == "rollout") & c.summary["layer"].isna()
        c.summary.loc[own, "value"] = 0.9

    text = quick(change=change)
    model = text[
        text.index('id="model-words"') : text.index("</p>", text.index('id="model-words"'))
    ]
    human = text[
        text.index('id="human-words"') : text.index("</p>", text.index('id="human-words"'))
    ]
    data = data_of(text)
    best = data["texts"][0]["model"][data["model"]]
    assert data["model"] == "rollout"
    assert best["missing"] == 1 and best["levels"][0] == "-" and best["values"][0] == "–"
    assert model.count('class="w mx"') == 1 and 'title="no score"' in model
    assert human.count('class="w hx"') == 0
    assert re.search(r"\.hx,\.mx\{background:repeating-linear-gradient", text)
    # no step of the scale looks like a missing word
    assert "hatch" not in re.sub(r"\.hx,\.mx\{[^}]*\}", "", text.split(".h0{")[1].split("}")[0])
    gaze = data["texts"][0]["human"]["gaze_duration"]
    assert gaze["levels"][::6] == "-" * len(gaze["levels"][::6])
    assert data["texts"][0]["model"]["uniform"]["levels"].strip("4") == ""


def test_dark_mode_print_and_phone_rules_are_there(page: str) -> None:
    style = Page(page).words("style")
    assert style.count("prefers-color-scheme:dark") >= 3  # page, words, figures
    assert "@media print" in style and "max-width:44rem" in style
    assert "color-scheme:light dark" in style
    assert style.count("{") == style.count("}")


def test_hostile_words_stay_text(
    quick: Callable[..., str], dataset_factory: Callable[..., GazeDataset]
) -> None:
    text = quick(
        dataset_factory({"<img src=x>": HOSTILE, "b": HOSTILE[::-1]}, readers=('"><script>', "é")),
        command="gazeattn compare 'dataset=<script>alert(1)</script>'",
    )
    page = check(text)
    assert "<script>alert" not in text and "<img" not in text
    assert "\x00" not in text and "\u2028" not in text.split('id="data">')[1].split("</script>")[0]
    assert not any("onmouseover" in a or "onerror" in a for _, a in page.tags)
    words = page.words("bdi")
    assert "<script>alert(1)</script>" in words and "{{ 7*7 }}" in words and "שלום" in words
    assert "w" * 61 not in text and "… (10,000 characters)" in words
    data = data_of(text)
    assert data["texts"][0]["words"][0] == "<script>alert(1)</script>"
    assert data["texts"][0]["words"][HOSTILE.index("NaN")] == "NaN"
    assert data["texts"][0]["words"][HOSTILE.index("\x00")] == "\ufffd"
    assert 'dir="auto"' in text
    assert "<script>alert(1)</script>" in page.words("pre")


@pytest.mark.parametrize(
    "part", ["answer", "conventions", "citation", "reason", "method", "notes", "licence"]
)
def test_hostile_facts_stay_text(quick: Callable[..., str], part: str) -> None:
    bad = '</script><script>alert(1)</script><b onclick="x">'

    def change(c: Comparison) -> None:
        if part == "answer":
            c.answer = f"{bad}. Then {bad}."
        elif part == "conventions":
            c.info["conventions"] = {bad: bad}
        elif part == "citation":
            c.info["dataset"]["citation"] = (
                f'{bad} https://example.org/"onload="x javascript:alert(1)'
            )
        elif part == "notes":
            c.info["notes"] = [bad]
        elif part == "licence":
            c.info["lm"]["licence"] = bad
        elif part == "reason":
            c.alignment["reason"] = c.alignment["reason"].mask(c.alignment["value"].isna(), bad)
            c.lost.add(bad, "dropped", bad, 3, bad, [bad])
        else:
            for frame, column in (
                (c.summary, "method"),
                (c.alignment, "method"),
                (c.profiles, "name"),
            ):
                frame[column] = frame[column].replace({"rollout": bad})

    text = quick(change=change)
    page = check(text)
    assert "<script>alert" not in text
    assert not page.all("b")
    assert not any((a.get("href") or "").startswith("javascript") for a in page.all("a"))


def test_json_cannot_leave_its_element() -> None:
    text = str(json_for_html({"a": "</script><!--\u2028\u2029&", "b": [1.5, None]}))
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"a": "</script><!--\u2028\u2029&", "b": [1.5, None]}
    with pytest.raises(ValueError):
        json_for_html({"a": float("nan")})


def test_links_and_first_sentences() -> None:
    assert str(linked("see https://doi.org/10.1/x(y)z. <b>")) == (
        'see <a href="https://doi.org/10.1/x(y)z" rel="noopener noreferrer">'
        "https://doi.org/10.1/x(y)z</a>. &lt;b&gt;"
    )
    assert str(linked("javascript:alert(1)")) == "javascript:alert(1)"
    assert split_answer("2 readers: at 0.31 [0.2, 0.4]. Then p = 0.01. End.") == (
        "2 readers: at 0.31 [0.2, 0.4].",
        "Then p = 0.01. End.",
    )
    assert split_answer("One sentence.") == ("One sentence.", "")
    assert split_answer("") == ("", "")


# empty cases


def test_no_heads(quick: Callable[..., str], tmp_path: Path) -> None:
    text = quick(layers=0)
    check(text)
    assert "Single heads were not compared" in text
    assert not (tmp_path / "figures" / "head_map.svg").exists()


def test_one_text_one_reader(
    make: Callable[..., str], dataset_factory: Callable[..., GazeDataset]
) -> None:
    text = make(dataset_factory({"a": ["one", "two", "three"]}, readers=("r1",)))
    page = check(text)
    assert len(page.all("svg")) == 6
    assert 'id="path-choice"' not in text


def test_everything_undefined(quick: Callable[..., str]) -> None:
    text = quick(undefined=True, ceiling=float("nan"))
    page = check(text)
    table = data_of(text)["tables"]["total_reading_time|spearman"]
    assert {r["value"] for r in table["rows"]} == {"–"}
    assert all(r["plot"]["value"] is None for r in table["rows"])
    assert "nan" not in page.words("main").lower().split()
    assert "No noise ceiling is known" in text


def test_a_ceiling_that_is_not_above_zero_has_a_note(quick: Callable[..., str]) -> None:
    table = data_of(quick(ceiling=-0.1))["tables"]["total_reading_time|spearman"]
    row = table["rows"][0]
    assert row["relative"] == "–"
    said = table["notes"][row["notes"]["relative"] - 1]
    assert "readers agree at −0.10, not clearly above 0" in said


def test_no_boxes_and_no_positions(
    quick: Callable[..., str], dataset_factory: Callable[..., GazeDataset]
) -> None:
    text = quick(dataset_factory(boxes=False, positions=False))
    check(text)
    assert "no measured boxes" in text and "have no position and are not drawn" in text


def test_no_positions_and_no_words_leave_a_sentence(
    quick: Callable[..., str], dataset_factory: Callable[..., GazeDataset]
) -> None:
    d = dataset_factory(positions=False)
    d.fixations["word"] = np.nan
    text = quick(d)
    check(text)
    assert "No path can be drawn" in text


def test_nothing_at_all(quick: Callable[..., str]) -> None:
    def change(c: Comparison) -> None:
        c.alignment, c.summary = c.alignment.iloc[:0], c.summary.iloc[:0]
        c.profiles, c.transitions = c.profiles.iloc[:0], c.transitions.iloc[:0]
        c.lost = type(c.lost)()
        c.info = {"settings": c.info["settings"]}
        c.answer = ""

    text = quick(change=change)
    check(text)
    assert "No method was compared." in text
    assert "Nothing was dropped, repaired or left undefined." in text
    assert "no citation is recorded" in text


def test_readers_only_profiles_are_shown(quick: Callable[..., str]) -> None:
    def change(c: Comparison) -> None:
        p = c.profiles
        p = p[(p["kind"] != "human") | p["participant"].notna()]
        c.profiles = p[p["participant"].isna() | (p["participant"] == "r1")]

    text = quick(change=change)
    check(text)
    data = data_of(text)
    assert len(data["texts"]) == 2
    assert data["texts"][0]["reader"] == "r1"
    assert "rollout" in data["texts"][0]["model"]


def test_many_texts_keep_the_page_small(
    make: Callable[..., str],
    dataset_factory: Callable[..., GazeDataset],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gazeattn.report import pictures

    monkeypatch.setattr("gazeattn.report.content.MAX_CELLS", 400)
    monkeypatch.setattr(pictures, "MAX_PATHS", 2)
    texts = {f"t{i}": ["one", "two", "three", "four"] * 3 for i in range(6)}
    text = make(dataset_factory(texts), layers=1)
    check(text)
    n = len(data_of(text)["texts"])
    assert 1 <= n < 6
    assert f"{6 - n} further texts are in the profile table" in text
    assert "10 of 12 trials are not shown here" in text
    # the first path of every text comes before second readers
    assert "r1, t0" in text and "r1, t1" in text and "r2, t0" not in text


def test_a_failed_run_leaves_no_page(
    quick: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("stop")

    monkeypatch.setattr("gazeattn.report.figures.transition_matrix", fail)
    with pytest.raises(RuntimeError):
        quick()
    assert not (tmp_path / "report.html").exists()
    assert not [p for p in tmp_path.rglob("*") if ".part" in p.name]


def test_input_tables_are_not_changed(
    dataset_factory: Callable[..., GazeDataset],
    comparison_factory: Callable[..., Comparison],
    tmp_path: Path,
    quick: object,
) -> None:
    d = dataset_factory()
    c = comparison_factory(d)
    before = [
        f.copy() for f in (c.alignment, c.summary, c.profiles, d.fixations, d.words, d.trials)
    ]
    write_report(c, d, tmp_path, command="x")
    after = [c.alignment, c.summary, c.profiles, d.fixations, d.words, d.trials]
    for a, b in zip(before, after, strict=True):
        pd.testing.assert_frame_equal(a, b)


# words and rules


def test_rules_are_grouped_and_what_methods_share_is_said_once(
    comparison_factory: Callable[..., Comparison], dataset_factory: Callable[..., GazeDataset]
) -> None:
    c = comparison_factory(dataset_factory())
    c.info["conventions"] = {
        "total_reading_time": "sum of all fixations; 0 where there is none",
        "raw": "tokenizer: tiny; sink: start_token; causal: none: a value per query; windows: 3",
        "rollout": "tokenizer: tiny; sink: start_token; causal: visible_mean; self: True",
        "spearman": "Spearman rho, average ranks",
        "p": "two-sided",
        "layer rows": "the mean over heads",
    }
    groups = dict(content.conventions(c))
    assert list(groups) == ["Rules", "Human measures", "Attention methods", "Metrics"]
    assert groups["Rules"] == [("p", "two-sided"), ("Layer rows", "the mean over heads")]
    assert groups["Human measures"] == [
        ("Total reading time", "sum of all fixations; 0 where there is none")
    ]
    assert groups["Attention methods"] == [
        ("All of them", "tokenizer: tiny; sink: start_token"),
        ("Raw", "causal: none: a value per query"),
        ("Rollout", "causal: visible_mean; self: yes"),
    ]
    assert groups["Metrics"] == [("Spearman correlation", "Spearman rho, average ranks")]


def test_masses_are_shares_and_counts_are_counts(
    comparison_factory: Callable[..., Comparison], dataset_factory: Callable[..., GazeDataset]
) -> None:
    c = comparison_factory(dataset_factory())
    c.info["model_lost"] = {
        "raw": {"words_without_score": 0.5, "start_token": 0.389, "special": 0.0},
        "rollout": {"start_token": 0.004},
        "other": {},
    }
    columns, rows = lost.masses(c)
    assert columns == [
        "start token",
        "words without score per text",
    ]  # all-zero columns are left out
    assert [r["cells"] for r in rows] == [["39\u202f%", "0.50"], ["0.4\u202f%", "–"], ["–", "–"]]


def test_undefined_agreement_is_counted_by_reason(
    comparison_factory: Callable[..., Comparison], dataset_factory: Callable[..., GazeDataset]
) -> None:
    c = comparison_factory(dataset_factory())
    rows = lost.undefined(content.aggregates(c, "mean"))
    assert rows == [
        {
            "method": "uniform",
            "trials": "2",
            "count": "18",  # 2 texts, 3 measures, 3 metrics
            "where": "Spearman correlation, Jensen-Shannon divergence, "
            "partial Spearman correlation; all measures",
            "reason": "the profile is constant",
        }
    ]
