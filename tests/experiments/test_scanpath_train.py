"""`gazeattn train`: a stopped run goes on alone, refused commands leave one line and no folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf

from gazeattn.experiments import train, training
from gazeattn.experiments.train import Start

SMALL = ["size=tiny", "fetch=false", "grid=[6,8]", "size.bootstrap=10", "seed=3",
         "model.training.max_epochs=2", "model.lr=0.01"]  # fmt: skip


class Killed(Exception):
    """Stands for the process being ended."""


def killed_at(epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """End training after the curves of an epoch and before its checkpoint."""

    def end(self: object, trainer: object, pl_module: object) -> None:
        if trainer.current_epoch == epoch:  # type: ignore[attr-defined]
            raise Killed

    monkeypatch.setattr(training._Bar, "on_train_epoch_end", end)


def stopped(epoch: int, folder: str, *more: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        killed_at(epoch, patch)
        assert train.main([*SMALL, *more, f"hydra.run.dir={folder}"]) == 1
    return Path(folder).resolve()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]


def test_resume_alone_ends_as_if_it_had_not_stopped(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert train.main([*SMALL, "hydra.run.dir=whole"]) == 0
    folders = [stopped(epoch, f"parts{epoch}") for epoch in (0, 1)]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    whole = pictures / "whole"
    for epoch, parts in enumerate(folders):
        assert (parts / "checkpoints" / "last.ckpt").exists() == (epoch > 0)
        assert len(pd.read_csv(parts / "curves.csv")) == epoch + 1  # one without a checkpoint
        assert OmegaConf.load(parts / "config.yaml").accelerator == "auto"
        assert train.main([f"resume={parts}", "accelerator=cpu"]) == 0
        first, second = weights(whole), weights(parts)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[k], second[k]) for k in first)
        for name in ("results.parquet", "curves.csv"):
            read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
            pd.testing.assert_frame_equal(read(whole / name), read(parts / name))
        stored = OmegaConf.load(parts / "config.yaml")
        assert stored.accelerator == "cpu" and stored.model.lr == 0.01 and stored.seed == 3
        assert "model.lr=0.01" in json.loads((parts / "summary.json").read_text())["command"]
    assert not list(elsewhere.iterdir())  # no dated folder beside it


@pytest.mark.parametrize(
    ("given", "named"),
    [("model=hat", "model"), ("seed=1", "seed"), ("model.lr=0.5", "model.lr"),
     ("size=tiny", "size"), ("+task.name=x", "task.name"), ("overwrite=true", "overwrite")],
)  # fmt: skip
def test_what_the_run_says_cannot_be_said_anew(
    pictures: Path, given: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from gazeattn.cli import main

    parts = pictures / "parts"
    parts.mkdir()
    (parts / "config.yaml").write_text("model: {name: tpp_gaze}\n")
    before = sorted(p.name for p in parts.rglob("*"))
    assert main(["train", given, f"resume={parts}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gazeattn: {named} cannot be given beside resume=")
    assert len(said.splitlines()) == 1
    assert sorted(p.name for p in parts.rglob("*")) == before
    assert sorted(p.name for p in pictures.iterdir()) == ["parts"]


def test_a_run_of_a_task_in_reading_goes_on_by_its_own_configuration(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from gazeattn.experiments import reading_train

    called: dict[str, Any] = {}

    def seen(cfg: Any, folder: Path, **more: Any) -> pd.DataFrame:
        called.update(cfg=cfg, folder=folder, **more)
        (folder / "config.yaml").write_text(more["config_text"])
        return pd.DataFrame({"value": [0.5]})

    monkeypatch.setattr(reading_train, "run_reading", seen)
    given = ["experiment=copco/dyslexia", "model=logistic", "fold=2", "seed=7", "model.C=0.5",
             "hydra.run.dir=reading"]  # fmt: skip
    assert train.main(given) == 0
    first = dict(called)
    monkeypatch.chdir(tmp_path)
    assert train.main([f"resume={pictures / 'reading'}", "root=mine"]) == 0
    assert called["folder"] == pictures / "reading"
    assert called["cfg"].root == str(tmp_path / "mine")  # where it is done may be said anew
    called["cfg"].root = None
    for key in ("cfg", "command", "base", "overridden"):
        assert called[key] == first[key], key
    assert called["overridden"] == ("C",)
    assert called["cfg"].fold == 2 and called["cfg"].task["name"]


def test_a_folder_without_a_run_is_no_run_to_go_on_with(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gazeattn.cli import main

    (pictures / "empty").mkdir()
    assert main(["train", "resume=empty"]) == 2
    assert "no run to go on with" in capsys.readouterr().err
    assert main(["train", "-m", "resume=empty"]) == 2
    assert not list((pictures / "empty").iterdir())


def test_an_unfinished_run_is_not_mixed_with_another_configuration(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = stopped(1, "parts")
    capsys.readouterr()
    assert train.main([*SMALL, "model.lr=0.02", f"hydra.run.dir={parts}"]) == 2
    assert "model.lr 0.01 instead of 0.02" in capsys.readouterr().err
    last = parts / "checkpoints" / "last.ckpt"
    assert last.is_file()
    stopped(0, "parts", "model.lr=0.02", "overwrite=true")
    assert not last.exists()  # it began anew
    assert len(pd.read_csv(parts / "curves.csv")) == 1


def test_runs_of_older_versions_have_their_command_in_the_environment(tmp_path: Path) -> None:
    text = "command: gazeattn train model=hat model.lr=0.1 +model.training.patience=2\nx: 1\n"
    (tmp_path / "environment.txt").write_text(text)
    found = Start.read(tmp_path, tmp_path)
    assert found.command == "gazeattn train model=hat model.lr=0.1 +model.training.patience=2"
    assert found.overridden == ("lr", "training.patience")


@pytest.mark.parametrize(
    ("model", "said"),
    [("oat", "gazeattn benchmark object_search"), ("ecc_net", "gazeattn benchmark search_asymm"),
     ("ivsn", "gazeattn benchmark search_asymmetry"), ("logistic", "gazeattn benchmark reading"),
     ("center_bias", "gazeattn benchmark scanpath")],
)  # fmt: skip
def test_models_of_other_commands_are_refused_in_one_line(
    pictures: Path, model: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main([f"model={model}", "size=tiny", "fetch=false"]) == 2
    shown = capsys.readouterr().err
    assert said in shown and len(shown.splitlines()) == 1  # no line of Hydra's before it
    assert not list(pictures.iterdir())  # and no run folder


def test_every_job_of_a_sweep_says_why_it_was_refused(
    pictures: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train.main(["-m", "model=oat,ecc_net", "size=tiny", "fetch=false"]) == 2
    said = capfd.readouterr().err
    assert "object_search" in said and "search_asymmetry" in said and "Error exec" not in said
    assert not list(pictures.rglob("run.log"))


def test_a_folder_with_results_stays_when_a_command_is_refused(pictures: Path) -> None:
    run = pictures / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    assert train.main(["model=oat", "size=tiny", "hydra.run.dir=run"]) == 2
    assert (run / "notes.txt").read_text() == "mine"


def test_a_failed_training_keeps_its_folder(pictures: Path) -> None:
    folder = stopped(0, "parts")
    assert (folder / "run.log").is_file() and (folder / "curves.csv").is_file()
