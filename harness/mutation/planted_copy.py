"""A copy of the package in which one place is changed: what runs in it has the fault in all of its processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tornproof.harness.mutation.source_patch import PACKAGE, SourcePatch

CACHES = "__pycache__"


@dataclass(frozen=True, slots=True)
class PlantedCopy:
    """The folder that holds the changed package; `mark` is a file that the changed code makes when it is executed."""

    folder: Path

    @property
    def mark(self) -> Path:
        """The file that exists if the changed code was executed."""
        return self.folder / "reached"

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which a Python process imports the changed package."""
        paths = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        # What is compiled of the changed package is of no use afterwards, and must not get among the files of ours.
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def python(self) -> list[str]:
        """The command line of such a process, before its arguments: it must not find the package where it stands."""
        return [sys.executable, "-P"]


@contextmanager
def planted_copy(patch: SourcePatch | None) -> Iterator[PlantedCopy]:
    """Yield a copy of the package with the change, or with none, made of links; raises PatchError."""
    with TemporaryDirectory(prefix="tornproof-") as name:
        copy = PlantedCopy(Path(name))
        if patch is not None:
            package = Path(str(PACKAGE))
            _link(package, copy.folder / package.name, Path(patch.file).parts)
            changed = copy.folder / package.name / patch.file
            changed.write_text(patch.marked_text(f"open({str(copy.mark)!r}, 'a').close()"))
        yield copy


def _link(source: Path, target: Path, parts: tuple[str, ...]) -> None:
    """Link the entries of a folder, but make a folder of its own for each on the way to the changed file."""
    target.mkdir()
    for entry in source.iterdir():
        if entry.name == parts[0]:
            if len(parts) > 1:
                _link(entry, target / entry.name, parts[1:])
        elif entry.name != CACHES or len(parts) > 1:
            (target / entry.name).symlink_to(entry.resolve())
