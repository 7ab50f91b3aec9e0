"""One metric over many pairs of scanpaths, fast, in little memory, on all cores or a cluster."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gazeattn.errors import CapabilityError, DataError, UnknownNameError
from gazeattn.losses import LossLog
from gazeattn.metrics._options import array, one_of, pair_of, whole, wrong
from gazeattn.metrics.scanpath import _engines
from gazeattn.metrics.scanpath._packed import Floats, Packed, Whole, as_path, pack
from gazeattn.metrics.scanpath._places import doubts, off_stimulus, treated, treatment
from gazeattn.registry import Entry, metrics

__all__ = ["pairs_within", "pairwise", "undefined_reason"]

PAIRS = 2048
CELLS = 1 << 20
"""Most pairs, and most cells (product of the longest lengths, over pairs), of one part."""
_WORTH = 1 << 16
"""Cells of padding that are cheaper than one more part."""
_PARALLEL = 1 << 21
"""Cells of work from which on threads are worth their start and their waits for each other."""

Progress = Callable[[int, int], None]


def _entry(name: str) -> Entry:
    if not isinstance(name, str):
        raise wrong("metric", "the name of a scanpath metric", name)
    if name in metrics:
        entry = metrics.get(name)
        if entry.info.get("task") == "scanpath":
            return entry
    usable = [e for e in metrics if e.info.get("task") == "scanpath"]
    known = [n for e in usable for n in (e.name, *e.info.get("aliases", ()))]
    raise UnknownNameError("scanpath metric", name, known)


def _check_parameters(entry: Entry, given: dict[str, Any]) -> None:
    """Refuse unknown and missing parameters before anything is computed."""
    known = inspect.signature(entry.info.get("kernel") or entry.obj).parameters.values()
    named = {p.name: p for p in known if p.kind is p.KEYWORD_ONLY}
    if any(p.kind is p.VAR_KEYWORD for p in known):
        return
    for name in given:
        if name not in named:
            raise UnknownNameError(f"parameter of {entry.name}", name, named)
    missing = [n for n, p in named.items() if p.default is p.empty and n not in given]
    if missing:
        raise DataError(
            f"{entry.name} needs {' and '.join(missing)}",
            expected=", ".join(f"{n}=..." for n in missing),
            hint="size is the (width, height) of the stimulus" if "size" in missing else None,
        )


def pairs_within(groups: ArrayLike) -> tuple[Whole, Whole]:
    """Return all pairs (i < j) of members of the same group, as two arrays of positions.

    Parameters
    ----------
    groups
        One label per scanpath, for example the image, (n,). Missing labels belong to no group.
    """
    labels = array("groups", groups, "one label per scanpath")
    if labels.ndim != 1:
        raise DataError("one label per scanpath is needed", expected="(n,)", found=labels.shape)
    missing = np.array([v is None or v != v for v in labels.tolist()], dtype=bool)
    where = np.flatnonzero(~missing)
    if len(where) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    _, code = np.unique(labels[where], return_inverse=True)
    order = where[np.argsort(code, kind="stable")]
    size = np.bincount(code)
    end = np.repeat(np.cumsum(size), size)  # of each member's group
    later = end - np.arange(len(order)) - 1  # members of the group behind it
    first = np.repeat(np.arange(len(order)), later)
    start = np.repeat(np.cumsum(later) - later, later)
    second = first + 1 + np.arange(len(first)) - start
    return order[first], order[second]


def _packed(paths: Sequence[ArrayLike] | Packed) -> Packed:
    """Pack many paths of one kind at once; `pack` takes the others, and says what is wrong."""
    if isinstance(paths, Packed):
        return paths
    if not isinstance(paths, Sequence) or any(hasattr(p, "columns") for p in paths):
        return pack(paths)
    arrays = [np.asarray(p) for p in paths]
    kinds = {(a.ndim, a.shape[-1] if a.ndim else 0) for a in arrays}
    if kinds not in ({(2, 2)}, {(2, 3)}) or any(a.dtype.kind not in "fiu" for a in arrays):
        return pack(paths)
    values = np.concatenate(arrays).astype(np.float64, copy=False)
    duration = values[:, 2] if values.shape[1] == 3 else np.full(len(values), np.nan)
    if not np.isfinite(values[:, :2]).all() or (duration < 0).any() or np.isinf(duration).any():
        return pack(paths)
    length = np.array([len(a) for a in arrays], dtype=np.int64)
    inside = np.arange(int(length.max())) < length[:, None]
    block = np.zeros((3, *inside.shape))
    block[0][inside], block[1][inside] = values[:, 0], values[:, 1]
    block[2][inside] = duration
    return Packed(block[0], block[1], block[2], length, values.shape[1] == 3)


# -- parts ----------------------------------------------------------------------------------------


def _coarse(length: Whole) -> Whole:
    """Round lengths up to steps of about an eighth, so that pairs of like length come together."""
    step = np.maximum(1, 2 ** np.floor(np.log2(np.maximum(length, 1))).astype(np.int64) // 4)
    return np.asarray(-(-length // step) * step)


def _parts(na: Whole, nb: Whole, pairs: int) -> list[NDArray[np.intp]]:
    """Return positions of pairs of like lengths together; depends on nothing but the lengths."""
    if len(na) == 0:
        return []
    ca, cb = _coarse(na), _coarse(nb)
    order = np.lexsort((cb, ca))
    ca, cb = ca[order], cb[order]
    new = np.flatnonzero((np.diff(ca) != 0) | (np.diff(cb) != 0)) + 1
    bounds = [0, *new.tolist(), len(order)]
    runs: list[list[int]] = []  # start, stop, longest of both sides
    for start, stop in itertools.pairwise(bounds):
        n, m = max(int(ca[start]), 1), max(int(cb[start]), 1)
        if runs:
            first, last, bn, bm = runs[-1]
            tn, tm = max(n, bn), max(m, bm)
            extra = (stop - first) * tn * tm - (last - first) * bn * bm - (stop - start) * n * m
            if extra <= _WORTH:
                runs[-1] = [first, stop, tn, tm]
                continue
        runs.append([start, stop, n, m])
    out = []
    for start, stop, n, m in runs:
        count = max(1, min(pairs, CELLS // (n * m)))
        pieces = max(1, -(-(stop - start) // count))
        out += np.array_split(order[start:stop], pieces)
    return out


def _cut(paths: Packed, which: NDArray[np.integer]) -> tuple[Packed, NDArray[np.intp]]:
    """Return the paths that pairs use, no wider than needed, and the pairs counted over those."""
    kept, place = np.unique(which, return_inverse=True)
    length = paths.length[kept]
    width = int(length.max(initial=0))
    part = Packed(
        paths.x[kept, :width],
        paths.y[kept, :width],
        paths.duration[kept, :width],
        length=length,
        timed=paths.timed,
    )
    return part, place


def _work(
    kernel: Callable[..., Floats],
    A: Packed,
    B: Packed | None,
    i: NDArray[np.intp],
    j: NDArray[np.intp],
    parameters: dict[str, Any],
) -> Floats:
    return kernel(A, A if B is None else B, i, j, **parameters)


def _one_by_one(
    metric: Callable[..., Any],
    A: Packed,
    B: Packed | None,
    i: NDArray[np.intp],
    j: NDArray[np.intp],
    parameters: dict[str, Any],
) -> Floats:
    """Call a metric that has no form for many pairs."""
    B = A if B is None else B
    values = [metric(_path(A, p), _path(B, q), **parameters) for p, q in zip(i, j, strict=True)]
    return np.array(values, dtype=np.float64)


def _path(paths: Packed, k: int) -> Floats:
    n = int(paths.length[k])
    both = np.stack([paths.x[k, :n], paths.y[k, :n], paths.duration[k, :n]], axis=1)
    return both if n and not np.isnan(both[:, 2]).all() else both[:, :2]


# -- the public functions -------------------------------------------------------------------------


def pairwise(
    paths_a: Sequence[ArrayLike] | Packed,
    paths_b: Sequence[ArrayLike] | Packed | None = None,
    metric: str = "multimatch",
    *,
    pairs: tuple[ArrayLike, ArrayLike] | None = None,
    workers: int | None = None,
    progress: bool | Progress | None = None,
    engine: str | None = None,
    losses: LossLog | None = None,
    **params: Any,
) -> Floats:
    """Compute a scanpath metric for all pairs, or for chosen pairs.

    Parameters
    ----------
    paths_a, paths_b
        Scanpaths, each (n, 2) x, y in pixels or (n, 3) with durations in ms; ours or the model's
        first. Without `paths_b`, all pairs among `paths_a`; a symmetric metric is then computed
        once per pair.
    metric
        Name of a registered scanpath metric.
    pairs
        Positions in `paths_a` and in `paths_b` (or `paths_a` again), two arrays (n_pairs,); see
        `pairs_within`.
    workers
        How many threads or processes; None: all cores. The result does not depend on it.
    progress
        True: a bar on the terminal. A function: called with pairs done and pairs in all.
    engine
        None: threads, since the work happens outside Python's lock (processes for a metric that
        has only a form for one pair). ``"threads"``, ``"processes"``, or an optional ``"dask"`` or
        ``"ray"``: the cluster that is connected, else a local one. Processes import the calling
        script, which needs an ``if __name__ == "__main__":``.
    losses
        A log that gets the number of fixations off the stimulus and what was done with them
        (`outside` of a metric with a `size`). Without a log, and without a stated `outside`, one
        warning tells the number.
    **params
        Parameters of the metric, for example ``size=(800, 600)``.

    Returns
    -------
    ndarray, float64
        (n_a, n_b), or (n_a, n_b, k) for a metric of k parts; with `pairs` (n_pairs,) or
        (n_pairs, k). NaN where undefined; `undefined_reason` says why.

    Raises
    ------
    UnknownNameError
        No such metric, parameter or engine.
    DataError
        A path, a pair or a parameter that cannot be used, or a missing parameter.
    CapabilityError
        The library of the engine is not installed.
    """
    if isinstance(paths_b, str):
        raise DataError(
            "the second argument is the other scanpaths",
            expected=f"metric={paths_b!r}",
            found=repr(paths_b),
        )
    entry = _entry(metric)
    _check_parameters(entry, params)
    if engine is not None:
        one_of("engine", engine, _engines.ENGINES)
    workers = None if workers is None else whole("workers", workers)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise wrong("progress", "True, False, or a function of pairs done and in all", progress)
    if not (losses is None or isinstance(losses, LossLog)):
        raise wrong("losses", "a LossLog, or None", losses)
    A = _packed(paths_a)
    B = None if paths_b is None else _packed(paths_b)
    columns = entry.info.get("columns")
    tail = (len(columns),) if columns else ()
    n_a, n_b = len(A), len(A if B is None else B)
    if pairs is not None:
        i, j = _checked(pairs, n_a, n_b)
        _look(entry, A, B, i, j, params, losses)
        return _computed(entry, A, B, i, j, tail, params, workers, progress, engine)
    if B is None and _symmetric(entry, params):
        i, j = np.triu_indices(n_a)
    else:
        i, j = (v.ravel() for v in np.indices((n_a, n_b)))
    _look(entry, A, B, i, j, params, losses)
    values = _computed(entry, A, B, i, j, tail, params, workers, progress, engine)
    if len(i) == n_a * n_b:
        return values.reshape((n_a, n_b, *tail))
    out = np.empty((n_a, n_b, *tail))
    out[i, j] = values
    out[j, i] = values
    return out


def _look(
    entry: Entry,
    A: Packed,
    B: Packed | None,
    i: Whole,
    j: Whole,
    params: dict[str, Any],
    losses: LossLog | None,
) -> None:
    """Count, warn of or refuse what is doubtful in the paths that pairs use, once for all pairs."""
    kernel = entry.info.get("kernel") or entry.obj
    used = [(A, np.concatenate([i, j]))] if B is None else [(A, i), (B, j)]
    sides = []
    for paths, which in used:
        length = np.zeros_like(paths.length)
        length[which] = paths.length[which]
        sides.append(replace(paths, length=length))
    if treatment(kernel, params) == "raise":  # here, where the numbers of paths are the caller's
        for side in sides:
            treated(side, params["size"], "raise")
    doubts(kernel, sides, params, losses=losses, stacklevel=4)


def _symmetric(entry: Entry, params: dict[str, Any]) -> bool:
    decide = entry.info.get("symmetric_for")
    return bool(decide(**params) if decide else entry.info.get("symmetric", False))


def _checked(pairs: tuple[ArrayLike, ArrayLike], n_a: int, n_b: int) -> tuple[Whole, Whole]:
    sides: list[Whole] = []
    for given, n in zip(pair_of("pairs", pairs), (n_a, n_b), strict=True):
        values = array("pairs", given, "two arrays of positions")
        if values.size == 0:
            values = values.astype(np.int64)
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise DataError(
                "pairs is wrong", expected="whole numbers, (n_pairs,)", found=str(values.dtype)
            )
        off = (values < 0) | (values >= n)
        if off.any():
            row = int(off.argmax())
            raise DataError(
                "a pair names no scanpath", row=row, expected=f"0 to {n - 1}", found=values[row]
            )
        sides.append(values.astype(np.int64))
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            "pairs is wrong",
            expected="two arrays of the same length",
            found=f"{len(sides[0])} and {len(sides[1])}",
        )
    return sides[0], sides[1]


def _computed(
    entry: Entry,
    A: Packed,
    B: Packed | None,
    i: Whole,
    j: Whole,
    tail: tuple[int, ...],
    params: dict[str, Any],
    workers: int | None,
    progress: bool | Progress | None,
    engine: str | None,
) -> Floats:
    out = np.full((len(i), *tail), np.nan)
    kernel, measure = entry.info.get("kernel"), entry.info.get("lengths")
    lengths = [np.asarray(measure(p, **params) if measure else p.length) for p in (A, B or A)]
    parts = _parts(lengths[0][i], lengths[1][j], entry.info.get("chunk_pairs", PAIRS))
    work = int((lengths[0][i] * lengths[1][j]).sum())
    if engine is None:
        engine = "threads" if kernel else "processes"
        if len(parts) < 2 or work < _PARALLEL or (workers or _engines.cores()) == 1:
            engine = ""
    call, what = (_work, kernel) if kernel else (_one_by_one, entry.obj)
    with ExitStack() as stack:
        done = stack.enter_context(_Shown(progress, len(i), entry.name))
        opened = (
            stack.enter_context(_engines.engine(engine, workers, kernel is not None))
            if engine
            else None
        )
        for part, values in _engines.run(opened, call, _arguments(what, A, B, i, j, parts, params)):
            if values.shape != (len(part), *tail):
                raise CapabilityError(
                    f"{entry.name} returned an array of shape {values.shape}, "
                    f"not {(len(part), *tail)}"
                )
            out[part] = values
            done.add(len(part))
    return out


def _arguments(
    what: Callable[..., Any],
    A: Packed,
    B: Packed | None,
    i: Whole,
    j: Whole,
    parts: Iterable[NDArray[np.intp]],
    params: dict[str, Any],
) -> Iterator[tuple[NDArray[np.intp], tuple[Any, ...]]]:
    """Yield each part with only the paths that it needs, made when its turn comes."""
    for part in parts:
        if B is None:
            cut, place = _cut(A, np.concatenate([i[part], j[part]]))
            yield part, (what, cut, None, place[: len(part)], place[len(part) :], params)
        else:
            (a, at), (b, to) = _cut(A, i[part]), _cut(B, j[part])
            yield part, (what, a, b, at, to, params)


class _Shown:
    """Tells how far a job is, on the terminal or to a function."""

    def __init__(self, progress: bool | Progress | None, total: int, name: str) -> None:
        self.tell = progress if callable(progress) else None
        self.total, self.done, self.name = total, 0, name
        self.bar: Any = None
        if progress is True:
            from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

            self.bar = Progress(
                *Progress.get_default_columns()[:-1], MofNCompleteColumn(), TimeRemainingColumn()
            )

    def __enter__(self) -> _Shown:
        if self.bar is not None:
            self.bar.start()
            self.row = self.bar.add_task(f"{self.name}, pairs", total=self.total)
        if self.tell is not None:
            self.tell(0, self.total)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def add(self, count: int) -> None:
        self.done += count
        if self.bar is not None:
            self.bar.update(self.row, completed=self.done)
        if self.tell is not None:
            self.tell(self.done, self.total)


def undefined_reason(name: str, a: ArrayLike, b: ArrayLike, **params: Any) -> str:
    """Return why a metric is undefined for two scanpaths, or an empty string where it is not.

    For a metric of several parts the reason may concern only some of them.
    """
    entry = _entry(name)
    _check_parameters(entry, params)
    first, second = as_path(a, "first scanpath"), as_path(b, "second scanpath")
    kernel = entry.info.get("kernel")
    if kernel is None:
        values = np.asarray(entry.obj(a, b, **params), dtype=np.float64)
    else:
        at = np.zeros(1, dtype=np.int64)
        values = np.asarray(kernel(pack([first]), pack([second]), at, at, **params))
    if not np.isnan(values).any():
        return ""
    how, left_out = treatment(kernel or entry.obj, params), ""
    if how in ("undefined", "drop"):
        off = [off_stimulus(pack([p]), params["size"])[0] for p in (first, second)]
        count = sum(int(v.sum()) for v in off)
        if count and how == "undefined":
            return f"fixations lie outside the stimulus: {count}"
        if count:
            first, second = first[~off[0]], second[~off[1]]
            left_out = f" (fixations outside the stimulus were left out: {count})"
    reason = entry.info.get("reason")
    text = str(reason(first, second, **params)) if reason else ""
    empty = [w for w, p in (("first", first), ("second", second)) if len(p) == 0]
    if not text and empty:
        are = "are" if len(empty) > 1 else "is"
        text = f"the {' and the '.join(empty)} scanpath {are} empty"
    return (text or f"{name} is undefined for these two scanpaths") + left_out
