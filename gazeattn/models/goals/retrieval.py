"""Control of written questions: one that was asked in training is given again."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gazeattn.datamodules.goal_batches import GoalInputs
from gazeattn.datamodules.reading_goals import PARAGRAPH
from gazeattn.models.goals.base import CITATION
from gazeattn.models.goals.similarity import cosines, reading_times, word_vectors_of
from gazeattn.registry import register_goal_model


@register_goal_model(
    "retrieval_same_text",
    description="control: nearest training question about the same text, where there is one",
    citation=CITATION,
    task="reconstruction",
    kind="control",
)
class Retrieval:
    """The training question nearest to the words of the text weighted by reading time (cosine).

    About a text that was read in training all its questions may be known: a model that writes one
    of them need not have decoded anything.
    """

    same: ClassVar[bool] = True

    def write(self, train: GoalInputs, test: GoalInputs) -> list[str | None]:
        """Return a question for each test trial; None where training has none of the kind.

        Reading times that are not known weigh all words alike.
        """
        asked = train.question_of[np.arange(len(train)), train.goal.target]
        texts = train.goal.trials.table[PARAGRAPH].to_numpy(dtype=object)
        # one row per text and question, in an order that does not depend on the trials'
        distinct = sorted(
            {(q, str(t)): int(k) for q, t, k in
             zip(train.goal.questions, texts, asked, strict=True)}.items()
        )  # fmt: skip
        names = [q for (q, _), _ in distinct]
        about = np.array([t for (_, t), _ in distinct], dtype=object)
        vectors = train.questions[[k for _, k in distinct]].astype(np.float64)
        words, times = word_vectors_of(test), reading_times(test)
        wanted = test.goal.trials.table[PARAGRAPH].to_numpy(dtype=object)
        assert test.reading.token_of is not None
        out: list[str | None] = []
        for i, which in enumerate(test.reading.token_of):
            kept = np.flatnonzero((about == wanted[i]) == self.same)
            text = words[which]
            if not len(kept) or not len(text):
                out.append(None)
                continue
            weights = times[i] if not np.isnan(times[i]).any() else np.full(len(text), 1.0)
            alike = cosines(vectors[kept], (weights @ text)[None])[:, 0]
            out.append(names[kept[int(np.nanargmax(alike))]] if not np.isnan(alike).all() else None)
        return out


@register_goal_model(
    "retrieval_other_text",
    description="control: nearest training question about another text",
    citation=CITATION,
    task="reconstruction",
    kind="control",
)
class RetrievalOther(Retrieval):
    """The same among questions about other texts: what a question of this corpus looks like."""

    same: ClassVar[bool] = False
