"""The real sample (fetched once, then from the cache) and small files of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gazeattn.datasets
from gazeattn.datasets import GazeDataset
from gazeattn.downloads import fetch
from gazeattn.errors import MissingAssetError


@pytest.fixture(scope="session")
def sample() -> GazeDataset:
    try:
        fetch("onestop_sample")
    except MissingAssetError as error:
        pytest.skip(f"the sample is not cached and cannot be fetched: {error}")
    return gazeattn.datasets.load("onestop_sample")


@pytest.fixture(scope="session")
def slice_(shared_data: Path) -> GazeDataset:
    return gazeattn.datasets.load("onestop_slice", root=shared_data)


FIXATIONS = """\
participant,trial,stimulus,x,y,onset,duration
P01,t1,A,5,5,0,200
P01,t1,A,15,5,210,180
P02,t2,A,25,5,0,150
"""
WORDS = """\
stimulus,word,text,left,top,right,bottom
A,0,The,0,0,10,10
A,1,old,10,0,20,10
A,2,man,20,0,30,10
"""


@pytest.fixture
def load_table(tmp_path: Path) -> Callable[..., GazeDataset]:
    """Write files from text or bytes and load them: ``load_table(fixations=..., words=...)``."""

    def load(**options: Any) -> GazeDataset:
        given = {"fixations": FIXATIONS, "words": WORDS, **options}
        for step in ("fixations", "words", "trials", "texts"):
            content = given.get(step)
            if isinstance(content, str | bytes):
                path = tmp_path / f"{step}.csv"
                path.write_bytes(content.encode() if isinstance(content, str) else content)
                given[step] = path
        return gazeattn.datasets.load("table", **given)

    return load
