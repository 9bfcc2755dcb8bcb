"""What programs pass as arguments and as options has the type that it is declared with, or is rejected in words."""

from __future__ import annotations

import functools
import inspect
import numbers
import re
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
_NUMBERS = {int: numbers.Integral, float: numbers.Real}
"""Those of NumPy are among them, and so is a truth, which passes for no number here."""


def demanding_types(
    error: type[Exception],
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator of a function that then raises `error` for arguments of other types than its own."""

    def decorated(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def demanding(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
            _demand_types(signature.bind(*arguments, **named).arguments, _hints_of(function), error)
            return function(*arguments, **named)

        return demanding

    return decorated


def demand_field_types(record: Any, error: type[Exception]) -> None:
    """Raise `error` for a field of a record that is of another type than it is declared with."""
    hints = _hints_of(record.__class__)
    _demand_types({name: getattr(record, name) for name in hints}, hints, error)


def with_own_numbers(value: Any) -> Any:
    """Return Python's number for one of another library, also in a mapping, and everything else as it is."""
    if isinstance(value, Mapping):
        return {name: with_own_numbers(each) for name, each in value.items()}
    if isinstance(value, numbers.Integral) and not isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, int | float) else value


@functools.cache
def _hints_of(thing: Callable[..., object]) -> Mapping[str, Any]:
    return get_type_hints(thing)


def _demand_types(values: Mapping[str, object], hints: Mapping[str, Any], error: type[Exception]) -> None:
    for name, value in values.items():
        if name in hints and not _fits(value, hints[name]):
            raise error(f"{name}: expected {_words(hints[name])}, found {reprlib.repr(value)}")


def _fits(value: object, of: Any) -> bool:
    kind, parts = get_origin(of) or of, get_args(of)
    if kind in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(name, parts[0]) and _fits(each, parts[1]) for name, each in value.items()
        )
    if kind in (Sequence, tuple):
        # The keys of a mapping or an array will do, but a text is no list of its letters.
        is_text = isinstance(value, str | bytes)
        return isinstance(value, Collection) and not is_text and all(_fits(each, parts[0]) for each in value)
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    return isinstance(value, kind)


def _words(of: Any) -> str:
    """Return a type as it is written in Python, without the names of modules."""
    return re.sub(r"(\w+\.)+", "", str(of) if get_args(of) else of.__name__)
