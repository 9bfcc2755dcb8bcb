"""Whatever is in a `_pm`, reading it ends soon, in little memory, with correct results or a clean error."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pm_builder as pm
import pytest
from damage import each_flipped
from msgspec.structs import replace
from work import counted_calls, peak_bytes

from tornproof.impl.errors import CorruptError, Problem, UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.record import Record
from tornproof.impl.pm.block import Statistic
from tornproof.impl.pm.chain import Metadata, decode_metadata, resolve, walk
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.encode import NewRowGroup, ReusedRowGroup, append_generation, append_point, encode_file
from tornproof.impl.pm.extent import dead_byte_count, reached_intervals
from tornproof.impl.pm.footer import BloomReference, FooterSections, bloom_reference_offset

TOKEN = 20_000
VALUES = (0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
MEMORY_LIMIT_BYTES = 1 << 20
# Places and counts: every other value but the right one contradicts something else, whoever wrote it.
NEVER_OTHERWISE = {
    "column_count",
    "reserved",
    "name_offset",
    "physical_type",
    "fixed_byte_len",
    "bloom_col_count",
    "num_rows",
    "num_values",
    "byte_range_start",
    "parquet_footer_offset",
    "parquet_footer_length",
    "row_group_count",
    "block_offset",
    "entry_count",
    "footer_length",
}
COLUMNS = (pm.TIMESTAMP, pm.VALUE, pm.UUID)
INLINED = pm.header(*COLUMNS, sorting_columns=(0, 1), bloom_columns=(1, 2), squash_tracker=3)
PLAIN_FLAGS = pm.header(*COLUMNS, bloom_columns=(1, 2)).feature_flags
EXTERNAL = replace(
    pm.header(*COLUMNS, bloom_columns=(1, 2)), feature_flags=PLAIN_FLAGS | layout.BLOOM_FILTERS_EXTERNAL.mask
)
SECTIONS = pm.facts(
    TOKEN,
    flags=layout.SEQ_TXN.mask | layout.SCRATCHPAD.mask,
    sections=FooterSections(seq_txn=4, scratchpad=((7, b"seven"), (8, b""))),
)


def inlined_file() -> bytes:
    """Two generations with every section that the format knows, bloom bitsets inlined."""
    blooms = (b"x" * 32, b"y" * 33)
    first = pm.file(INLINED, pm.row_group(INLINED, blooms=blooms), footer=pm.facts(10_000))
    return pm.append(first, pm.row_group(INLINED, 1, blooms=blooms), footer=SECTIONS)


def external_file() -> bytes:
    group = pm.row_group(EXTERNAL)
    blooms = (BloomReference(offset_bytes=200, length_bytes=32), None)
    return pm.file(EXTERNAL, NewRowGroup(num_rows=10, chunks=group.chunks, blooms=blooms), footer=pm.facts(TOKEN))


def records(data: bytes) -> Iterator[tuple[type[Record], int]]:
    """Yield layout and offset of every record of the newest generation."""
    metadata = decode_metadata(data, pm.newest(data), file=pm.FILE)
    header, generation = metadata.header, metadata.generation
    yield layout.Header, 0
    for index in range(len(header.columns)):
        yield layout.ColumnDescriptor, pm.descriptor_offset(index)
    position = pm.descriptor_offset(len(header.columns))
    for index in range(len(header.sorting_columns)):
        yield layout.SortingColumn, position + 4 * index
    position += 4 * len(header.sorting_columns) + sum(len(column.name) for column in header.columns)
    yield layout.BloomColumns, position
    for index in range(len(header.bloom_columns)):
        yield layout.SortingColumn, position + 4 + 4 * index
    if header.squash_tracker is not None:
        yield layout.SquashTracker, position + 4 + 4 * len(header.bloom_columns)
    for block in metadata.blocks:
        yield layout.RowGroupHeader, block.offset_bytes
        for index in range(len(header.columns)):
            yield layout.ColumnChunk, block.offset_bytes + 8 + 64 * index
    location = generation.position
    yield layout.Footer, location.offset_bytes
    for ordinal, row in enumerate(generation.blooms):
        yield layout.RowGroupEntry, location.offset_bytes + 40 + 4 * ordinal
        for position, reference in enumerate(row):
            kind = layout.ExternalBloomReference if header.blooms_external else layout.InlineBloomReference
            yield kind, bloom_reference_offset(location, header, ordinal, position)
            if reference is not None and not header.blooms_external:
                yield layout.BloomBitset, reference.offset_bytes
    position = bloom_reference_offset(location, header, len(metadata.blocks), 0)
    if generation.sections.scratchpad:
        yield layout.SequencerTransaction, position
        yield layout.Scratchpad, position + 8
        yield layout.ScratchpadEntry, position + 12
    yield layout.Trailer, location.checksum_offset


def outcome(data: bytes, token: int = TOKEN) -> Metadata | list[Problem] | None:
    """Read a `_pm` like a reader: None if it is rejected, its problems if there are some, else its contents."""
    size_bytes = int.from_bytes(data[:8], "little")
    if size_bytes > len(data):
        return None
    published = data[:size_bytes]
    try:
        location = resolve(published, token, file=pm.FILE).position
        metadata = decode_metadata(published, location, file=pm.FILE)
        problems = list(check_metadata(published, metadata, file=pm.FILE))
        generations = [
            decode_metadata(published, each, file=pm.FILE)
            for each in walk(published, file=pm.FILE, end_bytes=location.end_bytes)
        ]
        intervals = reached_intervals(published, generations, file=pm.FILE)
        assert 0 <= dead_byte_count(published, len(data), intervals, file=pm.FILE) <= len(data)
    except (CorruptError, UnsupportedError):
        return None
    return problems or metadata


def repaired(data: bytes) -> bytes:
    """Return `data` with right checksums wherever its chain can be walked."""
    try:
        return pm.seal(data)
    except (CorruptError, UnsupportedError):
        return data


def damaged_fields(data: bytes, positions: Iterable[tuple[type[Record], int]]) -> Iterator[tuple[str, bytes]]:
    for record, offset_bytes in positions:
        for spec in record.layout.fields:
            for value in VALUES:
                yield spec.name, pm.set_field(data, record, offset_bytes, spec.name, value)


def test_the_sample_files_hold_every_layout_and_are_sound() -> None:
    files = (inlined_file(), external_file())
    held = {record for data in files for record, _ in records(data)}
    known = {each for each in vars(layout).values() if isinstance(each, type) and issubclass(each, Record)}
    assert held == known - {Record}
    assert [isinstance(outcome(data), Metadata) for data in files] == [True, True]


@pytest.mark.parametrize("make", [inlined_file, external_file])
def test_a_field_with_an_extreme_value_is_never_read_for_another_truth(make: Callable[[], bytes]) -> None:
    data = make()
    truth = outcome(data)
    results = Counter(
        "same" if changed == data else "rejected" if outcome(changed) is None else f"silent {name}"
        for name, changed in damaged_fields(data, records(data))
    )
    assert results.keys() == {"same", "rejected"}
    assert results["rejected"] > 500
    assert truth is not None


@pytest.mark.parametrize("make", [inlined_file, external_file])
def test_an_extreme_value_under_a_right_checksum_is_rejected_or_named_or_harmless(make: Callable[[], bytes]) -> None:
    data = make()
    results: Counter[str] = Counter()
    read = set()
    for name, changed in damaged_fields(data, records(data)):
        result = outcome(repaired(changed))
        results["rejected" if result is None else "named" if isinstance(result, list) else "read"] += 1
        if isinstance(result, Metadata) and changed != data:
            read.add(name)
    assert min(results.values()) > 50
    assert read & NEVER_OTHERWISE == set()


@pytest.mark.parametrize("make", [inlined_file, external_file])
def test_no_extreme_value_costs_memory(make: Callable[[], bytes]) -> None:
    data = make()
    # Tracing is slow, so each layout is damaged at one offset.
    positions = dict(records(data))
    changed = [damaged for _, damaged in damaged_fields(data, positions.items())]
    changed += [repaired(damaged) for damaged in changed]
    assert peak_bytes(lambda: [outcome(each) is None for each in changed]) < MEMORY_LIMIT_BYTES


@pytest.mark.parametrize("token", [10_000, 20_000, 30_000])
def test_no_flipped_bit_is_read_for_another_truth(token: int) -> None:
    data = pm.chain_of(10_000, 20_000, 30_000)
    truth = outcome(data, token)
    resolved_end = resolve(data, token, file=pm.FILE).position.end_bytes
    results: Counter[tuple[str, str]] = Counter()
    for bit, flipped in enumerate(each_flipped(data)):
        result = outcome(flipped, token)
        where = "size" if bit < 64 else "reached" if bit < 8 * resolved_end else "above"
        results[where, "rejected" if result is None else "same" if result == truth else "silent"] += 1
    assert results["reached", "rejected"] == 8 * resolved_end - 64
    assert {result for _, result in results} <= {"rejected", "same"}
    assert results["size", "same"] == 0
    assert (results["above", "same"] > 0) == (token < 30_000)


def test_many_entries_for_one_block_are_not_decoded_one_by_one() -> None:
    of = pm.header(pm.TIMESTAMP, *[pm.column(f"c{nth}") for nth in range(300)])
    first = pm.file(of)
    block = pm.read(first).generation.block_offsets[0]
    again = [ReusedRowGroup(block_offset=block)] * 20_000
    point = append_point(first, pm.newest(first), base_bytes=len(first))
    data = pm.publish(first + append_generation(of, point, again, pm.facts(TOKEN)))
    with counted_calls(10 * len(again)):
        assert outcome(data) is None


def test_statistics_that_share_bytes_do_not_multiply() -> None:
    of = pm.header(*[pm.column(f"c{nth}", 26, 6) for nth in range(300)], designated_timestamp=-1)
    chunks = [replace(pm.chunk(), minimum=Statistic(value=bytes(60_000), exact=False))] + [pm.chunk()] * 299
    data = pm.file(of, NewRowGroup(num_rows=10, chunks=tuple(chunks)), footer=pm.facts(TOKEN))
    first = pm.chunk_offset(data)
    for index in range(1, 300):
        location = first + 64 * index
        data = pm.set_field(data, layout.ColumnChunk, location, "min_stat", 60_000)
        data = pm.set_field(data, layout.ColumnChunk, location, "stat_flags", 1)
    sealed = pm.seal(data)
    assert outcome(sealed) is None
    assert peak_bytes(lambda: outcome(sealed)) < MEMORY_LIMIT_BYTES


def test_names_that_share_bytes_do_not_multiply() -> None:
    of = pm.header(pm.column("n" * 60_000), *[pm.column("") for _ in range(300)], designated_timestamp=-1)
    data = pm.file(of, footer=pm.facts(TOKEN))
    start = layout.ColumnDescriptor.unpack(data, 32, file=pm.FILE).name_offset
    for index in range(1, 301):
        data = pm.set_field(data, layout.ColumnDescriptor, pm.descriptor_offset(index), "name_offset", start)
        data = pm.set_field(data, layout.ColumnDescriptor, pm.descriptor_offset(index), "name_length", 60_000)
    sealed = pm.seal(data)
    assert outcome(sealed) is None
    assert peak_bytes(lambda: outcome(sealed)) < MEMORY_LIMIT_BYTES


def test_a_long_chain_of_one_token_is_walked_in_one_pass() -> None:
    of = pm.header(pm.TIMESTAMP, *[pm.column(f"c{nth}") for nth in range(200)])
    data = encode_file(of, [], pm.facts(TOKEN))
    for _ in range(200):
        point = append_point(data, pm.newest(data), base_bytes=len(data))
        data += append_generation(of, point, [], pm.facts(TOKEN))
    with counted_calls(100 * (200 + 200)):
        assert sum(1 for _ in walk(data, file=pm.FILE)) == 201
