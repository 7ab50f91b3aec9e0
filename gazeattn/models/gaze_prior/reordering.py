"""Code in the order in which it was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.models.gaze_prior.base import GazePrior
from gazeattn.registry import register_gaze_prior

MODES = ("append", "replace")


@register_gaze_prior(
    "reordering",
    description="tokens of the code in the order of fixations, behind the code or in its place",
    citation="Zhang et al. 2024, FSE (EyeTrans); this package",
)
class Reordering(GazePrior):
    """Rewrites prompts: looked-at tokens, in order, follow the code or stand for it.

    It has nothing to train. The view is cut after `longest` tokens; a token that is fixated
    several times in a row stands once.

    Parameters
    ----------
    mode
        ``"append"``: behind the code; ``"replace"``: instead of it, tokens that were never
        looked at left out.
    longest
    """

    place: ClassVar[str] = "inputs"

    def __init__(self, *, mode: str = "append", longest: int = 128) -> None:
        super().__init__()
        if mode not in MODES:
            raise UnknownNameError("mode of reordering", mode, MODES)
        if longest < 1:
            raise DataError("longest view", expected="1 or more", found=longest)
        self.mode, self.longest = mode, int(longest)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"mode": self.mode, "longest": self.longest}

    def hooks(self, model: nn.Module) -> list[Any]:
        """Return nothing: `rewritten` is called instead."""
        return []

    def rewritten(
        self, ids: Tensor, code: Tensor, order: Sequence[int] | Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return ids and code mask of one prompt with the view of its reader in it.

        Parameters
        ----------
        ids : Tensor of int64, shape (length,)
        code : Tensor of bool, shape (length,)
            A single stretch.
        order
            Places in `ids` of the tokens that were looked at, one after the other.

        Raises
        ------
        DataError
            The code is not in one piece, or something off it was looked at.
        """
        at = code.nonzero()[:, 0]
        seen = torch.as_tensor(order, dtype=torch.long, device=ids.device).reshape(-1)
        if not len(at) or int(at[-1] - at[0]) + 1 != len(at):
            raise DataError("the code of a prompt stands in one piece", found=at.tolist()[:5])
        if len(seen) and not bool(code[seen.clamp(0, len(ids) - 1)].all()):
            raise DataError("places that were looked at are code", found=seen.tolist()[:5])
        if len(seen):
            again = torch.cat([seen[:1] >= 0, seen[1:] != seen[:-1]])
            seen = seen[again][: self.longest]
        elif self.mode == "replace":
            seen = at  # nobody looked: the code as it stands
        first, last = int(at[0]), int(at[-1])
        head = ids[: last + 1] if self.mode == "append" else ids[:first]
        kept = code[: last + 1] if self.mode == "append" else code[:first]
        new = torch.cat([head, ids[seen], ids[last + 1 :]])
        mask = torch.cat([kept, torch.ones_like(code[seen]), code[last + 1 :]])
        return new, mask
