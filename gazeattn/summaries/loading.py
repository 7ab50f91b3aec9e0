"""Summaries by name: those of packages, CodeXGLUE, Funcom, or a folder of one's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gazeattn.errors import MissingAssetError
from gazeattn.losses import LossLog
from gazeattn.summaries.codexglue import HUB_ID, read_codexglue
from gazeattn.summaries.funcom import read_funcom
from gazeattn.summaries.packages import NAME, summaries_folder
from gazeattn.summaries.pairs import FACTS, CodePairs, without_duplicates


def load_summaries(
    name: str | os.PathLike[str] = NAME,
    *,
    root: str | os.PathLike[str] | None = None,
    language: str = "java",
    against: Sequence[str] = (),
    lost: LossLog | None = None,
) -> CodePairs:
    """Return pairs of code and summary.

    Parameters
    ----------
    name
        ``"code_summaries"`` (built by `gazeattn fetch code_summaries`); the hub id of CodeXGLUE;
        or a folder: one that `CodePairs.save` wrote, CodeXGLUE's, or Funcom's.
    root
        Data folder.
    language
        Of CodeXGLUE.
    against
        Code of an eye-tracking study, which is taken out.
    lost
        Receives the counts.

    Raises
    ------
    MissingAssetError
        Nothing of the name is on this machine.
    """
    lost = LossLog() if lost is None else lost
    path = Path(name).expanduser()
    if str(name) == NAME:
        folder = summaries_folder(root)
        if not (folder / FACTS).is_file():
            raise MissingAssetError(
                f"no summaries in {folder}. With a network connection run: gazeattn fetch {NAME}"
            )
        made = CodePairs.load(folder)
    elif (path / FACTS).is_file():
        made = CodePairs.load(path)
    elif str(name) == HUB_ID:
        made = read_codexglue(name, language, lost)
    elif not path.is_dir():
        raise MissingAssetError(
            f"no summaries {str(name)!r}: expected {NAME}, {HUB_ID} or a folder"
        )
    elif any(path.glob("*functions*")) or any(path.glob("*/functions*")) or any(path.glob("dats*")):
        made = read_funcom(path, lost)
    else:
        made = read_codexglue(path, language, lost)
    if not against:
        return made
    return replace(made, table=without_duplicates(made.table, lost, against)).check(name)
