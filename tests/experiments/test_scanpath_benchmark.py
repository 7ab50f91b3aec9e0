"""`gazeattn benchmark scanpath`: rows of other settings are never gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from gazeattn.errors import DataError
from gazeattn.experiments import benchmark, building
from gazeattn.experiments.scanpath_rows import convention_of
from gazeattn.experiments.scanpath_settings import (
    Settings,
    check_folder,
    check_grid,
    check_published,
    digest_of,
    flat,
    keep,
    kept,
)

BASE = ["size=tiny", "fetch=false", "grid=[6,8]", "size.bootstrap=10", "size.samples=3",
        "models=[]", "baselines=[uniform]", "ceilings=[]", "workers=1", "splits=2",
        "size.stimuli=null"]  # fmt: skip
FOLDER = Path("outputs/benchmark/scanpath_osie_tiny")


def run(*more: str) -> int:
    keys = {m.partition("=")[0] for m in more}
    return benchmark.main([*[b for b in BASE if b.partition("=")[0] not in keys], *more])


def test_rows_of_other_settings_are_refused(
    pictures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("publish=table") == 0
    rows = pd.read_parquet(FOLDER / "results.parquet")
    assert set(rows["model"]) == {"uniform", "center_bias", "human"}
    published = (pictures / "table" / "scanpath_osie.json").read_text()
    files = {p: p.read_bytes() for p in FOLDER.rglob("*") if p.is_file() and p.name != "run.log"}
    capsys.readouterr()
    for change, said in (
        ("grid=[12,16]", "grid [12, 16]; found grid [6, 8]"),
        ("shortest=3", "shortest 3; found shortest 1"),
        ("splits=3", "splits 3; found splits 2"),
        ("size.samples=4", "size.samples 4; found size.samples 3"),
        ("size.bootstrap=11", "size.bootstrap 11; found size.bootstrap 10"),
        ("split.seed=1", "of another split"),
    ):
        assert run("publish=table", change) == 2, change
        err = capsys.readouterr().err
        assert said in err and len(err.splitlines()) == 1
        # another run folder, the same published table
        assert run("publish=table", change, "hydra.run.dir=other") == 2, change
        assert said in capsys.readouterr().err
        assert not Path("other").exists()
    real = building.read_model

    def changed(name: str) -> dict[str, object]:
        return {**real(name), **({"prior": 2.0} if name == "center_bias" else {})}

    with monkeypatch.context() as patch:
        patch.setattr(benchmark, "read_model", changed)
        assert run("publish=table") == 2
        assert "model center_bias: prior 2.0; found model center_bias: prior None" in (
            capsys.readouterr().err
        )
        assert run("publish=table", "hydra.run.dir=other") == 2
        assert "configuration of center_bias" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in files} == files
    assert (pictures / "table" / "scanpath_osie.json").read_text() == published
    assert run("publish=table", "baselines=[uniform,random_scanpath]") == 0  # and goes on
    after = pd.read_parquet(FOLDER / "results.parquet")
    pd.testing.assert_frame_equal(after.iloc[: len(rows)], rows)
    assert "random_scanpath" in set(after["model"])
    # a folder and a table from before settings were kept: their conventions and counts speak
    (FOLDER / "settings.json").unlink()
    table = pictures / "table" / "scanpath_osie.json"
    content = json.loads(table.read_text())
    del content["settings"], content["models"]
    table.write_text(json.dumps(content))
    assert run("publish=table", "hydra.run.dir=other", "grid=[12,16]") == 2
    assert run("publish=table", "hydra.run.dir=other", "shortest=3") == 2
    capsys.readouterr()
    assert run("publish=table", "splits=3") == 2  # from the configuration of the folder
    assert "splits 3; found splits 2" in capsys.readouterr().err
    assert run("publish=table", "baselines=[uniform,random_scanpath]") == 0
    assert "settings" in json.loads(table.read_text())


def test_models_of_other_benchmarks_and_people_are_refused_before_data_are_read(
    pictures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: object) -> None:
        raise AssertionError("the data were read")

    monkeypatch.setattr(benchmark, "load_dataset", unread)
    for change, said in (
        ("models=[oat]", "gazeattn benchmark object_search"),
        ("models=[ecc_net]", "gazeattn benchmark search_asymmetry"),
        ("baselines=[ivsn]", "gazeattn benchmark search_asymmetry"),
        ("models=[human]", "human is a ceiling"),
        ("models=[logistic]", "gazeattn benchmark reading"),
    ):
        assert run(change) == 2
        shown = capsys.readouterr().err
        assert said in shown and len(shown.splitlines()) == 1
        assert not list(pictures.iterdir())


def test_people_named_as_a_ceiling_are_there_once(pictures: Path) -> None:
    assert run("ceilings=[human]", "baselines=[]") == 0
    rows = pd.read_parquet(FOLDER / "results.parquet")
    assert set(rows.loc[rows["model"] == "human", "kind"]) == {"ceiling"}


# -- settings by hand -----------------------------------------------------------------------------


def settings(**changes: object) -> Settings:
    plain = {
        "dataset": {"name": "osie", "root": "x"}, "split": {"by": "text", "shares": [0.5, 0.5]},
        "grid": [75, 100], "shortest": 1, "splits": 20, "seeds": [0], "workers": 1,
        "size": {"name": "cpu", "samples": 10, "bootstrap": 5, "stimuli": None, "texts": 3},
        **changes,
    }  # fmt: skip
    return Settings.of(plain, {"hat": {"name": "hat", "lr": 0.1, "training": {"patience": 2}}})


def test_what_rows_depend_on() -> None:
    found = settings()
    assert found.shared == {
        "dataset.name": "osie", "split.by": "text", "split.shares": [0.5, 0.5],
        "grid": [75, 100], "shortest": 1, "splits": 20, "size.name": "cpu", "size.samples": 10,
        "size.bootstrap": 5, "size.stimuli": None,
    }  # fmt: skip
    assert found.models == {"hat": {"name": "hat", "lr": 0.1, "training.patience": 2}}
    assert flat({"a": {"b": (1, 2), "c": {}}}) == {"a.b": [1, 2]}
    assert digest_of({"a": 1, "b": [2], "c": None}) == digest_of({"b": [2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


EMPTY = pd.DataFrame({"model": [], "metric": [], "convention": []})


def test_settings_are_kept_and_damage_is_seen(tmp_path: Path) -> None:
    keep(tmp_path, settings())
    keep(tmp_path, Settings(settings().shared, {"uniform": {"name": "uniform"}}))
    assert kept(tmp_path).models == {**settings().models, "uniform": {"name": "uniform"}}
    check_folder(tmp_path, EMPTY, settings(grid=[1, 2]))  # nothing was made yet
    path = tmp_path / "settings.json"
    path.write_text(path.read_text().replace('"shortest": 1', '"shortest": 2'))
    with pytest.raises(DataError, match=r"settings\.json"):
        kept(tmp_path)
    path.write_text("{")
    with pytest.raises(DataError, match=r"settings\.json"):
        kept(tmp_path)


def test_older_folders_of_default_settings_go_on(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "hat_0"
    run.mkdir(parents=True)
    (tmp_path / "config.yaml").write_text("grid: [75, 100]\nshortest: 1\ndataset: {name: osie}\n")
    (run / "run.yaml").write_text("model: {name: hat, lr: 0.1, training: {patience: 2}}\n")
    check_folder(tmp_path, EMPTY, settings())
    with pytest.raises(DataError, match="shortest"):
        check_folder(tmp_path, EMPTY, settings(shortest=2))
    (run / "run.yaml").write_text("model: {name: hat, lr: 0.2, training: {patience: 2}}\n")
    with pytest.raises(DataError, match=r"model hat: lr 0.1; found model hat: lr 0.2"):
        check_folder(tmp_path, EMPTY, settings())


def test_the_published_table_of_the_repository_can_be_gone_on_with() -> None:
    repository = Path(__file__).resolve().parents[2]
    path = repository / "docs" / "results" / "scanpath_osie.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    counts = {k: content[k] for k in ("people", "stimuli", "scanpaths", "fixations")}
    plain = {
        "dataset": {"name": "osie"}, "grid": [75, 100], "shortest": 1, "splits": 20,
        "split": {"by": "text", "shares": [0.7, 0.15, 0.15], "seed": 0},
        "size": {"name": "cpu", "stimuli": None, "samples": 10, "bootstrap": 2000},
    }  # fmt: skip
    check_published(path, content, Settings.of(plain, {}), counts)
    with pytest.raises(DataError, match=r"expected grid \[50, 100\]; found grid \[75, 100\]"):
        check_published(path, content, Settings.of({**plain, "grid": [50, 100]}, {}), counts)
    with pytest.raises(DataError, match="number of fixations"):
        check_published(path, content, Settings.of(plain, {}), {**counts, "fixations": 3})


def test_the_grid_is_read_off_conventions() -> None:
    rows = pd.DataFrame({
        "metric": ["nss_after_first", "scanmatch", "auc"],
        "convention": [convention_of(m, (6, 8)) for m in ("nss", "scanmatch", "auc")],
    })  # fmt: skip
    check_grid(rows, [6, 8], Path("t"))
    with pytest.raises(DataError, match=r"expected grid \[8, 6\]; found grid \[6, 8\]"):
        check_grid(rows, [8, 6], Path("t"))
