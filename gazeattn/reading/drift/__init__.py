"""Vertical drift: which line of text does a fixation belong to?

Eleven methods of line assignment (Carr, Pescuma, Furlan, Ktori and Crepaldi 2022, Behavior Research
Methods 54, 287-310, doi:10.3758/s13428-021-01554-0, which describes the others; slice: Glandorf
and Schroeder 2021, doi:10.1016/j.procs.2021.09.069) and a vote among them. Each takes an array of
fixations and the line centres, `compare` and `warp` the word centres as well, and returns line
numbers from 0. `assign_lines` does the same for a table.
"""

from gazeattn.reading.drift._lines import nearest_line
from gazeattn.reading.drift._merging import merge, slice_
from gazeattn.reading.drift._methods import (
    MEMBERS,
    METHODS,
    Method,
    apply,
    choose_members,
    majority,
    vote,
)
from gazeattn.reading.drift._position import attach, cluster, regress, stretch
from gazeattn.reading.drift._sequence import chain, segment, split
from gazeattn.reading.drift._warping import compare, warp
from gazeattn.reading.drift.assigning import assign_lines
from gazeattn.reading.drift.scoring import accuracy_table, line_accuracy

__all__ = [
    "MEMBERS",
    "METHODS",
    "Method",
    "accuracy_table",
    "apply",
    "assign_lines",
    "attach",
    "chain",
    "choose_members",
    "cluster",
    "compare",
    "line_accuracy",
    "majority",
    "merge",
    "nearest_line",
    "regress",
    "segment",
    "slice_",
    "split",
    "stretch",
    "vote",
    "warp",
]
