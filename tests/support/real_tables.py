"""Real tables as tests of reading and verifying want them: opened, read whole, next to what the servers answered."""

import bisect
import datetime
import ipaddress
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import golden_data
import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.layout.meta import MetaHeader
from tornproof.impl.query.time_search import ALL_TIMES, TimeRange
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.verify.verify import TableReport, verify_table

IMAGE_BYTES_MAX = 1 << 28
CHAIN = golden_data.CHAIN

Seen: TypeAlias = list[tuple[str, str, int | None]]
"""Problems as (file, field, offset in bytes)."""
GEOHASH_DIGITS = "0123456789bcdefghjkmnpqrstuvwxyz"
DECIMALS_OF_SECOND = {"DATE": 3, "TIMESTAMP": 6, "TIMESTAMP_NS": 9}


def snapshot_of(folder: Path | str, storage: ReadableStorage | None = None) -> Snapshot:
    """Return the committed version of the table in `folder`."""
    return open_snapshot(open_table(storage or OperatingSystemStorage(), str(folder)))


def only(snapshot: Snapshot, *partitions: Partition) -> Snapshot:
    """Return the snapshot as if it had no other partitions."""
    return replace(snapshot, transaction=replace(snapshot.transaction, partitions=partitions))


def rows_of(snapshot: Snapshot, names: list[str] | None = None, times: TimeRange = ALL_TIMES) -> pa.Table:
    """Return what the reader yields, as one table."""
    schema = pa.schema([snapshot.schema.field(column.name) for column in snapshot.selected(names)])
    return pa.Table.from_batches(list(snapshot.batches(names, times)), schema=schema)


def image_of(folder: Path) -> DiskImage:
    """Return a copy of the folder in memory, found under the same path."""
    return DiskImage.capture(OperatingSystemStorage(), str(folder), size_bytes_max=IMAGE_BYTES_MAX)


def in_memory(folder: Path) -> tuple[str, MemoryStorage]:
    """Return the path of a table and a storage in memory that holds a copy of it there."""
    return str(folder), MemoryStorage.of(image_of(folder))


def files_below(path: str, storage: MemoryStorage) -> dict[str, bytes]:
    """Return the content of all files below the table but `_pins`, by their names there."""
    start = len(path) + 1
    return {name[start:]: content for name, content in storage.image().files.items() if name[start:] != PINS_FILE}


def table_image(questdb_data: Path, name: str = CHAIN) -> tuple[str, DiskImage]:
    """Return the path of a real table and a copy of it in memory."""
    return str(questdb_data / name), image_of(questdb_data / name)


def verified(
    path: Path | str, storage: ReadableStorage | None = None, *, quick: bool = False, whole: bool = True
) -> TableReport:
    """Return the verdict on the table at `path`; images of power losses are not whole."""
    return verify_table(open_table(storage or OperatingSystemStorage(), str(path)), quick=quick, whole=whole)


def seen(report: TableReport) -> Seen:
    """Return where a report's problems are."""
    return [(problem.file, problem.field, problem.offset_bytes) for problem in report.all_problems]


def seen_with(questdb_data: Path, file: str, change: Callable[[bytes], bytes]) -> Seen:
    """Return what is wrong with the chain table once a file's content is changed; unchanged it must be sound."""
    path, image = table_image(questdb_data)
    assert verified(path, image).sound
    position = f"{path}/{file}"
    return seen(verified(path, image.with_file(position, change(image.files[position]))))


def with_wal(image: DiskImage, path: str) -> DiskImage:
    """Return the image of a table that says that it has a write-ahead log, as most tables of servers have."""
    change = put(MetaHeader.layout.offset_of("wal_enabled"), b"\1")
    return image.with_file(f"{path}/_meta", change(image.files[f"{path}/_meta"]))


def put(offset_bytes: int, raw: bytes) -> Callable[[bytes], bytes]:
    """Return a change that overwrites bytes."""
    return lambda data: data[:offset_bytes] + raw + data[offset_bytes + len(raw) :]


