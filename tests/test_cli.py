"""The command line without any work: help, version, lists, wrong names."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

import gazeattn
from gazeattn import registry
from gazeattn.cli import _COMMANDS, main


def test_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"gazeattn {gazeattn.__version__}\n"


def test_no_command_prints_help(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in _COMMANDS)


@pytest.mark.parametrize("command", sorted(_COMMANDS))
def test_help_on_every_level(command: str, capsys: pytest.CaptureFixture[str]):
    try:
        assert main([command, "--help"]) == 0
    except SystemExit as stop:
        assert stop.code == 0
    assert command in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "registered"),
    [
        ("datasets", registry.datasets),
        ("models", registry.models),
        ("models", registry.goal_models),
        ("models", registry.gaze_priors),
        ("methods", registry.attention_methods),
        ("metrics", registry.metrics),
        ("readers", registry.readers),
    ],
)
def test_lists_show_every_registered_name(
    command: str, registered: registry.Registry, capsys: pytest.CaptureFixture[str], tmp_path
):
    options = ["--root", str(tmp_path)] if command in ("datasets", "models") else []
    assert main([command, *options]) == 0
    out = capsys.readouterr().out
    assert registered.names()
    for name in registered.names():
        assert name in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compre"], "compare"),
        (["fetch", "onestop_sampel"], "onestop_sample"),
        (["compare", "dataset=onestop_smple"], "onestop_sample"),
        (["compare", "lm=minilmm"], "minilm"),
        (["compare", "attention.methods=[rolout]"], "rollout"),
        (["compare", "measures=[gaze_durations]"], "gaze_duration"),
        (["compare", "metrics=[spearmann]"], "spearman"),
        (["compare", "baselines=[lenght]"], "length"),
        (["compare", "logger=wanb"], "wandb"),
        (["compare", "attention.sink=start_tokn"], "start_token"),
        (["compare", "attention.long_text=windows"], "window"),
        (["compare", "attention.entropy_unit=nat"], "nats"),
        (["compare", "seeds=1"], "seed"),
    ],
)
def test_a_wrong_name_ends_with_2_and_a_suggestion(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    last = err.strip().splitlines()[-1]
    assert last.startswith("gazeattn: ") and "did you mean" in last and said in last
    assert "Traceback" not in err and len(err.strip().splitlines()) <= 2


def test_a_run_folder_that_is_a_file_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    assert main(["compare", "size=tiny", "lm=minilm", "hydra.run.dir=taken"]) == 2
    err = capsys.readouterr().err
    assert "taken" in err and "hydra.run.dir" in err and "Traceback" not in err
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("name", ["onestop_slice", "table"])
def test_what_is_not_downloaded_says_how_to_get_it(name: str, capsys: pytest.CaptureFixture[str]):
    assert main(["fetch", name]) == 2
    assert "not downloaded" in capsys.readouterr().err


def test_counts_of_a_corpus_stand_beside_the_published_ones(
    shared_data, capsys: pytest.CaptureFixture[str], tmp_path
):
    assert main(["datasets", "sb_sat", "--counts", "--root", str(shared_data)]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if " fixations " in x)
    assert line.count("242,508") == 2
    assert main(["datasets", "--counts"]) == 2
    cut = tmp_path / "reading_drift"
    shutil.copytree(shared_data / "reading_drift", cut)
    table = pd.read_csv(cut / "fixations_with_lines.csv.gz")
    table.iloc[:-5].to_csv(cut / "fixations_with_lines.csv.gz", index=False)
    capsys.readouterr()
    code = main(["datasets", "reading_drift", "--counts", "--root", str(cut)])
    out, err = capsys.readouterr()
    assert code in (1, 2) and ("10,240" in out or "fixations" in err)


def test_statistics_stand_in_the_list_of_metrics(capsys):
    assert main(["metrics"]) == 0
    shown = capsys.readouterr().out
    for name in (
        "noise_ceiling",
        "max_t",
        "clustered_bootstrap",
        "gold_standard",
        "auto_recurrence",
    ):
        assert name in shown
    assert main(["metrics", "noise_ceiling"]) == 0
    assert "gazeattn.metrics.statistics.noise_ceiling" in capsys.readouterr().out
    assert main(["metrics", "nss"]) == 0
    assert "outside='raise'" in capsys.readouterr().out
