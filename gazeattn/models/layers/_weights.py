"""State dictionaries of backbones: safe reading, strict matching by name, a sum of the content."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from gazeattn.errors import DataError, MissingAssetError

COUNTER = "num_batches_tracked"
"""Steps of training of a BatchNorm; older files lack it and a frozen network never reads it."""


def read_state(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the tensors of a ``.pth``, ``.pt``, ``.bin`` or ``.safetensors`` file by name.

    Nothing but tensors is read from the file: code in it is never run.

    Raises
    ------
    MissingAssetError
        There is no such file.
    DataError
        The file is damaged, or holds something else than tensors by name.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise MissingAssetError(f"there is no file of weights {path}")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: object = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise DataError("weights cannot be read", source=path, found=error) from error
    except Exception as error:
        if type(error).__name__ != "SafetensorError":
            raise
        raise DataError("weights cannot be read", source=path, found=error) from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise DataError(
            "not a state dictionary", source=path, expected="tensors by name", found=type(state)
        )
    return {str(k): v for k, v in state.items()}


def load_strictly(
    network: nn.Module,
    state: Mapping[str, Tensor],
    *,
    source: object,
    rename: Callable[[str], str] = str,
    unused: Collection[str] = (),
) -> None:
    """Copy a state dictionary into a network; every name and shape has to fit.

    Parameters
    ----------
    rename
        From the name in the file to the name in the network.
    unused
        Names of the file that the network has no part for, such as its classifier.

    Raises
    ------
    DataError
        Names that are missing or unexpected (all are listed), or tensors of another shape.
    """
    kept = {rename(k): (k, v) for k, v in state.items() if k not in unused}
    wanted = network.state_dict()
    missing = [k for k in wanted if k not in kept and not k.endswith(COUNTER)]
    unexpected = [k for n, (k, _) in kept.items() if n not in wanted and not n.endswith(COUNTER)]
    shapes = [
        f"{k}: expected {tuple(wanted[n].shape)}, found {tuple(v.shape)}"
        for n, (k, v) in kept.items()
        if n in wanted and wanted[n].shape != v.shape
    ]
    wrong = [
        f"{label}: {', '.join(names)}"
        for label, names in (("missing", missing), ("unexpected", unexpected), ("shapes", shapes))
        if names
    ]
    if wrong:
        raise DataError("the weights are not those of this network", source=source,
                        found="; ".join(wrong))  # fmt: skip
    bad = [k for n, (k, v) in kept.items() if n in wanted and not bool(torch.isfinite(v).all())]
    if bad:
        raise DataError("weights are not finite", source=source, found=", ".join(bad))
    network.load_state_dict({n: v for n, (_, v) in kept.items() if n in wanted}, strict=False)


def sum_of(network: nn.Module) -> str:
    """Return the SHA-256 over names, types, shapes and values of all tensors of a network."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        if name.endswith(COUNTER):
            continue
        value = value.detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
