"""The header of a converted `_pm`: descriptors, designated timestamp, sorting (docs/migration.md)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tornproof.impl.layout import pm as layout
from tornproof.impl.migrate.inference import infer_type
from tornproof.impl.migrate.json_rules import QuestdbJson
from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.migrate.schema import Leaf
from tornproof.impl.migrate.shapes import RowGroup, SortingColumn
from tornproof.impl.parquet.fields import Repetition
from tornproof.impl.pm.header import Column, FileHeader

LEVEL_MAX = 255
NO_COLUMN = -1
NO_ID = -1


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """How rows are sorted, and the index of the designated timestamp, -1 for none."""

    designated_timestamp: int
    sorting: tuple[SortingColumn, ...]

    @property
    def descending(self) -> frozenset[int]:
        """The columns that are sorted descending; of repeated indices the first counts."""
        first = {entry.column_index: entry.descending for entry in reversed(self.sorting)}
        return frozenset(index for index, descending in first.items() if descending)


def order_of(leaves: Sequence[Leaf], row_groups: Sequence[RowGroup], questdb: QuestdbJson | None) -> Order:
    """Return the order of rows; raises RejectionError if row groups disagree."""
    for index, column in enumerate(questdb.columns if questdb else ()):
        if column.is_designated:
            entry = SortingColumn(column_index=index, descending=column.is_descending)
            return Order(designated_timestamp=index, sorting=(entry,))
    sorting = _common_sorting(row_groups)
    designated = sorting[0].column_index if sorting and _is_designated(sorting[0], leaves, questdb) else NO_COLUMN
    return Order(designated_timestamp=designated, sorting=sorting)


def header_of(
    leaves: Sequence[Leaf], order: Order, questdb: QuestdbJson | None, bloom_columns: tuple[int, ...] = ()
) -> FileHeader:
    """Return the header; raises RejectionError for levels that do not fit into `_pm`."""
    descending = order.descending
    columns = tuple(_column(index, leaf, questdb, index in descending) for index, leaf in enumerate(leaves))
    dts = order.designated_timestamp
    indices = tuple(entry.column_index & 0xFFFFFFFF for entry in order.sorting)
    is_short = dts >= 0 and indices == (dts,) and dts not in descending
    squash_tracker = questdb.squash_tracker if questdb else None
    flags = layout.BLOOM_FILTERS.put(0, int(bool(bloom_columns)))
    flags = layout.SORTING_IS_DTS_ASC.put(flags, int(is_short))
    flags = layout.SQUASH_TRACKER.put(flags, int(squash_tracker is not None))
    return FileHeader(
        feature_flags=flags,
        designated_timestamp=dts,
        columns=columns,
        sorting_columns=() if is_short else indices,
        bloom_columns=bloom_columns,
        squash_tracker=squash_tracker,
        size_bytes=0,
    )


def _common_sorting(row_groups: Sequence[RowGroup]) -> tuple[SortingColumn, ...]:
    common: tuple[SortingColumn, ...] = ()
    for index, row_group in enumerate(row_groups):
        if row_group.sorting_columns and common and row_group.sorting_columns != common:
            expected = f"{_order_text(common)}, as in the row groups before"
            actual = _order_text(row_group.sorting_columns)
            raise RejectionError(Cause.SORTING, expected, actual, step="sorting_columns").at(f"[{index}]", "row_groups")
        common = common or row_group.sorting_columns or ()
    return common


def _order_text(sorting: Sequence[SortingColumn]) -> str:
    return ", ".join(f"column {entry.column_index}{' descending' * entry.descending}" for entry in sorting[:8])


def _is_designated(first: SortingColumn, leaves: Sequence[Leaf], questdb: QuestdbJson | None) -> bool:
    if first.descending or not 0 <= first.column_index < len(leaves):
        return False
    leaf = leaves[first.column_index]
    if leaf.repetition is not Repetition.REQUIRED:
        return False
    if questdb is not None:
        return questdb.columns[first.column_index].is_timestamp
    return leaf.logical is not None and leaf.logical.name == "TIMESTAMP"


def _column(index: int, leaf: Leaf, questdb: QuestdbJson | None, is_descending: bool) -> Column:
    for name, level in (("max_rep_level", leaf.max_rep), ("max_def_level", leaf.max_def)):
        if level > LEVEL_MAX:
            raise RejectionError(Cause.LEVELS, f"at most {LEVEL_MAX}", level, step=name).at(f"column {index}")
    repetition = leaf.top.repetition_type
    assert repetition is not None, "checked with the schema"
    known = questdb.columns[index] if questdb else None
    # Servers write the same number twice, and programs that copy their files may keep the JSON's alone.
    ids = (known.id if known is not None else None, leaf.top.field_id, NO_ID)
    flags = layout.FIELD_REPETITION.put(0, repetition)
    flags = layout.DESCENDING.put(flags, int(is_descending))
    if known is not None:
        flags = layout.LOCAL_KEY_IS_GLOBAL.put(flags, int(known.is_local_key_global))
        flags = layout.IS_ASCII.put(flags, int(known.is_ascii))
    return Column(
        name=leaf.top.name,
        id=next(each for each in ids if each is not None),
        type=known.type if known is not None else infer_type(leaf),
        flags=flags,
        fixed_byte_len=leaf.fixed_byte_len,
        physical_type=leaf.physical_type,
        max_rep_level=leaf.max_rep,
        max_def_level=leaf.max_def,
    )
