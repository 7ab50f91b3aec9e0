"""Typed configurations of the experiments that train and test models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gazeattn.experiments.config import DebugConfig, LoggerConfig, SizeConfig


@dataclass
class SplitConfig:
    """How trials are divided; see `gazeattn.datasets.splits.split`."""

    by: str = "text"
    shares: list[float] = field(default_factory=lambda: [0.7, 0.15, 0.15])
    seed: int = 0


@dataclass
class PrefixConfig:
    """How much of each reading is seen; see `gazeattn.datamodules.reading.beginning`."""

    share: float = 1.0
    by: str = "time"


@dataclass
class TrainConfig:
    """Everything that `gazeattn train` can be told."""

    task: dict[str, Any] = field(default_factory=dict)
    fold: int = 0
    prefix: PrefixConfig = field(default_factory=PrefixConfig)
    surprisal: str | None = None
    dataset: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    size: SizeConfig = field(default_factory=SizeConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    grid: list[int] = field(default_factory=lambda: [75, 100])
    shortest: int = 1
    seed: int = 0
    resume: str | None = None
    accelerator: str = "auto"
    root: str | None = None
    fetch: bool = True
    overwrite: bool = False


@dataclass
class BenchmarkConfig:
    """Everything that `gazeattn benchmark scanpath` can be told."""

    dataset: dict[str, Any] = field(default_factory=dict)
    size: SizeConfig = field(default_factory=SizeConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    models: list[str] = field(default_factory=list)
    baselines: list[str] = field(default_factory=list)
    ceilings: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    grid: list[int] = field(default_factory=lambda: [75, 100])
    shortest: int = 1
    splits: int = 20
    publish: str | None = None
    workers: int | None = None
    accelerator: str = "auto"
    root: str | None = None
    fetch: bool = True
    overwrite: bool = False


@dataclass
class ReadingBenchmarkConfig:
    """Everything that `gazeattn benchmark reading` can be told."""

    dataset: dict[str, Any] = field(default_factory=dict)
    size: SizeConfig = field(default_factory=SizeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    tasks: list[str] | None = None
    task: dict[str, Any] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    baselines: list[str] = field(default_factory=list)
    pooled: list[str] = field(default_factory=list)
    refit: list[str] = field(default_factory=list)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    fit: bool = True
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    folds: list[int] | None = None
    surprisal: str | None = None
    publish: str | None = None
    accelerator: str = "auto"
    root: str | None = None
    fetch: bool = True


@dataclass
class EarlyBenchmarkConfig:
    """Everything that `gazeattn benchmark early` can be told."""

    dataset: dict[str, Any] = field(default_factory=dict)
    size: SizeConfig = field(default_factory=SizeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)
    task: str = "dyslexia"
    models: list[str] = field(default_factory=lambda: ["extra_trees", "reading_speed"])
    shares: list[float] = field(default_factory=lambda: [0.1, 1.0])
    by: str = "time"
    seconds: list[float] = field(default_factory=lambda: [1.0, 10.0])
    seeds: list[int] = field(default_factory=lambda: [0])
    folds: list[int] | None = None
    publish: str | None = None
    accelerator: str = "auto"
    root: str | None = None
    fetch: bool = True
