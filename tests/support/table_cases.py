"""Small tables for explorations of schedules: one partition of a few rows, which commits grow, write anew and purge."""

import functools
from collections.abc import Sequence

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.remembered_codecs import remembered_encoder
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.table.table import open_table

PATH = "t"
START_COMMITS = 4
GROW, REWRITE, PURGE, ABANDON = "grow", "rewrite", "purge", "abandon"
SEEDS = 100


@functools.cache
def start_image() -> DiskImage:
    storage = MemoryStorage()
    target = TableTarget()
    target.create(storage, PATH)
    with target.open_writer(storage, PATH) as writer:
        for number in range(START_COMMITS):
            writer.commit(_grown(storage, number))
    return storage.image()


def table_case(
    operations: Sequence[str],
    *,
    readers: int = 1,
    reads: int = 1,
    style: str = "fresh",
    target: TableTarget | None = None,
) -> TestCase:
    """Return commits of those kinds beside readers; an abandoned one and the one after it hold the same rows."""
    image = start_image()
    made, grown_count = [], 0
    for kind in operations:
        if kind in (GROW, ABANDON):
            grown = _grown(image, START_COMMITS + grown_count)
            grown_count += kind == GROW
            made.append(TableOperation(rows=grown.rows, abandons=kind == ABANDON))
        else:
            made.append(TableOperation(rewritten=(FIRST_TIME,), purges=kind == PURGE))
    return TestCase(
        target=target or TableTarget(encode=remembered_encoder()),
        path=PATH,
        operations=tuple(made),
        first_session=tuple(range(len(made))),
        readers=(Readers(count=readers, read_count=reads, style=style),),
        start=image,
    )


def _grown(storage: MemoryStorage | DiskImage, number: int) -> TableOperation:
    table = open_table(storage, PATH)
    return TableOperation(rows=(rows_for(table, [FIRST_TIME + 10 * number], seed=SEEDS + number),))
