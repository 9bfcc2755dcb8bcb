"""The test case of a scenario: a start table in memory, operations with rows, and readers, under a preset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.scenario import At, Commit, FiltersAt, Rows, Scenario
from tornproof.harness.systems.table import COLUMNS, GROWING, SYMBOL, TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.workload import FIRST_TIME, HOUR_MICROSECONDS
from tornproof.impl.layout.cv import ColumnVersion, ColumnVersionsHeader
from tornproof.impl.layout.txn import TransactionRecord
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.table.column_versions import (
    CV_FILE,
    DEFAULT_PARTITION,
    HEADER_BYTES,
    NO_NAME_TXN,
    ColumnVersions,
)
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition

PATH = "t"
LATER = "v"
"""The column that may come after the start."""
FIRST_OFFSET = 1_000_000
STEP = 1_000
ROWS_OF_A_COMMIT = 1_000
"""More rows than a commit has, so that all rows of a scenario have distinct values."""


@dataclass(slots=True)
class _Times:
    """The time offsets that the rows of each hour have so far."""

    offsets: dict[int, list[int]] = field(default_factory=dict)

    def take(self, rows: Rows) -> list[int]:
        """Return the timestamps of new rows."""
        taken = self.offsets.setdefault(rows.hour, [])
        low, high = (min(taken), max(taken)) if taken else (FIRST_OFFSET, FIRST_OFFSET - STEP)
        first = {
            At.END: high + STEP,
            At.START: low - STEP * rows.count,
            # Between the multiples of STEP, so that no two are equal.
            At.MIDDLE: (low + high) // 2 // STEP * STEP + 1 + len(taken),
        }[rows.at]
        step = 1 if rows.at is At.MIDDLE else STEP
        new = [first + number * step for number in range(rows.count)]
        taken += new
        return [FIRST_TIME + rows.hour * HOUR_MICROSECONDS + offset for offset in new]


def case_of(scenario: Scenario, target: TableTarget, rules: TraceRules = NO_RULES) -> TestCase:
    """Return the test case of a scenario, with the tables of a target; raises what writing the start table raises.

    The start table is written by this implementation, so that every preset starts from the same bytes.
    """
    storage = MemoryStorage()
    position = BloomPosition.EXTERNAL if scenario.filters_at is FiltersAt.EXTERNAL else BloomPosition.INLINED
    blooms = BloomOptions(columns=scenario.filters, position=position) if scenario.filters else None
    encoding = EncodeOptions(footer_extension=scenario.footer_extension, duplicates=scenario.duplicates or None)
    options = structs.replace(GROWING, blooms=blooms, encoding=encoding, allow_unreadable_by_servers=True)
    columns = (*COLUMNS, SYMBOL) if scenario.symbols else COLUMNS
    home = TableTarget(encode=target.encode, options=options, columns=columns)
    home.create(storage, PATH)
    times = _Times()
    empty = open_table(storage, PATH)
    commits = (*scenario.first, *scenario.second)
    start = _operations(empty, scenario.start, times, 0)
    # Before the start is committed: afterwards the table has symbols, and rows would have no others.
    operations = _operations(empty, commits, times, len(start))
    if scenario.later_column:
        start = tuple(replace(each, rows=tuple(map(_without_later, each.rows))) for each in start)
    for operation in start:
        with home.open_writer(storage, PATH) as writer:
            writer.commit(operation)
    if scenario.later_column:
        _come_later(storage)
    return TestCase(
        target=target,
        path=PATH,
        operations=operations,
        first_session=tuple(range(len(scenario.first))),
        second_session=tuple(range(len(scenario.first), len(commits))),
        readers=tuple(
            Readers(count=group.count, read_count=group.reads, style=str(group.style)) for group in scenario.readers
        ),
        start=storage.image(),
        rules=rules,
    )


def _without_later(rows: pa.Table) -> pa.Table:
    index = rows.schema.get_field_index(LATER)
    return rows.set_column(index, rows.schema.field(index), pa.nulls(rows.num_rows, rows.schema.field(index).type))


def _come_later(storage: MemoryStorage) -> None:
    """Say in the files of a table, as a server does, that a column came after the last partition."""
    table = open_table(storage, PATH)
    transaction = table.transaction()
    assert table.metadata is not None
    (column,) = (each for each in table.metadata.columns if each.name == LATER)
    last = transaction.partitions[-1]
    tops = {DEFAULT_PARTITION: last.timestamp, last.timestamp: last.row_count}
    entries = ColumnVersions(
        {
            (timestamp, column.id): ColumnVersion(
                partition_timestamp=timestamp, column_index=column.id, name_txn=NO_NAME_TXN, column_top=top
            )
            for timestamp, top in tops.items()
        }
    ).encode()
    header = ColumnVersionsHeader(version=1, a_offset=0, a_size=0, b_offset=HEADER_BYTES, b_size=len(entries)).pack()
    place = transaction.record_offset + TransactionRecord.layout.offset_of("column_version")
    with storage.open_for_writing(f"{PATH}/{CV_FILE}") as file:
        file.pwrite(header + entries, 0)
    with storage.open_for_writing(f"{PATH}/{TXN_FILE}") as file:
        file.pwrite((1).to_bytes(8, "little"), place)


def _operations(table: Table, commits: tuple[Commit, ...], times: _Times, number: int) -> tuple[TableOperation, ...]:
    return tuple(
        TableOperation(
            rows=_rows(table, commit, times, (number + index) * ROWS_OF_A_COMMIT),
            rewritten=tuple(FIRST_TIME + hour * HOUR_MICROSECONDS for hour in commit.rewrite),
            dropped=tuple(FIRST_TIME + hour * HOUR_MICROSECONDS for hour in commit.drop),
            purges=commit.purge,
            abandons=commit.abandon,
        )
        for index, commit in enumerate(commits)
    )


def _rows(table: Table, commit: Commit, times: _Times, seed: int) -> tuple[pa.Table, ...]:
    for hour in commit.drop:
        times.offsets.pop(hour, None)
    stamps = [stamp for rows in commit.rows for stamp in times.take(rows)]
    return (rows_for(table, stamps, seed=seed),) if stamps else ()
