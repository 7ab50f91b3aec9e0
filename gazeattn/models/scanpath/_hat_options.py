"""Which options of HAT go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gazeattn.errors import DataError, UnknownNameError

CHOICES = {
    "index": ("age", "order"),
    "start": ("empty", "center"),
    "center_prior": ("none", "fitted"),
    "saccade_prior": ("none", "learned"),
    "loss": ("focal", "density"),
    "stop": ("sample", "threshold"),
}


def check_options(given: Mapping[str, Any]) -> None:
    """Raise for a value that is none of an option's, or options that exclude each other.

    Raises
    ------
    UnknownNameError, DataError
    """
    for name, known in CHOICES.items():
        if given[name] not in known:
            raise UnknownNameError(name, str(given[name]), known)
    size, peripheral, beta = tuple(given["image_size"]), given["peripheral"], given["beta"]
    loss, sigma, inhibition = given["loss"], given["sigma"], given["inhibition"]
    history, returns = given["history"], given["returns"]
    if any(s % 32 for s in size) or len(size) != 2:
        raise DataError("image_size needs multiples of 32", found=size)
    if not {4, 8, 16, 32} <= set(given["strides"]):
        raise DataError(
            "HAT needs the maps of strides 4, 8, 16 and 32", found=tuple(given["strides"])
        )
    if not peripheral or not set(peripheral) <= {32, 16}:
        raise DataError("peripheral tokens have stride 32 or 16", found=tuple(peripheral))
    if loss == "focal" and (int(beta) != beta or sigma <= 0):
        raise DataError("the focal loss needs a whole beta and sigma > 0", found=(beta, sigma))
    if not given["tasks"] or history < 1 or given["max_fixations"] < 1:
        raise DataError("tasks, history and max_fixations are at least one each")
    if returns < 0 or (returns and (loss == "focal" or inhibition > 0 or returns > history)):
        raise DataError(
            "returns need the density loss, no inhibition, and a history that holds them",
            found=f"returns {returns}, loss {loss}, inhibition {inhibition}, history {history}",
        )
