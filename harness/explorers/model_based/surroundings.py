"""The rules of a stateful run about what surrounds a table: other volumes, limits of its readers, forms of its files.

Only fixed programs have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from tornproof.harness.common.patch import original_of, replaced
from tornproof.harness.explorers.model_based.world import World
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.parquet.encode_options import ENCODABLE, ColumnOptions, EncodeOptions
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.types.questdb import TypeTag, tag_of

CODECS = (Codec.UNCOMPRESSED, Codec.SNAPPY, Codec.GZIP, Codec.ZSTD, Codec.LZ4_RAW)
RATIO_NEVER_REACHED = 1_000.0
VOLUME = "volume"
"""A folder beside the partitions, on which nothing is looked for."""


class Limit(NamedTuple):
    """Where a limit is declared, and how large it is for a table that may grow a little.

    It `rejects` a commit if nothing else that is written instead has room either.
    """

    location: str
    allowed: Callable[[World], int]
    rejects: bool = False


def _blocks(world: World) -> int:
    chains = map(world.files.chain, _directories(world))
    return max(len(chain.blocks_of(position)) for chain in chains for position in chain.positions)


def _directories(world: World) -> list[tuple[int, int]]:
    return [entry.directory for entry in world.state.committed.entries if entry.token >= 0]


def _pm_bytes(world: World) -> int:
    return 2 * max(world.files.chain(name).end_bytes for name in _directories(world))


def _generations(world: World) -> int:
    return max(len(world.files.chain(name).positions) for name in _directories(world)) + 3


def _symbols(world: World) -> int:
    return max((each.count for each in world.transaction.symbol_counts), default=0) + 1


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "bytes of _pm": Limit("tornproof.impl.limits:PM_LIMIT_BYTES", _pm_bytes, rejects=True),
        "row groups": Limit("tornproof.impl.limits:ROW_GROUP_COUNT_LIMIT", lambda world: _blocks(world) + 1),
        "chunks": Limit(
            "tornproof.impl.limits:CHUNK_COUNT_LIMIT",
            lambda world: (_blocks(world) + 1) * len(world.start.metadata.columns),
        ),
        "generations": Limit("tornproof.impl.limits:GENERATION_COUNT_LIMIT", _generations),
        "symbols": Limit("tornproof.impl.limits:SYMBOL_COUNT_LIMIT", _symbols, rejects=True),
        "bytes of nulls in one part": Limit("tornproof.impl.read.row_group:CONSTANT_SLICE_BYTES", lambda world: 1),
    }
)


def limit(world: World, *, of: str) -> None:
    """Let readers and writers have a limit that the table almost has, until the end of the program.

    It then depends on more than the model knows whether a partition is rewritten.
    """
    location, allowed, world.may_reject = LIMITS[of]
    world.around.enter_context(replaced(location, allowed(world)))
    world.is_limited = True


ENCODINGS: Mapping[str, EncodeOptions] = MappingProxyType(
    {
        "as by default": EncodeOptions(),
        "every number twice": EncodeOptions(footer_extension=FooterForm.MIGRATION, duplicates=True),
        "small pages": EncodeOptions(
            footer_extension=FooterForm.PRIVATE,
            codec=Codec.ZSTD,
            page_row_count_max=1,
            page_index=False,
            page_checksums=False,
            statistics=False,
        ),
        "nothing more": EncodeOptions(footer_extension=FooterForm.THRIFT, duplicates=False, codec=Codec.UNCOMPRESSED),
    }
)

ENCODING_NAMES = (*ENCODINGS, "each column otherwise")


def _encoding(world: World, form: str) -> EncodeOptions:
    """Return the options of a form; where each column has its own, in the order of what is possible for it."""
    if form in ENCODINGS:
        return ENCODINGS[form]
    first = next(each for each in world.transaction.partitions if each.is_parquet)
    columns = world.files.snapshot(world.transaction).resolve(first).metadata.header.columns
    own = {}
    for number, column in enumerate(columns):
        possible = [each for each, physical_types in ENCODABLE.items() if column.physical_type in physical_types]
        own[column.name] = ColumnOptions(
            codec=CODECS[number % len(CODECS)],
            encoding=None if tag_of(column.type) is TypeTag.SYMBOL else possible[number % len(possible)],
            statistics=None if number % 3 == 0 else number % 3 == 1,
        )
    return EncodeOptions(statistics=False, columns=own)


PIECES: Mapping[str, int] = MappingProxyType(
    {
        "tornproof.impl.storage.checksum:HALF_BYTES_MIN": 3,
        "tornproof.impl.storage.file_pieces:PIECE_BYTES": 100,
        "tornproof.impl.write.partition_change:STREAMED_BYTES": 1,
        "tornproof.impl.repair.plan:WINDOW_WORDS": 16,
        "tornproof.impl.migrate.partition_migration:PIECE_BYTES": 100,
        "tornproof.impl.table.symbol_index:PIECE_ROWS": 3,
        "tornproof.impl.read.row_group:CONSTANT_SLICE_BYTES": 1,
        "tornproof.impl.read.reader:AHEAD_ROW_COUNT": 1,
        "tornproof.impl.read.decoding:SMALL_BYTES": 1,
    }
)
"""Sizes from which work is divided; all answers must be the same."""
USUAL: Mapping[str, int] = MappingProxyType({location: original_of(location) for location in PIECES})


def work_in_pieces(world: World) -> None:
    """Let what is done piece by piece only with large tables be done so, until the end of the program."""
    _set(world, PIECES)
    world.files.has_threads = True


def read_by_threads(world: World) -> None:
    """Let values be decoded by threads as those of large tables are, many row groups ahead."""
    _set(world, {each: size for each, size in PIECES.items() if each.startswith("tornproof.impl.read.decoding:")})
    world.files.has_threads = True


def work_as_usual(world: World) -> None:
    """Let only large tables be worked on piece by piece."""
    _set(world, USUAL)
    world.files.has_threads = False


def _set(world: World, sizes: Mapping[str, int]) -> None:
    for location, size in sizes.items():
        world.around.enter_context(replaced(location, size))


def encode(world: World, *, form: str) -> None:
    """Let the writers that are opened from now on write files of another form, also of one that no server reads."""
    world.options = replace(world.options, encoding=_encoding(world, form), allow_unreadable_by_servers=True)


def resize(world: World, *, group_bytes: int, unused_bytes: int) -> None:
    """Let the writers that are opened from now on have other limits of a row group and of what is unused."""
    world.options = replace(
        world.options,
        row_group_size_bytes_max=group_bytes,
        rewrite_unused_bytes=unused_bytes,
        rewrite_unused_ratio=RATIO_NEVER_REACHED,
    )


def verify(world: World) -> None:
    """Verify the committed version."""
    world.check_sound("verify:")


def move(world: World, *, nth: int) -> None:
    """Move the files of a partition to another volume, and leave a soft link to them."""
    directories = _directories(world)
    name = world.files.name_of(directories[nth % len(directories)])
    root = Path(world.files.path)
    moved = root / VOLUME / name
    moved.parent.mkdir(exist_ok=True)
    (root / name).rename(moved)
    (root / name).symlink_to(moved)
    world.moved += [moved / DATA_FILE, moved / PM_FILE]
    # Names are compared by what they lead to, and a link is another file than that.
    world.durable = None
