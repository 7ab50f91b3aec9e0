"""The registry: names, suggestions, and failures that do not hide members."""

from __future__ import annotations

import sys
import types

import pytest

from gazeattn.errors import GazeattnError, UnknownNameError, suggest
from gazeattn.registry import Registry


def test_registered_things_come_back_in_order():
    registry = Registry("fruit")

    @registry.register("pear", task="eat")
    def pear() -> None: ...

    registry.register("apple")(object())
    assert registry.names() == ["apple", "pear"]
    assert registry.get("pear").obj is pear and registry.get("pear").info == {"task": "eat"}
    assert [e.name for e in registry] == ["apple", "pear"] and "pear" in registry


def test_unknown_name_suggests():
    registry = Registry("fruit")
    registry.register("pear")(object())
    with pytest.raises(UnknownNameError, match="did you mean 'pear'"):
        registry.get("Paer")
    with pytest.raises(UnknownNameError, match="known: pear"):
        registry.get("zzzzzz")


def test_two_things_under_one_name_raise():
    registry = Registry("fruit")
    registry.register("pear")(object())
    with pytest.raises(GazeattnError, match="twice"):
        registry.register("pear")(object())


def test_a_failed_import_is_not_an_empty_registry(monkeypatch: pytest.MonkeyPatch):
    registry = Registry("fruit", ("no_such_module_here",))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            registry.names()
    module = types.ModuleType("no_such_module_here")
    monkeypatch.setitem(sys.modules, "no_such_module_here", module)
    assert registry.names() == []


def test_suggestions_ignore_case_and_dashes():
    assert suggest("Smollm2_135M", ["smollm2-135m", "minilm"]) == ["smollm2-135m"]
    assert suggest("qqq", ["smollm2-135m"]) == []
