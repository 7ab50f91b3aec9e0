"""The command `predict`: scanpaths of a trained model over any picture."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gazeattn.datamodules import Stimulus
from gazeattn.errors import DataError, GazeattnError, UnknownNameError
from gazeattn.experiments.building import feature_spec, load_network, read_run, scanpath_kind
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
    run = Path(options.model).expanduser()
    config = read_run(run)
    scanpath_kind(config)
    folder = output_folder(options)
    stimulus = picture_of(Path(options.image).expanduser())
    model = load_network(config, run)
    spec = feature_spec(config)
    if spec is not None:
        from gazeattn.models.layers.features import FeatureStore

        store = FeatureStore(spec, options.root or None)
        features = store(stimulus)
        stimulus = Stimulus(stimulus.name, stimulus.size, stimulus.image, features=features)
    generator = torch.Generator().manual_seed(stimulus_seed(options.seed, stimulus.name))
    paths = model.sample(stimulus, options.n, generator)
    table = scanpath_table(stimulus.name, str(config["name"]), paths)
    _write(folder, stimulus, table, paths, str(config["name"]))
    return folder


def output_folder(options: Options) -> Path:
    """Return the folder for the files.

    Raises
    ------
    DataError
        It is a file, lies in one, or holds something and `overwrite` is off.
    """
    name = Path(options.image).expanduser().stem
    folder = Path(options.to).expanduser() if options.to else Path("outputs") / "predict" / name
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise DataError(
                "this is a file, where a folder is wanted", source=place,
                hint="Choose another folder with to=",
            )  # fmt: skip
    if folder.is_dir() and not options.overwrite and any(folder.iterdir()):
        raise DataError(
            "the folder is not empty", source=folder,
            hint="Choose another one with to=, or say overwrite=true",
        )  # fmt: skip
    return folder


def picture_of(path: Path) -> Stimulus:
    """Return a picture as a stimulus of its size, turned as its camera noted.

    Raises
    ------
    DataError
        There is no such picture, or it cannot be read.
    """
    from PIL import Image

    try:
        with Image.open(path) as opened:
            turned = opened.getexif().get(0x0112, 1) in (5, 6, 7, 8)
            width, height = opened.size[::-1] if turned else opened.size
    except FileNotFoundError:
        raise DataError("there is no such picture", source=path) from None
    except Image.DecompressionBombError as error:
        raise DataError(
            "the picture has too many pixels", source=path, found=error,
            hint="Make it smaller: models see it at a few hundred pixels",
        ) from None  # fmt: skip
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"not a picture that can be read ({error})", source=path) from None
    return Stimulus(path.stem, (float(width), float(height)), str(path))


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


def seen_picture(image: str, path: Path) -> Path:
    """Write a picture as models see it: RGB, turned, on white, grey values of 16 bits scaled."""
    from PIL import Image

    from gazeattn.models.layers.features import read_picture

    pixels = (read_picture(image) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    Image.fromarray(pixels).save(path, compress_level=1)
    return path


def _write(
    folder: Path, stimulus: Stimulus, table: pd.DataFrame, paths: list[Any], model: str
) -> None:
    from gazeattn.report import style
    from gazeattn.report.benchmark import draw_paths
    from gazeattn.report.gaze import Stage
    from gazeattn.report.pages import animation

    with atomic_folder(folder) as new, tempfile.TemporaryDirectory() as place:
        if stimulus.image is not None:
            seen = seen_picture(stimulus.image, Path(place) / "seen.png")
            stimulus = Stimulus(stimulus.name, stimulus.size, str(seen))
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
    from gazeattn.experiments import reading_predict

    for text in arguments:
        if text.startswith("model=") and text != "model=":
            read_run(Path(text.partition("=")[2]).expanduser())
    if reading_predict.is_reading(arguments):
        return reading_predict.main(arguments)
    options = read_options(arguments)
    folder = predict(options)
    rows = [(name, f"{(folder / name).stat().st_size / 1000:,.0f} kB") for name in FILES]
    print_table(f"{options.n} scanpaths", ("file", "size"), rows)
    print(f"folder: {folder.resolve()}")
    return 0
