"""What the page of open goals says first."""

from __future__ import annotations

import pandas as pd

from gazeattn.report.goals import goal_sentences


def gap(model: str, reference: str, value: float, low: float) -> dict:
    return {"task": "goal_selection", "metric": "accuracy", "regime": "unseen_text",
            "kind": "model", "model": model, "reference": reference, "value": value,
            "low": low, "high": value + 0.1}  # fmt: skip


def test_better_than_a_guess_is_not_better_than_the_text() -> None:
    rows = pd.DataFrame([
        gap("eyes", "text", 0.12, 0.05), gap("eyes", "chance", 0.3, 0.2),
        gap("guesser", "text", 0.03, -0.03), gap("guesser", "chance", 0.33, 0.25),
        gap("odd", "text", 0.17, 0.1), gap("odd", "chance", 0.01, -0.09),
    ])  # fmt: skip
    (said,) = goal_sentences(rows)
    assert "eyes (0.12)" in said and "guesser" not in said and "odd" not in said
    (said,) = goal_sentences(rows[rows["model"] == "guesser"])
    assert said.endswith("no model.")
