"""Read the checkpoints that were published with HAT (``HAT_TP.pt``, ``HAT_TA.pt``, ``HAT_FV.pt``).

Every tensor of the file has to be known and to have the right shape. The backbone in them is the
ResNet-50 of a Mask2Former (frozen, detectron2's names): it is handed back, since backbones are
separate here. Parts of the file that the published forward pass never reads are named in the
report and left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gazeattn.errors import DataError
from gazeattn.models.layers.positions import sinusoid
from gazeattn.models.scanpath.hat import FREE_VIEWING, HAT

RESNET = {"stride4": 256, "stride8": 512, "stride16": 1024, "stride32": 2048}
TARGETS = (
    "bottle", "bowl", "car", "chair", "clock", "cup", "fork", "keyboard", "knife", "laptop",
    "microwave", "mouse", "oven", "potted plant", "sink", "stop sign", "toilet", "tv",
)  # fmt: skip
"""The search targets of COCO-Search18 in alphabetical order."""

_RENAMED: tuple[tuple[str, str], ...] = (
    (r"encoder\.pixel_decoder\.input_proj\.", "pixels.inputs."),
    (r"encoder\.pixel_decoder\.transformer\.level_embed$", "pixels.levels"),
    (r"encoder\.pixel_decoder\.transformer\.encoder\.layers\.", "pixels.layers."),
    (r"encoder\.pixel_decoder\.mask_features\.", "pixels.mask."),
    (r"encoder\.pixel_decoder\.(?:lateral_convs\.)?adapter_1\.norm\.", "pixels.lateral.1."),
    (r"encoder\.pixel_decoder\.(?:lateral_convs\.)?adapter_1\.", "pixels.lateral.0."),
    (r"encoder\.pixel_decoder\.(?:output_convs\.)?layer_1\.norm\.", "pixels.fine.1."),
    (r"encoder\.pixel_decoder\.(?:output_convs\.)?layer_1\.", "pixels.fine.0."),
    (r"input_proj\.", "project."),
    (r"query_embed\.", "query."),
    (r"working_memory_encoder\.layers\.(\d+)\.", r"encoder.\1."),
    (r"transformer_cross_attention_layers_dorsal\.(\d+)\.norm\.", r"readers.\1.norm1."),
    (r"transformer_cross_attention_layers_dorsal\.(\d+)\.multihead_attn\.",
     r"readers.\1.self_attn."),
    (r"transformer_ffn_layers\.(\d+)\.norm\.", r"readers.\1.norm2."),
    (r"transformer_ffn_layers\.(\d+)\.", r"readers.\1."),
    (r"termination_predictor\.", "ending."),
    (r"fixation_embed\.", "place."),
    (r"fix_ind_emb\.", "number."),
    (r"dorsal_ind_emb\.", "scale."),
    (r"ventral_ind_emb\.", "fovea."),
)  # fmt: skip
_INSIDE = (
    ("self_attn.sampling_offsets.", "attention.offsets."),
    ("self_attn.attention_weights.", "attention.weights."),
    ("self_attn.value_proj.", "attention.values."),
    ("self_attn.output_proj.", "attention.output."),
    ("self_attn.in_proj_", "attention.in_"),
    ("self_attn.out_proj.", "attention.output."),
)
_UNUSED = (r"transformer_self_attention_layers\.", r"decoder_norm\.", r"query_pos\.")
_CODES = {"pixel_loc_emb.pos_w_embedding": 0, "pixel_loc_emb.pos_h_embedding": 1}
_BACKBONE = "encoder.backbone."
_OURS = ("prior", "prior_factor", "stop_weight")


@dataclass
class LoadReport:
    """What became of the tensors of a published file.

    Attributes
    ----------
    loaded : dict of str to str
        Published name -> our name.
    unused : list of str
        Tensors that the published forward pass does not read.
    checked : list of str
        Position tables, equal to ours.
    backbone : dict of str to Tensor
        Of the frozen backbone, under the published names without their prefix.
    """

    loaded: dict[str, str] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    backbone: dict[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{len(self.loaded)} tensors loaded, {len(self.checked)} position tables equal, "
            f"{len(self.unused)} not used, {len(self.backbone)} of the backbone"
        )


def our_name(name: str) -> str | None:
    """Return our name of a published tensor, or None where it has none."""
    for pattern, ours in _RENAMED:
        found = re.match(pattern, name)
        if found:
            result = found.expand(ours) + name[found.end() :]
            for old, new in _INSIDE:
                result = result.replace(old, new)
            return result
    return None


def _tensors(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a file; code in it is never run."""
    try:
        content = torch.load(Path(path).expanduser(), map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DataError("there is no such file", source=str(path)) from None
    except Exception as error:  # the reader of pickles raises whatever it stumbles over
        raise DataError(
            "not a file of tensors that is safe to load",
            source=str(path),
            hint="files with other Python objects are not opened; save their state dict alone",
        ) from error
    state = content.get("model", content) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise DataError("no state dict in the file", source=str(path), expected="key 'model'")
    return {str(k).removeprefix("module."): v for k, v in state.items()}


def _shape(state: Mapping[str, Tensor], name: str, path: str | Path, ndim: int) -> tuple[int, ...]:
    """Return the shape of a tensor from which sizes of the model are read."""
    if name not in state:
        raise DataError(f"tensor {name} is not in the file", source=str(path))
    shape = tuple(int(n) for n in state[name].shape)
    if len(shape) != ndim or 0 in shape:
        raise DataError(
            f"tensor {name} has the wrong dimensions", source=str(path),
            expected=f"{ndim} dimensions, none of them empty", found=f"shape {shape}",
        )  # fmt: skip
    return shape


def _count(names: Sequence[str], pattern: str) -> int:
    found = [re.match(pattern, n) for n in names]
    return len({m.group(1) for m in found if m})


def load_published(
    path: str | Path,
    *,
    image_size: Sequence[int] = (512, 320),
    tasks: Sequence[str] | None = None,
    backbone: str = "resnet50",
    **options: Any,
) -> tuple[HAT, LoadReport]:
    """Return a model with the weights of a published file, and what became of each tensor.

    Parameters
    ----------
    path
        Opened with the safe loader.
    image_size
        (width, height) that the file was trained with; its position tables are compared.
    tasks
        Names of the queries. By default free viewing for one query, the targets of COCO-Search18
        in alphabetical order for 18, these and free viewing for 19.
    backbone
        Name of the backbone that fills `Stimulus.features`; the file's own is in the report.
    options
        Further arguments of `HAT` that leave its shapes as they are, such as ``start="center"``
        (the default here, as the published training has it) or ``peripheral=(32, 16)``.

    Raises
    ------
    DataError
        There is no such file, it is no file of tensors, or a tensor is unknown, missing, or of
        another shape; the message lists all of them.
    """
    state = _tensors(path)
    names = list(state)
    pixels = "encoder.pixel_decoder."
    n_tasks, width = _shape(state, "query_embed.weight", path, 2)
    inputs = [_shape(state, f"{pixels}input_proj.{i}.0.weight", path, 4) for i in range(3)]
    linear = _shape(state, f"{pixels}transformer.encoder.layers.0.linear1.weight", path, 2)
    fine = f"{pixels}lateral_convs.adapter_1.weight"
    fine = fine if fine in state else f"{pixels}adapter_1.weight"
    history = _shape(state, "fix_ind_emb.weight", path, 2)[0]
    channels = {
        "stride4": _shape(state, fine, path, 4)[1],
        "stride8": inputs[2][1],
        "stride16": inputs[1][1],
        "stride32": inputs[0][1],
    }
    chosen: dict[str, Any] = {
        "backbone": backbone,
        "image_size": tuple(image_size),
        "channels": channels,
        "tasks": _task_names(n_tasks) if tasks is None else tuple(tasks),
        "decoder_width": inputs[0][0],
        "decoder_hidden": linear[0],
        "decoder_layers": _count(
            names, r"encoder\.pixel_decoder\.transformer\.encoder\.layers\.(\d+)\."
        ),
        "width": width,
        "hidden": _shape(state, "transformer_ffn_layers.0.linear1.weight", path, 2)[0],
        "encoder_layers": _count(names, r"working_memory_encoder\.layers\.(\d+)\."),
        "query_layers": _count(names, r"transformer_cross_attention_layers_dorsal\.(\d+)\."),
        "history": history,
        "max_fixations": history,
        "start": "center",
        "stop": "threshold",
    }
    try:
        model = HAT(**{**chosen, **options})
    except (ValueError, RuntimeError, AssertionError, ZeroDivisionError) as error:
        raise DataError(
            "no model can be built of the sizes in the file", source=str(path), found=error
        ) from error
    return model, fill(model, state, source=str(path))


def _task_names(n: int) -> tuple[str, ...]:
    known = {1: (FREE_VIEWING,), 18: TARGETS, 19: (*TARGETS, FREE_VIEWING)}
    return known[n] if n in known else tuple(f"task {i}" for i in range(n))


def fill(model: HAT, state: Mapping[str, Tensor], source: str = "") -> LoadReport:
    """Put published tensors into a model, strictly: all names and shapes have to match."""
    report = LoadReport()
    own = model.state_dict()
    new: dict[str, Tensor] = {}
    wrong: list[str] = []
    for name, value in state.items():
        if name.startswith(_BACKBONE):
            report.backbone[name.removeprefix(_BACKBONE)] = value
        elif name in _CODES:
            n = model.grid[1] if _CODES[name] == 0 else model.grid[0]
            table = sinusoid(torch.arange(n), model.code.shape[-1] // 2)
            if table.shape != value.shape or not torch.allclose(table, value.float(), atol=1e-4):
                wrong.append(f"{name}: not the position table of image size "
                             f"{model.grid[1] * 4} x {model.grid[0] * 4}")  # fmt: skip
            report.checked.append(name)
        elif any(re.match(p, name) for p in _UNUSED):
            report.unused.append(name)
        else:
            ours = our_name(name)
            if ours is None or ours not in own:
                wrong.append(f"{name}: unknown")
            elif own[ours].shape != value.shape:
                wrong.append(f"{name}: {tuple(value.shape)} instead of {tuple(own[ours].shape)}")
            elif ours in new:
                wrong.append(f"{name}: a second tensor for {ours}")
            else:
                new[ours] = value
                report.loaded[name] = ours
    claimed = set(new) | {our_name(w.split(":")[0]) for w in wrong}
    wrong += [f"{k}: missing" for k in own if k not in claimed and k not in _OURS]
    if wrong:
        raise DataError(
            f"{len(wrong)} tensors do not fit: " + "; ".join(wrong[:20]),
            source=source,
            hint="the file has to be one of this architecture, see the options of load_published",
        )
    model.load_state_dict({**own, **new}, strict=True)
    return report
