"""New tables and partitions: which may be made, what they say of their columns, and in which order these are."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator

from tornproof.harness.common.new_tables import new_table, new_table_of_rows
from tornproof.harness.explorers.roundtrip.metadata.views import view_problems
from tornproof.harness.explorers.roundtrip.worked_out.parquet.column_types import LONG, PLAIN_TAGS, TIMESTAMP
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.harness.simulator.filesystem.faulty import RefusingStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import (
    META_FILE,
    NAME_FILE,
    PartitionBy,
    TableColumn,
    TableMetadata,
    decode_metadata_file,
)
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.write.writer_options import WriterOptions

META_HEADER, META_COLUMN = struct.Struct("<6i2qBii79x"), struct.Struct("<iqii4xi4x")
"""The last two fields of the header are another version with a checksum, and how long rows live."""
COLUMN_ORDERS: tuple[tuple[str, dict[int, int], set[int], list[int]], ...] = (
    ("nothing", {}, set(), [0, 1, 2]),
    ("another type of one in the middle", {3: 1}, set(), [0, 3, 2]),
    ("another type of the last one", {3: 2}, set(), [0, 1, 3]),
    ("two changes of one", {3: 1, 4: 3}, set(), [0, 4, 2]),
    ("two changes of one, and a new one between them", {3: 1, 5: 3}, set(), [0, 5, 2, 4]),
    ("changes of two in turn", {3: 1, 4: 2, 5: 3, 6: 4}, set(), [0, 5, 6]),
    ("a removal and a new one", {}, {1}, [0, 2, 3]),
    ("a removal of one that was changed", {3: 1}, {3}, [0, 2, 4]),
)
"""What was changed, which column took the place of which, those that were removed, and the writer indexes in order."""
NAMES_LACK = "?.,'\"\\/:()+-*%~\x7f\ufeff\x00\x0f"
"""The characters that no name has."""
GEOHASHES = ((14, 1), (14, 7), (15, 8), (15, 15), (16, 16), (16, 31), (17, 32), (17, 60))
"""The tags of geohashes, with the fewest and the most bits of each."""
WRONG_GEOHASHES = ((14, 0), (14, 8), (15, 7), (16, 32), (17, 31), (17, 61))


def column_orders() -> Iterator[Question]:
    """Yield `_meta` of tables whose columns were changed to other types or removed, and the columns in their order."""
    for name, replaced_by, removed, expected in COLUMN_ORDERS:
        records = [(replaced_by.get(number, -1), number) for number in range(max(expected) + 1)]
        dead = {*replaced_by.values(), *removed}
        content = META_HEADER.pack(len(records), 0, 0, 426, 1, 500_000, 600_000_000, 0, 0, 0, 0)
        codes = [TIMESTAMP, *[LONG] * (len(records) - 1)]
        content += b"".join(
            META_COLUMN.pack(-code if number in dead else code, 0, 0, 0, 1 + replaced)
            for code, (replaced, number) in zip(codes, records, strict=True)
        )
        for _, number in records:
            text = f"c{number}".encode("utf-16-le")
            content += len(text[::2]).to_bytes(4, "little") + text
        yield ask("columns", f"the order of columns after {name}", expected, _ids, content)


def _ids(meta: bytes) -> list[int]:
    return [column.id for column in decode_metadata_file(meta, file="_meta").columns]


def creations() -> Iterator[Question]:
    """Yield the creation of a table where there is one already, which has no rows yet."""
    yield Question("creations", "a second creation of a table", _created_twice, "rejected, and the table is as it was")
    for name, is_right in (
        *((each, True) for each in ("a", "x" * 127, "größe", "_", "a b", "0", "[", "\x10", "\x1f")),
        *((each, False) for each in ("", "x" * 128, "\ud800", "\na", *(f"a{each}" for each in NAMES_LACK))),
        *(("TS", False), ("Ts", False)),
    ):
        yield ask("creations", f"a column {name!r}", is_right, _is_created, NewColumn(name=name, type=LONG))
        # A table is named by its path, up to a tilde.
        if name.lower() != "ts" and name[-1:] not in ("/", "~"):
            yield ask("creations", f"a table {name!r}", is_right, _is_created, table=name)
    for number, is_right in (
        *(
            (each, True)
            for each in (*PLAIN_TAGS.values(), 27 | 10 << 8, *(31 | 18 << 8 | each << 18 for each in (0, 18)))
        ),
        *(
            (each, False)
            for each in (0, 20, 23, 34, 27, 27 | 9 << 8, 27 | 10 << 8 | 1 << 30, 14, 17, 31 | 19 << 8 | 20 << 18)
        ),
        *((tag | bits << 8 | 1 << 16, True) for tag, bits in GEOHASHES),
        *((tag | bits << 8, False) for tag, bits in GEOHASHES),
        *(
            (tag | bits << 8 | 1 << 16, False)
            for tag, bits in ((14, 0), (14, 8), (15, 7), (16, 32), (17, 31), (17, 61))
        ),
        *((tag | 1 << 18, False) for tag in (LONG, 1, 26)),
        *((tag | 1 << 8, False) for tag in (LONG, TIMESTAMP, 1, 26)),
    ):
        found = functools.partial(_is_created, NewColumn(name="column", type=number))
        yield Question("creations", f"a column of type {number:#x}", found, is_right)
    for length, of, is_right in ((124, "SYMBOL", True), (125, "SYMBOL", False), (127, "LONG", True)):
        # Their dictionaries are files, whose names have at most 255 bytes.
        found = functools.partial(_is_created, NewColumn(name="ß" * length, type=PLAIN_TAGS[of]))
        yield Question("creations", f"a column of the type {of} whose name has {2 * length} bytes", found, is_right)
    for reason, is_right in ((StorageReason.NO_LOCKS, True), (StorageReason.NO_SPACE, False)):
        found = functools.partial(_is_created, refused_lock=reason)
        yield Question("creations", f"a table in a file system that refuses locks: {reason}", found, is_right)
    for count in (1_771, 1_772, 4_000):
        yield ask("creations", f"how many columns a new table of {count} has", count, _column_count, count)
    sizes = {"o": 4096, "c": 0, "k": 4096, "v": 0}
    yield Question("creations", "the sizes of the files of a new dictionary", _dictionary_sizes, sizes)
    for path, named in (("table", "table"), ("table~7", "table"), ("folder/table~12", "table"), ("a~b~c", "a")):
        yield ask("creations", f"whether a new table at {path} has the name {named}", True, _has_name_of, path, named)
    for number in (0, 1, 2, 7, (1 << 31) - 1):
        settings = (1, 0, 0, 426, number, 500_000, 600_000_000, 0, 0)
        yield ask("creations", f"a table with the id {number}", settings, _settings_of, number)
    for capacity in (-1, 0, 1, 2, 3, 4, 5, 1023, 1024, 1025, (1 << 20) - 1, 1 << 20, (1 << 20) + 1):
        expected = (
            next(1 << power for power in range(22) if 1 << power >= capacity) if 2 <= capacity <= 1 << 20 else None
        )
        yield ask("creations", f"a capacity of {capacity}", expected, _capacity_of, capacity)
    for key_names in itertools.product((False, True), repeat=2):
        found = functools.partial(
            _is_created, NewColumn(name="k", type=LONG, is_dedup_key=key_names[1]), has_key=key_names[0]
        )
        yield Question("creations", f"keys {key_names}", found, key_names != (False, True))
    found = functools.partial(_is_created, NewColumn(name="k", type=27 | 10 << 8, is_dedup_key=True), has_key=True)
    yield Question("creations", "an array as a key", found, False)


def _is_created(
    column: NewColumn | None = None,
    table: str = "table",
    *,
    has_key: bool = False,
    refused_lock: StorageReason | None = None,
) -> bool:
    columns = [NewColumn(name="ts", type=TIMESTAMP, is_dedup_key=has_key), *([column] if column else [])]
    storage = RefusingStorage(MemoryStorage(), lambda call: refused_lock if call.kind is CallKind.LOCK else None)
    try:
        create_table(storage, table, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    except TornproofError:
        return False
    return True


def _column_count(count: int) -> int:
    storage = MemoryStorage()
    columns = [
        NewColumn(name="ts", type=TIMESTAMP),
        *(NewColumn(name=f"c{each}", type=LONG) for each in range(1, count)),
    ]
    table = create_table(storage, "table", columns, timestamp="ts", partition_by=PartitionBy.DAY)
    return len(table.metadata.columns) if table.metadata else 0


def _has_name_of(path: str, name: str) -> bool:
    """Return whether the file with the name of a new table is that of a table in a directory of that name."""
    found = []
    for each in (path, name):
        storage = MemoryStorage.of(DiskImage({}, frozenset({"folder"})))
        columns = [NewColumn(name="ts", type=TIMESTAMP)]
        create_table(storage, each, columns, timestamp="ts", partition_by=PartitionBy.DAY)
        found.append(storage.image().files[f"{each}/{NAME_FILE}"])
    return found[0] == found[1]


def _dictionary_sizes() -> dict[str, int]:
    storage = MemoryStorage()
    new_table(storage, "table", {"ts": "TIMESTAMP", "s": "SYMBOL"})
    files = storage.image().files
    return {kind: len(files[f"table/s.{kind}"]) for kind in "ocvk"}


def _settings_of(table_id: int) -> tuple[int, ...]:
    storage, columns = MemoryStorage(), [NewColumn(name="ts", type=TIMESTAMP)]
    create_table(storage, "table", columns, timestamp="ts", partition_by=PartitionBy.DAY, table_id=table_id)
    *settings, _, _ = META_HEADER.unpack_from(storage.image().files[f"table/{META_FILE}"])
    return tuple(settings)


def _capacity_of(capacity: int) -> int | None:
    storage = MemoryStorage()
    columns = [
        NewColumn(name="ts", type=TIMESTAMP),
        NewColumn(name="text", type=PLAIN_TAGS["SYMBOL"], symbol_capacity=capacity),
    ]
    try:
        table = create_table(storage, "table", columns, timestamp="ts", partition_by=PartitionBy.DAY)
    except TornproofError:
        return None
    return table.metadata.columns[1].symbol_capacity if table.metadata else -1


def _created_twice() -> str:
    storage = MemoryStorage()

    def create(name: str) -> None:
        columns = [NewColumn(name="ts", type=TIMESTAMP), NewColumn(name=name, type=LONG)]
        create_table(storage, "table", columns, timestamp="ts", partition_by=PartitionBy.DAY)

    create("first")
    before = storage.image().files
    try:
        create("second")
    except TornproofError:
        is_same = storage.image().files == before
        return f"rejected, and the table is {'as it was' if is_same else 'another one'}"
    return "done"


def new_partitions() -> Iterator[Question]:
    """Yield what the header of a new partition says of its filters and its order."""
    columns = [
        TableColumn(id=number, name=f"c{number}", type=kind) for number, kind in ((3, TIMESTAMP), (5, LONG), (6, 26))
    ]
    for timestamp_id, ids, is_external in itertools.product((3, -1), ((), (5,), (6, 3), (4,)), (False, True)):
        filtered = tuple(index for index, column in enumerate(columns) if column.id in ids)
        flags = 4 * (timestamp_id >= 0) + (1 + 2 * is_external if filtered else 0)
        metadata = TableMetadata(columns=tuple(columns), timestamp_id=timestamp_id, partition_by=PartitionBy.DAY)
        made = functools.partial(_new_header, metadata, ids, is_external)
        name = f"a header with filters of {ids}, {'in the file' if is_external else 'in it'}, by {timestamp_id}"
        yield Question("new partitions", name, made, (flags, 0 if timestamp_id >= 0 else -1, filtered))


def _new_header(metadata: TableMetadata, ids: tuple[int, ...], is_external: bool) -> tuple[int, int, tuple[int, ...]]:
    header = new_header(metadata, bloom_ids=ids, blooms_external=is_external)
    return header.feature_flags, header.designated_timestamp, header.bloom_columns


def time_columns() -> Iterator[Question]:
    """Yield tables whose designated timestamp is not their first column, and whether views find the rows of times."""
    others = ["a", "b", "c"]
    for place in range(len(others) + 1):
        names = (*others[:place], "ts", *others[place:])
        words = f"what is wrong with a view of metadata in which the time is column {place}"
        yield ask("time columns", words, [], _problems_of_view, names)


def _problems_of_view(names: tuple[str, ...]) -> list[str]:
    storage, types = MemoryStorage(), {name: "TIMESTAMP" if name == "ts" else "LONG" for name in names}
    options = WriterOptions(row_group_row_count_max=2)
    new_table_of_rows(storage, "table", types, range(FIRST_TIME, FIRST_TIME + 7), options=options)
    ((path, content),) = ((path, each) for path, each in storage.image().files.items() if path.endswith(PM_FILE))
    return [problem for _, problem in view_problems(content, file=path)]
