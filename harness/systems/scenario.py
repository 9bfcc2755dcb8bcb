"""Scenarios: TOML files in `scenarios/`, checked against a schema.

The rows depend on the file alone: the same scenario always has the same rows.
"""

from __future__ import annotations

import enum
import importlib.resources
from collections.abc import Iterator
from typing import Annotated, TypeVar

import msgspec

from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import FooterForm

FORMAT = 1
FOLDER = "scenarios"
SIZE_LIMIT_BYTES = 16 << 10
Positive = Annotated[int, msgspec.Meta(ge=1, le=100)]
Decoded = TypeVar("Decoded")
Hour = Annotated[int, msgspec.Meta(ge=0, le=23)]


class ScenarioError(TornproofError):
    """A scenario that cannot be used; says which file, where in it, and what was expected."""


class Explorer(enum.StrEnum):
    """Which exploration a scenario is for."""

    SCHEDULES = "schedules"
    POWER = "power"
    PRODUCT = "product"
    MEMORY = "memory"


class At(enum.StrEnum):
    """Where new rows of a partition go among those that it has."""

    END = "end"
    MIDDLE = "middle"
    START = "start"


class Style(enum.StrEnum):
    """How a reader opens the table (`TableReaders.open_reader`)."""

    FRESH = "fresh"
    FOLLOW = "follow"
    PINNED = "pinned"


class FiltersAt(enum.StrEnum):
    """Where the bloom filters of the start table, and of what is added to it, are stored."""

    INLINED = "inlined"
    EXTERNAL = "external"


class Rows(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """New rows of one partition."""

    hour: Hour
    count: Positive = 1
    at: At = At.END


class Commit(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One commit; with `abandon` it ends before its version is stored, and leaves orphans."""

    rows: tuple[Rows, ...] = ()
    rewrite: tuple[Hour, ...] = ()
    drop: tuple[Hour, ...] = ()
    purge: bool = False
    abandon: bool = False


class ReaderGroup(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Readers of one style."""

    style: Style = Style.FRESH
    count: Positive = 1
    reads: Positive = 1


class Scenario(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One file: `start` is committed before the exploration, `first` by the first session, `second` after a crash.

    `filters` are the columns with bloom filters and their rates of false positives. With `symbols` the table has a
    SYMBOL column too, in which every row has a new symbol or null. With `later_column` column v came after the start,
    whose rows have none of it: `_cv` says so, and changes with the commits. `footer_extension` is the form of the start
    table's Parquet footers, which a writer keeps; with `duplicates` it has numbers in a new encoding too. `must_reach`
    are coverage goals.
    """

    format: Annotated[int, msgspec.Meta(ge=FORMAT, le=FORMAT)]
    title: Annotated[str, msgspec.Meta(min_length=10)]
    preset: str = "hardened"
    explorers: Annotated[tuple[Explorer, ...], msgspec.Meta(min_length=1)]
    models: tuple[str, ...] = ()
    filters: dict[str, Annotated[float, msgspec.Meta(gt=0, lt=1)]] = {}
    filters_at: FiltersAt = FiltersAt.INLINED
    symbols: bool = False
    later_column: bool = False
    footer_extension: FooterForm | None = None
    duplicates: bool = False
    start: tuple[Commit, ...] = ()
    first: Annotated[tuple[Commit, ...], msgspec.Meta(min_length=1)]
    second: tuple[Commit, ...] = ()
    readers: tuple[ReaderGroup, ...] = ()
    must_reach: tuple[str, ...] = ()
    replay: Annotated[str, msgspec.Meta(pattern="^(same|any)$")] = "same"
    name: str = ""


def scenario_names() -> tuple[str, ...]:
    """Return the names of all scenarios, sorted."""
    return tuple(sorted(name for name, _ in _files()))


def load_scenario(name: str) -> Scenario:
    """Return the scenario of that name; raises ScenarioError if there is none or its file is wrong."""
    for found, content in _files():
        if found == name:
            return parse_scenario(content, name)
    raise ScenarioError(f"there is no scenario {name!r}; there are {', '.join(scenario_names())}")


def parse_scenario(content: bytes, name: str) -> Scenario:
    """Return the scenario of a file's content; raises ScenarioError with the field and what was expected."""
    scenario = decode_toml(content, Scenario, f"{FOLDER}/{name}.toml", SIZE_LIMIT_BYTES, ScenarioError)
    return msgspec.structs.replace(scenario, name=name)


def decode_toml(
    content: bytes, kind: type[Decoded], file: str, size_limit_bytes: int, rejection: type[TornproofError]
) -> Decoded:
    """Decode a TOML file as `kind`; raises `rejection` with the field and what was expected.

    The size is limited because the parser takes time quadratic in the length of a dotted key.
    """
    if len(content) > size_limit_bytes:
        raise rejection(f"{file}: more than {size_limit_bytes} bytes")
    try:
        return msgspec.toml.decode(content, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise rejection(f"{file}: {error}") from error


def _files() -> Iterator[tuple[str, bytes]]:
    for file in importlib.resources.files("tornproof").joinpath(FOLDER).iterdir():
        if file.name.endswith(".toml"):
            yield file.name.removesuffix(".toml"), file.read_bytes()
