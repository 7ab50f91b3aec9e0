"""The headline may be of single readers; layers and heads are always of the average reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from gazeattn.attention.comparison import Comparison
from gazeattn.datasets.base import GazeDataset
from gazeattn.report import write_report


def at_reader_level(c: Comparison) -> Comparison:
    """Add rows of single readers, as a comparison has them, and make them the headline."""

    def both(frame: pd.DataFrame) -> pd.DataFrame:
        plain = frame[frame["layer"].isna() & frame["head"].isna()]
        return pd.concat([frame, plain.assign(level="reader")], ignore_index=True)

    info = {**c.info, "settings": {**c.info["settings"], "level": "reader"}}
    return Comparison(
        c.answer, both(c.alignment), both(c.summary), c.profiles, c.transitions, c.lost, info
    )


def test_heads_are_drawn_whatever_the_headline_is(
    comparison_factory: Callable[..., Comparison],
    dataset_factory: Callable[..., GazeDataset],
    tmp_path: Path,
) -> None:
    dataset = dataset_factory()
    c = at_reader_level(comparison_factory(dataset))
    page = write_report(c, dataset, tmp_path, command="x").read_text(encoding="utf-8")
    for name in ("head_map", "layer_curve"):
        assert (tmp_path / "figures" / f"{name}.svg").stat().st_size > 2000
    assert "Single heads were not compared" not in page
    assert "Here people are the average over the readers of a text" in page
    assert "averaged over trials" in page and "as a share of the agreement between readers" in page


def test_no_share_of_the_ceiling_for_the_average_reader(
    comparison_factory: Callable[..., Comparison],
    dataset_factory: Callable[..., GazeDataset],
    tmp_path: Path,
) -> None:
    dataset = dataset_factory()
    page = write_report(comparison_factory(dataset), dataset, tmp_path, command="x")
    assert "as a share of the agreement between readers" not in page.read_text(encoding="utf-8")
