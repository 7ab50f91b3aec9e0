"""Models that run a decoder: scores of questions, adapters, writing, files, and retrieval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gazeattn.datamodules.goal_batches import goal_inputs
from gazeattn.datamodules.reading_goals import (
    GoalTrials,
    prompts,
    question_bank,
    seeking_trials,
    with_candidates,
)
from gazeattn.datamodules.reading_scaling import FeatureChoice, FittedFeatures
from gazeattn.datamodules.reading_texts import TextEncoder
from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.lm import LanguageModel
from gazeattn.models.goals._decoding import continuation_scores, write
from gazeattn.models.goals.llm_selection import LlmSelection, LlmSelectionText
from gazeattn.models.goals.reconstruction import (
    WEIGHTS,
    GoalWriter,
    TextWriter,
    TokenWriter,
    WriterTraining,
)
from gazeattn.models.goals.retrieval import Retrieval, RetrievalOther

from ...datamodules import made_goals as made

KINDS = [GoalWriter, TokenWriter, TextWriter]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made.save_decoder(tmp_path_factory.mktemp("decoder"))


@pytest.fixture(scope="module")
def goal() -> GoalTrials:
    data = made.seekers()
    trials = seeking_trials(data)
    return with_candidates(trials, question_bank(data, trials)).take([0, 1, 5, 6, 9])


@pytest.fixture(scope="module")
def lm(decoder: str) -> LanguageModel:
    found = LanguageModel.load(decoder)
    found.model.eval()
    return found


def make(kind: Any, decoder: str, **options: Any) -> Any:
    return kind(decoder, **{"rank": 2, "alpha": 4, "hidden": 8, **options})


# -- scores of questions --------------------------------------------------------------------------


def one_by_one(lm: LanguageModel, prompt: list[int], asked: list[int]) -> float:
    ids = torch.tensor([prompt + asked])
    with torch.no_grad():
        logits = lm.model(input_ids=ids).logits[0].log_softmax(-1)
    rows = torch.arange(len(prompt) - 1, ids.shape[1] - 1)
    return float(logits[rows, ids[0, len(prompt) :]].double().sum())


def test_scores_are_those_of_whole_texts(lm: LanguageModel) -> None:
    prompt, asked = [5, 9, 30, 41, 7], [[3], [8, 2, 90, 14], [77, 6]]
    found = continuation_scores(lm.model, torch.tensor(prompt), asked)
    for (total, n), tokens in zip(found, asked, strict=True):
        assert n == len(tokens)
        assert total == pytest.approx(one_by_one(lm, prompt, tokens), abs=1e-4)
    with pytest.raises(DataError):
        continuation_scores(lm.model, torch.tensor(prompt), [[1], []])


def test_llm_selection(decoder: str, goal: GoalTrials, lm: LanguageModel) -> None:
    model = LlmSelection(decoder, most=2)
    both = model.both(goal)
    assert model.cut == int((goal.trials.lengths - 2).sum())
    text = prompts(goal.trials, "list", 2)[0][3]
    ids = lm.tokenizer(text)["input_ids"]
    for k, question in enumerate(goal.candidates[3]):
        asked = lm.tokenizer(f" {question}", add_special_tokens=False)["input_ids"]
        expected = one_by_one(lm, ids, asked)
        assert both["sum"][3, k] == pytest.approx(expected, abs=1e-3)
        assert both["mean"][3, k] == pytest.approx(expected / len(asked), abs=1e-4)
    turned = model.both(goal.reordered([(1, 2, 0)] * len(goal)))
    np.testing.assert_array_equal(turned["mean"], both["mean"][:, [1, 2, 0]])
    assert LlmSelectionText(decoder).both(goal)["mean"][0] != pytest.approx(both["mean"][0])
    with pytest.raises(UnknownNameError):
        LlmSelection(decoder, length="longest")


def test_an_encoder_cannot_score_questions(tmp_path: Path, goal: GoalTrials) -> None:
    with pytest.raises(CapabilityError, match="causal"):
        LlmSelection(made.save_encoder(tmp_path)).both(goal)


# -- writing --------------------------------------------------------------------------------------


def test_greedy_writing_is_that_of_transformers(lm: LanguageModel) -> None:
    prompt = torch.tensor([5, 9, 30, 41, 7])
    expected = lm.model.generate(
        input_ids=prompt[None], max_new_tokens=8, do_sample=False, num_beams=1,
        attention_mask=torch.ones(1, 5, dtype=torch.long),
    )[0, 5:].tolist()  # fmt: skip
    embedded = lm.model.get_input_embeddings()(prompt).detach()
    found = write(lm.model, embedded, torch.arange(5), end={1}, longest=8)
    assert found == [t for t in expected if t != 1]
    assert len(found) > 2


def test_beams_find_what_is_likelier(lm: LanguageModel) -> None:
    prompt = [5, 9, 30, 41, 7]
    embedded = lm.model.get_input_embeddings()(torch.tensor(prompt)).detach()
    # two tokens, ends never: all pairs can be looked through
    whole = torch.tensor([prompt])
    with torch.no_grad():
        first = lm.model(input_ids=whole).logits[0, -1].log_softmax(-1)
        later = lm.model(
            input_ids=torch.cat([whole.expand(400, -1), torch.arange(400)[:, None]], 1)
        ).logits[:, -1].log_softmax(-1)  # fmt: skip
    best = int((first[:, None] + later).argmax())
    found = write(lm.model, embedded, torch.arange(5), end={-5}, longest=2, beams=400)
    assert found == [best // 400, best % 400]


def test_an_end_at_once_is_an_empty_text(lm: LanguageModel) -> None:
    embedded = lm.model.get_input_embeddings()(torch.tensor([5, 9])).detach()
    every = set(range(400))
    assert write(lm.model, embedded, torch.arange(2), end=every, longest=4) == []
    assert write(lm.model, embedded, torch.arange(2), end=every, longest=4, beams=3) == []


# -- adapters -------------------------------------------------------------------------------------


def test_loss_is_that_of_the_question_alone(
    decoder: str, goal: GoalTrials, lm: LanguageModel
) -> None:
    writer = make(GoalWriter, decoder)  # adapters start as nothing
    given = writer.given(goal)
    asked = writer.question_tokens("Who?")
    assert asked[-1] == 1
    expected = -one_by_one(lm, given[2][0], asked) / len(asked)
    assert float(writer.loss(given[2], "Who?")) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_only_adapters_and_projector_learn(kind: Any, decoder: str, goal: GoalTrials) -> None:
    writer = make(kind, decoder)
    frozen = {n: p.detach().clone() for n, p in writer.model.named_parameters()
              if not p.requires_grad}  # fmt: skip
    assert all("lora_" in n for n, p in writer.model.named_parameters() if p.requires_grad)
    settings = WriterTraining(epochs=12, lr=0.02, accumulate=2, warmup=2)
    curve = writer.fit(goal, settings)
    assert curve[-1] < 0.5 * curve[0]
    now = dict(writer.model.named_parameters())
    assert all(torch.equal(now[n], p) for n, p in frozen.items())


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_writers_come_back_from_files(
    kind: Any, decoder: str, goal: GoalTrials, tmp_path: Path
) -> None:
    settings = WriterTraining(epochs=1, lr=0.02)
    writers = [make(kind, decoder, seed=3) for _ in range(2)]
    curves = [w.fit(goal, settings) for w in writers]
    assert curves[0] == curves[1]  # same seed, same numbers
    writer = writers[0]
    writer.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["writer.json", WEIGHTS]
    again = kind.load(tmp_path)
    np.testing.assert_allclose(again.scores(goal), writer.scores(goal), atol=1e-6)
    assert again.write(goal, longest=5) == writer.write(goal, longest=5)
    before = make(kind, decoder, seed=3)
    before.prepare(goal)
    assert not np.allclose(before.scores(goal), writer.scores(goal), atol=1e-3)
    other = next(k for k in KINDS if k is not kind)
    with pytest.raises(DataError, match="not a writer of this kind"):
        other.load(tmp_path)
    facts = json.loads((tmp_path / "writer.json").read_text())
    (tmp_path / "writer.json").write_text(json.dumps({**facts, "sha": "0" * 64}))
    with pytest.raises(DataError, match="another than the one"):
        kind.load(tmp_path)


def test_scores_and_losses_agree(decoder: str, goal: GoalTrials) -> None:
    writer = make(GoalWriter, decoder)
    np.testing.assert_allclose(writer.scores(goal), writer._loss_scores(goal), atol=1e-4)


def test_the_eyes_reach_the_question_and_the_control_has_none(
    decoder: str, goal: GoalTrials
) -> None:
    tokens = make(TokenWriter, decoder)
    tokens.prepare(goal)
    given = tokens.given(goal)[0]
    values = torch.tensor(given[1], requires_grad=True)
    tokens.loss((given[0], values, given[2]), "Who?").backward()
    assert (values.grad.abs().sum(1) > 0).all()
    control = make(TextWriter, decoder)
    text = control.tokenizer.decode(control.given(goal)[0][0])
    assert "Fixations" not in text and "ms" not in text
    # one text, several readers: the control cannot tell them apart
    same = [i for i, t in enumerate(goal.trials.table["text"]) if t == "B"]
    assert len({tuple(control.given(goal)[i][0]) for i in same}) == 1


def test_fixations_take_the_place_of_their_word(decoder: str, goal: GoalTrials) -> None:
    writer = make(TokenWriter, decoder, most=4)
    writer.prepare(goal)
    for i, (ids, values, places) in enumerate(writer.given(goal)):
        a = int(goal.trials.starts[i])
        words = goal.trials.texts[str(goal.trials.table["text"].iloc[i])].words
        n = min(4, int(goal.trials.lengths[i]))
        assert len(places) == len(values) == n
        for place, word in zip(places, goal.trials.word[a : a + n], strict=True):
            if word < 0:
                assert place == len(ids) - 1
                continue
            before = writer.tokenizer.decode(ids[:place]).split("Paragraph:")[1]
            assert len(before.split()) == word  # the words before it, and nothing of it
            assert words[word].startswith(writer.tokenizer.decode(ids[place]).strip())
    assert writer.cut == int((goal.trials.lengths - 4).clip(0).sum())
    embedded, at = writer.embedded(writer.given(goal)[0])
    assert len(embedded) == len(at) and int(at[-1]) == int(at.max())


def test_tokens_before_fitting_and_bad_settings(decoder: str, goal: GoalTrials) -> None:
    with pytest.raises(DataError, match="not fitted"):
        make(TokenWriter, decoder).write(goal)
    with pytest.raises(UnknownNameError):
        WriterTraining.of({"epoch": 1})
    with pytest.raises(DataError):
        WriterTraining.of({"epochs": 0})


# -- retrieval ------------------------------------------------------------------------------------


def test_retrieval(tmp_path: Path) -> None:
    data = made.seekers()
    trials = seeking_trials(data)
    goal = with_candidates(trials, question_bank(data, trials))
    encoder = TextEncoder(made.save_encoder(tmp_path / "encoder"), root=tmp_path)
    fitted = FittedFeatures.fit(goal.trials, FeatureChoice((), (), ()))
    text = goal.trials.table["text"].to_numpy(dtype=object)
    known = goal_inputs(goal.take(np.isin(text, ["A", "B"])), fitted, encoder)
    test = goal_inputs(goal.take(np.isin(text, ["B", "C"])), fitted, encoder)
    same, other = Retrieval().write(known, test), RetrievalOther().write(known, test)
    about = test.goal.trials.table["text"].tolist()
    for t, a, b in zip(about, same, other, strict=True):
        assert (a in made.QUESTIONS["B"]) if t == "B" else a is None
        assert b in made.QUESTIONS["A"] if t == "B" else b in (
            *made.QUESTIONS["A"], *made.QUESTIONS["B"]
        )  # fmt: skip
    shuffled = np.random.default_rng(0).permutation(len(known))
    again = goal_inputs(known.goal.take(shuffled), fitted, encoder)
    assert Retrieval().write(again, test) == same
