"""Rules for single steps on a table: committed bytes never change (I7), and no version comes before its barriers (I9).

Both are cheap: they check writes below committed extents, stores of a version, and acknowledgements
(docs/how-it-works.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tornproof.harness.common.remembered_codecs import look_up
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.trace_rules import Broken, TraceRules
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout import txn as layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.chain import resolve
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.symbols import HEADER_BYTES as HEADER_BYTES_OF_OFFSETS
from tornproof.impl.table.symbols import OFFSET_BYTES, dictionary_paths, symbol_columns
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import (
    HEADER_BYTES,
    TXN_FILE,
    VERSION_BYTES,
    Transaction,
    area_of,
    decode_transaction,
)

_WRITES = frozenset({CallKind.PWRITE, CallKind.STORE, CallKind.TRUNCATE})
SYMBOL_SUFFIXES = (".o", ".c")
_REMOVALS = frozenset({CallKind.UNLINK, CallKind.RMDIR, CallKind.RENAME})


class Extents(NamedTuple):
    """What a version of `_txn` refers to: the tokens of parquet partitions by directory path, its area, and symbols.

    `symbols` are the ranges of committed bytes in `.o` and `.c` by path, `indexes` the paths of `.k` and `.v`.
    """

    tokens: dict[str, int]
    area: tuple[int, int]
    symbols: dict[str, tuple[int, int]]
    indexes: tuple[str, ...]


class TableRules(TraceRules):
    """The rules for one table; without `promises_barriers` the writer's protocol omits some, and I9 is not checked.

    The names of directories follow from `_meta`, which is read once because no commit changes it.
    """

    def __init__(self, path: str, *, promises_barriers: bool = True) -> None:
        """Check the table in the directory `path`."""
        self._path = path
        self._txn_path = f"{path}/{TXN_FILE}"
        self.promises_barriers = promises_barriers
        self._records: dict[bytes, tuple[bytes, tuple[int, int]]] = {}
        self._extents: dict[bytes, Extents | None] = {}
        self._resolvable: dict[tuple[bytes, int], bool] = {}
        self._table: Table | None = None

    def before(self, kernel: Kernel, call: Call) -> Broken | None:
        """Check a write, a removal, or the store of a version."""
        if call.kind in _WRITES:
            directory, _, name = call.path.rpartition("/")
            if name in (DATA_FILE, PM_FILE):
                return self._write(kernel, call, directory, name)
            if call.path == self._txn_path:
                return self._store(kernel, call)
            if name.endswith(SYMBOL_SUFFIXES):
                return self._symbols(kernel, call)
        elif call.kind in _REMOVALS:
            return self._remove(kernel, call)
        return None

    def acknowledged(self, kernel: Kernel) -> Broken | None:
        """Check that the acknowledged version is on disk."""
        if not self.promises_barriers:
            return None
        number = kernel.find(self._txn_path)
        if number is None or _is_durable(kernel, number, 0, VERSION_BYTES):
            return None
        return Broken(False, "a commit is acknowledged before its version is on disk (F5)")

    def _write(self, kernel: Kernel, call: Call, directory: str, name: str) -> Broken | None:
        extents = self._committed(kernel)
        token = None if extents is None else extents.tokens.get(directory)
        number = kernel.find(call.path)
        if token is None or number is None:
            return None
        content = kernel.files[number].content
        start, stop = (0, token) if name == DATA_FILE else (VERSION_BYTES, _published(content))
        if _changes(content, call, start, stop):
            return Broken(True, f"{call.kind} {call.path} at byte {_offset(call)} changes committed bytes below {stop}")
        return None

    def _symbols(self, kernel: Kernel, call: Call) -> Broken | None:
        extents, number = self._committed(kernel), kernel.find(call.path)
        committed = None if extents is None else extents.symbols.get(call.path)
        if committed is None or number is None or not _changes(kernel.files[number].content, call, *committed):
            return None
        return Broken(True, f"{call.kind} {call.path} at byte {_offset(call)} changes committed symbols")

    def _store(self, kernel: Kernel, call: Call) -> Broken | None:
        number = kernel.find(self._txn_path)
        if number is None:
            return None
        content = kernel.files[number].content
        if call.offset_bytes == 0 and call.kind is CallKind.STORE:
            if not self.promises_barriers or content[:VERSION_BYTES] == call.content:
                return None
            missing = self._missing(kernel, number, call.content + content[len(call.content) :])
            return None if missing is None else Broken(False, f"a version is stored before {missing}")
        extents = self._extents_of(kernel, content)
        if extents is not None and _changes(content, call, *extents.area):
            return Broken(True, f"{call.kind} {call.path} at byte {_offset(call)} changes the committed record")
        return None

    def _remove(self, kernel: Kernel, call: Call) -> Broken | None:
        extents = self._committed(kernel)
        if extents is None:
            return None
        for path in (call.path, call.target_path):
            if path in extents.tokens or path.rpartition("/")[0] in extents.tokens:
                return Broken(True, f"{call.kind} {path}, which the committed version names")
        return None

    def _missing(self, kernel: Kernel, txn: int, content: bytes) -> str | None:
        """Return in words the first condition of storing a version that does not hold."""
        extents = self._extents_of(kernel, content)
        if extents is None:
            return f"its record in {self._txn_path} can be read (F4)"
        if not _is_durable(kernel, txn, VERSION_BYTES, HEADER_BYTES) or not _is_durable(kernel, txn, *extents.area):
            return f"the record in {self._txn_path} is on disk (F4)"
        missing = (self._missing_of(kernel, *each) for each in extents.tokens.items())
        return next(filter(None, (*missing, *_missing_symbols(kernel, extents))), None)

    def _missing_of(self, kernel: Kernel, directory: str, token: int) -> str | None:
        """Return in words the first condition on a partition that does not hold."""
        for name, barrier in ((DATA_FILE, "F1"), (PM_FILE, "F2, F3")):
            path = f"{directory}/{name}"
            number = kernel.find(path)
            if number is None:
                return f"{path} is there"
            content = kernel.files[number].content
            if name == PM_FILE and not self._leads_to(content, token):
                return f"{path} leads to the generation of {token} bytes"
            start, stop = (0, token) if name == DATA_FILE else (VERSION_BYTES, _published(content))
            if not _is_durable(kernel, number, start, stop) or (
                name == PM_FILE and not self._all_lead_to(kernel, number, token)
            ):
                return f"{path} is on disk ({barrier})"
            if _durable_number(kernel, path) != number:
                return f"the name {path} is on disk (F6)"
        return None

    def _all_lead_to(self, kernel: Kernel, number: int, token: int) -> bool:
        """Tell whether each header that may be on disk leads to the generation: a killed recovery may leave two."""
        state = kernel.files[number]
        headers = {version[:VERSION_BYTES] for version in state.versions}
        return all(self._leads_to(header + state.content[len(header) :], token) for header in headers)

    def _leads_to(self, pm: bytes, token: int) -> bool:
        return look_up(self._resolvable, (pm, token), lambda: _is_resolvable(pm[: _published(pm)], token))

    def _committed(self, kernel: Kernel) -> Extents | None:
        number = kernel.find(self._txn_path)
        return None if number is None else self._extents_of(kernel, kernel.files[number].content)

    def _extents_of(self, kernel: Kernel, content: bytes) -> Extents | None:
        """Return what a `_txn` refers to, or None if it cannot be decoded."""
        record, area = look_up(self._records, content, lambda: live_record(content))
        return look_up(self._extents, record, lambda: self._decoded(kernel, content, area))

    def _decoded(self, kernel: Kernel, content: bytes, area: tuple[int, int]) -> Extents | None:
        try:
            if self._table is None:
                self._table = open_table(kernel.image(), self._path)
            transaction = decode_transaction(content, file=TXN_FILE)
            parquet = [partition for partition in transaction.partitions if partition.is_parquet]
            symbols, indexes = _dictionaries(kernel, self._table, transaction)
            directories = [f"{self._path}/{self._table.directory_of(partition)}" for partition in parquet]
        except TornproofError:
            return None
        tokens = dict(zip(directories, (partition.token for partition in parquet), strict=True))
        return Extents(tokens, area, symbols, indexes)


def _dictionaries(
    kernel: Kernel, table: Table, transaction: Transaction
) -> tuple[dict[str, tuple[int, int]], tuple[str, ...]]:
    """Return the ranges of a version's symbols, and the files of their hash indexes; no commit changes their names."""
    symbols, indexes = {}, []
    for column, counted in zip(symbol_columns(table), transaction.symbol_counts, strict=True):
        paths = dictionary_paths(table, transaction, column)
        number = kernel.find(paths["o"])
        offsets = b"" if number is None else kernel.files[number].content
        stop = HEADER_BYTES_OF_OFFSETS + (counted.count + 1) * OFFSET_BYTES
        symbols[paths["o"]] = (HEADER_BYTES_OF_OFFSETS, stop)
        symbols[paths["c"]] = (0, int.from_bytes(offsets[stop - OFFSET_BYTES : stop], "little"))
        indexes += [paths["k"], paths["v"]]
    return symbols, tuple(indexes)


