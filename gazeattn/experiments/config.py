"""The typed configuration, and checks that catch a wrong name before any work is done."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, ValueType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

import gazeattn
from gazeattn import registry
from gazeattn.errors import DataError, GazeattnError, UnknownNameError

T = TypeVar("T")
WHOLE = "experiment"
"""The group whose choices are about everything, not about a part of its own name."""


class ConfigError(GazeattnError, ValueError):
    """A configuration value that cannot be used; the message names the key."""


def conf_folder() -> Path:
    """Return the folder with the configuration files, in the wheel or in the checkout."""
    package = Path(gazeattn.__file__).resolve().parent
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "compare.yaml").is_file():
            return folder
    raise GazeattnError(f"the configuration files are missing beside {package}")


@dataclass
class AttentionConfig:
    """Options of the model side; see `gazeattn.lm.methods.AttentionOptions`."""

    methods: list[str] = field(default_factory=list)
    sink: str = "start_token"
    causal: str = "visible_mean"
    subword: str = "sum_mean"
    renormalise: bool = True
    include_self: bool = True
    layers: list[int] | None = None
    heads: list[int] | None = None
    entropy_unit: str = "normalised"
    distance_unit: str = "words"
    gradient_sign: str = "positive"
    target: str = "auto"
    long_text: str = "window"
    overlap: float = 0.5
    batch_size: int = 1


@dataclass
class LoggerConfig:
    """Where numbers are logged beside the run folder."""

    name: str = "csv"
    mode: str = "offline"
    project: str = "gazeattn"


@dataclass
class SizeConfig:
    """How much work is done."""

    name: str = "cpu"
    permutations: int = 1000
    bootstrap: int = 2000
    texts: int | None = None
    stimuli: int | None = None
    samples: int = 10


@dataclass
class DebugConfig:
    """Whether errors show full tracebacks."""

    traceback: bool = False


@dataclass
class CompareConfig:
    """Everything that `gazeattn compare` can be told."""

    dataset: dict[str, Any] = field(default_factory=dict)
    lm: dict[str, Any] = field(default_factory=dict)
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    size: SizeConfig = field(default_factory=SizeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    measures: list[str] = field(default_factory=list)
    baselines: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    head_metrics: list[str] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)
    topk: float = 0.2
    level: str = "reader"
    average: str = "mean"
    question: bool = False
    limit: int | None = None
    seed: int = 0
    root: str | None = None
    fetch: bool = True
    overwrite: bool = False


def typed(cfg: DictConfig, schema: type[T]) -> T:
    """Check a composed configuration against its schema and return plain objects.

    Raises
    ------
    ConfigError
        A value is missing or has the wrong type; the message names the key.
    """
    try:
        plain = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        key = getattr(error, "full_key", None) or str(error)
        raise ConfigError(f"{key} must be given, for example {key}=VALUE") from error
    try:
        merged = OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.create(plain))
        result = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None) or "configuration"
        message = str(error).splitlines()[0]
        raise ConfigError(f"{key}: {message}") from error
    assert isinstance(result, schema)
    return result


def store_registered() -> None:
    """Make every registered data set and model a choice of its configuration group."""
    store = ConfigStore.instance()
    for group, entries in (("dataset", registry.datasets), ("lm", registry.models)):
        for entry in entries:
            if (conf_folder() / group / f"{entry.name}.yaml").is_file():
                continue
            if group == "lm" and entry.info.get("task", "").startswith("vision"):
                continue
            node = {"name": entry.name}
            store.store(group=group, name=entry.name, node=node, provider="gazeattn")


def choices(group: str) -> list[str]:
    """Return the names that a configuration group knows."""
    folder = conf_folder() / group
    names = {p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.yaml")}
    if group == "dataset":
        names |= set(registry.datasets.names())
    if group == "lm":
        names |= set(registry.models.names())
    return sorted(names)


def groups_of(config_name: str) -> list[str]:
    """Return the groups that an experiment is composed of."""
    path = conf_folder() / f"{config_name}.yaml"
    if not path.is_file():
        return []
    node = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(node, dict)
    found = [str(k) for d in node.get("defaults", []) if isinstance(d, dict) for k in d]
    return [g for g in found if g in groups()]


def groups() -> list[str]:
    """Return the names of the configuration groups."""
    return sorted(p.name for p in conf_folder().iterdir() if p.is_dir() and any(p.rglob("*.yaml")))


_WITH_VALUE = (
    *("--cfg", "-c", "--package", "-p", "--config-name", "-cn", "--config-path", "-cp"),
    *("--config-dir", "-cd", "--experimental-rerun", "--info", "-i"),
)
"""Options of Hydra that are followed by a value."""


def prepare_overrides(arguments: Sequence[str], config_name: str = "compare") -> list[str]:
    """Check overrides and expand short forms.

    ``lm=FOLDER``, ``lm=ORG/NAME`` and ``lm=FILE.gguf`` become ``lm=custom lm.name=...``. An
    unknown group, choice or key raises with the nearest known names. Arguments that start with a
    dash are options of Hydra and pass through.
    """
    options: list[str] = []
    texts: list[str] = []
    waiting = False  # for the value of an option such as --cfg
    for argument in arguments:
        if waiting or argument.startswith("-"):
            options.append(argument)
            waiting = not waiting and argument in _WITH_VALUE
        else:
            texts.extend(_expand_model(argument))
    try:
        overrides = OverridesParser.create().parse_overrides(texts)
    except HydraException as error:
        raise ConfigError(f"cannot read the override: {str(error).splitlines()[0]}") from error
    known = groups_of(config_name)
    keys = _known_keys(config_name, known)
    for override in overrides:
        _check_override(override, known, keys)
    # what the user fills in has keys that the composed configuration cannot know
    free = [_is_free(o.key_or_group) or _is_foreign(o.key_or_group, keys) for o in overrides]
    plain = [not (o.is_add() or o.is_force_add() or o.is_delete()) for o in overrides]
    texts = [f"++{t}" if f and p else t for t, f, p in zip(texts, free, plain, strict=True)]
    return [*options, *texts]


def _expand_model(text: str) -> list[str]:
    match = re.fullmatch(r"lm=(?P<name>[^,{}\[\]]+)", text)
    if match is None:
        return [text]
    name = match["name"].strip("'\"")
    if name in choices("lm"):
        return [text]
    if name.endswith(".gguf") or "/" in name or "\\" in name or Path(name).expanduser().is_dir():
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        return ["lm=custom", f"lm.name='{quoted}'"]
    return [text]


def _known_keys(config_name: str, group_names: Sequence[str]) -> set[str]:
    folder = conf_folder()
    result = _flat(OmegaConf.to_container(OmegaConf.load(folder / f"{config_name}.yaml")), "")
    for group in group_names:
        prefix = "" if group == WHOLE else f"{group}."  # an experiment changes the whole
        for file in (folder / group).rglob("*.yaml"):
            result |= _flat(OmegaConf.to_container(OmegaConf.load(file)), prefix)
    for entry in registry.datasets:  # options of corpora, which need no file of their own
        if _is_ours(entry):
            result |= {f"dataset.{p}" for p in inspect.signature(entry.obj).parameters}
    for name, kind in (("attention", AttentionConfig), ("logger", LoggerConfig)):
        if name in group_names:
            result |= {f"{name}.{f.name}" for f in dataclasses.fields(kind)}
    return {k for k in result if not k.startswith(("hydra", "defaults"))}


def _flat(node: Any, prefix: str) -> set[str]:
    if not isinstance(node, dict):
        return set()
    keys: set[str] = set()
    for key, value in node.items():
        keys.add(f"{prefix}{key}")
        keys |= _flat(value, f"{prefix}{key}.")
    return keys


def _check_override(override: Override, known: Sequence[str], keys: set[str]) -> None:
    key = override.key_or_group
    if override.is_delete() and key.split("@")[0] in known:
        raise ConfigError(f"the group {key!r} is needed and cannot be removed")
    if override.is_add() or override.is_force_add() or override.is_delete():
        return
    if key.split(".")[0].split("/")[0] == "hydra":
        return
    if key in known:
        for choice in _values(override):
            if choice is not None and str(choice) not in choices(key):
                raise UnknownNameError(key, str(choice), choices(key))
        return
    if key in keys or _is_free(key) or _is_foreign(key, keys):
        return
    raise UnknownNameError("configuration key", key, {*keys, *known})


def _is_free(key: str) -> bool:
    """Whether a key lies in a mapping that the user fills: the column maps."""
    return key.startswith("dataset.columns.")


def _is_foreign(key: str, keys: set[str]) -> bool:
    """Whether a key may be an option of a data set or model from another package."""
    return key.startswith(("dataset.", "lm.")) and key not in keys and _is_custom()


def _is_custom() -> bool:
    """Whether data sets from other packages are installed, whose options we cannot know."""
    return not all(_is_ours(entry) for entry in registry.datasets)


def _is_ours(entry: registry.Entry) -> bool:
    return str(getattr(entry.obj, "__module__", "")).startswith("gazeattn.")


def _values(override: Override) -> list[Any]:
    if override.value_type in (
        ValueType.CHOICE_SWEEP,
        ValueType.SIMPLE_CHOICE_SWEEP,
        ValueType.GLOB_CHOICE_SWEEP,
        ValueType.RANGE_SWEEP,
    ):
        if override.value_type is ValueType.GLOB_CHOICE_SWEEP:
            return []
        return list(override.sweep_iterator())
    return [override.value()]


def check_positive(cfg: CompareConfig) -> None:
    """Raise for numbers that no run can use."""
    for key, value, low in (
        ("size.permutations", cfg.size.permutations, 0),
        ("size.bootstrap", cfg.size.bootstrap, 0),
        ("attention.batch_size", cfg.attention.batch_size, 1),
        ("limit", 1 if cfg.limit is None else cfg.limit, 1),
        ("size.texts", 1 if cfg.size.texts is None else cfg.size.texts, 1),
        ("seed", cfg.seed, 0),
    ):
        if value < low:
            raise DataError(f"{key} is too small", expected=f"at least {low}", found=value)
