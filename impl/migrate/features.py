"""A `_pm` with another set of features, made from its own bytes: data.parquet is not read.

Source: docs/format.md.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.block import OutOfLineOrder, decode_bitset
from tornproof.impl.pm.chain import Metadata, check_checksum, decode_metadata, resolve, walk
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.encode import FooterFacts, NewRowGroup, encode_file
from tornproof.impl.pm.footer import BloomReference, FooterSections
from tornproof.impl.pm.header import FileHeader

Bloom: TypeAlias = bytes | BloomReference
"""A filter as its bitset, to be inlined, or as its place in data.parquet."""
BloomOf: TypeAlias = Callable[[int, int], Bloom | None]
"""(ordinal of the row group, index of the column) to the filter of a chunk."""


class Keep(enum.Enum):
    """Stands for "as it is" where None stands for "without"."""

    KEEP = "as it is"


KEEP: Final = Keep.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features that are wanted; None leaves one out.

    `sorting_shortcut` says whether SORTING_IS_DTS_ASC stands for the list of sorting columns. `blooms` given as a
    function decides all filters anew: either all inlined or all in data.parquet.
    """

    sorting_shortcut: bool | Keep = KEEP
    squash_tracker: int | Keep | None = KEEP
    blooms: BloomOf | Keep | None = KEEP
    seq_txn: int | Keep | None = KEEP
    scratchpad: tuple[tuple[int, bytes], ...] | Keep | None = KEEP


def with_features(content: bytes, features: Features, *, file: str, token: int | None = None) -> bytes:
    """Return a new `_pm` that holds one generation of `content`, alone and with these features.

    `content` are published bytes; `token` names the generation, the newest by default. All else says the same as
    before; sections of optional bits that are not known here are left out, because they may hold offsets. Raises
    CorruptError unless the generation is sound, UnsupportedError for a feature that it cannot have.
    """
    place = next(walk(content, file=file)) if token is None else resolve(content, token, file=file).place
    check_checksum(content, place, file=file)
    metadata = decode_metadata(content, place, file=file)
    problem = next(check_metadata(content, metadata, file=file), None)
    if problem is not None:
        raise CorruptError.of(problem)
    blooms = _Blooms(content, metadata, features.blooms, file)
    row_groups = [
        NewRowGroup(
            num_rows=block.num_rows, chunks=block.chunks, blooms=blooms.of(ordinal), order=OutOfLineOrder.BY_COLUMN
        )
        for ordinal, block in enumerate(metadata.blocks)
    ]
    return encode_file(_header(metadata.header, features, blooms, file), row_groups, _facts(metadata, features))


class _Blooms:
    """The filters of the new file."""

    def __init__(self, content: bytes, metadata: Metadata, wanted: BloomOf | Keep | None, file: str) -> None:
        header, generation = metadata.header, metadata.generation
        self.columns: tuple[int, ...] = ()
        self.is_external = False
        self.rows: list[dict[int, Bloom]] = [{} for _ in metadata.blocks]
        if wanted is KEEP:
            self.columns, self.is_external = header.bloom_columns, header.blooms_external
            for row, references in zip(self.rows, generation.blooms, strict=True):
                for column, reference in zip(self.columns, references, strict=True):
                    if reference is not None and self.is_external:
                        row[column] = reference
                    elif reference is not None:
                        end_bytes = generation.place.offset_bytes
                        row[column] = decode_bitset(content, reference.offset_bytes, limit_bytes=end_bytes, file=file)
        elif wanted is not None:
            assert not isinstance(wanted, Keep)
            self.choose(wanted, len(header.columns), file)

    def choose(self, wanted: BloomOf, column_count: int, file: str) -> None:
        """Take the filters that a function gives."""
        kinds = set()
        for ordinal, row in enumerate(self.rows):
            for column in range(column_count):
                bloom = wanted(ordinal, column)
                if bloom is not None:
                    row[column] = bloom
                    kinds.add(isinstance(bloom, BloomReference))
        if len(kinds) > 1:
            raise UnsupportedError(
                file=file, field="blooms", offset_bytes=None, expected="one place for all filters", actual="both"
            )
        self.is_external = True in kinds
        self.columns = tuple(sorted(set().union(*self.rows)))

    def of(self, ordinal: int) -> tuple[Bloom | None, ...]:
        """Return the filters of a row group, one for each bloom column."""
        return tuple(self.rows[ordinal].get(column) for column in self.columns)


def _header(old: FileHeader, features: Features, blooms: _Blooms, file: str) -> FileHeader:
    squash_tracker = old.squash_tracker if isinstance(features.squash_tracker, Keep) else features.squash_tracker
    is_short = bool(layout.SORTING_IS_DTS_ASC.get(old.feature_flags))
    if not isinstance(features.sorting_shortcut, Keep):
        if features.sorting_shortcut and not _is_sorted_by_designated(old):
            raise UnsupportedError(
                file=file,
                field="SORTING_IS_DTS_ASC",
                offset_bytes=None,
                expected="rows sorted by the designated timestamp alone, ascending",
                actual=f"sorting columns {old.sorting}, designated timestamp {old.designated_timestamp}",
            )
        is_short = features.sorting_shortcut
    flags = layout.BLOOM_FILTERS.put(0, int(bool(blooms.columns)))
    flags = layout.BLOOM_FILTERS_EXTERNAL.put(flags, int(bool(blooms.columns) and blooms.is_external))
    flags = layout.SORTING_IS_DTS_ASC.put(flags, int(is_short))
    flags = layout.SQUASH_TRACKER.put(flags, int(squash_tracker is not None))
    return replace(
        old,
        feature_flags=flags,
        sorting_columns=() if is_short else old.sorting,
        bloom_columns=blooms.columns,
        squash_tracker=squash_tracker,
        extra=b"",
    )


def _is_sorted_by_designated(header: FileHeader) -> bool:
    dts = header.designated_timestamp
    return dts >= 0 and header.sorting == (dts,) and not layout.DESCENDING.get(header.columns[dts].flags)


def _facts(metadata: Metadata, features: Features) -> FooterFacts:
    old = FooterFacts.of(metadata.generation)
    seq_txn = old.sections.seq_txn if isinstance(features.seq_txn, Keep) else features.seq_txn
    scratchpad = old.sections.scratchpad if isinstance(features.scratchpad, Keep) else features.scratchpad
    flags = layout.SEQ_TXN.put(0, int(seq_txn is not None))
    flags = layout.SCRATCHPAD.put(flags, int(bool(scratchpad)))
    sections = FooterSections(seq_txn=seq_txn, scratchpad=scratchpad or None)
    return replace(old, footer_feature_flags=flags, sections=sections)
