"""Records in `_txn` of which one field is another: a verification names it, or the checksum over it."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import DESCRIPTOR_BYTES
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import HEADER as PM_HEADER
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import (
    HEADER,
    NO_TIMES,
    RECORD,
    RECORD_NAMES,
    TransactionFile,
    of_entries,
    with_lag_checksum,
)
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import table_of_rows
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.pm.header import decode_fixed
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import verify_table

PATH = "table"
LAG = ("seq_txn", "lag_checksum", "lag_txn_count", "lag_row_count", "lag_min_timestamp", "lag_max_timestamp")
NO_LAG = {"lag_min_timestamp": NO_TIMES["min_timestamp"], "lag_max_timestamp": NO_TIMES["max_timestamp"]}
NO_ROWS = {**NO_TIMES, **NO_LAG, "lag_row_count": 0, "lag_txn_count": 0, "fixed_row_count": 0}


def verified_records() -> Iterator[Question]:
    """Yield fields that are one more or less, and empty tables, and which fields a verification names; headers, too."""
    named = dict.fromkeys(LAG, "LAG_CHECKSUM") | {name: name.upper() for name in ("min_timestamp", "max_timestamp")}
    for (name, field), step in ((each, step) for each in named.items() for step in (-1, 1)):
        words = f"what is wrong with a record whose {name} is {step:+} beside what it was"
        yield ask("records", words, [field], _named, name, step)
    yield Question("records", "what is wrong with the record of a table with rows", lambda: _named("txn", 0), [])
    of_new = with_lag_checksum({**dict.fromkeys(RECORD_NAMES, 0), **NO_ROWS})["lag_checksum"]
    unordered = {"lag_row_count": 2, "lag_min_timestamp": 5, "lag_max_timestamp": 7, "lag_txn_count": -3}
    of_ordered = _of_empty({**unordered, "lag_txn_count": 3}).numbers()["lag_checksum"]
    of_single = _of_empty({"lag_txn_count": 1}).numbers()["lag_checksum"]
    empty: dict[str, tuple[Mapping[str, int], list[str]]] = {
        "is empty": ({}, []),
        "was emptied, with the checksum of a new one": ({"lag_checksum": of_new}, []),
        "has another checksum": ({"lag_checksum": of_new + 1}, ["LAG_CHECKSUM"]),
        "has an unordered lag": (unordered, []),
        "has an unordered lag, with the checksum of an ordered one": ({**unordered, "lag_checksum": of_ordered}, []),
        "has an ordered lag, with the checksum of an unordered one": (
            {**unordered, "lag_txn_count": 3, "lag_checksum": _of_empty(unordered).numbers()["lag_checksum"]},
            ["LAG_CHECKSUM"],
        ),
        "has only the sign of a lag": ({"lag_txn_count": -1, "lag_checksum": of_single}, []),
        "was restored from a checkpoint": ({"lag_checksum": 0}, []),
        "was restored from a checkpoint with the sign of a lag": ({"lag_checksum": 0, "lag_txn_count": -1}, []),
        "has an unordered lag and no checksum": ({**unordered, "lag_checksum": 0}, ["LAG_CHECKSUM"]),
        "has a first time": ({"min_timestamp": 0}, ["MIN_TIMESTAMP"]),
        "has a last time": ({"max_timestamp": 0}, ["MAX_TIMESTAMP"]),
    }
    for words, (record, expected) in empty.items():
        found = functools.partial(_named_of_empty, record)
        yield Question("records", f"what is wrong with the record of a table that {words}", found, expected)


def headers() -> Iterator[Question]:
    """Yield the fixed part of a header of `_pm` by its counts, of columns whose descriptors all fit into the file."""
    for column_count, timestamp, sorting_count in itertools.product(range(3), range(-2, 4), range(4)):
        is_right = -1 <= timestamp < column_count and sorting_count <= column_count
        words = f"a header of {column_count} columns with the time {timestamp} and {sorting_count} that are sorted by"
        expected = [timestamp, sorting_count, column_count] if is_right else "CorruptError"
        yield ask("records", words, expected, _decoded, timestamp, sorting_count, column_count)


def _decoded(*numbers: int) -> Any:
    """Return the designated timestamp and the counts of a header, which are read again."""
    content = struct.pack(PM_HEADER, 0, 0, *numbers, 0) + bytes(DESCRIPTOR_BYTES * numbers[-1])

    def decoded() -> list[int]:
        fixed = decode_fixed(content, file="_pm")
        return [fixed.designated_timestamp, fixed.sorting_column_count, fixed.column_count]

    return outcome_of(decoded)


def _named(name: str, step: int) -> list[str]:
    """Return the fields that are named of a table with rows."""
    image = table_of_rows(PATH, [(FIRST_TIME, 0)])
    path = f"{PATH}/{TXN_FILE}"
    content = image.files[path]
    version, *slots = HEADER.unpack_from(content)
    at = slots[3 * (version % 2)]
    numbers = dict(zip(RECORD_NAMES, RECORD.unpack_from(content, at), strict=True))
    limit = 1 << 63
    numbers[name] = (numbers[name] + step + limit) % (2 * limit) - limit
    changed = overwritten(content, at, RECORD.pack(*numbers.values()))
    return _fields(image.with_file(path, changed))


def _named_of_empty(record: Mapping[str, int]) -> list[str]:
    return _fields(DiskImage.of_files({f"{PATH}/{TXN_FILE}": _of_empty(record).content()}))


def _of_empty(record: Mapping[str, int]) -> TransactionFile:
    return of_entries([], **{**NO_ROWS, "seq_txn": 3, **record})


def _fields(image: DiskImage) -> list[str]:
    return [problem.field for problem in verify_table(open_table(image, PATH), whole=False).all_problems]
