"""Fixtures for all tests: the shared recordings and the golden values, skipped where absent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def shared_folder() -> Path:
    """Return the folder with shared recordings (`GAZEATTN_SHARED`, else beside the checkout)."""
    default = REPOSITORY.parent / "shared" / "data"
    return Path(os.environ.get("GAZEATTN_SHARED", default)).resolve()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = shared_folder()
    if not folder.is_dir():
        pytest.skip(f"real recordings are not here: {folder} (set GAZEATTN_SHARED)")
    return folder


class Golden:
    """Reads reference files, as in ``golden("D_stats.json")`` or ``golden.arrays("X.npz")``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, name: str) -> dict[str, Any]:
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        with np.load(self.path / name, allow_pickle=False) as file:
            return {k: file[k] for k in file.files}


@pytest.fixture(scope="session")
def golden() -> Golden:
    folder = shared_folder().parent / "golden"
    if not folder.is_dir():
        pytest.skip(f"reference values are not here: {folder} (set GAZEATTN_SHARED)")
    return Golden(folder)
