"""Whether `verify` reports of a table all that it reports of its parts, and names a filter or a name that is none."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, not_noticed, replaced
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.roundtrip.metadata.chains import generation
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import GROUP_ROWS, SORTED_BY_TIMESTAMP, with_checksum
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import GENERATED, PARQUET, data_ending_at
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import Entry, of_entries
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition

PROPERTY = "a verification reports all that is wrong with a table"
PATH, NAME, TXN = "table", "_name", "_txn"
DAY = 86_400_000_000
SOUND, DAMAGED, UNKNOWN = "sound", "damaged", "unknown"
REFUSED = "refused"
"""Instead of what is reported, where a table may be sound and cannot be looked at as a whole."""
UNKNOWN_FEATURE = 1 << 33
ROW_COUNT, FILTERED = 20, "value"
LENGTH = struct.Struct("<i")
REFERENCE = struct.Struct("<QQ")

Reported: TypeAlias = tuple[str, ...] | str
"""The fields of all problems, without what they are of, sorted."""


@dataclass(frozen=True, slots=True)
class VerifiedTable:
    """A table that is made when it is looked at, and what must be reported of it."""

    name: str
    kind: str
    made: Callable[[], Table]
    expected: Reported
    is_whole: bool = False


@functools.cache
def verified_tables() -> tuple[VerifiedTable, ...]:
    """Return all tables, always in the same order."""
    return (*_together(), *_named(), *_filtered())


def problem_of(case: VerifiedTable) -> str | None:
    """Say what is reported otherwise; None if nothing is."""
    found = _reported(case)
    return (
        None if found == case.expected else f"{found or 'nothing'} is reported instead of {case.expected or 'nothing'}"
    )


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of verifications that look at no filter, and at no partition as a whole."""
    module = "tornproof.impl.verify"
    controls: Controls = (
        ("filters are not looked at", f"{module}.pages:filter_of", lambda *_: None),
        ("partitions are not checked", f"{module}.verify:check_partition", lambda _: iter(())),
        ("names have no length", f"{module}.table_files:_name_problems", lambda *_: iter(())),
    )
    return not_noticed(controls, problem_of, verified_tables())


def _reported(case: VerifiedTable) -> Reported:
    table = case.made()
    try:
        if case.kind == "filters":
            report = verify_table(table, whole=False)
        else:
            # What data.parquet says of itself is looked at elsewhere.
            with replaced("tornproof.impl.verify.verify:check_thrift_footer", lambda *_: (None, [])):
                report = verify_table(table, quick=True, whole=case.is_whole)
    except UnsupportedError:
        return REFUSED
    return tuple(sorted(each.field.partition(" of ")[0] for each in report.all_problems))


def _together() -> Iterator[VerifiedTable]:
    """Yield tables of partitions that are sound, damaged, or have a feature that nobody knows, also without `_meta`."""
    fields = {DAMAGED: ("ROW_COUNT",), UNKNOWN: ("FEATURE_FLAGS",), SOUND: ()}
    for count, is_whole in itertools.product((1, 2, 3), (False, True)):
        for states in itertools.product((SOUND, DAMAGED, UNKNOWN), repeat=count):
            found = tuple(sorted([*(field for each in states for field in fields[each]), *["file"] * is_whole]))
            # Only of a table without damage there is no verdict.
            is_refused = UNKNOWN in states and DAMAGED not in states and not is_whole
            made = functools.partial(_table_of, states, {f"{PATH}/{NAME}": b""} if is_whole else {})
            name = f"partitions that are {', '.join(states)}{', and no _meta beside a name' * is_whole}"
            yield VerifiedTable(name, "together", made, REFUSED if is_refused else found, is_whole=is_whole)


def _table_of(states: Sequence[str], others: Mapping[str, bytes]) -> Table:
    files, entries, times = dict(others), list[Entry](), list[int]()
    for day, state in enumerate(states):
        draft = generation(0)
        for group in draft.groups:
            for place in ("low", "high"):
                moved = struct.unpack("<q", getattr(group[0], place))[0] + day * DAY
                setattr(group[0], place, struct.pack("<q", moved))
                times.append(moved)
        draft.flags = SORTED_BY_TIMESTAMP | (state == UNKNOWN) * UNKNOWN_FEATURE
        directory = f"{PATH}/1970-01-0{1 + day}"
        files |= {f"{directory}/_pm": draft.encoded(), f"{directory}/data.parquet": data_ending_at(draft.token)}
        row_count = GROUP_ROWS * len(draft.groups) - (state == DAMAGED)
        entries.append(Entry(timestamp=day * DAY, row_count=row_count, token=draft.token, flags=PARQUET | GENERATED))
    return _table(files, entries, min_timestamp=min(times), max_timestamp=max(times))


