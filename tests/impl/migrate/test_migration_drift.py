"""What QuestDB writes step by step, against what its converter makes of the finished file (docs/format.md)."""

from pathlib import Path, PurePosixPath

import migrated_files as mf
import pytest
from msgspec.structs import replace
from real_tables import snapshot_of

from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.block import Block, Statistic
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column
from tornproof.impl.types.questdb import TypeTag, tag_of

# For these the two generators write different repetitions in FLAGS.
ALWAYS_STORED = frozenset(
    {TypeTag.TIMESTAMP, TypeTag.BOOLEAN, TypeTag.BYTE, TypeTag.SHORT, TypeTag.CHAR, TypeTag.SYMBOL}
)


def alike(metadata: Metadata) -> tuple[object, ...]:
    """The contents of a generation, without the points in which the two generators differ."""
    header = metadata.header
    fixed = metadata.generation.position.fixed
    return (
        header.feature_flags & ~layout.BLOOM_FILTERS.mask,
        header.designated_timestamp,
        header.sorting_columns,
        header.squash_tracker,
        header.extra,
        tuple(map(_column, header.columns)),
        tuple(map(_block, metadata.blocks)),
        fixed.changed(unused_bytes=0, prev_parquet_meta_file_size=0),
        metadata.generation.sections,
    )


def _column(column: Column) -> Column:
    tag = tag_of(column.type)
    flags = column.flags
    if tag in ALWAYS_STORED:
        flags = layout.FIELD_REPETITION.put(flags, 0)
    if tag is TypeTag.VARCHAR:
        flags = layout.IS_ASCII.put(flags, 0)
    return replace(column, flags=flags)


def _block(block: Block) -> tuple[object, ...]:
    return block.num_rows, block.chunks


def both(name: str, questdb_data: Path) -> tuple[Metadata, Metadata]:
    """The committed generation of a partition, and what the converter makes of its data.parquet."""
    position = PurePosixPath(name)
    snapshot = snapshot_of(questdb_data / position.parents[1] / "table")
    (resolved,) = [
        snapshot.resolve(partition)
        for partition in snapshot.transaction.partitions
        if partition.is_parquet and snapshot.resolve(partition).files.path.endswith(position.stem)
    ]
    return resolved.metadata, mf.decoded(mf.converted(mf.partition(questdb_data, name), mf.TOOL))


@pytest.mark.parametrize("name", mf.REGENERATED)
def test_written_and_regenerated_differ_only_in_what_is_known(name: str, questdb_data: Path) -> None:
    written, regenerated = both(name, questdb_data)
    assert alike(written) == alike(regenerated)


def test_the_known_differences_are_there(questdb_data: Path) -> None:
    pairs = [both(name, questdb_data) for name in mf.REGENERATED]
    fixed = [(left.generation.position.fixed, right.generation.position.fixed) for left, right in pairs]
    assert any(left.unused_bytes for left, _ in fixed)
    assert not any(right.unused_bytes or right.prev_parquet_meta_file_size for _, right in fixed)
    flags = {
        (tag_of(old.type), old.flags, new.flags)
        for left, right in pairs
        for old, new in zip(left.header.columns, right.header.columns, strict=True)
        if old.flags != new.flags
    }
    assert {tag for tag, _, _ in flags} <= ALWAYS_STORED | {TypeTag.VARCHAR}
    assert (TypeTag.VARCHAR, 4, 6) in flags


def changes(metadata: Metadata) -> list[Metadata]:
    """Generations that differ in one thing that must not be ignored."""
    header, (block, *blocks) = metadata.header, metadata.blocks
    (first, *columns), (chunk, *chunks) = header.columns, block.chunks
    fixed = metadata.generation.position.fixed
    bound = Statistic(value=b"other", exact=True)

    def with_fixed(changed: layout.Footer) -> Metadata:
        position = replace(metadata.generation.position, fixed=changed)
        return replace(metadata, generation=replace(metadata.generation, position=position))

    other_columns = [
        replace(first, name="other"),
        replace(first, id=first.id + 1),
        replace(first, type=first.type + 1),
        replace(first, flags=layout.DESCENDING.put(first.flags, 1)),
        replace(first, flags=layout.LOCAL_KEY_IS_GLOBAL.put(first.flags, 1)),
        replace(first, fixed_byte_len=1),
        replace(first, physical_type=0),
        replace(first, max_rep_level=1),
        replace(first, max_def_level=7),
    ]
    other_chunks = [
        replace(chunk, codec=1),
        replace(chunk, encodings=99),
        replace(chunk, num_values=99),
        replace(chunk, byte_range_start=99),
        replace(chunk, total_compressed=99),
        replace(chunk, null_count=99),
        replace(chunk, distinct_count=99),
        replace(chunk, minimum=bound),
        replace(chunk, maximum=bound),
    ]
    return [
        *(replace(metadata, header=replace(header, columns=(column, *columns))) for column in other_columns),
        *(replace(metadata, blocks=(replace(block, chunks=(other, *chunks)), *blocks)) for other in other_chunks),
        replace(metadata, header=replace(header, designated_timestamp=-1)),
        replace(metadata, header=replace(header, feature_flags=0)),
        replace(metadata, header=replace(header, squash_tracker=1)),
        replace(metadata, blocks=(replace(block, num_rows=block.num_rows + 1), *blocks)),
        replace(metadata, blocks=tuple(blocks)),
        with_fixed(fixed.changed(parquet_footer_offset=5)),
        with_fixed(fixed.changed(parquet_footer_length=5)),
        with_fixed(fixed.changed(footer_feature_flags=1)),
    ]


def test_any_other_difference_is_noticed(questdb_data: Path) -> None:
    (name,) = [name for name in mf.REGENERATED if "9.4.3/chain" in name]
    written, regenerated = both(name, questdb_data)
    assert [number for number, other in enumerate(changes(written)) if alike(other) == alike(regenerated)] == []
