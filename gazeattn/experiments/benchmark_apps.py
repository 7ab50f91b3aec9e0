"""The benchmarks `object_search` and `search_asymmetry` as Hydra applications, and their call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_original_cwd
from omegaconf import DictConfig, OmegaConf

from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.runs import begin, command_line, environment, write_environment
from gazeattn.experiments.terminal import print_table
from gazeattn.storage import write_json

OWN = ("size", "debug", "publish", "root", "sizes")
"""Keys of these configurations that are no settings of the benchmark itself."""


@dataclass(frozen=True)
class Call:
    """How a benchmark was called: what every one of them asks Hydra for.

    Attributes
    ----------
    folder : Path
        Of the run.
    base : Path
        Folder that the command was given in, against which paths are resolved.
    overrides : list of str
    command : str
        The whole command, to do it again.
    """

    folder: Path
    base: Path
    overrides: list[str]
    command: str

    @property
    def keys(self) -> list[str]:
        """Keys that the user has set."""
        return [o.lstrip("+").partition("=")[0] for o in self.overrides]


def this_call(name: str) -> Call:
    """Return the call of the benchmark `name` that Hydra is running."""
    run = HydraConfig.get()
    overrides = list(run.overrides.task)
    command = command_line(f"benchmark {name}", overrides)
    return Call(Path(run.runtime.output_dir), Path(get_original_cwd()), overrides, command)


def _run(cfg: DictConfig, name: str, work: Callable[..., pd.DataFrame]) -> None:
    """Run a benchmark in Hydra's folder and print its main rows."""
    plain = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(plain, dict)
    call = this_call(name)
    folder, base, command = call.folder, call.base, call.command
    begin(folder, OmegaConf.to_yaml(cfg, resolve=True))
    write_environment(folder, environment(), command)
    changes = {str(k): v for k, v in plain.items() if k in call.keys and k not in OWN}
    publish = original_path(plain["publish"], base)
    rows = work(
        folder,
        size=str(plain["size"]["name"]),
        publish=publish,
        root=original_path(plain["root"], base),
        command=command,
        changes=changes,
    )
    write_json(folder / "summary.json", {"rows": len(rows), "command": command})
    shown = rows[["dataset", "model", "seed", "metric", "value", "low", "high"]]
    shown = shown[~shown["metric"].str.contains("slope|found|unclipped")]
    values = shown.astype({c: object for c in ("value", "low", "high")})
    for column in ("value", "low", "high"):
        values[column] = [f"{v:.3f}" if v == v and v is not None else "–" for v in shown[column]]
    print_table(name.replace("_", " "), list(shown.columns), values.to_numpy().tolist()[:80])
    print(f"report: {(folder / 'report.html').resolve()}")


def _object_search(
    folder: Path, *, size: str, publish: str | None, root: str | None, command: str,
    changes: dict[str, Any],
) -> pd.DataFrame:  # fmt: skip
    from gazeattn.experiments.object_search import run_object_search

    tasks: Sequence[str] | None = changes.pop("tasks", None)
    return run_object_search(
        folder, size=size, tasks=tasks, root=root, publish=publish, command=command, **changes
    )


def _search_asymmetry(
    folder: Path, *, size: str, publish: str | None, root: str | None, command: str,
    changes: dict[str, Any],
) -> pd.DataFrame:  # fmt: skip
    from gazeattn.experiments.search_asymmetry import run_search_asymmetry

    return run_search_asymmetry(
        size,
        path=Path(publish or folder) / "search_asymmetry.json",
        work=folder / "searches",
        report=folder,
        command=command,
        **changes,
    )


def object_search(arguments: list[str]) -> int:
    """Run `gazeattn benchmark object_search` with Hydra overrides."""
    name = "object_search"
    return run_app(f"benchmark_{name}", lambda cfg: _run(cfg, name, _object_search), arguments)


def search_asymmetry(arguments: list[str]) -> int:
    """Run `gazeattn benchmark search_asymmetry` with Hydra overrides."""
    name = "search_asymmetry"
    return run_app(f"benchmark_{name}", lambda cfg: _run(cfg, name, _search_asymmetry), arguments)
