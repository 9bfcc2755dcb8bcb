"""Whether a Parquet file is known for that of a partition, and migrated, however its path is spelled."""

from __future__ import annotations

import functools
import itertools
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.beside.small_tables import DATA, State, small_table
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import UsageError
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.migrate.footer_form import change_footer_form
from tornproof.impl.migrate.plain_file import migrate_file
from tornproof.impl.table.partition import PM_FILE

PROPERTY = "a file is what it is however its path is spelled"
OF_PARTITION = "changed in a partition"
OPERATIONS = (OF_PARTITION, "changed", "migrated")
DIRECTORIES = ("", "./", "day/", "month/day/", "day/../", "/", "/day/")


@dataclass(frozen=True, slots=True)
class SpelledFile:
    """A data.parquet below a directory, and what is done with it."""

    directory: str
    operation: str

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.path} that is {self.operation}"

    @property
    def kind(self) -> str:
        """What is done."""
        return self.operation

    @property
    def path(self) -> str:
        """Its path as it is spelled."""
        return self.directory + DATA_FILE


@functools.cache
def spelled_files() -> tuple[SpelledFile, ...]:
    """Return each spelling with each operation, always in the same order."""
    return tuple(itertools.starmap(SpelledFile, itertools.product(DIRECTORIES, OPERATIONS)))


def problem_of(case: SpelledFile) -> str | None:
    """Say what is wrong: only a partition's file must be refused, and a `_pm` be written beside; None if nothing is."""
    content = small_table(State.SOUND).files[DATA]
    # Elsewhere there is a `_pm`, and none beside a file that is in no partition.
    image = DiskImage.of_files({"day/other/x": b"", case.path: content, "elsewhere/_pm": b""})
    if case.operation == OF_PARTITION:
        image = image.with_file(case.directory + PM_FILE, b"")
    storage, file = MemoryStorage.of(image), posixpath.normpath(case.path)
    if case.operation == "migrated":
        migrate_file(storage, case.path)
        made = {path for path in storage.image().files if path not in image.files}
        return None if made == {f"{file}.pm"} else f"{sorted(made)} are made"
    try:
        change_footer_form(storage, case.path, FooterForm.PRIVATE)
    except UsageError as error:
        return None if case.operation == OF_PARTITION else f"it is refused: {error}"
    is_changed = storage.image().files[file] != content
    return "it is changed" if case.operation == OF_PARTITION else None if is_changed else "it is not changed"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a directory that is only known by its slash."""
    operations: Controls = (
        ("nothing is changed", f"{__name__}:change_footer_form", lambda *_: None, "it is not changed"),
        ("nothing may be changed", f"{__name__}:change_footer_form", _refuse, "it is refused: "),
    )
    yield from not_noticed(operations, problem_of, spelled_files())
    controls: Controls = tuple(
        (f"parents in {module}", f"tornproof.impl.migrate.{module}:parent_of", lambda path: path.rpartition("/")[0])
        for module in ("footer_form", "plain_file")
    )
    yield from not_noticed(controls, problem_of, spelled_files())


def _refuse(*_: object) -> NoReturn:
    raise UsageError("nothing may be changed")
