"""A broken target whose reader does not reject what it cannot read, but ends in a way of its own."""

from asyncio import CancelledError

from tornproof.harness.systems.toy import HeaderFirst
from tornproof.impl.errors import CorruptError
from tornproof.impl.storage.interface import Storage

FOUND = (SystemExit, GeneratorExit, CancelledError)
"""What is no `Exception`, and a finding all the same."""


class Ends(HeaderFirst):
    """Stores the count of letters before them, and where there are fewer, its reader raises an exception."""

    name = "ends"

    def __init__(self, end: type[BaseException]) -> None:
        self._end = end

    def read(self, storage: Storage, path: str) -> bytes:
        try:
            return super().read(storage, path)
        except CorruptError:
            raise self._end("the count is wrong") from None
