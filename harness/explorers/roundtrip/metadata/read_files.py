"""How a file that is made byte by byte is read: as what it says, or rejected because of the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tornproof.harness.explorers.roundtrip.native.reported import FalteringImage
from tornproof.impl.errors import ProblemError

Rejection: TypeAlias = tuple[type[ProblemError], str, int | None]
"""A class of errors, with the field and the offset that it names."""


def image_of(path: str, content: bytes, size_bytes: int | None) -> FalteringImage:
    """Return a storage with one file, which may be said to be longer than it is."""
    return FalteringImage({path: content}, sizes_bytes={} if size_bytes is None else {path: size_bytes})


def difference(read: Callable[[], dict[str, Any]], file: str, expected: dict[str, Any] | Rejection) -> str | None:
    """Say what is wrong with how a file is read; None if nothing is."""
    try:
        found = read()
    except ProblemError as error:
        of = type(error), error.problem.field, error.problem.offset_bytes
        return None if (error.problem.file, of) == (file, expected) else f"it is rejected: {error}"
    if isinstance(expected, tuple):
        return f"it is read, and not rejected because of {expected[1]}"
    # What is said and was not worked out is wrong, too: else the working out could forget it.
    missing = object()
    names = (name for name in {**expected, **found} if expected.get(name, missing) != found.get(name, missing))
    wrong = next(names, None)
    return None if wrong is None else f"{wrong} is {found.get(wrong)}, and should be {expected.get(wrong)}"
