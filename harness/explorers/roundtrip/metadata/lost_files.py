"""Whether `verify` names each file that a table of a server has lost."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.explorers.corruption.served import PATH, TXN, served_image
from tornproof.impl.errors import Problem
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.verify.verify import verify_table

PROPERTY = "every file that a table needs and has lost is reported"
FREE = frozenset({TXN, PINS_FILE})
"""Without the first there is no table; the second is made anew where it is needed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A file, by its path below the table."""

    file: str

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.file} is lost"

    @property
    def kind(self) -> str:
        """What it is: where it lies, and its name without that of its column."""
        directory, _, name = self.file.rpartition("/")
        return f"{directory}/{name.partition('.')[2] or name}"


@functools.cache
def lost_files() -> tuple[Lost, ...]:
    """Return each file of the table."""
    files = (path.removeprefix(f"{PATH}/") for path in sorted(served_image().files))
    return tuple(Lost(file) for file in files if file not in FREE)


@errors_as_problems
def problem_of(lost: Lost) -> str | None:
    """Say what is wrong: the file must be named; None if it is."""
    return _unnamed(lost, _reported(lost))


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a verification that names another file."""
    first, *others = lost_files()
    reported = _reported(first)
    yield from (f"{each.name}: to name {first.file} was enough" for each in others if _unnamed(each, reported) is None)


def _reported(lost: Lost) -> Collection[Problem]:
    image = served_image().without_file(f"{PATH}/{lost.file}")
    return verify_table(open_table(image, PATH)).all_problems


def _unnamed(lost: Lost, reported: Collection[Problem]) -> str | None:
    named = [each.file for each in reported]
    return None if lost.file in named else f"verify names {', '.join(named) or 'no file'}"