def _table(
    files: dict[str, bytes], entries: Sequence[Entry], metadata: TableMetadata | None = None, **record: int
) -> Table:
    storage = DiskImage.of_files({**files, f"{PATH}/{TXN}": of_entries(entries, column_version=0, **record).content()})
    return Table(storage=storage, path=PATH, metadata=metadata)


def _named() -> Iterator[VerifiedTable]:
    """Yield tables whose name has other lengths than its file."""
    for unit_count, size_bytes in itertools.product(
        (-(1 << 31), -1, 0, 1, 4, 5, 6, 7, 8, (1 << 31) - 1), (4, 5, 6, 14, 15, 16)
    ):
        is_right = 0 < 2 * unit_count <= size_bytes - LENGTH.size
        content = LENGTH.pack(unit_count).ljust(size_bytes, b"n")
        made = functools.partial(_table_named, content)
        expected = () if is_right else ("CODE_UNIT_COUNT",)
        name = f"a name of {unit_count} characters in {size_bytes} bytes"
        yield VerifiedTable(name, "names", made, expected, is_whole=True)
    for size_bytes in range(LENGTH.size):
        made = functools.partial(_table_named, bytes(size_bytes))
        yield VerifiedTable(f"a name in {size_bytes} bytes", "names", made, ("`_meta` name length",), is_whole=True)
    yield VerifiedTable("no name", "names", functools.partial(_table_named, None), ("file",), is_whole=True)


def _table_named(content: bytes | None) -> Table:
    files = {f"{PATH}/_cv": bytes(40), **({} if content is None else {f"{PATH}/{NAME}": content})}
    return _table(files, (), TableMetadata(columns=(), partition_by=PartitionBy.DAY, timestamp_id=-1))


def _filtered() -> Iterator[VerifiedTable]:
    """Yield tables whose filter is said to be elsewhere in data.parquet, or of another length."""
    for moved, longer in itertools.product((-32, -1, 0, 1, 32), (-32, -31, -1, 0, 1, 31, 32)):
        made = functools.partial(_table_filtered, moved, longer)
        is_right = moved == longer == 0
        # What is a whole number of blocks can be a filter, but has not the values.
        field = "bloom filter" if longer % 32 == 0 else "bloom reference"
        name = f"a filter that is {moved} bytes elsewhere, and {longer} longer"
        yield VerifiedTable(name, "filters", made, () if is_right else (field,))


@functools.cache
def _files() -> DiskImage:
    """Return a table whose numbers have a filter of two blocks in data.parquet."""
    storage = MemoryStorage()
    new_table(storage, PATH, {"time": "TIMESTAMP", FILTERED: "LONG"})
    blooms = BloomOptions(columns={FILTERED: 0.001}, position=BloomPosition.EXTERNAL)
    times = pa.array(range(ROW_COUNT), pa.timestamp("us", tz="UTC"))
    # What a filter is followed by says what one that is elsewhere is taken for.
    options = WriterOptions(blooms=blooms, encoding=EncodeOptions(page_index=True))
    with open_writer_of_copy(storage, PATH, options=options) as writer:
        writer.write(pa.table({"time": times, FILTERED: pa.array(range(ROW_COUNT), pa.int64())}))
        writer.commit()
    return storage.image()


def _table_filtered(moved: int, longer: int) -> Table:
    image = _files()
    path = the_only(each for each in image.files if each.endswith("/_pm"))
    content = image.files[path]
    # The only reference is the last of the footer, before its checksum and length.
    at = len(content) - 2 * LENGTH.size - REFERENCE.size
    offset, length = REFERENCE.unpack_from(content, at)
    content = overwritten(content, at, REFERENCE.pack(offset + moved, length + longer))
    return open_table(image.with_file(path, with_checksum(content)), PATH)
