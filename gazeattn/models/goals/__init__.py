"""Models of a reader's open goal: choosing the question that was asked, and writing it.

Hadar et al. (2026), Decoding open-ended information seeking goals from eye movements in reading,
ICLR.
"""

from __future__ import annotations

from gazeattn.models.goals.base import GoalSelector, SelectionNetwork

__all__ = ["GoalSelector", "SelectionNetwork"]
