"""What is planted into processes does what it says, so that a run with it has something to find."""

from __future__ import annotations

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.mutation.processes import version_before
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.write.recovery import recover_for_writing


def test_a_recovery_that_goes_back_leaves_the_version_before_on_disk_and_to_the_writer() -> None:
    storage = MemoryStorage()
    table = new_table(storage, "table", {"ts": "TIMESTAMP"})
    with open_writer_of_copy(storage, "table") as writer:
        for time in (1, 2):
            writer.write(pa.table({"ts": [time]}))
            writer.commit()
    before = table.transaction()
    recovered = version_before(recover_for_writing)(storage, table)
    assert recovered.version == table.transaction().version == before.version - 1
