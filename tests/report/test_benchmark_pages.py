"""Pages of the benchmarks of object search, search asymmetry and joint attention."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datamodules import Stimulus
from gazeattn.datamodules.joint_attention import joint_scenes_of
from gazeattn.datamodules.joint_generated import generate_joint_scenes
from gazeattn.datamodules.objects import table_of_boxes
from gazeattn.experiments._joint_rows import drawn_scenes
from gazeattn.experiments._object_rows import extremes, typical
from gazeattn.models.joint._scores import target_distances
from gazeattn.models.joint.joint_attention import JointAttention
from gazeattn.report.asymmetry import SearchTrace, write_asymmetry_report
from gazeattn.report.benchmark import Drawing, write_page
from gazeattn.report.joint import SceneExample, means, write_joint_report
from gazeattn.report.objects import SearchExample, draw_search, file_name, write_object_report
from gazeattn.report.scores import interval_cell, page_table
from gazeattn.stimuli.asymmetry import EXPERIMENTS, display

EVIL = "<script>alert('x')</script>\x00"


def safe(folder: Path) -> str:
    """Return the page, checked: it needs no other file, and no text of it is markup."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "\x00" not in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)[^"']*""", page)
    names = {f.stem for f in (folder / "figures").iterdir()}
    assert names and all(
        (folder / "figures" / f"{n}.{kind}").stat().st_size > 500
        for n in names
        for kind in ("svg", "png")
    )
    return page


def cells(page: str, title: str) -> list[list[str]]:
    """Return the texts of the cells of the table under a heading, row by row."""
    part = page[page.index(f"<h2>{title}</h2>\n<p>") :]
    body = part[part.index("<tbody>") : part.index("</tbody>")]
    return [
        [re.sub(r"<[^>]+>", "|", c) for c in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in body.split("</tr>")
        if "<td" in row
    ]


# -- shared parts ---------------------------------------------------------------------------------


def test_tables_have_a_row_that_says_so_only_where_asked_for():
    columns = {"a": "", "b": "n"}
    assert page_table("T", columns, [])["rows"] == []
    assert page_table("T", columns, [], empty="none")["rows"] == [[("none", ""), ("", "")]]
    made = page_table("T", columns, [["x", ("1", "0 to 2")]], "note", empty="none")
    assert made["rows"] == [[("x", ""), ("1", "0 to 2")]]
    assert (made["columns"], made["kinds"], made["note"]) == (["a", "b"], ["", "n"], "note")


def test_cells_of_intervals():
    assert interval_cell(0.5, 0.25, 0.75) == ("0.50", "0.25 to 0.75")
    assert interval_cell(0.5, np.nan, np.nan) == ("0.50", "")
    assert interval_cell(np.nan, 0.0, 1.0) == ("–", "")
    assert interval_cell(1e-15, -0.5, 0.5) == ("0", "−0.50 to 0.50")


def test_a_page_escapes_everything_and_writes_its_figures(tmp_path):
    from gazeattn.report import style

    figure = style.new_figure(2, 1)
    write_page(
        tmp_path, title=EVIL, sentences=[EVIL], facts={EVIL: EVIL}, command=EVIL,
        drawings=[Drawing("one", EVIL, figure, EVIL)],
        tables=[page_table(EVIL, {EVIL: ""}, [[EVIL]])],
    )  # fmt: skip
    page = safe(tmp_path)
    assert page.count("&lt;script&gt;") >= 9


# -- objects --------------------------------------------------------------------------------------


def object_rows() -> pd.DataFrame:
    shared = {"dataset": "shelves", "regime": "unseen_shelf", "fold": "all", "seed": "all",
              "size": "tiny", "reference": "", "n": 7, "low": None, "high": None}  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"model": "oat", "kind": "model", "metric": "sequence_score", "value": 0.30},
        {"model": "near", "kind": "baseline", "metric": "sequence_score", "value": 0.10},
        {"model": "any", "kind": "baseline", "metric": "sequence_score", "value": 0.20},
        {"model": "searcher", "kind": "ceiling", "metric": "sequence_score", "value": 0.45},
        {"model": "oat", "kind": "model", "metric": "behaviour_distributions", "value": 0.7},
        {"model": "oat", "kind": "model", "metric": "sequence_score_above_baseline",
         "value": 0.1, "low": 0.04, "high": 0.16, "reference": "any"},
    ]  # fmt: skip
    single = [
        {"model": "oat", "kind": "model", "metric": "success", "value": v, "seed": s, "fold": "0"}
        for s, v in (("3", 0.25), ("4", 0.75))
    ]
    table = pd.DataFrame([{**shared, **r} for r in rows + single])
    table[["low", "high"]] = table[["low", "high"]].astype(float)
    return table.assign(convention="how")


