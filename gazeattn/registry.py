"""One small registry for everything that can be added by name.

A thing is registered with a decorator (``@register_dataset("name", ...)``) or by an installed
package through an entry-point group (``gazeattn.datasets``, ``gazeattn.attention_methods``, ...).
What is registered shows up in the command line, the configuration and the contract tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any, TypeVar

from gazeattn.errors import GazeattnError, UnknownNameError

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A registered object with the facts that tables and reports show.

    Attributes
    ----------
    name : str
    obj : object
        The registered class, function or definition.
    info : dict
        Free facts; the usual keys are ``task``, ``size``, ``licence``, ``citation``,
        ``description`` and ``requires``.
    """

    name: str
    obj: Any
    info: dict[str, Any] = field(default_factory=dict)


class Registry:
    """A mapping from names to entries that loads its built-in members on first use.

    Parameters
    ----------
    kind
        Singular noun used in messages, e.g. ``"dataset"``.
    modules
        Modules to import before the first look-up; importing them registers the built-ins.
        ``"package.*"`` stands for all public modules of a package.
    """

    def __init__(self, kind: str, modules: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self._modules = modules
        self._entries: dict[str, Entry] = {}
        self._aliases: dict[str, str] = {}
        self._loaded = False
        self._loading = False

    def register(self, name: str, **info: Any) -> Callable[[T], T]:
        """Return a decorator that stores the decorated object under `name`.

        ``aliases=("other", ...)`` are further names that find the same entry, which lists show
        once, under `name`.
        """
        aliases = tuple(info.get("aliases", ()))

        def decorate(obj: T) -> T:
            for known in (name, *aliases):
                owner = self._entries.get(self._aliases.get(known, known))
                if owner is not None and (owner.obj is not obj or owner.name != name):
                    raise GazeattnError(f"{self.kind} {known!r} is registered twice")
            self._entries[name] = Entry(name, obj, info)
            self._aliases.update(dict.fromkeys(aliases, name))
            return obj

        return decorate

    def load(self) -> None:
        """Import the built-in modules and the entry points of other packages, once.

        After a failed import the next call tries again, and fails again, instead of showing a
        registry with members missing.
        """
        if self._loaded or self._loading:  # a member that looks into the registry while it loads
            return
        self._loading = True
        try:
            self._import()
            self._loaded = True
        finally:
            self._loading = False

    def _import(self) -> None:
        for module in self._modules:
            package = import_module(module.removesuffix(".*"))
            if module.endswith(".*"):  # whatever is in the package registers itself
                for found in iter_modules(package.__path__):
                    if not found.name.startswith("_"):
                        import_module(f"{package.__name__}.{found.name}")
        group = f"gazeattn.{self.kind.replace(' ', '_')}s"
        for point in entry_points(group=group):
            obj = point.load()
            if point.name not in self._entries:
                self._entries[point.name] = Entry(point.name, obj, getattr(obj, "info", {}) or {})

    def get(self, name: str) -> Entry:
        """Return the entry of a name or an alias, or raise `UnknownNameError` with suggestions."""
        self.load()
        try:
            return self._entries[self._aliases.get(name, name)]
        except KeyError:
            known = [*self._entries, *self._aliases]
            raise UnknownNameError(self.kind, name, known) from None

    def names(self) -> list[str]:
        """Return all names in alphabetical order."""
        self.load()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        self.load()
        return iter([self._entries[n] for n in sorted(self._entries)])

    def __contains__(self, name: object) -> bool:
        self.load()
        return name in self._entries or name in self._aliases


datasets = Registry("dataset", ("gazeattn.datasets.*",))
models = Registry("model", ("gazeattn.lm",))
metrics = Registry("metric", ("gazeattn.metrics.*",))
attention_methods = Registry("attention method", ("gazeattn.lm.methods",))
baselines = Registry("baseline", ("gazeattn.attention",))
readers = Registry("reader", ("gazeattn.readers.*",))
scanpath_models = Registry("scanpath model", ("gazeattn.models.scanpath.*",))
joint_models = Registry("joint model", ("gazeattn.models.joint.*",))
reading_models = Registry("reading model", ("gazeattn.models.reading.*",))
goal_models = Registry("goal model", ("gazeattn.models.goals.*",))
gaze_priors = Registry("gaze prior", ("gazeattn.models.gaze_prior.*",))
studies = Registry("study", ("gazeattn.experiments.studies.*",))

register_dataset = datasets.register
register_model = models.register
register_metric = metrics.register
register_attention = attention_methods.register
register_baseline = baselines.register
register_reader = readers.register
register_scanpath_model = scanpath_models.register
register_joint_model = joint_models.register
register_reading_model = reading_models.register
register_goal_model = goal_models.register
register_gaze_prior = gaze_priors.register
register_study = studies.register
