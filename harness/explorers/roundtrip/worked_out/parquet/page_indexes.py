"""Damaged indexes and filters of data.parquet, which other readers skip rows by, and times that are in no order."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.new_tables import commit_rows, new_table
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.roundtrip.forms import opened
from tornproof.harness.explorers.roundtrip.metadata.usual_records import column_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.worked_out.writing.later_keys import PATH as PATH_OF_POINTS
from tornproof.harness.explorers.roundtrip.worked_out.writing.unordered_rows import KEY, TIMES, of_another_program
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.chunk.page_index import ColumnIndex, StoredIndex, column_index_of
from tornproof.impl.errors import CorruptError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.bloom_filter import BLOCK_BYTES
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.fields import PageType
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, decode, encode, with_fields
from tornproof.impl.pm.block import Statistic
from tornproof.impl.pm.header import Column
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

PATH = "table"
NUMBERS: dict[str, tuple[int | None, ...]] = {
    "v": (5, None, 7, 4, 9, None, None, None, None, 8, 3),
    "w": (1, 9, 5, 4, 7, 6, 2, 3, 8, 7, 8),
}
PAGE_ROWS, GROUP_ROWS = 3, 9
"""Of `v` the last page of the first row group is null, of `w` the first one has the bounds of that row group. The
second row group has single pages."""
COLUMN_INDEX, OFFSET_INDEX = "column_index", "offset_index"
PAGES = ((0, 0), (0, 1), (1, 0))
"""The numbers of row groups and pages, all with values."""
UNKNOWN_ID, HEAD_BYTES = 15, 2
"""Of a field that nobody knows, and what its header and its length take."""
UUID_BYTES, FIXED_LEN_BYTE_ARRAY = 16, 7
CALLED_NULL = {"UUID": 19, "LONG128": 24, "DOUBLE[]": 27 | 10 << 8}
"""Types whose pages are called null, by their codes."""
IPV4, INT32 = 25, 1
ADDRESSES = tuple(number << 24 for number in (1, 100, 200, 240))
NULL_ROWS = ((0, 1), (2,))
"""The rows without a value, in two pages of two rows."""
Change = Callable[[bytes], bytes]


class Damage(NamedTuple):
    """A change of what is stored beside the pages of a column, and the fields that a verification names."""

    column: str
    group: int
    part: str
    change: Change
    expected: list[str]


def page_indexes() -> Iterator[Question]:
    """Yield tables with and without checksums, one index or filter of which is damaged, and what is named."""
    damages = {**_of_filters(), **_of_column_indexes(), **_of_orders(), **_of_offset_indexes(), **_of_other_counts()}
    for (words, damage), has_checksums in itertools.product(damages.items(), (True, False)):
        name = f"what is named of a table {'with' if has_checksums else 'without'} checksums, where {words}"
        yield ask("page indexes", name, damage.expected, _named, damage, has_checksums=has_checksums)


def pages_without_values() -> Iterator[Question]:
    """Yield what an index says of a single page and `_pm` of its chunk, and whether the values must be looked at."""
    bounds = (None, b"low"), (None, b"high")
    counts = itertools.product((None, 0, 2, 3), (None, 2, 3))
    for (of_page, of_chunk), is_null, low, high in itertools.product(counts, (False, True), *bounds):
        is_same = of_chunk is not None and of_page in (None, of_chunk)
        is_confirmed = is_same and (of_chunk == 3 if is_null else (low, high) == (b"low", b"high"))
        said = f"{of_page} nulls{' and no value' * is_null}"
        words = (
            f"whether {said} in one page of 3 values confirm {of_chunk} in a chunk with the bounds {low!r} and {high!r}"
        )
        yield ask("page indexes", words, is_confirmed, _is_confirmed, of_page, of_chunk, (low, high), is_null=is_null)


def _is_confirmed(
    of_page: int | None, of_chunk: int | None, bounds: tuple[bytes | None, bytes | None], *, is_null: bool
) -> bool:
    index = ColumnIndex(
        stored=cast(Any, None),
        column=cast(Any, None),
        row_counts=(3,),
        null_pages=(is_null,),
        raw_bounds=((b"low", b"high"),),
        bounds=(None,),
        null_counts=None if of_page is None else (of_page,),
    )
    low, high = (None if each is None else Statistic(each, exact=True) for each in bounds)
    chunk = SimpleNamespace(null_count=of_chunk, num_values=3, minimum=low, maximum=high)
    return index.is_confirmed_by(cast(Any, chunk))


def pages_called_null() -> Iterator[Question]:
    """Yield what an index says of two pages with values, and whether it is one that servers write."""
    for (name, code), are_null, bound_bytes in itertools.product(
        CALLED_NULL.items(), itertools.product((False, True), repeat=2), (0, 1, UUID_BYTES)
    ):
        # Arrays have no bounds, and earlier servers gave UUID none; what is in their place has another width.
        has_none = name == "UUID" and all(are_null) and bound_bytes < UUID_BYTES
        is_sound = name == "DOUBLE[]" or not any(are_null) or has_none
        words = f"whether {name} may be in two pages, null if {are_null}, with bounds of {bound_bytes} bytes"
        found = functools.partial(_values_in_pages, code, are_null, bound_bytes)
        yield Question("page indexes", words, found, "sound" if is_sound else CorruptError.__name__)


def uncounted_nulls() -> Iterator[Question]:
    """Yield the nulls that an index says of two pages whose chunk leaves out the first ones, and whether it may."""
    for uncounted_count, said in itertools.product(range(4), itertools.product(range(3), repeat=2)):
        counted = tuple(sum(row >= uncounted_count for row in page) for page in NULL_ROWS)
        words = f"whether an index may say {said} of {NULL_ROWS} where the first {uncounted_count} are not counted"
        found = functools.partial(_nulls_in_pages, said, uncounted_count)
        is_sound = said in (counted, tuple(map(len, NULL_ROWS)))
        yield Question("page indexes", words, found, "sound" if is_sound else CorruptError.__name__)


def signed_addresses() -> Iterator[Question]:
    """Yield the bounds that an index says of a page with two addresses, and whether right or earlier servers do."""
    for values, said in itertools.product(itertools.combinations(ADDRESSES, 2), itertools.product(ADDRESSES, repeat=2)):
        # Of signed numbers those from 2^31 on are the least.
        as_signed = tuple(sorted(values, key=lambda address: (address < 1 << 31, address)))
        words = f"whether an index may say {said} of a page with the addresses {values}"
        found = functools.partial(_bounds_of_addresses, values, said)
        is_sound = said == as_signed or (said[0] <= min(values) and max(values) <= said[1])
        yield Question("page indexes", words, found, "sound" if is_sound else CorruptError.__name__)


def _bounds_of_addresses(values: tuple[int, ...], said: tuple[int, ...]) -> Any:
    bounds = [Field(nth, Kind.LIST, Items(Kind.BINARY, (struct.pack("<I", each),))) for nth, each in enumerate(said, 2)]
    has_no_values = Field(1, Kind.LIST, Items(Kind.BOOL, (0,)))
    content = encode(Struct((has_no_values, *bounds, Field(4, Kind.I32, 1))))
    column = replace(_column(IPV4), physical_type=INT32, fixed_byte_len=0)
    page = SimpleNamespace(kind=PageType.DATA_V1, value_count=len(values))

    def judged() -> str:
        stored = StoredIndex(content=content, offset_bytes=0, owner="k", file=DATA_FILE)
        index = column_index_of(stored, column, [cast(Any, page)])
        index.check_values(pa.array(values, pa.uint32()).view(pa.int32()))
        return "sound"

    return outcome_of(judged)


def _values_in_pages(code: int, are_null: tuple[bool, ...], bound_bytes: int) -> Any:
    index = _index(code, row_count=1, null_pages=are_null, raw_bounds=((bytes(bound_bytes),) * 2,) * 2)
    return _judged(index, pa.array([b"a" * UUID_BYTES] * 2, pa.binary(UUID_BYTES)))


def _nulls_in_pages(null_counts: tuple[int, ...], uncounted_count: int) -> Any:
    index = _index(CALLED_NULL["UUID"], row_count=2, null_counts=null_counts)
    values = pa.array([None, None, None, b"a" * UUID_BYTES], pa.binary(UUID_BYTES))
    return _judged(index, values, uncounted_count)


def _index(code: int, *, row_count: int, **of_index: Any) -> ColumnIndex:
    """Return an index of two pages of so many rows, without bounds."""
    facts: dict[str, Any] = {"null_pages": (False,) * 2, "raw_bounds": ((b"", b""),) * 2, "null_counts": None}
    return ColumnIndex(
        stored=StoredIndex(content=b"", offset_bytes=0, owner="k", file=DATA_FILE),
        column=_column(code),
        row_counts=(row_count,) * 2,
        bounds=(None, None),
        **(facts | of_index),
    )


def _column(code: int) -> Column:
    return column_of(code, FIXED_LEN_BYTE_ARRAY, name="k", fixed_byte_len=UUID_BYTES, max_def_level=1)


def _judged(index: ColumnIndex, *of_values: Any) -> Any:
    def judged() -> str:
        index.check_values(*of_values)
        return "sound"

    return outcome_of(judged)


def times_in_order() -> Iterator[Question]:
    """Yield files of another program that say that their rows are in the order of time, and whether they are sound."""
    for times, has_checksums in itertools.product(sorted(set(itertools.permutations(TIMES))), (True, False)):
        how = "with" if has_checksums else "without"
        words = f"whether a file {how} checksums is sound that says that the times {times} are in order"
        yield ask("times in order", words, times == tuple(sorted(times)), _is_sound, times, has_checksums=has_checksums)


def _of_filters() -> dict[str, Damage]:
    def empty(content: bytes) -> bytes:
        return content[:-BLOCK_BYTES] + bytes(BLOCK_BYTES)

    return {
        "nothing is changed": Damage("v", 0, "bloom_filter", lambda content: content, []),
        "a filter is empty": Damage("v", 1, "bloom_filter", empty, ["bloom filter of column 'v' of row group 1"]),
        **{
            f"a filter says that it has {count} bytes": Damage(
                "v",
                1,
                "bloom_filter",
                functools.partial(_with_byte, 1, 2 * count),
                [] if count == BLOCK_BYTES else ["bloom filter of column 'v' of row group 1"],
            )
            for count in (0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 63)
        },
        "a filter has no header": Damage("v", 1, "bloom_filter", lambda content: b"\0" + content[1:], ["num_bytes"]),
    }


def _with_byte(at: int, value: int, content: bytes) -> bytes:
    return overwritten(content, at, bytes([value]))


def _of_index(part: str, column: str, group: int, change: Change, wrong: str) -> Damage:
    """Return a damage of an index of a column, of which a verification names one field."""
    return Damage(
        column, group, part, change, [f"{wrong} {part.replace('_', ' ')} of column {column!r} of row group {group}"]
    )


def _of_column_indexes() -> dict[str, Damage]:
    changes: dict[str, tuple[int, Callable[[Any], Any]]] = {
        "min_values": (2, functools.partial(_other_bound, 1)),
        "max_values": (3, functools.partial(_other_bound, -1)),
        "null_counts": (5, lambda count: count + 1),
        "null_pages": (1, lambda _: 1),
    }
    return {
        f"{name} of page {page} of column {column} of row group {group} are other ones": _of_index(
            COLUMN_INDEX,
            column,
            group,
            functools.partial(_element_changed, field_id, page, change),
            f"{name}[{page}] in",
        )
        for column, (group, page), (name, (field_id, change)) in itertools.product(NUMBERS, PAGES, changes.items())
    }


def _of_orders() -> dict[str, Damage]:
    """Return other orders of pages, which are right where there is one page, and bounds that are in no order."""
    field = "boundary_order in column index of column {!r} of row group 0"
    orders = {
        f"the order of pages of column {column} of row group {group} is {order}": Damage(
            column,
            group,
            "column_index",
            functools.partial(_field_changed, 4, functools.partial(_always, order)),
            [field.format(column)] if order and not group else [],
        )
        for column, group, order in itertools.product(NUMBERS, (0, 1), (0, 1, 2))
    }
    bounds = {
        f"{name} of page {page} of row group {group} is beyond the other bound": _of_index(
            COLUMN_INDEX,
            "v",
            group,
            functools.partial(_element_changed, field_id, page, functools.partial(_other_bound, step)),
            "min_values in",
        )
        for (group, page), (name, field_id, step) in itertools.product(PAGES, (("minimum", 2, 9), ("maximum", 3, -9)))
    }
    return {**orders, **bounds}


def _of_other_counts() -> dict[str, Damage]:
    """Return indexes that lack something of the last page, or have a bound that is no number."""
    lists = {"null_pages": 1, "min_values": 2, "max_values": 3, "null_counts": 5}
    fewer = {
        f"{name} of row group {group} are one less": _of_index(
            COLUMN_INDEX, "v", group, functools.partial(_field_changed, field_id, _without_last), f"{name} in"
        )
        for group, (name, field_id) in itertools.product((0, 1), lists.items())
    }
    locations = {
        f"the locations of row group {group} are one less": _of_index(
            OFFSET_INDEX, "v", group, functools.partial(_field_changed, 1, _without_last), "pages in"
        )
        for group in (0, 1)
    }
    narrow = {
        f"a bound of page {page} of row group {group} has a byte less": _of_index(
            COLUMN_INDEX,
            "v",
            group,
            functools.partial(_element_changed, 2, page, lambda bound: bound[:-1]),
            "bounds in",
        )
        for group, page in PAGES
    }
    return {**fewer, **locations, **narrow}


def _always(value: int, _: object) -> int:
    return value


def _without_last(items: Items) -> Items:
    return items._replace(elements=items.elements[:-1])


def _of_offset_indexes() -> dict[str, Damage]:
    names = {"offset": 1, "compressed_page_size": 2, "first_row_index": 3}
    return {
        f"{name} of page {page} of row group {group} is one more": _of_index(
            OFFSET_INDEX,
            "v",
            group,
            functools.partial(_element_changed, 1, page, functools.partial(_one_more, location_id)),
            f"{name} of page {page} in",
        )
        for (group, page), (name, location_id) in itertools.product(PAGES, names.items())
    }


def _is_sound(times: tuple[int, ...], *, has_checksums: bool) -> bool:
    points = tuple((time, KEY) for time in times)
    storage = of_another_program(points, len(times), (0,), has_checksums=has_checksums)
    return verify_table(open_table(storage, PATH_OF_POINTS)).sound


def _named(damage: Damage, *, has_checksums: bool) -> list[str]:
    image = _written(has_checksums=has_checksums)
    path = the_only(each for each in image.files if each.endswith(DATA_FILE))
    content, column = image.files[path], 1 + [*NUMBERS].index(damage.column)
    chunk = opened(content).decoded().row_groups[damage.group].chunks[column]
    start, size_bytes = (getattr(chunk, f"{damage.part}_{of}") for of in ("offset", "length"))
    needed(size_bytes is not None, f"the length of the {damage.part} is stated")
    after = damage.change(content[start : start + size_bytes])
    needed(len(after) == size_bytes, "the part is as long as it was")
    changed = {path: content[:start] + after + content[start + size_bytes :]}
    table = open_table(DiskImage({**image.files, **changed}, image.directories), PATH)
    return [problem.field for problem in verify_table(table).all_problems]


@functools.cache
def _written(*, has_checksums: bool) -> DiskImage:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", **dict.fromkeys(NUMBERS, "LONG")})
    options = WriterOptions(
        row_group_row_count_max=GROUP_ROWS,
        blooms=BloomOptions(columns={"v": 0.01}, position=BloomPosition.BOTH),
        encoding=EncodeOptions(page_checksums=has_checksums, page_row_count_max=PAGE_ROWS),
    )
    rows = pa.table({"ts": range(FIRST_TIME, FIRST_TIME + len(NUMBERS["v"])), **NUMBERS})
    commit_rows(storage, PATH, rows, options=options)
    return storage.image()


def _field_changed(field_id: int, change: Callable[[Any], Any], content: bytes) -> bytes:
    """Return an index with another value of a field, and with an unknown field that makes it as long as it was."""
    tree, _ = decode(content, file=DATA_FILE)
    (field,) = (each for each in tree.fields if each.id == field_id)
    changed = with_fields(tree, field._replace(value=change(field.value)))
    missing_bytes = len(content) - len(encode(changed))
    if missing_bytes:
        changed = changed._replace(fields=(*changed.fields, _unknown(missing_bytes)))
    return encode(changed)


def _unknown(size_bytes: int) -> Field:
    """Return a field that nobody knows, of so many bytes; a boolean takes one, with its value."""
    if size_bytes == 1:
        return Field(UNKNOWN_ID, Kind.BOOL, True)
    return Field(UNKNOWN_ID, Kind.BINARY, bytes(size_bytes - HEAD_BYTES))


def _element_changed(field_id: int, nth: int, change: Callable[[Any], Any], content: bytes) -> bytes:
    """Return an index with another element of one of its lists."""

    def changed(items: Items) -> Items:
        elements = [*items.elements]
        elements[nth] = change(elements[nth])
        return items._replace(elements=tuple(elements))

    return _field_changed(field_id, changed, content)


def _other_bound(step: int, bound: bytes) -> bytes:
    return (int.from_bytes(bound, "little", signed=True) + step).to_bytes(len(bound), "little", signed=True)


def _one_more(field_id: int, location: Struct) -> Struct:
    (field,) = (each for each in location.fields if each.id == field_id)
    assert isinstance(field.value, int)
    return with_fields(location, Field(field_id, Kind(field.kind), field.value + 1))