def shelf(name: str = "shelf1", **columns: Any) -> Stimulus:
    boxes = [[100.0 * i, 0, 100.0 * i + 80, 90] for i in range(4)]
    table = table_of_boxes(boxes, 2) if not columns else table_of_boxes(boxes).assign(**columns)
    return Stimulus(name, (400.0, 200.0), objects=table)


def test_the_page_of_objects_states_values_intervals_n_and_seeds(tmp_path):
    example = SearchExample(
        "shelves", "unseen_shelf", f"oat {EVIL}", "best", "searcher", shelf(EVIL),
        np.array([0, 1, 2]), np.array([3, 3, 0]), 0.5,
    )  # fmt: skip
    write_object_report(
        object_rows(), tmp_path, [example], command="gazeattn benchmark object_search",
        options={"samples": 2, "draws": 20},
    )  # fmt: skip
    page = safe(tmp_path)
    assert "gazeattn benchmark object_search" in page and "(seeds 3, 4)" in page
    assert "7 held-out displays" in page and "mean of 2 trainings" in page
    assert (
        "oat has a sequence score of 0.30, better than the best baseline (any, difference 0.10, "
        "0.040 to 0.16); searcher 0.45."
    ) in page
    table = cells(page, "shelves, unseen shelf")
    # networks first, baselines by score, people last; 50 % is the mean of the two seeds
    assert [r[0] for r in table] == [
        "oat (model)", "any (baseline)", "near (baseline)", "searcher (ceiling)",
    ]  # fmt: skip
    assert table[0][1:] == ["0.30", "0.70", "50\u202f%"] and table[1][1:] == ["0.20", "–", "–"]
    assert (tmp_path / "figures" / "shelves_unseen_shelf_best.png").exists()


def texts(figure: Any) -> list[list[str]]:
    return [[t.get_text() for t in ax.texts] for ax in figure.axes]


def test_sequences_are_numbered_on_their_objects_and_words_are_read():
    drawn = draw_search(
        shelf(), {"person": (np.array([0, 2]), "#111111"), "oat": (np.array([1, 3, 1]), "#222222")}
    )
    assert texts(drawn) == [["1", "2"], ["1+", "2"]]
    assert [ax.get_title() for ax in drawn.axes] == ["person", "oat"]
    assert [p.get_linewidth() for p in drawn.axes[0].patches] == [0.6] * 4 + [2.2]
    words = draw_search(shelf(text=["a", "$b$", "c", "d"]), {"person": (np.array([3]), "#111111")})
    assert texts(words) == [["a", "$b$", "c", "d", "1"]]


def test_names_of_files_hold_no_paths():
    assert file_name("a/../b", "c d") == "a-b_c-d" and file_name("/") == "figure"


def test_best_median_and_worst_displays():
    names = list("abcde")
    values = np.array([0.1, 0.5, np.nan, 0.3, 0.2])
    assert extremes(values, names) == [("best", "b"), ("median", "e"), ("worst", "a")]
    assert extremes(values[:2], names[:2]) == [("best", "b"), ("worst", "a")]
    assert extremes(values[:1], names[:1]) == [("best", "a")]
    assert extremes(values[2:3], ["c"]) == []


