"""Replacing one function of the implementation for a while; the implementation itself has no switches for tests."""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

from tornproof.harness.common.whose_error import errors_as_problems

Controls: TypeAlias = Sequence[tuple[str, str, object, *tuple[str, ...]]]
"""Mistakes by their names, each a substitute for what is at a `package.module:name`, and words of what must be said."""


@dataclass(slots=True, eq=False)
class _Replacement:
    location: str
    substitute: Any
    original: Any


_replacements: list[_Replacement] = []
_replacing = threading.Lock()


@contextmanager
def replaced(location: str, substitute: Any) -> Iterator[None]:
    """Put `substitute` at `package.module:name` while the block runs; raises ImportError or AttributeError.

    Blocks of several threads may end in any order, and after the last one the original is there.
    """
    module, name = _module_and_name(location)
    with _replacing:
        own = _Replacement(location, substitute, getattr(module, name))
        _replacements.append(own)
        setattr(module, name, substitute)
    try:
        yield
    finally:
        with _replacing:
            _take_back(own, module, name)


def _take_back(own: _Replacement, module: ModuleType, name: str) -> None:
    """Put the original back, or leave that to a later replacement of the substitute that has not ended."""
    at = _replacements.index(own)
    del _replacements[at]
    laters = (each for each in _replacements[at:] if each.location == own.location)
    later = next((each for each in laters if each.original is own.substitute), None)
    if later is None:
        setattr(module, name, own.original)
    else:
        later.original = own.original


def original_of(location: str) -> Any:
    """Return what is at `package.module:name` now."""
    return getattr(*_module_and_name(location))


def not_noticed(controls: Controls, problem_of: Callable[[Any], str | None], cases: Sequence[Any]) -> Iterator[str]:
    """Yield what is not noticed: the names of substitutes with which no case has a problem, or none in such words."""
    found = errors_as_problems(problem_of)
    # Cases of a kind stand together, so a few of all kinds come first.
    step = math.isqrt(len(cases)) or 1
    spread = [each for first in range(step) for each in cases[first::step]]
    for name, location, substitute, *words in controls:
        with replaced(location, substitute):
            problems = (problem for each in spread if (problem := found(each)) is not None)
            if not any(all(word in problem for word in words) for problem in problems):
                yield f"{name}: not noticed"


def _module_and_name(location: str) -> tuple[ModuleType, str]:
    module_name, _, name = location.partition(":")
    return importlib.import_module(module_name), name


@contextmanager
def all_replaced(substitutes: Mapping[str, Any]) -> Iterator[None]:
    """Replace what is at each `package.module:name` while the block runs."""
    with ExitStack() as stack:
        for location, substitute in substitutes.items():
            stack.enter_context(replaced(location, substitute))
        yield


def wrapped(location: str, wrap: Callable[[Any], Any]) -> AbstractContextManager[None]:
    """Replace what is at `package.module:name` by `wrap` of it while the block runs."""
    return replaced(location, wrap(original_of(location)))


@contextmanager
def blind_to_metadata() -> Iterator[None]:
    """A reader that checks neither the CRC of `_pm` nor whether the Thrift footer and the table agree with it."""
    comparisons = (
        "tornproof.impl.verify.verify:compare_footer",
        "tornproof.impl.verify.verify:check_against_table",
        "tornproof.impl.read.reader:check_against_table",
    )
    unchecked = {"tornproof.impl.pm.chain:check_checksum": lambda *_, **__: None}
    with all_replaced({**unchecked, **dict.fromkeys(comparisons, lambda *_, **__: iter(()))}):
        yield
