"""The benchmark `eyelayer`: rows by hand, shuffled gaze, stage A, settings, whole tiny runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gazeattn.datamodules.code_prompts import CodePrompt
from gazeattn.datamodules.code_summaries import GazeExample, shuffled_gaze, stretched
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments._eyelayer_rows import (
    function_words,
    nearest_summaries,
    statement,
    table_rows,
)
from gazeattn.experiments._eyelayer_run import row_settings
from gazeattn.experiments.eyelayer_train import settings_of
from gazeattn.metrics.generation import bleu_counts, bleu_of_counts, corpus_bleu
from gazeattn.models.gaze_prior.eyelayer import EyeLayer
from gazeattn.models.gaze_prior.pretraining import GazeTraining, fit_gaze, uniform_loss
from gazeattn.results import result_rows


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getHTTPCode_2", "get http code 2"),
        ("__init__", "init"),
        ("parse_url", "parse url"),
        ("_", "_"),
    ],
)
def test_names_as_words(name: str, words: str) -> None:
    assert function_words(name) == words


def test_the_nearest_code_gives_its_summary() -> None:
    known = ["def read(path): open(path)", "def add(a, b): return a + b"]
    asked = ["def plus(x, b): return x + b", "def load(path): return open(path).read()"]
    assert nearest_summaries(known, ["Read a file.", "Add."], asked) == ["Add.", "Read a file."]


TEXTS = st.lists(st.sampled_from("a b c d the of code".split()), min_size=1, max_size=9)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6))
def test_counts_of_sentences_add_up_to_bleu(pairs: list[tuple[list[str], list[str]]]) -> None:
    written, true = ([" ".join(p[k]) for p in pairs] for k in (0, 1))
    total = bleu_counts(written, true).sum(0)
    assert bleu_of_counts(total) == pytest.approx(corpus_bleu(written, true), abs=1e-12)


def prompt(n: int) -> CodePrompt:
    code = np.array([False, *[True] * n, False])
    return CodePrompt(np.arange(n + 2), code, np.zeros((n + 2, 2), dtype=np.int64), True)


def example(name: str, shares: list[float], trial: str = "t") -> GazeExample:
    own = np.array([0, *shares, 0], dtype=np.float32)
    return GazeExample(trial, prompt(len(shares)), np.ones(len(own), np.float32), own, name)


def test_shares_are_stretched_by_hand() -> None:
    shares = np.array([0.5, 0.5], dtype=np.float32)
    np.testing.assert_allclose(stretched(shares, 4), [0.25] * 4)
    np.testing.assert_allclose(stretched(np.array([0.6, 0.2, 0.1, 0.1]), 2), [0.8, 0.2])
    np.testing.assert_allclose(stretched(np.array([1.0, 0, 0], np.float32), 3), [1, 0, 0])


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=20).filter(lambda v: sum(v) > 0),
    st.integers(1, 30),
)
def test_stretching_keeps_the_sum(values: list[float], n: int) -> None:
    shares = np.array(values) / sum(values)
    out = stretched(shares.astype(np.float32), n)
    assert len(out) == n and (out >= -1e-6).all()
    assert out.sum() == pytest.approx(1, abs=1e-5)


def test_shuffled_gaze_is_of_other_code() -> None:
    given = [
        example("A", [1, 0, 0, 0], "a"), example("B", [0, 1], "b"), example("C", [0.5, 0.5], "c"),
        example("A", [0, 0, 0, 1], "d"),
    ]  # fmt: skip
    for seed in range(5):
        out = shuffled_gaze(given, seed)
        assert [e.id for e in out] == ["a", "b", "c", "d"]
        own = {"A": (0, 3), "B": (1,), "C": ()}
        for e, was in zip(out, given, strict=True):
            assert e.prompt is was.prompt and e.target.sum() == pytest.approx(1)
            assert e.target[~e.prompt.code].sum() == 0
            if e.stimulus == "B":  # of A: all on one half; of C: even
                assert e.target[1:3].tolist() in ([1, 0], [0, 1], [0.5, 0.5])
            if e.stimulus in ("A", "C"):
                assert e.target.tolist() != was.target.tolist() or own[e.stimulus]
    with pytest.raises(DataError, match="two at least"):
        shuffled_gaze([given[0]])


def test_uniform_loss_by_hand() -> None:
    one = uniform_loss([example("A", [1, 0, 0, 0]), example("B", [0.25] * 4)])
    np.testing.assert_allclose(one, [np.log(4), 0], atol=1e-6)


def test_stage_a_learns_and_keeps_its_best() -> None:
    import torch

    rng = np.random.default_rng(0)
    states = {n: rng.normal(size=(10, 16)).astype(np.float32) for n in "ABCDEFGHI"}
    for s in states.values():
        s[3, :4] += 4  # what is looked at says so in its state
    train = [example(n, [0, 0, 1, 0, 0, 0, 0, 0]) for n in "ABCDEFGH"]
    held = [example("I", [0, 0, 1, 0, 0, 0, 0, 0])]
    torch.manual_seed(0)
    prior = EyeLayer(16, components=2, hidden=4, content=2)
    before = {k: v.clone() for k, v in prior.value.state_dict().items()}
    curve = fit_gaze(prior, states, train, held, GazeTraining(epochs=60, lr=0.05, patience=20))
    assert curve["held"].iloc[0] > 1.5 and curve["held"].min() < 0.8
    assert curve["epoch"].tolist() == list(range(len(curve)))
    again = fit_gaze(prior, states, train, held, GazeTraining(epochs=0))
    assert again["held"].iloc[0] == pytest.approx(curve["held"].min(), abs=1e-6)
    assert torch.equal(prior.value.weight, before["weight"])
    with pytest.raises(DataError, match="not learned"):
        fit_gaze(EyeLayer(16, prior="length"), states, train, held, GazeTraining())
    with pytest.raises(UnknownNameError, match="epochs"):
        GazeTraining.of({"epoch": 3})


def table(nll: list[float], written: list[str]) -> pd.DataFrame:
    true = ["the cat sat on the mat", "a dog ran away from home"]
    return pd.DataFrame({"id": ["1", "2"], "true": true, "written": written, "nll": nll,
                         "bleu4_codexglue": [0.1, 0.3], "rouge_l": [0.2, 0.4]})  # fmt: skip


def test_rows_by_hand() -> None:
    same = ["the cat sat on the mat", "a dog ran away from home"]
    tables = {
        "lora": [table([3.0, 2.0], same), table([2.0, 1.0], same)],
        "eyelayer": [table([2.0, 2.0], same), table([1.0, 1.0], same)],
        "function_name": [table([1.0, 1.0], ["cat", "dog"]).drop(columns="nll")],
    }
    kinds = {"lora": "control", "eyelayer": "model", "function_name": "baseline"}
    rows = result_rows(
        table_rows(tables, kinds, {"eyelayer": [0.5, 0.7]}, {"dataset": "d", "task": "t"}, 200),
        ("kind", "reference", "seeds", "spread"),
    )
    plain = rows[rows["reference"] == ""].set_index(["model", "metric"])
    assert plain.loc[("lora", "nll"), "value"] == pytest.approx(2.0)
    assert plain.loc[("lora", "nll"), "spread"] == pytest.approx(np.sqrt(0.5))
    assert plain.loc[("lora", "bleu4_sacre"), "value"] == pytest.approx(1.0)
    assert plain.loc[("eyelayer", "gaze_kl"), "value"] == pytest.approx(0.6)
    assert ("function_name", "nll") not in plain.index
    gap = rows[(rows["reference"] == "lora") & (rows["metric"] == "nll")].set_index("model")
    assert gap.loc["eyelayer", "value"] == pytest.approx(0.5)  # fewer nats: better
    assert gap.loc["eyelayer", "low"] == pytest.approx(0.0)
    assert gap.loc["eyelayer", "high"] == pytest.approx(1.0)
    assert set(gap.index) == {"eyelayer"}
    said = statement(rows)
    assert any("No difference is clear" in s for s in said)


def test_rows_with_fewer_seeds_are_compared_on_the_same_ones() -> None:
    tables = {
        "lora": [table([3.0, 3.0], ["a", "b"]), table([9.0, 9.0], ["a", "b"])],
        "layer_3": [table([2.0, 2.0], ["a", "b"])],
    }
    kinds = {"lora": "control", "layer_3": "model"}
    rows = pd.DataFrame(table_rows(tables, kinds, {}, {}, 50))
    gap = rows[(rows["reference"] == "lora") & (rows["metric"] == "nll")].iloc[0]
    assert gap["value"] == pytest.approx(1.0) and gap["seeds"] == 1  # not (3 + 9) / 2 less 2


CONFIG: dict[str, Any] = {
    "settings": {"prior": "eyelayer", "options": {"components": 4, "rank": 8}, "layer": 0.6},
    "rows": {"lora": {"prior": None}, "k_1": {"options": {"components": 1}}, "eyelayer": {}},
    "changes": {"places": {"options": {"rank": 2}}},
    "sweep": [3, 5], "changes_seeds": 1, "sweep_seeds": 1, "only": None, "seeds": [0, 1, 2],
}  # fmt: skip


def test_what_rows_are_made_of() -> None:
    found = row_settings(CONFIG)
    assert list(found) == ["lora", "k_1", "eyelayer", "places", "layer_3", "layer_5"]
    assert found["k_1"][0]["options"] == {"components": 1, "rank": 8}
    assert found["lora"] == ({**CONFIG["settings"], "prior": None}, 3)
    assert found["layer_5"][0]["layer"] == 5 and found["layer_5"][1] == 1
    assert CONFIG["settings"]["options"]["components"] == 4  # not changed by a row
    assert list(row_settings({**CONFIG, "only": ["eyelayer"], "changes": {}, "sweep": []})) == [
        "eyelayer"
    ]
    with pytest.raises(DataError, match="lorra"):
        row_settings({**CONFIG, "only": ["lorra"]})
    with pytest.raises(DataError, match="depth"):
        row_settings({**CONFIG, "rows": {"x": {"depth": 3}}})


def test_settings_of_one_row() -> None:
    config, row = settings_of({"name": "e", "kind": "code_summaries", "row": "k_1", "layer": 9,
                               "gaze_weight": 1.0, "stage_a_epochs": 2}, "cpu", 3)  # fmt: skip
    assert row == "k_1" and config["seeds"] == [3]
    made = row_settings(config)["k_1"][0]
    assert made["options"]["components"] == 1 and made["layer"] == 9
    assert made["gaze_weight"] == 1.0 and made["stage_a"]["epochs"] == 2
    assert made["first"] == 12  # the reduction of the size
    with pytest.raises(UnknownNameError, match="k_1"):
        settings_of({"row": "k_2"}, "cpu", 0)
    with pytest.raises(UnknownNameError, match="gaze_weight"):
        settings_of({"gaze_weigth": 1}, "cpu", 0)
    with pytest.raises(DataError, match="seed"):
        settings_of({}, "cpu", -1)


@pytest.mark.slow
def test_whole_runs(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gazeattn.summaries.packages import summaries_folder
    from tests.e2e.test_reading_models import run

    if not (summaries_folder(None) / "facts.json").is_file():
        pytest.skip("the summaries are not built: gazeattn fetch code_summaries")
    command = ["benchmark", "eyelayer", "size=tiny", "hydra.run.dir=b", "publish=out"]
    text = run(command, tmp_path, shared_data)
    assert "eyelayer (model)" in text and "lora (control)" in text
    made = json.loads((tmp_path / "out" / "eyelayer.json").read_text())
    names = {r["name"] for r in made["rows"]}
    assert names == {"untrained", "function_name", "nearest_code", "lora", "eyelayer"}
    one = next(r for r in made["rows"] if r["name"] == "eyelayer" and r["metric"] == "nll")
    assert one["interval"][0] <= one["mean"] <= one["interval"][1]
    stamp = (tmp_path / "b" / "runs" / "eyelayer_0" / "predictions.parquet").stat().st_mtime_ns
    run(command, tmp_path, shared_data)
    again = (tmp_path / "b" / "runs" / "eyelayer_0" / "predictions.parquet").stat().st_mtime_ns
    assert stamp == again and json.loads((tmp_path / "out" / "eyelayer.json").read_text()) == made
    text = run(["train", "experiment=eyelayer/smollm2", "size=tiny", "hydra.run.dir=t"],
               tmp_path, shared_data)  # fmt: skip
    assert "validation" in text
    assert (tmp_path / "t" / "model" / "adapter" / "adapter_model.safetensors").is_file()
    assert "numbers mean nothing" in (tmp_path / "t" / "report.html").read_text(encoding="utf-8")


def test_changes_of_attention_by_hand() -> None:
    from gazeattn.experiments.eyelayer_attention import changes, said

    base = pd.DataFrame({
        "trial": ["a1", "a2", "b1"], "participant": ["a", "a", "b"], "stimulus": ["1", "2", "1"],
        "method": "raw", "kind": "model", "value": [0.1, 0.3, 0.2], "ceiling": [0.4, 0.5, 0.6],
    })  # fmt: skip
    after = base.assign(value=[0.2, 0.4, np.nan]).sample(frac=1, random_state=1)
    found = changes({"untrained": base, "eyelayer": after}, 300).set_index("row")
    assert found.loc["untrained", "value"] == pytest.approx(0.2)
    assert found.loc["untrained", "change"] == 0 and found.loc["untrained", "change_high"] == 0
    assert found.loc["eyelayer", "value"] == pytest.approx(0.3)  # of two readings
    assert found.loc["eyelayer", "change"] == pytest.approx(0.1)
    assert found.loc["eyelayer", "change_low"] == pytest.approx(0.1)
    assert found.loc["eyelayer", "n"] == 2 and found.loc["untrained", "n"] == 3
    assert found.loc["eyelayer", "ceiling"] == pytest.approx(0.5)
    (line,) = said(found.reset_index())
    assert "0.200 before training" in line and "eyelayer +0.100 [+0.100, +0.100]" in line