def test_the_typical_person_and_the_middle_sample():
    people = [np.array(s) for s in ([0, 1, 2], [0, 1, 3], [4, 4, 4])]
    # means with everybody: (1 + 2/3 + 0) / 3 twice, and 1/3 for the third
    drawn = [np.array(s) for s in ([0, 1, 2], [5, 5, 5], [0, 5, 5])]
    theirs, ours = typical(people, drawn)
    assert theirs.tolist() == [0, 1, 2] and ours.tolist() == [0, 5, 5]


# -- asymmetry ------------------------------------------------------------------------------------


def asymmetry_rows() -> pd.DataFrame:
    shared = {"dataset": "generated_search_asymmetry", "size": "tiny", "seed": 0}
    rows: list[dict[str, Any]] = []
    for name in ("letters", "mean"):
        rows += [
            {"model": "human", "metric": f"asymmetry_index_{name}", "value": 0.4},
            {"model": "chance", "metric": f"asymmetry_index_{name}", "value": 0.0,
             "low": -1.0, "high": 1.0, "n": 30},
            {"model": "ecc_net", "metric": f"asymmetry_index_{name}", "value": -0.25,
             "low": -0.5, "high": 0.125, "n": 30},
        ]  # fmt: skip
    rows += [
        {"model": "ecc_net", "metric": "slope_Ls", "value": 12.0, "low": 10, "high": 14, "n": 15},
        {"model": "ecc_net", "metric": "found_Ls", "value": 0.5, "n": 15},
    ]
    columns = ["model", "metric", "value", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns).assign(**shared)


@pytest.mark.parametrize("installed", [True, False])
def test_the_page_of_asymmetry_has_people_models_and_the_publication(tmp_path, installed):
    e = EXPERIMENTS["letters"]
    shown = display("letters", "Ls", 3)
    trace = SearchTrace(shown, np.array([[307.0, 307.0], [10.0, 20.0], [400.0, 500.0]]), False)
    published = asymmetry_rows().query("model == 'ecc_net'").assign(model="eccNET", value=0.75)
    write_asymmetry_report(
        asymmetry_rows().assign(size=EVIL), published if installed else None, tmp_path,
        {"ecc_net": [trace]}, [e], command="gazeattn benchmark search_asymmetry",
        settings={"trials": 12, "bootstrap": 50},
    )  # fmt: skip
    page = safe(tmp_path)
    table = cells(page, "Asymmetry index")
    assert table[0] == ["people", "0.40", "0.40"]
    assert table[2][0] == "ecc_net" and table[2][1].startswith("−0.25")
    assert "−0.50 to 0.12" in table[2][1]
    assert [r[0] for r in table[3:]] == ["eccNET (published)"] * installed
    assert ("are not installed" in page) != installed
    assert "not found" in page and "bootstrap draws" in page
    slopes = cells(page, "Slopes: letters")
    assert [r[0] for r in slopes] == ["people", "chance", "ecc_net"]
    assert slopes[2][1].startswith("12.0") and slopes[2][3:] == ["50\u202f% / –", "15 / –"]


# -- joint attention ------------------------------------------------------------------------------


def joint_rows() -> pd.DataFrame:
    rows = []
    for dataset, value in (("scenes", 60.0), ("scenes_no_actions", 90.0)):
        for seed, extra in (("0", 5.0), ("1", -5.0), ("all", 0.0)):
            rows.append(("net", dataset, seed, "distance", value + extra, 50.0, 95.0))
        rows.append(
            ("net", dataset, "all", "distance_minus_gaze_cones", value - 75, -20, value - 70)
        )
        rows.append(("gaze_cones", dataset, "0", "distance", 75.0, 70.0, 80.0))
        rows.append(("centre", dataset, "0", "distance", 150.0, 140.0, 160.0))
    rows.append(("net", "scenes", "0", "presence_auc_from_presence", 0.875, 0.75, 0.95))
    columns = ["model", "dataset", "seed", "metric", "value", "low", "high"]
    table = pd.DataFrame(rows, columns=columns).assign(n=11, size="tiny")
    return table.assign(convention=f"score; base rate 0.700; {EVIL}")


