"""Blinks by the pupil, and what lies near them."""

from __future__ import annotations

import numpy as np
import pytest

from gazeattn.errors import DataError
from gazeattn.events import find_blinks, near

AT = np.arange(500) * 2.0


def pupil(*gone: tuple[int, int], value: float = 0.0) -> np.ndarray:
    size = np.full(500, 900.0)
    for first, stop in gone:
        size[first:stop] = value
    return size


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_by_hand(value):
    blinks, lost = find_blinks(AT, pupil((100, 150), (200, 210), value=value))
    assert blinks.onset.tolist() == [200] and blinks.offset.tolist() == [298]
    assert blinks.duration.tolist() == [100]  # 50 samples of 2 ms
    assert lost.count() == 1 and "less than 50 ms" in str(lost)  # 10 samples: 20 ms


@pytest.mark.parametrize(
    "n, counting, found",
    [(25, "inclusive", 1), (24, "inclusive", 0), (26, "span", 1), (25, "span", 0)],
)
def test_shortest(n, counting, found):
    assert len(find_blinks(AT, pupil((100, 100 + n)), counting=counting)[0]) == found


@pytest.mark.parametrize("n, found", [(100, 1), (101, 0)])
def test_longest(n, found):
    blinks, lost = find_blinks(AT, pupil((100, 100 + n)), maximum_duration=200)
    assert len(blinks) == found and len(lost) == 1 - found


def test_losses_at_the_ends_are_no_blinks():
    blinks, lost = find_blinks(AT, pupil((0, 60), (440, 500)))
    assert not len(blinks) and lost.count() == 2
    breaks = np.arange(500) == 250
    assert not len(find_blinks(AT, pupil((190, 250)), breaks=breaks)[0])


def test_no_pupil_at_all_is_no_blink():
    for value in (0.0, np.nan):
        blinks, lost = find_blinks(AT, pupil((0, 500), value=value))
        assert not len(blinks) and "no pupil" in str(lost)


def test_without_a_clock():
    with pytest.raises(DataError, match="no time axis"):
        find_blinks(None, pupil((100, 150)))
    assert find_blinks(None, pupil((100, 150)), rate=500)[0].duration.tolist() == [100]
    found = find_blinks(
        None, pupil((100, 150)), unit="samples", minimum_duration=50, maximum_duration=50
    )
    assert found[0].duration.tolist() == [50]


def test_limits():
    with pytest.raises(DataError, match="longest"):
        find_blinks(AT, pupil(), minimum_duration=100, maximum_duration=50)


def test_near():
    at = np.arange(10) * 10.0
    assert near(at, [30], [50]).nonzero()[0].tolist() == [3, 4, 5]
    assert near(at, [30], [50], 10).nonzero()[0].tolist() == [2, 3, 4, 5, 6]
    assert near(at, [30], [50], (0, 35)).nonzero()[0].tolist() == [3, 4, 5, 6, 7, 8]
    assert near(at, [0, 20, 25], [1, 25, 90]).tolist() == [True, False] + [True] * 8
    assert not near(at, [np.nan, 30], [50, np.nan], 10).any()
    at[3] = np.nan
    assert near(at, [0], [1000]).tolist() == [True] * 3 + [False] + [True] * 6
    for bad in (-1, (1, -1), float("nan")):
        with pytest.raises(DataError, match="padding"):
            near(at, [0], [1], bad)
