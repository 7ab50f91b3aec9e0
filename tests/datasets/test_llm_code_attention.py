"""Prompts, human labels and stored attention: files of our own, and the real ones."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.datasets import GazeDataset, load
from gazeattn.datasets.llm_code_attention import exclusive_ends, words_of
from gazeattn.errors import DataError, MissingAssetError
from gazeattn.losses import LossLog

PROMPTS = [
    {"benchmark": "humaneval", "task": 0, "prompt_ids": [0], "prompt": "def f():\n  sort the list"},
    {"benchmark": "mbpp", "task": 12, "prompt_ids": [12, 14], "prompt": "sort the list"},
]
SPANS = [  # the word "sort" in both; HumanEval ends after it, MBPP on its last character
    ("humaneval", 0, "sort", "operator", 11, 15),
    ("mbpp", 12, "sort", "operator", 0, 3),
    ("mbpp", 12, "t the", "property", 3, 7),
]
SCORES: dict[str, Any] = {
    "task": [0, 0],
    "method": ["bert_perturbation", "shap_perturbation"],
    "tokens": [["def", "f"], ["sort", "``"]],
    "start": [[0, 4], [11, -1]],
    "end": [[3, 5], [15, -1]],
    "score": [[0.5, 0.0], [2.6e15, -1e14]],
}


def _write(
    folder: Path, prompts: list = PROMPTS, spans: list = SPANS, scores: dict | None = None
) -> Path:
    text = "\n".join(p if isinstance(p, str) else json.dumps(p) for p in prompts)
    (folder / "prompts.jsonl").write_text(text + "\n", encoding="utf-8")
    names = ["benchmark", "task", "word", "label_type", "start", "end_published"]
    pd.DataFrame(spans, columns=names).to_parquet(folder / "human_spans.parquet")
    pd.DataFrame(scores or SCORES).to_parquet(folder / "attention_humaneval_gpt4.parquet")
    return folder


def _load(folder: Path, **options: Any) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load("llm_code_attention", root=folder, **options)


def test_inclusive_and_exclusive_ends(tmp_path: Path) -> None:
    spans = _load(_write(tmp_path)).reports["human_spans"]
    assert spans["end"].tolist() == [15, 4, 8]
    assert spans["end_published"].tolist() == [15, 3, 7]
    ds = _load(tmp_path)
    assert [x.count for x in ds.lost if "last character" in x.reason] == [2]
    for span in ds.reports["human_spans"].to_dict("records"):
        text = ds.stimuli[span["stimulus"]]["text"]
        assert text[span["start"] : span["end"]] == span["word"]


@pytest.mark.parametrize(
    "span",
    [
        ("humaneval", 0, "sort", "operator", 11, 14),  # an inclusive end where it is exclusive
        ("mbpp", 12, "sort", "operator", 0, 4),
        ("mbpp", 12, "sort", "operator", 1, 4),
        ("mbpp", 12, "list", "operator", -4, -1),
    ],
)
def test_a_span_that_is_not_its_word(tmp_path: Path, span: tuple) -> None:
    with pytest.raises(DataError, match="not where its word stands"):
        _load(_write(tmp_path, spans=[*SPANS, span]))


def test_words_and_what_is_marked_of_them(tmp_path: Path) -> None:
    ds = _load(_write(tmp_path))
    words = ds.words[ds.words["layout"] == "mbpp_0012"]
    assert words["text"].tolist() == ["sort", "the", "list"]
    assert words["labelled_share"].tolist() == [1.0, 1.0, 0.0]  # an overlap counts once
    assert words["labelled"].tolist() == [True, True, False]
    first = ds.words[ds.words["layout"] == "humaneval_0000"]
    assert first["line"].tolist() == [0, 0, 1, 1, 1] and first["start"].tolist()[2] == 11
    assert ds.info["units"] == "words" and len(ds.fixations) == 0
    assert ds.trials["share_labelled"].tolist() == pytest.approx([1 / 5, 2 / 3])


def test_part_of_a_word() -> None:
    prompts = pd.DataFrame({"stimulus": ["s"], "prompt": ["abcd e"]})
    spans = pd.DataFrame({"stimulus": ["s", "s"], "start": [1, 2], "end": [3, 4]})
    words = words_of(prompts, spans)
    assert words["labelled_share"].tolist() == [0.75, 0.0]
    assert words_of(prompts, spans.iloc[:0])["labelled"].tolist() == [False, False]


def test_absurd_scores_are_kept_and_counted(tmp_path: Path) -> None:
    ds = _load(_write(tmp_path))
    table = ds.reports["attention"].set_index("method")
    assert table.loc["shap_perturbation", "score"].tolist() == [2.6e15, -1e14]
    assert [x.count for x in ds.lost if "ranks, not values" in x.reason] == [2]
    assert [x.count for x in ds.lost if x.reason == "no place in the prompt"] == [1]
    assert table.loc["shap_perturbation", "stimulus"] == "humaneval_0000"


def test_missing_prompts_of_a_method_and_ties_are_counted(tmp_path: Path) -> None:
    scores = {k: v[:1] for k, v in SCORES.items()} | {"score": [[0.0, 0.0]]}
    more = [*PROMPTS, {**PROMPTS[0], "task": 1}]
    ds = _load(_write(tmp_path, prompts=more, scores=scores))
    assert [x.count for x in ds.lost if "without scores" in x.reason] == [1]
    assert [x.count for x in ds.lost if "no order" in x.reason] == [1]
    assert [x.count for x in ds.lost if "without a usable label" in x.reason] == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": [[0.5], [1.0, 2.0]]}, "not equally many"),
        ({"score": [[0.5, float("nan")], [1.0, 2.0]]}, "finite"),
        ({"score": [[0.5, float("inf")], [1.0, 2.0]]}, "finite"),
        ({"method": ["shap_perturbation"] * 2}, "two rows of one method"),
        ({"task": [0, 7]}, "no prompt"),
    ],
)
def test_damaged_scores(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _load(_write(tmp_path, scores=SCORES | change))


@pytest.mark.parametrize(
    "bad", ["{", '{"task": 1}', '{"benchmark": "mbpp", "task": 1, "prompt": " "}']
)
def test_damaged_prompts(tmp_path: Path, bad: str) -> None:
    with pytest.raises(DataError, match=r"prompts.jsonl, row 3: not a prompt"):
        _load(_write(tmp_path, prompts=[*PROMPTS, bad]))


def test_without_attention(tmp_path: Path) -> None:
    assert "attention" not in _load(_write(tmp_path), attention=False).reports


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(MissingAssetError, match="never opened"):
        load("llm_code_attention", root=tmp_path)


def test_code_points_count_not_bytes() -> None:
    prompts = pd.DataFrame({"stimulus": ["s"], "prompt": ["é ⭢ x"]})
    columns = ["stimulus", "benchmark", "word", "start", "end_published"]
    spans = pd.DataFrame([("s", "b", "x", 4, 5)], columns=columns)
    assert exclusive_ends(spans, prompts, [], LossLog())["end"].tolist() == [5]


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GazeDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load("llm_code_attention", root=shared_data / "llm_code_attention")


def test_real_counts(real: GazeDataset) -> None:
    assert len(real.stimuli) == len(real.trials) == 1134
    assert real.trials["condition"].value_counts().to_dict() == {"mbpp": 970, "humaneval": 164}
    spans = real.reports["human_spans"]
    assert len(spans) == 7983
    assert spans["benchmark"].value_counts().to_dict() == {"mbpp": 6891, "humaneval": 1092}
    assert len(real.reports["human_spans_as_scored"]) == 7990
    table = real.reports["attention"]
    assert len(table[["model", "method"]].drop_duplicates()) == 62
    sizes = table.groupby(["benchmark", "model"]).size().to_dict()
    assert sizes[("humaneval", "gptj")] == 1960 and sizes[("mbpp", "gptj")] == 11636
    assert sizes[("humaneval", "gpt4")] == 328 and sizes[("mbpp", "gpt4")] == 1940
    for model in ("incoder", "codegen", "codeparrot", "polycoder"):
        assert sizes[("humaneval", model)] == 1968
    assert sizes[("mbpp", "incoder")] == sizes[("mbpp", "codegen")] == 11640
    assert real.info["counts"]["prompts_with_two_ids"] == 4
    assert real.info["licence"].startswith("none found")
    assert real.trials.loc[real.trials["n_spans"] == 0, "trial"].tolist() == ["mbpp_0274"]


def test_real_scores(real: GazeDataset, shared_data: Path) -> None:
    table = real.reports["attention"]
    top = max(np.abs(s).max() for s in table["score"])
    assert f"{top:.1e}" == "2.6e+15"
    published = pd.read_parquet(shared_data / "llm_code_attention" / "human_spans.parquet")
    assert (real.reports["human_spans"]["end"].to_numpy() == published["end"].to_numpy()).all()