def scene() -> Any:
    return joint_scenes_of(
        pd.DataFrame({"scene": ["s1"], "width": [640.0], "height": [320.0]}),
        pd.DataFrame(
            {"scene": ["s1"] * 3, "person": ["a", "b", "c"], "head_x": [10.0, 600.0, 300.0],
             "head_y": [20.0, 300.0, 100.0], "gaze_x": [1.0, -1.0, np.nan],
             "gaze_y": [0.5, -1.0, np.nan], "action": [None] * 3}
        ),
        pd.DataFrame(
            {"scene": ["s1"], "target": ["t"], "x": [320.0], "y": [160.0], "attended_by": ["a;b"]}
        ),
    )  # fmt: skip


def test_the_page_of_joint_attention_has_both_kinds_of_scenes(tmp_path):
    example = SceneExample(
        "scenes", "net, seed 0", "worst", scene(), np.eye(6), np.ones((6, 6)),
        np.array([100.0, 50.0]), {"gaze_cones": np.array([200.0, 80.0])}, 246.0,
    )  # fmt: skip
    write_joint_report(
        joint_rows(), tmp_path, [example], network="net", command="gazeattn benchmark joint",
        facts={"seeds": "0, 1"},
    )  # fmt: skip
    page = safe(tmp_path)
    assert (
        "With actions, the point of net is 60.0 px from the targets (50.0 to 95.0); nearer than "
        "gaze_cones at 75.0 (difference −15.0, −20.0 to −10.0); the middle of the picture is at "
        "150."
    ) in page
    assert "not told apart from gaze_cones at 75.0 (difference 15.0, −20.0 to 20.0)" in page
    table = cells(page, "With actions")
    assert [r[0] for r in table] == ["net (model)", "gaze_cones (baseline)", "centre (baseline)"]
    assert table[0][1].startswith("60.0") and table[0][-1] == "11"
    assert "base rate 0.700" in page and "246 px" in page and "3 people" in page
    assert "0.88" in cells(page, "Is there joint attention at all?")[0][4]
    assert (tmp_path / "figures" / "scenes_worst.png").exists()


def test_rows_over_seeds_come_before_those_of_one():
    rows = joint_rows()
    pooled = means(rows, "net")
    net = pooled[(pooled["model"] == "net") & (pooled["metric"] == "distance")]
    assert net["value"].tolist() == [60.0, 90.0]
    single = means(rows[rows["seed"] == "0"], "net")
    assert single[single["metric"] == "distance"]["value"].tolist() == [65.0, 75, 150, 95, 75, 150]


@pytest.mark.parametrize("loss", ["mse", "density"])
def test_scenes_are_chosen_by_distance_with_the_maps_of_the_model(loss):
    test = generate_joint_scenes(6, seed=1)
    model = JointAttention(grid=[6, 12], sigma=60.0, loss=loss, actions=list(test.actions)).eval()
    points = model.predict_points(test)
    found = drawn_scenes(model, test, points, {"centre": points.assign(x=320.0)}, "d", "net")
    assert [e.which for e in found] == ["best", "median", "worst"]
    mean = target_distances(points, test).groupby("scene")["distance"].mean()
    assert [e.distance for e in found] == [
        mean.min(), sorted(mean)[len(mean) // 2], mean.max()
    ]  # fmt: skip
    for e in found:
        assert e.predicted.shape == (6, 12) and len(e.scene) == 1
        assert mean[e.scene.scene[0]] == e.distance
        far = np.hypot(*(e.scene.place[e.scene.joint] - e.point).T).mean()
        assert far == pytest.approx(e.distance) and e.rivals["centre"][0] == 320.0
        # the brightest cell of the true map is at a target
        row, column = np.unravel_index(e.truth.argmax(), e.truth.shape)
        at = np.array([(column + 0.5) * 640 / 128, (row + 0.5) * 320 / 64])
        assert np.hypot(*(e.scene.place[e.scene.joint] - at).T).min() < 30
        if loss == "density":
            assert e.predicted.sum() == pytest.approx(1, abs=1e-5)
