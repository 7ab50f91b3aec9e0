"""The command `reproduce`: published studies, done again beside what they found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from gazeattn import registry
from gazeattn.experiments.app import original_path, run_app
from gazeattn.experiments.benchmark_apps import Call
from gazeattn.experiments.runs import FINISHED, begin, command_line, environment, write_environment
from gazeattn.experiments.terminal import StageProgress
from gazeattn.storage import write_json

NOT_SETTINGS = (
    "defaults",
    "sizes",
    "hydra",
    "size",
    "debug",
    "publish",
    "root",
    "accelerator",
    "lm",
)


TABLES = ("live", "agreement", "transfer", "correlations", "contrast")
"""Tables of a study that stand in its file of results."""


def sized_config(cfg: DictConfig, keys: Sequence[str]) -> dict[str, Any]:
    """Return the settings with the reductions of the size, under those that the user has set."""
    plain = OmegaConf.create({str(k): v for k, v in cfg.items() if k not in NOT_SETTINGS})
    made = OmegaConf.merge(plain, (cfg.get("sizes") or {}).get(str(cfg.size.name)) or {})
    for key in keys:
        if key.split(".")[0] in made:
            OmegaConf.update(made, key, OmegaConf.select(cfg, key), merge=False)
    found = OmegaConf.to_container(made, resolve=True)
    assert isinstance(found, dict)
    out = {str(k): v for k, v in found.items()}
    return {**out, "lm": str(cfg.lm.name)} if "lm" in cfg else out


def task(cfg: DictConfig, name: str) -> None:
    """Hydra entry: run a study, write its page and tables."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.utils import get_original_cwd

    hydra = HydraConfig.get()
    overrides = list(hydra.overrides.task)
    call = Call(
        Path(hydra.runtime.output_dir), Path(get_original_cwd()), overrides,
        command_line(f"reproduce {name}", overrides),
    )  # fmt: skip
    begin(call.folder, OmegaConf.to_yaml(cfg, resolve=True))
    facts = environment()
    write_environment(call.folder, facts, call.command)
    config = sized_config(cfg, call.keys)
    root = original_path(cfg.root, call.base)
    study = registry.studies.get(name)
    with StageProgress() as bar:
        found = study.obj(call.folder, config, root=root, bar=bar)
    about = {
        "study": name, "size": str(cfg.size.name), "lm": config.get("lm", ""),
        "command": call.command, "commit": facts.get("commit") or "", "says": found["says"],
    }  # fmt: skip
    content = {**about, **{k: _records(v) for k, v in found.items() if k in TABLES}}
    if "compared" in found:
        gap = found["compared"]["difference"].abs()
        content["reproduced"] = {"figures": len(gap), "to_the_last_digit": int((gap < 5e-7).sum()),
                                 "largest_difference": float(gap.max())}  # fmt: skip
    publish = original_path(cfg.publish, call.base)
    write_json(Path(publish or call.folder) / f"{name}.json", content)
    from gazeattn.report.studies import write_study_page

    info = study.info
    report = write_study_page(
        found, call.folder, about=about, title=f"{name}: {info['description']}",
        citation=str(info["citation"]),
    )  # fmt: skip
    write_json(call.folder / FINISHED, about)
    for sentence in found["says"]:
        print(sentence)
    print(f"report: {report.resolve()}")


def _records(table: Any) -> list[dict[str, Any]]:
    return [
        {str(k): float(f"{v:.6g}") if isinstance(v, float) else v for k, v in r.items() if v == v}
        for r in table.to_dict("records")
    ]


def main(arguments: list[str], name: str) -> int:
    """Run `gazeattn reproduce NAME` with Hydra overrides."""
    return run_app(f"reproduce_{name}", lambda cfg: task(cfg, name), arguments)
