"""Displays of the six experiments on search asymmetry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.stimuli.asymmetry import (
    ANGLES,
    EXPERIMENTS,
    bar,
    curves,
    display,
    lines,
    save,
    shaded_disc,
    strokes,
    turned,
)

CASES = [(e.name, c, n) for e in EXPERIMENTS.values() for c in e.conditions for n in e.set_sizes]


@pytest.mark.parametrize(("experiment", "condition", "n"), CASES)
def test_a_display_has_its_items_one_target_and_nothing_outside_the_cells(experiment, condition, n):
    e = EXPERIMENTS[experiment]
    for trial in range(3):
        d = display(experiment, condition, n, trial, seed=5)
        assert d.picture.shape == (e.side, e.side) and d.picture.dtype == np.uint8
        assert d.target.shape == (e.item, e.item)
        assert len(d.places) == e.grid**2
        assert d.places["item"].sum() == n and d.places["target"].sum() == 1
        assert d.places.loc[d.places["target"], "item"].all()
        outside = np.ones(d.picture.shape, dtype=bool)
        for p in d.places.itertuples():
            cell = d.picture[p.ymin : p.ymax, p.xmin : p.xmax]
            assert (cell != e.background).any() == p.item
            outside[p.ymin : p.ymax, p.xmin : p.xmax] = False
            windows = np.lib.stride_tricks.sliding_window_view(cell, d.target.shape)
            same = (windows == d.target).all((2, 3)).any()
            assert same == p.target, "the target stands where it is said to stand, and only there"
        assert (d.picture[outside] == e.background).all()


def test_equal_seeds_draw_equal_displays_and_other_seeds_and_trials_others():
    one = display("letters", "Ts", 6, 2, seed=1)
    assert (one.picture == display("letters", "Ts", 6, 2, seed=1).picture).all()
    assert (one.picture != display("letters", "Ts", 6, 3, seed=1).picture).any()
    assert (one.picture != display("letters", "Ts", 6, 2, seed=2).picture).any()


def test_the_target_stands_in_every_cell_sooner_or_later():
    where = {
        int(np.flatnonzero(display("cross", "cross", 3, k).places["target"])[0]) for k in range(80)
    }
    assert where == set(range(9))


def test_sizes_in_pixels_are_degrees_times_thirty():
    e = EXPERIMENTS["orientation_same"]
    upright = 255 - bar(e, 0).astype(float)
    # 2 by .3 degrees: 60 by 9 pixels of full ink
    assert upright.sum() / 255 == pytest.approx(60 * 9, rel=0.01)
    assert (upright.sum(0) > 0).sum() in (9, 10, 11) and (upright.sum(1) > 0).sum() in (60, 61, 62)
    tilted = 255 - bar(e, -20).astype(float)
    assert tilted.sum() / 255 == pytest.approx(60 * 9, rel=0.02)
    # clockwise: the upper end is on the right
    ys, xs = np.nonzero(tilted > 128)
    assert xs[ys < 15].mean() > xs[ys > 54].mean() + 10
    c = EXPERIMENTS["curvature"]
    line = lines(c)[3].astype(float)
    assert line.sum() / 255 == pytest.approx(36 * 6, rel=0.02)
    # an arc of 1.3 rad, radius 30, 5 thick: 195 pixels; four angles hold the same ink
    inks = [a.astype(float).sum() / 255 for a in curves(c)]
    assert inks == pytest.approx([1.3 * 30 * 5] * 4, rel=0.05)


def test_curves_bend_and_lines_do_not():
    c = EXPERIMENTS["curvature"]
    for item, bends in [*((a, True) for a in curves(c)), *((a, False) for a in lines(c))]:
        at = np.argwhere(item > 128).astype(float)
        assert np.abs(at.mean(0) - 23.5).max() < 3, "items stand in the middle"
        narrow = np.linalg.svd(at - at.mean(0))[1][1] / np.sqrt(len(at))
        # half the thickness over sqrt 3 is 1.7 for the line of 6; the arc is wider by its bend
        assert (narrow > 1.9) == bends


def test_the_disc_gets_lighter_downwards_in_steps_of_17_and_the_target_upwards():
    e = EXPERIMENTS["lighting"]
    disc = shaded_disc(e)
    middle = disc[1:-1, e.item // 2].astype(int)
    assert (np.diff(middle) >= 0).all() and set(np.diff(middle)) == {0, 17}
    assert disc[0, 0] == 27
    up = display("lighting", "top_down", 6)
    assert up.target[3, 15] > up.target[-4, 15]
    side = display("lighting", "left_right", 6)
    assert side.target[15, 3] > side.target[15, -4]
    assert (side.target.T == up.target).all()


def test_cross_and_non_cross_have_nearly_equal_ink_and_four_orientations():
    e = EXPERIMENTS["cross"]
    cross, other = (255 - strokes(e, s).astype(int) for s in ("cross", "non_cross"))
    assert cross.sum() == pytest.approx(other.sum(), rel=0.03)
    for shape in ("cross", "non_cross", "L", "T"):
        items = turned(strokes(e, shape))
        assert len({i.tobytes() for i in items}) == 4
    # the crossing: ink in the same row on both sides of the vertical line, once
    assert ((cross[:, 30] > 0) & (cross[:, -30] > 0)).any()
    assert not ((other[:, 30] > 0) & (other[:, -30] > 0)).any()


def test_mixed_orientations_take_turns_and_hold_the_other_target():
    e = EXPERIMENTS["orientation_mixed"]
    kinds = [bar(e, a) for a in (*ANGLES, -20.0)]
    d = display("orientation_mixed", "hetero_t0", 9, 1)
    seen = []
    for p in d.places[d.places["item"] & ~d.places["target"]].itertuples():
        cell = d.picture[p.ymin : p.ymax, p.xmin : p.xmax]
        windows = np.lib.stride_tricks.sliding_window_view(cell, d.target.shape)
        seen += [k for k, item in enumerate(kinds) if (windows == item).all((2, 3)).any()]
    assert sorted(seen) == list(range(8)), "eight distractors are the eight kinds"


def test_wrong_names_and_sizes_are_refused():
    with pytest.raises(UnknownNameError):
        display("colour", "red", 4)
    with pytest.raises(UnknownNameError):
        display("letters", "cross", 3)
    for n in (0, 10):
        with pytest.raises(DataError):
            display("letters", "Ts", n)


def test_saved_pictures_are_the_display(tmp_path: Path):
    d = display("lighting", "left_right", 1)
    paths = save(d, tmp_path / "new")
    for path, values in zip(paths, (d.picture, d.target), strict=True):
        assert (np.asarray(Image.open(path)) == values).all()


def test_human_indices_are_the_published_ones():
    found = [round(e.human_index, 3) for e in EXPERIMENTS.values()]
    assert found == pytest.approx([0.809, 0.701, 0.362, 0.404, 0.611, 0.500], abs=6e-4)
