"""From a configuration to a model that is ready to be trained, and back from a run folder."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from gazeattn import registry
from gazeattn.assets import ASSETS
from gazeattn.datamodules import Scanpaths
from gazeattn.errors import DataError, GazeattnError, UnknownNameError
from gazeattn.experiments.config import conf_folder
from gazeattn.experiments.training import BEST, Training
from gazeattn.models.scanpath.base import FeatureSpec, NetworkModel, ScanpathModel
from gazeattn.storage import write_text

RUN = "run.yaml"
"""What `gazeattn predict` reads of a run folder."""
OWN = ("name", "training", "sizes")
"""Keys of a model's configuration that are no arguments of its class."""
_ELSEWHERE = {
    "objects": ("displays whose objects are marked", "object_search"),
    "target": ("displays with a target to search for", "search_asymmetry"),
}
"""What a model needs that pictures of free viewing have not, and the benchmark that has it."""


def model_names() -> list[str]:
    """Return the names of the model configurations."""
    return sorted(p.stem for p in (conf_folder() / "model").glob("*.yaml"))


def read_model(name: str) -> dict[str, Any]:
    """Return the configuration of a model as it stands in its file.

    Raises
    ------
    UnknownNameError
        No such configuration.
    """
    path = conf_folder() / "model" / f"{name}.yaml"
    if not path.is_file():
        raise UnknownNameError("model", name, model_names())
    plain = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    assert isinstance(plain, dict)
    return {str(k): v for k, v in plain.items()}