def word(value: int) -> bytes:
    """Return an integer as 8 little-endian bytes, modulo 2^64."""
    return (value % (1 << 64)).to_bytes(8, "little")


def parquet_partitions(snapshot: Snapshot) -> list[Partition]:
    """Return the partitions whose rows lie in Parquet."""
    return [partition for partition in snapshot.transaction.partitions if partition.is_parquet]


def resolved_partitions(path: Path | str, storage: ReadableStorage | None = None) -> list[ResolvedPartition]:
    """Return the committed generations of all parquet partitions."""
    snapshot = snapshot_of(path, storage)
    return [snapshot.resolve(partition) for partition in parquet_partitions(snapshot)]


def parquet_only(
    rows: list[Any], timestamp_of: Callable[[Any], Any], snapshot: Snapshot, starts: list[Any]
) -> list[Any]:
    """Return the rows that fall into parquet partitions; `starts` are spelled as `timestamp_of` spells instants."""
    partitions = snapshot.transaction.partitions
    return [row for row in rows if partitions[bisect.bisect_right(starts, timestamp_of(row)) - 1].is_parquet]


def parquet_rows_of_json(rows: list[list[Any]], timestamp: int, snapshot: Snapshot) -> list[list[Any]]:
    """Return those of a server's rows that lie in parquet partitions; `timestamp` is the place of their timestamp."""
    nanoseconds = (
        pa.types.is_timestamp(snapshot.schema.field("ts").type) and snapshot.schema.field("ts").type.unit == "ns"
    )
    starts = [instant(partition.timestamp, 9 if nanoseconds else 6) for partition in snapshot.transaction.partitions]
    return parquet_only(rows, lambda row: row[timestamp], snapshot, starts)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    return json.loads(path.read_text())


def sql_rows(rows: pa.Table, sql_types: list[str]) -> list[list[Any]]:
    """Return rows in the text forms that SQL answers in, one type for each column."""
    columns = [sql_values(rows.column(position), sql_type) for position, sql_type in enumerate(sql_types)]
    return [list(row) for row in zip(*columns, strict=True)]


def sql_values(values: pa.ChunkedArray, sql_type: str) -> list[Any]:
    """Return a column in SQL's text form of the type."""
    kind, _, argument = sql_type.removesuffix(")").partition("(")
    if kind in DECIMALS_OF_SECOND:
        counts = values.cast(pa.int64()).to_pylist()
        return [None if count is None else instant(count, DECIMALS_OF_SECOND[kind]) for count in counts]
    forms: dict[str, Callable[[Any], Any]] = {
        "BINARY": lambda _: [],
        "CHAR": chr,
        "DECIMAL": "{:f}".format,
        "GEOHASH": lambda bits: geohash(bits, argument),
        "IPv4": lambda address: str(ipaddress.IPv4Address(address)),
        "LONG256": long256,
        "UUID": str,
    }
    form = forms.get(kind, lambda value: value)
    null = {"BINARY": [], "LONG256": ""}.get(kind)
    return [null if value is None else form(value) for value in values.to_pylist()]


def instant(count: int, decimals: int) -> str:
    """Return an instant in UTC, from units of 10^-decimals seconds since 1970."""
    seconds, fraction = divmod(count, 10**decimals)
    second = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return f"{second.isoformat()}.{fraction:0{decimals}d}Z"


def geohash(bits: int, precision: str) -> str:
    """Return bits as SQL shows them: `12b` in base 2, `10c` in base 32."""
    count = int(precision[:-1])
    if precision.endswith("b"):
        return f"{bits:0{count}b}"
    return "".join(GEOHASH_DIGITS[bits >> 5 * position & 31] for position in reversed(range(count)))


def long256(raw: bytes) -> str:
    """Return 32 little-endian bytes as hex of an even number of digits."""
    digits = f"{int.from_bytes(raw, 'little'):x}"
    return "0x" + digits.zfill(len(digits) + len(digits) % 2)
