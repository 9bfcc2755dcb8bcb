"""Whether `verify` names each file that a table of a server has lost, whatever its columns are called."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

from msgspec.structs import replace

from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.corruption.served import PATH, TXN, served_image
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import Problem
from tornproof.impl.table.column_versions import CV_FILE
from tornproof.impl.table.metadata_file import META_FILE, NAME_FILE
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.verify.verify import TableReport, verify_table

PROPERTY = "every file that a table needs and has lost is reported"
COLUMNS = {"a[b]": "ab", "a|b": "a", "a{2}": "aa", "a$": "a", "a[": "aa", "é\U0001f600": "é"}
"""Names of columns, each with one that is its own where it is taken for a pattern, or similar."""
DICTIONARY_FILES = ("c", "k", "o", "v")
ANOTHER = ".7"
"""What the name of another version's file ends with."""
NOTHING, OWN, SIMILAR = "nothing", "a file of another version", "a file of a similar column"
"""What is in the place of a lost dictionary."""
FREE = frozenset({TXN, PINS_FILE})
"""Without the first there is no table; the second is made anew where it is needed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A file, by its path below the table, and another one that is lost, too, if there is any."""

    file: str
    other: str = ""

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.file} and {self.other} are lost" if self.other else f"{self.file} is lost"

    @property
    def kind(self) -> str:
        """What it is: where it lies, and its name without that of its column."""
        directory, _, name = self.file.rpartition("/")
        return f"{directory}/{name.partition('.')[2] or name}"


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A file of the dictionary of a column, by that of its kind; `instead` is a file that is there in its place."""

    column: str
    file_kind: str
    instead: str

    @property
    def name(self) -> str:
        """It in words."""
        beside = f", and there is {self.instead}" if self.instead else ""
        return f"{self.column}.{self.file_kind} is lost{beside}"

    @property
    def kind(self) -> str:
        """The column, and whether there is a file of another version."""
        return f"dictionary of {self.column}, {self.is_another}"

    @property
    def is_another(self) -> bool:
        """Whether the other file is that of another version."""
        return self.instead.startswith(f"{self.column}.")


@functools.cache
def lost_files() -> tuple[Lost | Dictionary, ...]:
    """Return each file of the table, two at once, and those of dictionaries whose columns patterns take otherwise."""
    files = (path.removeprefix(f"{PATH}/") for path in sorted(served_image().files))
    both = (Lost(META_FILE, other) for other in (NAME_FILE, CV_FILE))
    return (*(Lost(file) for file in files if file not in FREE), *both, *_dictionaries())


def _dictionaries() -> Iterator[Dictionary]:
    for (column, similar), kind in itertools.product(COLUMNS.items(), DICTIONARY_FILES):
        for instead in ("", f"{column}.{kind}{ANOTHER}", f"{similar}.{kind}{ANOTHER}"):
            yield Dictionary(column, kind, instead)


def problem_of(lost: Lost | Dictionary) -> str | None:
    """Say what is wrong: the file must be named; None if it is."""
    return _unnamed(lost, _reported(lost)) if isinstance(lost, Lost) else _wrong_of(lost)


def _wrong_of(lost: Dictionary) -> str | None:
    """Say what is wrong where a dictionary is lost: one of another version does not excuse that, and is named."""
    storage = MemoryStorage()
    new_table(storage, PATH, {"time": "TIMESTAMP", lost.column: "SYMBOL"})
    image, file = storage.image(), f"{lost.column}.{lost.file_kind}"
    content, image = image.files[f"{PATH}/{file}"], image.without_file(f"{PATH}/{file}")
    if lost.instead:
        image = image.with_file(f"{PATH}/{lost.instead}", content)
    reported = verify_table(open_table(image, PATH)).all_problems
    named = [each.file for each in reported]
    if named != [file]:
        return f"verify names {', '.join(named) or 'no file'}"
    there = lost.instead if lost.is_another else "none"
    return None if reported[0].actual == there else f"{reported[0].actual} is said to be there, and should be {there}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a verification that names another file."""
    first, *others = (each for each in lost_files() if isinstance(each, Lost))
    reported = _reported(first)
    yield from (f"{each.name}: to name {first.file} was enough" for each in others if _unnamed(each, reported) is None)
    patterns = SimpleNamespace(compile=re.compile, escape=str)
    verify = original_of(f"{__name__}:verify_table")
    controls: Controls = (
        ("nothing is wrong", f"{__name__}:verify_table", lambda table: replace(verify(table), problems=()), "no file"),
        *(
            (
                f"{excuse} excuses a loss",
                f"{__name__}:verify_table",
                functools.partial(_silent, verify, excuse),
                "no file",
            )
            for excuse in (NOTHING, OWN, SIMILAR)
        ),
        ("names are patterns", "tornproof.impl.verify.table_files:re", patterns, "error"),
        ("files of other columns are the column's own", "tornproof.impl.verify.table_files:re", patterns, "said to be"),
    )
    yield from not_noticed(controls, problem_of, [*_dictionaries()])


def _silent(verify: Callable[[Table], TableReport], wanted: str, table: Table) -> TableReport:
    """Report a lost dictionary only where something else, if anything, is in its place."""
    report = verify(table)
    beside = {name for name in table.storage.listdir(table.path) if name.endswith(ANOTHER)}
    own = beside & {f"{problem.file}{ANOTHER}" for problem in report.problems}
    found = OWN if own else SIMILAR if beside else NOTHING
    return replace(report, problems=()) if found == wanted else report


def _reported(lost: Lost) -> Collection[Problem]:
    image = served_image().without_file(f"{PATH}/{lost.file}")
    if lost.other:
        image = image.without_file(f"{PATH}/{lost.other}")
    return verify_table(open_table(image, PATH)).all_problems


def _unnamed(lost: Lost, reported: Collection[Problem]) -> str | None:
    named = [each.file for each in reported]
    return None if lost.file in named else f"verify names {', '.join(named) or 'no file'}"