def sized(config: Mapping[str, Any], size: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return a model's configuration with the reductions of a size.

    Parameters
    ----------
    config
        With the reductions of each size under ``sizes``.
    size
        ``"tiny"``, ``"cpu"`` or ``"full"``.
    overrides
        Keys that the user has set, ``"training.max_epochs"``: they win over the reductions.
    """
    plain = deepcopy(dict(config))
    sizes = plain.pop("sizes", None) or {}
    if sizes and size not in sizes:
        raise UnknownNameError("size", size, sizes)
    changes = deepcopy(sizes.get(size) or {})
    training = {**(plain.get("training") or {}), **(changes.pop("training", None) or {})}
    made = {**plain, **changes}
    if training:
        made["training"] = training
    for key in overrides:
        parts = key.split(".")
        source: Any = config
        target: Any = made
        for part in parts[:-1]:
            source, target = source[part], target.setdefault(part, {})
        target[parts[-1]] = source[parts[-1]]
    return made


def scanpath_kind(config: Mapping[str, Any]) -> type[ScanpathModel]:
    """Return the class of a model of scanpaths over pictures.

    Raises
    ------
    UnknownNameError
        No such model.
    DataError
        It is a model of something else; the message names the command for it.
    """
    name = str(config["name"])
    if name not in registry.scanpath_models and name in registry.reading_models:
        raise DataError(
            f"{name} says something about readers and predicts no scanpaths",
            hint="choose a task, as in gazeattn train experiment=copco/dyslexia model="
            f"{name}, or see gazeattn benchmark reading",
        )
    entry = registry.scanpath_models.get(name)
    needs = [n for n in entry.info.get("needs", ()) if n in _ELSEWHERE]
    if needs:
        what, benchmark = _ELSEWHERE[needs[0]]
        raise DataError(
            f"{name} needs {what}; the data sets of this command have none",
            hint=f"Use gazeattn benchmark {benchmark}",
        )
    kind = entry.obj
    assert isinstance(kind, type) and issubclass(kind, ScanpathModel)
    return kind


def feature_spec(config: Mapping[str, Any]) -> FeatureSpec | None:
    """Return what a model wants of a backbone, None where it sees no picture or runs its own."""
    if not config.get("backbone") or not config.get("strides"):
        return None
    width, height = config["image_size"]
    strides = tuple(int(s) for s in config["strides"])
    return FeatureSpec(str(config["backbone"]), (int(width), int(height)), strides)


def with_features(
    paths: Sequence[Scanpaths],
    spec: FeatureSpec | None,
    root: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Scanpaths]:
    """Return scanpaths with the features of every stimulus, each picture seen once."""
    if spec is None:
        return list(paths)
    from gazeattn.models.layers.features import FeatureStore

    store = FeatureStore(spec, root)
    stimuli = {n: s for p in paths for n, s in p.stimuli.items()}
    store.fill(list(stimuli.values()), progress=progress)
    return [p.with_features(store) for p in paths]


def ensure_weights(configs: Iterable[Mapping[str, Any]], root: str | None, fetch: bool) -> None:
    """Download the weights of default backbones that are not on this machine, where allowed."""
    from gazeattn.downloads import fetch_all, installed_state

    wanted = {str(c.get("backbone")).replace("_", "-") for c in configs}
    missing = [n for n in sorted(wanted & set(ASSETS)) if installed_state(n, root) != "yes"]
    if missing and fetch:
        fetch_all(missing, root)


def build(
    config: Mapping[str, Any], channels: Mapping[str, int] | None = None, seed: int = 0
) -> ScanpathModel:
    """Return a model from its configuration (`sized`).

    Parameters
    ----------
    config
        ``name`` is that of a registered model; the rest are its arguments.
    channels
        Channels of each map of features, for models that see pictures.
    seed
        Of the initial weights.
    """
    kind = registry.scanpath_models.get(str(config["name"])).obj
    arguments = {k: v for k, v in config.items() if k not in OWN}
    if channels:
        arguments["channels"] = dict(channels)
    state = torch.get_rng_state()
    try:
        torch.manual_seed(seed)
        made = kind(**arguments)
    except TypeError as error:
        raise DataError(
            f"the configuration of {config['name']} does not fit its model", found=str(error)
        ) from None
    finally:
        torch.set_rng_state(state)
    return made


def channels_of(paths: Scanpaths) -> dict[str, int]:
    """Return the channels of each map of features of the first stimulus."""
    first = next(iter(paths.stimuli.values()))
    return {k: int(v.shape[0]) for k, v in first.features.items()}


def training_of(config: Mapping[str, Any]) -> Training:
    """Return the training settings of a model's configuration."""
    return Training.of(config.get("training") or {})


def write_run(folder: Path, config: Mapping[str, Any], seed: int) -> None:
    """Write what `read_run` reads: the model as it was built."""
    content = OmegaConf.create({"model": dict(config), "seed": seed})
    write_text(folder / RUN, OmegaConf.to_yaml(content))


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping that a YAML file holds.

    Raises
    ------
    DataError
        The file cannot be read or holds something else.
    """
    try:
        plain = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except Exception as error:  # parsers of YAML have error types of their own
        found = " ".join(str(error).split())[:200]
        raise DataError("the configuration cannot be read", source=path, found=found) from error
    if not isinstance(plain, dict):
        raise DataError("the file holds no configuration", source=path)
    return {str(k): v for k, v in plain.items()}


def read_run(folder: Path) -> dict[str, Any]:
    """Return the configuration of the model of a run folder.

    Raises
    ------
    DataError
        The folder holds no run.
    """
    if not (folder / RUN).is_file():
        inside = sorted(folder.glob(f"**/{RUN}"))[:3] if folder.is_dir() else []
        names = ", ".join(str(p.parent) for p in inside)
        raise DataError(
            "not the folder of a trained model", source=folder, expected=RUN,
            hint=f"there are some in it: {names}" if names else "gazeattn train makes one",
        )  # fmt: skip
    plain = read_yaml(folder / RUN)
    if not isinstance(plain.get("model"), dict) or "name" not in plain["model"]:
        raise DataError("the file does not describe a model", source=folder / RUN)
    return {str(k): v for k, v in plain["model"].items()}


def load_network(config: Mapping[str, Any], folder: Path) -> NetworkModel:
    """Return the trained network of a run folder, with the weights of its best epoch.

    Raises
    ------
    DataError
        There is no checkpoint, it cannot be read safely, or it is that of another model.
    """
    path = folder / "checkpoints" / BEST
    if not path.is_file():
        raise DataError(
            "the run has no trained model", source=folder, expected=f"checkpoints/{BEST}"
        )
    name = str(config["name"])
    kind = registry.scanpath_models.get(name).obj
    if not issubclass(kind, NetworkModel):
        raise DataError(f"{name} is no network and has no checkpoint", source=folder / RUN)
    expected = f"a checkpoint of gazeattn train model={name}"
    content = _checkpoint(path, expected)
    other = _other_settings(config, content["hyper_parameters"])
    if other:
        raise DataError(
            f"the checkpoint is not that of this run's {RUN}", source=path, expected=expected,
            found="; ".join(other),
        )  # fmt: skip
    try:
        model = kind.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    except (RuntimeError, KeyError, TypeError, ValueError, AttributeError, GazeattnError) as error:
        found = " ".join(str(error).split())[:400]
        raise DataError(
            "the checkpoint does not fit its model", source=path, expected=expected, found=found
        ) from error
    assert isinstance(model, NetworkModel)
    return model.eval()


def _checkpoint(path: Path, expected: str) -> dict[str, Any]:
    """Return the content of a checkpoint, whose code, if it holds any, is never run."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise DataError(
            "not a checkpoint that is safe to load", source=path, expected=expected,
            hint="files that hold more than tensors and plain values are not opened",
        ) from error  # fmt: skip
    except Exception as error:  # the reader of pickles raises whatever it stumbles over
        found = " ".join(str(error).split())[:200]
        raise DataError(
            "the checkpoint cannot be read", source=path, expected=expected, found=found
        ) from error
    whole = isinstance(content, dict) and all(
        isinstance(content.get(k), Mapping) for k in ("state_dict", "hyper_parameters")
    )
    if not whole:
        raise DataError("not a checkpoint of a trained model", source=path, expected=expected)
    return content


def _other_settings(config: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return how the arguments in a checkpoint differ from those of a configuration."""
    arguments = {k: _plain(v) for k, v in config.items() if k not in OWN}
    found = {str(k): _plain(v) for k, v in stored.items()}
    lacking = [f"no {k}" for k in arguments if k not in found]
    return lacking + [
        f"{k} {found[k]!r} instead of {v!r}"
        for k, v in arguments.items()
        if k in found and found[k] != v
    ]


def _plain(value: Any) -> Any:
    """Return a value as YAML would give it back: lists for tuples."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
