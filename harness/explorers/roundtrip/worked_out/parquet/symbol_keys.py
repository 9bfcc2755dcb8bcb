"""Dictionaries in data.parquet and those of the table, which are the same, or a verification names the key."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import commit_prepared, commit_rows, new_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.layout.pm import LOCAL_KEY_IS_GLOBAL
from tornproof.impl.parquet.encode_options import PYARROW_CODECS, ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.table.symbol_keys import dictionaries_by_position
from tornproof.impl.table.symbols import DICTIONARY_FILES, SymbolTable, read_table_symbols
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.table_writer import TableWriter
from tornproof.impl.write.writer_options import WriterOptions

PATH = "table"
SYMBOLS = {"s": ("a", "bb", "c"), "t": ("x", "y", "z")}
COUNTS, FEWER = struct.pack("<4i", 3, 3, 3, 3), struct.pack("<4i", 2, 2, 3, 3)
"""Of the symbols of both columns in `_txn`, and with one less of the first."""
SEQUENCES = struct.Struct("<xq20xq")
"""The start of an index: its sequence, and the same again."""
GROUP_COUNT = 3
DAY = 86_400_000_000
Files = Mapping[str, bytes]
LEFT = (b"", b"\xff", b"\xff" * (1 << 16))
OF_DICTIONARIES: Mapping[str, tuple[Any, Any]] = {"SYMBOL": ("a", "b"), "VARCHAR": ("a", "b"), "LONG": (1, 2)}
"""Types of columns, each with two values."""
NULLS_IN_A_PAGE = 4
"""The checksum of such a page takes a byte less in its header if keys have no bits, so that others behind it move."""
LEVELS_OF_NULLS = struct.pack("<IBB", 2, NULLS_IN_A_PAGE << 1, 0)
"""The length of the levels, and one run of as many zeros (Apache Parquet format, "Encodings")."""


def dictionary_places() -> Iterator[Question]:
    """Yield ids of columns, some of which are dropped ones, and which dictionary belongs to which column of a file."""
    for ids in itertools.permutations(range(4), 3):
        time, *others = sorted(ids)
        names = dict(zip(others, SYMBOLS, strict=True))
        words = f"the dictionaries of the columns {ids} of a file in a table with the columns {sorted(ids)}"
        expected = {place: names[column_id] for place, column_id in enumerate(ids) if column_id != time}
        yield ask("dictionary places", words, expected, _dictionary_places, ids)


def _dictionary_places(ids: tuple[int, ...]) -> dict[int, str]:
    """Return the names of dictionaries by the places of columns; the first id is that of the time."""
    types = dict(zip(sorted(ids), (TypeTag.TIMESTAMP, TypeTag.SYMBOL, TypeTag.SYMBOL), strict=True))
    names = dict(zip(sorted(ids), ("ts", *SYMBOLS), strict=True))
    columns = {each: TableColumn(id=each, name=names[each], type=types[each]) for each in ids}
    in_order = tuple(columns[each] for each in sorted(ids))
    metadata = TableMetadata(columns=in_order, partition_by=PartitionBy.DAY, timestamp_id=min(ids))
    header = new_header(metadata)
    by_id = {column.id: column for column in header.columns}
    stored = tuple(structs.replace(by_id[each], flags=LOCAL_KEY_IS_GLOBAL.put(by_id[each].flags, 1)) for each in ids)
    found = {name: SymbolTable(symbols=(name,)) for name in SYMBOLS}
    known = dictionaries_by_position(structs.replace(header, columns=stored), metadata, found)
    return {place: each.symbols[0] for place, each in known.items()}


def symbol_keys() -> Iterator[Question]:
    """Yield tables of each codec whose files were changed, and which keys a verification names."""
    changes: dict[str, tuple[Callable[[Files], Files], list[str]]] = {
        "nothing was changed": (lambda files: files, []),
        "the number of symbols is less": (functools.partial(_replaced, TXN_FILE, COUNTS, FEWER), [_key(2, "s")]),
        # A text of the same hash, as far as it counts.
        "a symbol is another": (
            functools.partial(_replaced, "s.c", "bb".encode("utf-16-le"), "bŢ".encode("utf-16-le")),
            [_key(1, "s")],
        ),
        "two columns have each other's dictionary": (_exchanged, [_key(0, "s"), _key(0, "t")]),
    }
    for codec, (words, (change, expected)) in itertools.product(PYARROW_CODECS, changes.items()):
        found = functools.partial(_named_keys, codec, change)
        yield Question(
            "symbol keys", f"which keys are named of a table in {codec.name}, of which {words}", found, expected
        )
    words = "which keys are named of a table without checksums whose data.parquet has another symbol"
    found = functools.partial(
        _named_keys, Codec.UNCOMPRESSED, functools.partial(_replaced, DATA_FILE, b"\2\0\0\0bb", b"\2\0\0\0bc")
    )
    yield Question("symbol keys", words, found, [_key(1, "s")])


def keys_of_nulls() -> Iterator[Question]:
    """Yield columns by dictionary, with and without checksums, and the keys in pages that have nulls alone.

    As servers write them they are no bits wide; release 9.3.4 refuses wider ones of which there are none.
    """
    for of, has_checksums in itertools.product(OF_DICTIONARIES, (True, False)):
        words = f"the keys of nulls in {of} {'with' if has_checksums else 'without'} checksums, and what verify reports"
        yield ask("symbol keys", words, ([0, 0, 0], []), _keys_of_nulls, of, has_checksums=has_checksums)


def _keys_of_nulls(of: str, *, has_checksums: bool) -> tuple[list[int], list[str]]:
    """Return the byte behind the levels of each page of nulls, and the problems of the table."""
    storage, values = MemoryStorage(), OF_DICTIONARIES[of]
    new_table(storage, PATH, {"ts": "TIMESTAMP", "x": of})
    encoding = EncodeOptions(
        codec=Codec.UNCOMPRESSED,
        page_checksums=has_checksums,
        page_row_count_max=NULLS_IN_A_PAGE,
        columns={"x": ColumnOptions(encoding=Encoding.DICTIONARY)},
    )
    rows = [value for value in (None, *values, None, None) for _ in range(NULLS_IN_A_PAGE)]
    times = range(FIRST_TIME, FIRST_TIME + len(rows))
    commit_rows(storage, PATH, pa.table({"ts": times, "x": rows}), options=WriterOptions(encoding=encoding))
    content = the_only(each for path, each in storage.image().files.items() if path.endswith(DATA_FILE))
    found = [content[at + len(LEVELS_OF_NULLS)] for at in _places(content, LEVELS_OF_NULLS)]
    return found, [problem.field for problem in verify_table(open_table(storage, PATH)).all_problems]


def _places(content: bytes, part: bytes) -> Iterator[int]:
    at = content.find(part)
    while at >= 0:
        yield at
        at = content.find(part, at + 1)


def adopted_keys() -> Iterator[Question]:
    """Yield prepared partitions of which one row group, or none, has other keys, and whether they are committed."""
    for place in (None, *range(GROUP_COUNT)):
        words = f"a partition of which {'no row group' if place is None else f'row group {place}'} has other keys"
        yield ask("adopted keys", words, "committed" if place is None else "CorruptError", _adopted, place)


def withdrawn_symbols() -> Iterator[Question]:
    """Yield symbols of rows whose commit is rejected, those that are committed then, and what dictionaries have."""
    for withdrawn, kept in itertools.product(("a", "new", "other"), ("a", None, "new")):
        expected = [[*each, *(["new"] if kept == "new" else [])] for each in SYMBOLS.values()]
        words = f"the dictionaries once {kept} was committed, after a commit of {withdrawn} that was rejected"
        yield ask("symbol keys", words, expected, _with_withdrawn, withdrawn, kept)


def _with_withdrawn(withdrawn: str, kept: str | None) -> list[list[str]]:
    storage = MemoryStorage.of(_written(Codec.UNCOMPRESSED))
    with open_writer_of_copy(storage, PATH) as writer:
        _write_symbols(writer, withdrawn)
        with replaced("tornproof.impl.write.table_writer:portions", _reject):
            outcome = outcome_of(writer.commit)
        needed(outcome == RowsRejectedError.__name__, "the first commit is rejected")
        writer.rollback()
        _write_symbols(writer, kept)
        writer.commit()
    table = open_table(storage, PATH)
    tables = read_table_symbols(table, table.transaction())
    return [[*tables[name].symbols] for name in SYMBOLS]


def _reject(*_: object) -> NoReturn:
    raise RowsRejectedError("rejected")


def _write_symbols(writer: TableWriter, symbol: str | None) -> None:
    """Write a row with a symbol, in the second column one that is there if it is in the first one."""
    values = {"ts": FIRST_TIME + DAY, "s": symbol, "t": "x" if symbol == "a" else symbol}
    columns = [pa.array([values[each.name]]).cast(each.type) for each in writer.schema]
    writer.write(pa.table(columns, writer.schema))


def left_indexes() -> Iterator[Question]:
    """Yield what a killed commit left beside an index, and whether the next one leaves what it leaves without that.

    A reader that has the index open sees what was there.
    """
    for left in (*LEFT, None):
        what = "another name of the index" if left is None else f"{len(left)} bytes"
        words = f"a commit of a symbol where a killed one left {what}"
        yield ask("left indexes", words, ("the same", "what was there"), _after_left, left)


def _after_left(left: bytes | None) -> tuple[str, str]:
    before, index = _written(Codec.UNCOMPRESSED), f"{PATH}/s.k"
    alone, image = MemoryStorage.of(before), before.with_file(f"{index}.new", left or before.files[index])
    if left is None:
        image = image.with_links(((index, f"{index}.new"),))
    storage = MemoryStorage.of(image)
    _commit_symbol(alone)
    with storage.open_for_reading(index) as opened:
        _commit_symbol(storage)
        seen = opened.pread(opened.size_bytes(), 0)
    is_same, is_kept = storage.image().files == alone.image().files, seen == before.files[index]
    return "the same" if is_same else "other files", "what was there" if is_kept else "something else"


def _commit_symbol(storage: MemoryStorage) -> None:
    with open_writer_of_copy(storage, PATH) as writer:
        _write_symbols(writer, "new")
        writer.commit()


def index_sequences() -> Iterator[Question]:
    """Yield commits of one symbol each, and by how much the sequence of an index, which is there twice, then grows.

    A server that has an index open takes it for unchanged as long as that number is the same.
    """
    for count, is_one_process in itertools.product(range(1, 4), (True, False)):
        for symbols in itertools.product(("a", None, "new", "other"), repeat=count):
            grown = [int(each in ("new", "other") and each not in symbols[:at]) for at, each in enumerate(symbols)]
            expected = [[each, each] * len(SYMBOLS) for each in grown]
            by = "one process" if is_one_process else "a process each"
            words = f"by how much commits of {symbols}, by {by}, raise the sequences of indexes"
            yield ask("symbol keys", words, expected, _raised_sequences, symbols, is_one_process=is_one_process)


def _raised_sequences(symbols: Sequence[str | None], *, is_one_process: bool) -> list[list[int]]:
    """Return for each commit by how much both numbers of each index grow."""
    storage = MemoryStorage.of(_written(Codec.UNCOMPRESSED))
    seen = [_sequences(storage)]
    for portion in [symbols] if is_one_process else [[each] for each in symbols]:
        with open_writer_of_copy(storage, PATH) as writer:
            for symbol in portion:
                _write_symbols(writer, symbol)
                writer.commit()
                seen.append(_sequences(storage))
    return [[after - before for before, after in zip(*pair, strict=True)] for pair in itertools.pairwise(seen)]


def _sequences(storage: MemoryStorage) -> list[int]:
    files = storage.image().files
    return [number for name in SYMBOLS for number in SEQUENCES.unpack_from(files[f"{PATH}/{name}.k"])]


def _adopted(place: int | None) -> Any:
    storage = MemoryStorage.of(_written(Codec.UNCOMPRESSED))
    table = open_table(storage, PATH)
    metadata = needed(table.metadata, "the new table has no metadata")
    schema, start = open_snapshot(table).schema, FIRST_TIME + DAY
    sets = (SYMBOLS, {name: each[::-1] for name, each in SYMBOLS.items()})
    with ExitStack() as stack:
        own, other = (
            stack.enter_context(
                PartitionBuild(
                    storage,
                    f"{PATH}/prepared-{number}",
                    metadata,
                    WriterOptions(),
                    table_name=PATH,
                    symbols={name: SymbolTable(each) for name, each in symbols.items()},
                )
            )
            for number, symbols in enumerate(sets)
        )
        for nth in range(GROUP_COUNT):
            values = [[start + nth], *([each[0]] for each in SYMBOLS.values())]
            rows = pa.table([pa.array(of).cast(field.type) for of, field in zip(values, schema, strict=True)], schema)
            own.append((other if nth == place else own).encoded(rows))
        prepared = own.finish(start)
    return outcome_of(lambda: _commit_adopted(storage, prepared))


def _commit_adopted(storage: MemoryStorage, prepared: PreparedPartition) -> str:
    commit_prepared(storage, PATH, prepared)
    return "committed"


def _key(key: int, column: str) -> str:
    return f"key {key} in dictionary page of column '{column}'"


def _named_keys(codec: Codec, change: Callable[[Files], Files]) -> list[str]:
    before = _written(codec)
    after = DiskImage(dict(change(before.files)), before.directories)
    return [problem.field for problem in verify_table(open_table(after, PATH)).all_problems]


@functools.cache
def _written(codec: Codec) -> DiskImage:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", **dict.fromkeys(SYMBOLS, "SYMBOL")})
    options = WriterOptions(encoding=EncodeOptions(codec=codec, page_checksums=False))
    texts = {name: [*each, None] for name, each in SYMBOLS.items()}
    commit_rows(storage, PATH, pa.table({"ts": range(FIRST_TIME, FIRST_TIME + 4), **texts}), options=options)
    return storage.image()


def _replaced(name: str, old: bytes, new: bytes, files: Files) -> Files:
    ((path, content),) = ((path, each) for path, each in files.items() if path.endswith(f"/{name}"))
    assert content.count(old) == 1, "what is replaced is there once"
    return {**files, path: content.replace(old, new)}


def _exchanged(files: Files) -> Files:
    names = [[f"{PATH}/{column}.{kind}" for kind in DICTIONARY_FILES] for column in SYMBOLS]
    pairs = [*zip(*names, strict=True), *zip(*reversed(names), strict=True)]
    return {**files, **{path: files[other] for path, other in pairs}}
