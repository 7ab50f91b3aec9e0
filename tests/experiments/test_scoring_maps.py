"""Scores of saliency maps with values worked out by hand, and damaged files of maps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.scoring import (
    Maps,
    Settings,
    paths_of,
    per_stimulus,
    score_files,
    score_maps,
    summarise,
)
from gazeattn.metrics.saliency import fixation_map, nss


def table(paths: dict[str, dict[str, Any]]) -> pd.DataFrame:
    rows = [
        {"stimulus": s, "participant": p, "index": k, "x": f[0], "y": f[1]}
        for s, people in paths.items()
        for p, path in people.items()
        for k, f in enumerate(path)
    ]
    return pd.DataFrame(rows)


def reasons(lost: Any) -> dict[str, int]:
    return {f"{x.step}: {x.reason}": x.count for x in lost}


def maps(folder: Path, **arrays: np.ndarray) -> Maps:
    folder.mkdir(exist_ok=True)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return Maps(folder)


CORNER = np.array([[0.0, 0.0], [0.0, 1.0]])  # mean 1/4, deviation sqrt(3)/4


def test_nss_by_hand_with_the_map_of_another_stimulus_as_baseline(tmp_path: Path) -> None:
    human = paths_of(table({"s": {"A": [(1, 1)], "B": [(0, 0), (1, 1)]}, "t.jpg": {"A": [(0, 0)]}}))
    model = maps(tmp_path / "m", s=CORNER, t=CORNER[::-1, ::-1], u=CORNER)
    found = score_maps(human, model, ["nss"])
    at: Any = per_stimulus(found.rows)
    high, low = math.sqrt(3), -1 / math.sqrt(3)
    assert at.loc["model", "s"] == pytest.approx((2 * high + low) / 3)
    assert at.loc["model", "t.jpg"] == pytest.approx(high)
    assert at.loc["shuffled", "s"] == pytest.approx((high + 2 * low) / 3)
    assert at.loc["shuffled", "t.jpg"] == pytest.approx(low)
    assert at.loc["ceiling"].isna().all()
    counted = reasons(found.lost)
    assert counted["nss, ceiling: no sigma: no maps of the other people"] == 1
    assert counted["model: stimuli that the other side does not have"] == 1


def test_ceiling_of_maps_is_leave_one_out_weighted_by_fixations(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    people = {
        p: [tuple(v) for v in rng.uniform(0, 20, (n, 2))]
        for p, n in zip("ABC", (2, 5, 9), strict=True)
    }
    human = paths_of(table({"s": people}))
    found = score_maps(
        human, maps(tmp_path / "m", s=rng.random((20, 20))), ["nss"], Settings(sigma=2)
    )
    expected = []
    for p, own in people.items():
        rest = np.concatenate([v for q, v in people.items() if q != p])
        expected.append(nss(fixation_map(rest, (20, 20), sigma=2), own))
    mean = np.average(expected, weights=[2, 5, 9])
    assert summarise(found).iloc[0]["ceiling"] == pytest.approx(mean)


def test_reference_maps_from_fixations_and_from_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    people = {p: [tuple(v) for v in rng.uniform(0, 20, (6, 2))] for p in "ABC"}
    human = paths_of(table({"s": people, "t": people}))
    reference = fixation_map(np.concatenate(list(people.values())), (20, 20), sigma=2)
    model = maps(tmp_path / "m", s=reference, t=rng.random((20, 20)))
    found = score_maps(human, model, ["cc", "kl_div"], Settings(sigma=2))
    at: Any = per_stimulus(found.rows[found.rows["metric"] == "cc"])
    assert at.loc["model", "s"] == pytest.approx(1) and at.loc["ceiling", "s"] < 1
    given = score_maps(maps(tmp_path / "h", s=reference, t=reference), model, ["cc"])
    assert list(per_stimulus(given.rows).loc["model"]) == pytest.approx(list(at.loc["model"]))
    with pytest.raises(DataError, match="--sigma"):
        score_maps(human, model, ["cc"])
    with pytest.raises(DataError, match="needs fixations"):
        score_maps(maps(tmp_path / "h"), model, ["nss"])
    with pytest.raises(DataError, match="one map per fixation"):
        score_maps(human, model, ["cnss"])


def test_constant_maps_and_people_without_fixations_are_counted(tmp_path: Path) -> None:
    human = paths_of(table({"s": {"A": [(1, 1)]}, "t": {"A": [(math.nan, 0)]}}))
    found = score_maps(human, maps(tmp_path / "m", s=np.ones((2, 2)), t=CORNER), ["nss", "auc"])
    row: Any = summarise(found).set_index("metric")
    assert row.loc["auc", "value"] == 0.5 and row.loc["auc", "undefined"] == 1
    counted = reasons(found.lost)
    assert counted["nss, model: no fixations"] == 1
    assert counted["nss, model: constant map, chance"] == 1


def test_fixations_outside_the_picture_are_refused_or_counted(tmp_path: Path) -> None:
    human = paths_of(table({"s": {"A": [(1, 1), (5, 0)]}}))
    model = maps(tmp_path / "m", s=CORNER)
    with pytest.raises(DataError):
        score_maps(human, model, ["nss"])
    found = score_maps(human, model, ["nss"], Settings(parameters={"nss": {"outside": "drop"}}))
    assert found.rows["value"].iloc[0] == pytest.approx(math.sqrt(3))
    assert any(x.kind == "dropped" and x.count == 1 for x in found.lost)


def test_maps_as_pictures_npz_and_damaged_files(tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "m"
    folder.mkdir()
    Image.fromarray((CORNER * 255).astype(np.uint8)).save(folder / "s.png")
    named: dict[str, Any] = {"s.png": CORNER}
    np.savez(tmp_path / "m.npz", **named)
    for source in (folder, tmp_path / "m.npz"):
        human = paths_of(table({"s.png": {"A": [(1, 1)]}}))
        assert score_maps(human, Maps(source), ["nss"]).rows["value"].iloc[0] == pytest.approx(
            math.sqrt(3)
        )
    colour = np.zeros((2, 2, 3), np.uint8)
    colour[0, 0] = 1, 2, 3
    Image.fromarray(colour).save(folder / "c.png")
    with pytest.raises(DataError, match="grey"):
        Maps(folder)["c"]
    (folder / "d.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match="not a readable map"):
        Maps(folder)["d"]
    for k, content in enumerate((b"", b"PK\x03\x04 cut", (tmp_path / "m.npz").read_bytes()[:60])):
        bad = tmp_path / f"bad{k}.npz"
        bad.write_bytes(content)
        with pytest.raises(DataError):
            Maps(bad)
    np.savez(tmp_path / "o.npz", s=np.array([{}], dtype=object))
    with pytest.raises(DataError):
        Maps(tmp_path / "o.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no maps"):
        Maps(tmp_path / "empty")


def test_infinite_values_are_noted_and_have_no_interval(tmp_path: Path) -> None:
    human = paths_of(table({"s": {"A": [(0, 0)]}, "t": {"A": [(1, 1)]}}))
    found = score_maps(human, maps(tmp_path / "m", s=CORNER, t=CORNER), ["information_gain"])
    row: Any = summarise(found).iloc[0]
    assert row["value"] == -math.inf and math.isnan(row["low"])
    note = "information_gain, model: infinite values: their mean is infinite and has no interval"
    assert reasons(found.lost)[note] == 1


@pytest.mark.parametrize("name", ["information_gain", "log_likelihood"])
def test_likelihoods_have_no_ceiling_of_blurred_maps(name: str, tmp_path: Path) -> None:
    human = paths_of(table({"s": {"A": [(0, 0)], "B": [(1, 1)]}}))
    found = score_maps(
        human, maps(tmp_path / "m", s=np.full((2, 2), 0.25)), [name], Settings(sigma=1)
    )
    row: Any = summarise(found).iloc[0]
    assert math.isnan(row["ceiling"]) and math.isfinite(row["value"])
    assert any("no bound of it" in k for k in reasons(found.lost))


def test_maps_through_files(tmp_path: Path) -> None:
    maps(tmp_path / "m", s=CORNER, t=CORNER)
    human = table({"s": {"A": [(1, 1)], "B": [(1, 0)]}, "t": {"A": [(0, 0)]}})
    human.to_csv(tmp_path / "human.csv", index=False)
    rows, page = score_files(tmp_path / "human.csv", tmp_path / "m", metrics=["nss", "cc"],
                             sigma=1.0, to=tmp_path / "o")  # fmt: skip
    assert set(rows["task"]) == {"saliency"} and page.exists()
    with pytest.raises(UnknownNameError, match="did you mean"):
        score_files(tmp_path / "human.csv", tmp_path / "m", metrics=["nsss"], to=tmp_path / "p")


def test_turned_maps_are_refused_by_every_metric_and_stretched_ones_counted(tmp_path: Path) -> None:
    human = paths_of(table({"s": {"A": [(1, 1), (30, 20)], "B": [(5, 5)]}}))
    rng = np.random.default_rng(0)
    for k, name in enumerate(("nss", "auc", "cc", "kl_div")):
        turned = maps(tmp_path / f"t{k}", s=rng.random((40, 30)))
        with pytest.raises(DataError, match=r"exchanged.*'s'.*\(height, width\)"):
            score_maps(human, turned, [name], Settings(size=(40, 30), sigma=3))
    square = maps(tmp_path / "q", s=rng.random((30, 30)))
    counted = reasons(score_maps(human, square, ["nss"], Settings(size=(40, 30))).lost)
    assert [n for r, n in counted.items() if "another proportion" in r] == [1]
    small = maps(tmp_path / "w", s=rng.random((15, 20)))
    counted = reasons(score_maps(human, small, ["nss"], Settings(size=(40, 30))).lost)
    assert not any("another proportion" in r for r in counted)


def test_maps_become_densities_when_asked(tmp_path: Path) -> None:
    human = paths_of(table({"s": {"A": [(1, 1)]}}))
    model = maps(tmp_path / "m", s=np.array([[1.0, 1.0], [1.0, 5.0]]))
    names = ["information_gain", "log_likelihood"]
    for name in names:
        with pytest.raises(DataError, match=r"s\.npy: .*not a density, stimulus 's'.*--density"):
            score_maps(human, model, [name])
    found = score_maps(human, model, names, Settings(density=0.0))
    row: Any = summarise(found).set_index("metric")
    assert row.loc["log_likelihood", "value"] == pytest.approx(math.log(5 / 8))
    assert row.loc["information_gain", "value"] == pytest.approx(math.log2(5 / 8 * 4))
    assert "floor 0" in found.conventions["log_likelihood"]
    with pytest.raises(DataError, match="no metric of densities"):
        score_maps(human, model, ["nss"], Settings(density=0.0))


def test_errors_of_maps_name_the_stimulus_and_the_option(tmp_path: Path) -> None:
    human = paths_of(table({"s": {"A": [(1, 1)]}, "t": {"A": [(1, 1), (2, 0)]}}))
    model = maps(tmp_path / "m", s=CORNER, t=CORNER)
    for name in ("nss", "auc", "auc_judd"):
        with pytest.raises(DataError, match=r"'t'.*--option outside=drop.*--size"):
            score_maps(human, model, [name])


def test_a_map_of_one_pixel_is_chance_or_undefined_never_both() -> None:
    import warnings

    from gazeattn.metrics.saliency import auc

    with pytest.warns(UserWarning, match="0.5 is chance"):
        assert auc(np.ones((1, 1)), [(0, 0)]) == 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(auc(np.ones((1, 1)), [(0, 0)], negatives="unfixated"))
