"""The command `predict`: scanpaths of a trained model over any picture."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gazeattn.datamodules import Stimulus
from gazeattn.errors import DataError, GazeattnError, UnknownNameError
from gazeattn.experiments.building import feature_spec, load_network, read_run
from gazeattn.experiments.terminal import print_table
from gazeattn.models.scanpath.evaluation import stimulus_seed
from gazeattn.storage import atomic_folder, write_parquet, write_text

FILES = ("scanpaths.csv", "scanpaths.parquet", "scanpaths.svg", "scanpaths.png", "animation.html")


@dataclass(frozen=True)
class Options:
    """What `gazeattn predict` can be told."""

    model: str
    image: str
    n: int = 20
    seed: int = 0
    to: str = ""
    root: str = ""
    overwrite: bool = False


def read_options(arguments: list[str]) -> Options:
    """Return the options of KEY=VALUE texts.

    Raises
    ------
    GazeattnError
        No such option, one without a value, or one of a wrong kind.
    """
    known = {f.name: f for f in fields(Options)}
    given: dict[str, Any] = {}
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise GazeattnError(f"cannot read {text!r}: options are KEY=VALUE, such as n=20")
        if key not in known:
            raise UnknownNameError("option of predict", key, known)
        if key in ("n", "seed"):
            if not value.isdecimal() or (key == "n" and int(value) < 1):
                raise DataError(f"{key} is wrong", expected="a whole number", found=value)
            given[key] = int(value)
        elif key == "overwrite":
            if value.lower() not in ("true", "false"):
                raise DataError("overwrite is wrong", expected="true or false", found=value)
            given[key] = value.lower() == "true"
        else:
            given[key] = value
    for key in ("model", "image"):
        if key not in given:
            raise GazeattnError(f"{key}= is needed; see gazeattn predict --help")
    return Options(**given)


def predict(options: Options) -> Path:
    """Draw scanpaths and write them.

    Returns
    -------
    Path
        The folder with `FILES`.

    Raises
    ------
    DataError
        No trained run, no picture, or a folder that holds something.
    """
    from PIL import Image

    run = Path(options.model).expanduser()
    config = read_run(run)
    model = load_network(config, run)
    picture = Path(options.image).expanduser()
    try:
        with Image.open(picture) as opened:
            turned = opened.getexif().get(0x0112, 1) in (5, 6, 7, 8)
            width, height = opened.size[::-1] if turned else opened.size
    except FileNotFoundError:
        raise DataError("there is no such picture", source=picture) from None
    except (OSError, ValueError) as error:
        raise DataError(f"not a picture that can be read ({error})", source=picture) from None
    name = picture.stem
    stimulus = Stimulus(name, (float(width), float(height)), str(picture))
    spec = feature_spec(config)
    if spec is not None:
        from gazeattn.models.layers.features import FeatureStore

        store = FeatureStore(spec, options.root or None)
        stimulus = Stimulus(name, stimulus.size, stimulus.image, features=store(stimulus))
    generator = torch.Generator().manual_seed(stimulus_seed(options.seed, name))
    paths = model.sample(stimulus, options.n, generator)
    folder = Path(options.to) if options.to else Path("outputs") / "predict" / name
    if folder.exists() and not options.overwrite and any(folder.iterdir()):
        raise DataError(
            "the folder is not empty", source=folder,
            hint="Choose another one with to=, or say overwrite=true",
        )  # fmt: skip
    table = scanpath_table(name, str(config["name"]), paths)
    _write(folder, stimulus, table, paths, str(config["name"]))
    return folder


def scanpath_table(stimulus: str, model: str, paths: list[Any]) -> pd.DataFrame:
    """Return drawn scanpaths as a table of fixations, one trial per scanpath."""
    rows = []
    for k, path in enumerate(paths):
        timed = path.shape[1] == 3
        onset = np.cumsum(path[:, 2]) - path[:, 2] if timed else np.full(len(path), np.nan)
        rows.append(
            pd.DataFrame(
                {
                    "participant": model,
                    "trial": f"{stimulus}_{k:03d}",
                    "stimulus": stimulus,
                    "index": np.arange(len(path)),
                    "x": path[:, 0],
                    "y": path[:, 1],
                    "onset": onset,
                    "duration": path[:, 2] if timed else np.full(len(path), np.nan),
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def _write(
    folder: Path, stimulus: Stimulus, table: pd.DataFrame, paths: list[Any], model: str
) -> None:
    from gazeattn.report import style
    from gazeattn.report.benchmark import draw_paths
    from gazeattn.report.gaze import Stage
    from gazeattn.report.pages import animation

    with atomic_folder(folder) as new:
        write_text(new / "scanpaths.csv", table.to_csv(index=False))
        write_parquet(new / "scanpaths.parquet", table)
        figure = draw_paths(stimulus, {f"{model}, {len(paths)} scanpaths": paths})
        tree = style.svg_tree(figure, "scanpaths", f"Scanpaths of {model} over {stimulus.name}")
        write_text(new / "scanpaths.svg", style.svg_file(tree))
        (new / "scanpaths.png").write_bytes(style.png_bytes(figure))
        first = table[table["trial"] == table["trial"].iloc[0]].copy()
        if first["duration"].isna().all():  # no durations: every fixation as long as the other
            first["duration"] = 250.0
            first["onset"] = 250.0 * first["index"]
        facts = {"image": stimulus.image, "size": stimulus.size}
        stage = Stage(first, pd.DataFrame(), facts)
        write_text(new / "animation.html", animation(stage, f"{model} over {stimulus.name}"))


def main(arguments: list[str]) -> int:
    """Run `gazeattn predict`."""
    options = read_options(arguments)
    folder = predict(options)
    rows = [(name, f"{(folder / name).stat().st_size / 1000:,.0f} kB") for name in FILES]
    print_table(f"{options.n} scanpaths", ("file", "size"), rows)
    print(f"folder: {folder.resolve()}")
    return 0
