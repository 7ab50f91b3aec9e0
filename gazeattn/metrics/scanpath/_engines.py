"""Where the parts of a large job run: this thread, threads, processes, a Dask or a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from gazeattn.errors import CapabilityError, UnknownNameError

ENGINES = ("threads", "processes", "dask", "ray")
IN_FLIGHT = 2
"""Parts per worker that wait or run at a time, so that a job of any size needs little memory."""


class Engine(Protocol):
    """Starts calls and says which are done."""

    workers: int

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Start a call; return a handle."""

    def first(self, handles: Sequence[Any]) -> list[Any]:
        """Wait until at least one call is done; return the handles of those that are."""

    def result(self, handle: Any) -> Any:
        """Return what a finished call returned, or raise what it raised."""


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


class _Pool:
    def __init__(self, pool: futures.Executor, workers: int) -> None:
        self.pool, self.workers = pool, workers

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return self.pool.submit(call, *arguments)

    def first(self, handles: Sequence[Any]) -> list[Any]:
        return list(futures.wait(handles, return_when=futures.FIRST_COMPLETED).done)

    def result(self, handle: Any) -> Any:
        return handle.result()


class _Dask:
    def __init__(self, distributed: Any, client: Any, workers: int) -> None:
        self.distributed, self.client, self.workers = distributed, client, workers

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(call, *arguments, pure=False)

    def first(self, handles: Sequence[Any]) -> list[Any]:
        done = self.distributed.wait(list(handles), return_when="FIRST_COMPLETED").done
        return list(done)

    def result(self, handle: Any) -> Any:
        return handle.result()


class _Ray:
    def __init__(self, ray: Any, workers: int) -> None:
        self.ray, self.workers = ray, workers
        self._calls: dict[Any, Any] = {}

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        if call not in self._calls:
            self._calls[call] = self.ray.remote(call)
        return self._calls[call].remote(*arguments)

    def first(self, handles: Sequence[Any]) -> list[Any]:
        return list(self.ray.wait(list(handles), num_returns=1)[0])

    def result(self, handle: Any) -> Any:
        try:
            return self.ray.get(handle)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None


@contextmanager
def engine(name: str, workers: int | None, releases_lock: bool) -> Iterator[Engine]:
    """Open an engine; what is started here is ended here, a cluster of the caller's is not.

    Parameters
    ----------
    name
        One of `ENGINES`. ``"dask"`` uses the client that is open, else the scheduler of Dask's
        configuration (``DASK_SCHEDULER_ADDRESS``), else a local cluster. ``"ray"`` uses what is
        connected, else ``RAY_ADDRESS``, else a local one.
    workers
        None: all cores, or all threads of the cluster.
    releases_lock
        Whether the work runs outside Python's lock, so that threads of one process are enough.

    Raises
    ------
    CapabilityError
        The library of the engine is not installed.
    """
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    count = workers or cores()
    with ExitStack() as stack:
        if name == "threads":
            threads = stack.enter_context(futures.ThreadPoolExecutor(count))
            stack.callback(threads.shutdown, wait=True, cancel_futures=True)
            yield _Pool(threads, count)
        elif name == "processes":
            # A forked process would inherit locks that the threads of its parent hold.
            context = multiprocessing.get_context("spawn")
            processes = stack.enter_context(futures.ProcessPoolExecutor(count, mp_context=context))
            stack.callback(processes.shutdown, wait=True, cancel_futures=True)
            yield _Pool(processes, count)
        elif name == "dask":
            yield _dask(stack, workers, releases_lock)
        else:
            yield _ray(stack, workers)


def _dask(stack: ExitStack, workers: int | None, releases_lock: bool) -> Engine:
    try:
        import dask
        import distributed
    except ImportError as error:
        raise CapabilityError(
            "engine='dask' needs the packages dask and distributed: pip install distributed"
        ) from error
    try:
        client = distributed.get_client()
    except ValueError:
        if dask.config.get("scheduler-address", None):
            client = stack.enter_context(distributed.Client())
        else:
            count = workers or cores()
            cluster = distributed.LocalCluster(
                n_workers=1 if releases_lock else count,
                threads_per_worker=count if releases_lock else 1,
                processes=not releases_lock,
                dashboard_address=None,
            )
            client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
    return _Dask(distributed, client, workers or max(1, sum(client.nthreads().values())))


def _ray(stack: ExitStack, workers: int | None) -> Engine:
    try:
        import ray
    except ImportError as error:
        raise CapabilityError("engine='ray' needs the package ray: pip install ray") from error
    if not ray.is_initialized():
        if os.environ.get("RAY_ADDRESS"):
            ray.init(log_to_driver=False)
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(num_cpus=workers or cores(), include_dashboard=False, log_to_driver=False)
        stack.callback(ray.shutdown)
    return _Ray(ray, workers or max(1, int(ray.cluster_resources().get("CPU", 1))))


def run(
    open_engine: Engine | None,
    call: Callable[..., Any],
    parts: Iterator[tuple[Any, tuple[Any, ...]]],
) -> Iterator[tuple[Any, Any]]:
    """Yield (key, result) of `call` over (key, arguments), in the order in which calls end."""
    if open_engine is None:
        for key, arguments in parts:
            yield key, call(*arguments)
        return
    running: dict[Any, Any] = {}
    more = True
    while more or running:
        while more and len(running) < IN_FLIGHT * open_engine.workers:
            try:
                key, arguments = next(parts)
            except StopIteration:
                more = False
                break
            running[open_engine.submit(call, *arguments)] = key
        if running:
            for handle in open_engine.first(list(running)):
                yield running.pop(handle), open_engine.result(handle)