def _missing_symbols(kernel: Kernel, extents: Extents) -> Iterator[str]:
    """Yield in words the conditions on dictionaries that do not hold."""
    for path in (*extents.symbols, *extents.indexes):
        number = kernel.find(path)
        if number is None:
            yield f"{path} is there"
            continue
        whole = (0, len(kernel.files[number].content))
        if not _is_durable(kernel, number, *extents.symbols.get(path, whole)):
            yield f"{path} is on disk (F1)"
        if _durable_number(kernel, path) != number:
            yield f"the name {path} is on disk (F6)"


def live_record(content: bytes) -> tuple[bytes, tuple[int, int]]:
    """Return the base header and the live area of a `_txn`, and the range of that area.

    Stores into the free area are no new version.
    """
    try:
        base = layout.BaseHeader.unpack(content[:HEADER_BYTES], 0, file=TXN_FILE)
    except TornproofError:
        return content[:VERSION_BYTES], (0, 0)
    area = area_of(base, base.version)
    start, stop = area.record_offset, area.record_offset + area.size_bytes
    return content[:VERSION_BYTES] + content[start:stop], (start, stop)


def _is_resolvable(published: bytes, token: int) -> bool:
    try:
        resolve(published, token, file=PM_FILE)
    except TornproofError:
        return False
    return True


def _durable_number(kernel: Kernel, path: str) -> int | None:
    number: int | None = 0
    for name in path.split("/"):
        number = None if number is None else kernel.durable_directories.get(number, {}).get(name)
    return number


def _is_durable(kernel: Kernel, number: int, start: int, stop: int) -> bool:
    state = kernel.files[number]
    wanted = state.content[start:stop]
    return len(wanted) == stop - start and all(version[start:stop] == wanted for version in state.versions)


def _published(pm: bytes) -> int:
    return min(int.from_bytes(pm[:VERSION_BYTES], "little"), len(pm))


def _offset(call: Call) -> int:
    return call.size_bytes if call.kind is CallKind.TRUNCATE else call.offset_bytes


def _changes(content: bytes, call: Call, start: int, stop: int) -> bool:
    """Say whether a write changes bytes of a range."""
    if call.kind is CallKind.TRUNCATE:
        return call.size_bytes < stop
    first, last = max(call.offset_bytes, start), min(call.offset_bytes + len(call.content), stop)
    written = call.content[first - call.offset_bytes : max(last - call.offset_bytes, 0)]
    return first < last and content[first:last] != written
