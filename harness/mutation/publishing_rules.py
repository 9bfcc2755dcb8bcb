"""One more rule for single steps: no generation is published before the bytes of data.parquet that it describes.

It breaks nobody's reading, as only `_txn` says which generation counts; so what breaks it is found by nothing else.
"""

from __future__ import annotations

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.trace_rules import Broken
from tornproof.harness.systems.table_rules import TableRules
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.footer import locate_footer
from tornproof.impl.table.partition import PM_FILE


class PublishingRules(TableRules):
    """The rules for one table, and this one."""

    def before(self, kernel: Kernel, call: Call) -> Broken | None:
        """Judge the store of a size into the header of a `_pm`, and what the other rules are about."""
        directory, _, name = call.path.rpartition("/")
        if call.kind is CallKind.STORE and name == PM_FILE and call.offset_bytes == 0:
            end_bytes = int.from_bytes(call.content, "little")
            token = _token(_content(kernel, call.path), end_bytes)
            if token > len(_content(kernel, f"{directory}/{DATA_FILE}")):
                return Broken(False, f"{call.path} publishes a generation for {token} bytes that are not written yet")
        return super().before(kernel, call)


def _token(pm: bytes, end_bytes: int) -> int:
    try:
        return locate_footer(pm, end_bytes, file=PM_FILE).token
    except TornproofError:
        return 0


def _content(kernel: Kernel, path: str) -> bytes:
    number = kernel.find(path)
    return b"" if number is None else kernel.files[number].content
