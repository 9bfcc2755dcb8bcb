"""The rows of the key-value stores: each batch has two, and their keys tell which."""

import sys
from pathlib import Path

VALUE = b"x" * 600


def batch(number: int) -> dict[bytes, bytes]:
    """Return the rows of a batch."""
    return {b"a%d" % number: VALUE, b"b%d" % number: VALUE}


def check(rows: dict[bytes, bytes], acknowledged: Path) -> None:
    """End with a message unless there are whole batches, the first ones, and as many as were acknowledged or more."""
    count = len(rows) // 2
    if rows.keys() != {key for number in range(count) for key in batch(number)}:
        sys.exit("a part of a batch, or a batch after one that is lost")
    if any(value != VALUE for value in rows.values()):
        sys.exit("a value that was never written")
    if count < len(acknowledged.read_text().splitlines()):
        sys.exit("a batch is lost")
