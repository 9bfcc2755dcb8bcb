"""Faults as files: one TOML file below `harness/faults/` is one change of one place, in the folder of its family.

Most families are mistakes in the implementation. A file in `judges` is a mistake in the harness or the model, which the
controls of a check or a test must notice; a file in `benign` changes the implementation so that it stays right.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import msgspec

from tornproof.harness.mutation.explorer import Explorer
from tornproof.harness.mutation.source_patch import SourcePatch
from tornproof.harness.systems.scenario import decode_toml
from tornproof.impl.errors import TornproofError

FOLDER = "faults"
JUDGES, BENIGN = "judges", "benign"
SIZE_LIMIT_BYTES = 16 << 10
Sentence = Annotated[str, msgspec.Meta(min_length=10)]


class FaultFileError(TornproofError):
    """A file of a fault that cannot be used; says which file, where in it, and what was expected."""


class FaultFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One file: the text `before` occurs once in `file`, a path in the package, and `after` takes its place.

    `story` says what is done wrong, and `breaks` what comes of it. `explorer` is the cheapest that finds it if it is
    told the `scenario`; those in `also` find it there too, and those in `missed_by` must not. `phases` of a check that
    is told nothing find it, the cheapest first. A fault of the harness is `noticed_by` the controls of phases or by
    tests. `row` is its row in the list that it comes from, `reference` the address of the same mistake in a released
    program, and `argument` why it harms nobody.
    """

    story: Sentence
    breaks: str = ""
    file: str
    before: Annotated[str, msgspec.Meta(min_length=1)]
    after: str
    explorer: Explorer | None = None
    scenario: str = ""
    also: tuple[Explorer, ...] = ()
    missed_by: tuple[Explorer, ...] = ()
    phases: tuple[str, ...] = ()
    noticed_by: tuple[str, ...] = ()
    row: int | None = None
    reference: str = ""
    argument: str = ""
    name: str = ""
    family: str = ""

    @property
    def patch(self) -> SourcePatch:
        """The change."""
        return SourcePatch(self.file, self.before, self.after)


@cache
def fault_files() -> tuple[FaultFile, ...]:
    """Return all files, sorted by family and name; raises FaultFileError for one that is not as the schema says."""
    return _sorted(importlib.resources.files("tornproof.harness").joinpath(FOLDER), f"harness/{FOLDER}")


def fault_files_in(folder: Path) -> tuple[FaultFile, ...]:
    """Return the files of another folder of families so; raises FaultFileError, OSError."""
    return _sorted(folder, str(folder))


def file_named(name: str) -> FaultFile:
    """Return a file by the name of its fault; raises KeyError."""
    return {each.name: each for each in fault_files()}[name]


def _sorted(families: Traversable, label: str) -> tuple[FaultFile, ...]:
    return tuple(sorted(_read(families, label), key=lambda each: (each.family, each.name)))


def _read(families: Traversable, label: str) -> Iterator[FaultFile]:
    for family in families.iterdir():
        for file in family.iterdir() if family.is_dir() else ():
            where = f"{label}/{family.name}/{file.name}"
            fault = decode_toml(file.read_bytes(), FaultFile, where, SIZE_LIMIT_BYTES, FaultFileError)
            name = fault.name or file.name.removesuffix(".toml").replace("-", " ")
            yield msgspec.structs.replace(fault, name=name, family=family.name)
