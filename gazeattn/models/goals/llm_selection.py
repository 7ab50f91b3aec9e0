"""Choosing the question that a language model finds likeliest after paragraph and scanpath."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gazeattn.datamodules.goal_batches import GoalInputs
from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_goals import GoalTrials, prompts
from gazeattn.errors import UnknownNameError
from gazeattn.lm import LanguageModel
from gazeattn.models.goals._decoding import continuation_scores
from gazeattn.models.goals.base import CITATION, GoalSelector
from gazeattn.registry import register_goal_model

LENGTHS = ("mean", "sum")


@register_goal_model(
    "llm_selection",
    description="log probability of the question after paragraph and scanpath as text",
    citation=CITATION,
    task="selection",
    kind="model",
    control="llm_selection_text",
)
class LlmSelection(GoalSelector):
    """``argmax_j log p(q_j | paragraph, scanpath)`` of a causal language model, not trained here.

    Parameters
    ----------
    lm
        See `gazeattn.LanguageModel.load`; any causal model.
    length
        ``"mean"`` over the question's tokens (the default; not stated in the paper), or the
        ``"sum"``, which prefers short questions.
    most
        Fixations that are written into the prompt; None: all. `cut` counts what was left out.
    root
        Data folder.
    """

    scanpath: ClassVar[str] = "list"

    def __init__(
        self,
        lm: str = "smollm2-135m",
        *,
        length: str = "mean",
        most: int | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> None:
        if length not in LENGTHS:
            raise UnknownNameError("length rule", length, LENGTHS)
        self.name, self.length, self.most, self.root = lm, length, most, root
        self.cut = 0
        self._lm: LanguageModel | None = None

    @property
    def lm(self) -> LanguageModel:
        """The model, loaded when it is first needed."""
        if self._lm is None:
            self._lm = LanguageModel.load(self.name, root=self.root)
            self._lm.require("causal", "lm_head", by="scores of questions")
            self._lm.model.eval().requires_grad_(False)
        return self._lm

    def scores(self, inputs: GoalInputs) -> Array:
        """Return the score of each candidate by the rule for lengths, (n, most)."""
        return self.both(inputs.goal)[self.length]

    def both(
        self, goal: GoalTrials, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, Array]:
        """Return scores by both rules for lengths: ``mean`` and ``sum``, each (n, most)."""
        texts, self.cut = prompts(goal.trials, self.scanpath, self.most)
        out = {k: np.full((len(goal), goal.most), np.nan) for k in LENGTHS}
        known: dict[Any, list[tuple[float, int]]] = {}
        for i, (text, candidates) in enumerate(zip(texts, goal.candidates, strict=True)):
            key = (text, tuple(sorted(candidates)))
            if key not in known:  # the text-only control asks the same again and again
                known[key] = self._of(text, key[1])
            found = dict(zip(key[1], known[key], strict=True))
            for k, question in enumerate(candidates):
                total, n = found[question]
                out["sum"][i, k], out["mean"][i, k] = total, total / n
            if progress is not None:
                progress(i + 1, len(goal))
        return out

    def _of(self, text: str, questions: tuple[str, ...]) -> list[tuple[float, int]]:
        import torch

        tokenizer = self.lm.tokenizer
        ids = tokenizer(text, add_special_tokens=True)["input_ids"]
        asked = [tokenizer(f" {q}", add_special_tokens=False)["input_ids"] for q in questions]
        prompt = torch.tensor(ids, device=self.lm.model.device)
        return continuation_scores(self.lm.model, prompt, asked)


@register_goal_model(
    "llm_selection_text",
    description="text-only control: log probability of the question after the paragraph alone",
    citation=CITATION,
    task="selection",
    kind="control",
)
class LlmSelectionText(LlmSelection):
    """The text-only control of `LlmSelection`."""

    scanpath: ClassVar[str] = "none"
