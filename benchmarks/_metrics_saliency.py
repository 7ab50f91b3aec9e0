"""Saliency metrics against pysaliency over images of OSIE, both in the same run.

The map of an image is made of the fixations of every second observer (counts, Gaussian with sigma
24 px, divided by the maximum, as 8-bit or as float64); the fixations scored, and the reference
map, are those of the others. Inputs are ready before the clock starts. Values are compared first.

The peer gets the steps of its model class without the class around them (no hashing of pictures):
conversion to float64, the values at the fixations, and its AUC kernel; for the shuffled AUC its own
provider of other images' fixations, whose cost grows with their number: the bound of the shuffled
AUC is meant for all 660 images (--images 660, about 6 GB). Both run alternately; the best of each
is compared. Beside metrics that read every pixel stands the time of ``map.sum()`` over the same
maps, in the same turns: what reading them once costs, which no implementation gets below.

Needs pysaliency 0.2.22 (which needs setuptools below 81) and the recordings; says so where one is
absent.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
import types
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

# One thread each: the peer's sums have no more, and products spread over busy cores wait for them.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from gazeattn.metrics import saliency  # noqa: E402

SIZE = (800, 600)
SIGMA = 24.0
ALL_IMAGES = 600


def make_inputs(table: Path, n_images: int) -> dict[str, list[np.ndarray]]:
    """Return maps as float64 and as uint8, reference maps and fixations, one per image."""
    frame = pd.read_parquet(table)
    made: dict[str, list[np.ndarray]] = {"float64": [], "uint8": [], "reference": [], "xy": []}
    for _, image in list(frame.groupby("image", sort=True))[:n_images]:
        xy = image[["x", "y"]].to_numpy(np.float64)
        even = (image["subject"].to_numpy() % 2) == 0
        model = saliency.fixation_map(xy[even], SIZE, sigma=SIGMA, normalise="max")
        made["float64"].append(model)
        made["uint8"].append(np.rint(model * 255).astype(np.uint8))
        made["reference"].append(saliency.fixation_map(xy[~even], SIZE, sigma=SIGMA))
        made["xy"].append(xy[~even])
    return made


class Peer:
    """The steps of pysaliency."""

    def __init__(self, xy: list[np.ndarray]) -> None:
        if not hasattr(np, "trapz"):
            setattr(np, "trapz", np.trapezoid)  # noqa: B010, what the peer still calls
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.metrics: Any = importlib.import_module("pysaliency.metrics")
            self.roc: Any = importlib.import_module("pysaliency.roc")
            models: Any = importlib.import_module("pysaliency.saliency_map_models")
            data: Any = importlib.import_module("pysaliency.datasets")
        every = np.concatenate(xy)
        number = np.repeat(np.arange(len(xy)), [len(p) for p in xy])
        self.fixations = data.Fixations.create_without_history(every[:, 0], every[:, 1], number)
        self.stimuli = types.SimpleNamespace(sizes=[SIZE[::-1]] * len(xy))
        self.provider = models.FullShuffledNonfixationProvider
        self.int_xy = [p.astype(int) for p in xy]

    def nss(self, maps: list[np.ndarray]) -> list[float]:
        pairs = zip(maps, self.int_xy, strict=True)
        return [self.metrics.NSS(m, p[:, 0], p[:, 1]).mean() for m, p in pairs]

    def auc(self, maps: list[np.ndarray]) -> list[float]:
        found = []
        for m, p in zip(maps, self.int_xy, strict=True):
            out = np.asarray(m, dtype=float)
            positives, negatives = out[p[:, 1], p[:, 0]], out.flatten()
            found.append(self.roc.general_rocs_per_positive(positives, negatives).mean())
        return found

    def shuffled_auc(self, maps: list[np.ndarray]) -> list[float]:
        found, other = [], self.provider(self.stimuli, self.fixations)
        first = np.concatenate([[0], np.cumsum([len(p) for p in self.int_xy])])
        for i, (m, p) in enumerate(zip(maps, self.int_xy, strict=True)):
            out = np.asarray(m, dtype=float)
            xs, ys = other(self.stimuli, self.fixations, first[i])
            positives, negatives = out[p[:, 1], p[:, 0]], out[ys, xs]
            found.append(self.roc.general_rocs_per_positive(positives, negatives).mean())
        return found

    def pairs(self, name: str, maps: list[np.ndarray], references: list[np.ndarray]) -> list[float]:
        function = getattr(self.metrics, name)
        return [float(function(m, r)) for m, r in zip(maps, references, strict=True)]


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that one call takes, and its result."""
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def compare(
    label: str,
    ours: Callable[[], np.ndarray],
    theirs: Callable[[], list[float]],
    bound: float,
    repeats: int,
    n: int,
    tolerance: float = 1e-9,
    only: str = "",
    read: Sequence[np.ndarray] = (),
) -> None:
    """Print times and ratio of alternate calls, after comparing values.

    `read` are the maps whose bare sums show what reading them takes.
    """
    if only not in label:
        return
    found, expected = ours(), theirs()
    worst = float(np.nanmax(np.abs(np.asarray(found) - np.asarray(expected))))
    if not worst <= tolerance:
        raise SystemExit(f"{label}: values differ by {worst:g}")
    a, b, bare = [], [], []
    for _ in range(repeats):
        a.append(timed(ours)[0])
        b.append(timed(theirs)[0])
        bare.append(timed(lambda: [m.sum() for m in read])[0])
    mine, peer, once = min(a), min(b), min(bare)
    wanted = f"bound: {1 / bound:.3f}" if bound else "no bound for so few images"
    print(
        f"{label}: {1e3 * mine / n:.2f} ms / {1e3 * peer / n:.2f} ms per image = "
        f"{mine / peer:.3f}, {peer / mine:.1f} times faster ({wanted}), "
        f"largest difference {worst:.1e}"
        + (f", {mine / once:.2f} times a bare sum of {1e3 * once / n:.2f} ms" if read else "")
        + ("" if peer >= bound * mine else "  NOT MET")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    data = Path(os.environ.get("GAZEATTN_SHARED", default))
    parser.add_argument("--fixations", type=Path, default=data / "osie" / "fixations.parquet")
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="measure only what has this in its label")
    options = parser.parse_args()
    if not options.fixations.is_file():
        print(f"no recordings at {options.fixations}: nothing is measured")
        return
    made = make_inputs(options.fixations, options.images)
    xy, n = made["xy"], len(made["xy"])
    try:
        peer = Peer(xy)
    except ImportError as error:
        print(f"pysaliency 0.2.22 cannot be imported ({error}): nothing is measured")
        return
    print(f"{n} images, {sum(map(len, xy))} fixations, maps of {SIZE[0]} x {SIZE[1]}")

    def many(metric: str, maps: list[np.ndarray], others: list[np.ndarray], **how: Any) -> Any:
        return lambda: saliency.score_many(metric, maps, others, **how).values

    for kind, bound in (("uint8", 10.0), ("float64", 3.0)):
        maps = made[kind]
        for name, theirs in (("auc", peer.auc), ("shuffled_auc", peer.shuffled_auc)):
            call = partial(theirs, maps)
            asked = bound if name == "auc" or n >= ALL_IMAGES else 0.0
            compare(
                f"{name}, {kind}",
                many(name, maps, xy),
                call,
                asked,
                options.repeats,
                n,
                only=options.only,
            )
        call = partial(peer.nss, maps)
        compare(
            f"nss, {kind}",
            many("nss", maps, xy),
            call,
            2.0,
            options.repeats,
            n,
            only=options.only,
            read=maps,
        )
    maps, references = made["float64"], made["reference"]
    for name, peer_name in (("cc", "CC"), ("sim", "SIM"), ("kl_div", "MIT_KLDiv")):
        call = partial(peer.pairs, peer_name, maps, references)
        ours = many(name, maps, references)
        read = maps + references
        compare(f"{name}, float64", ours, call, 2.0, options.repeats, n, 1e-8, options.only, read)


if __name__ == "__main__":
    main()
