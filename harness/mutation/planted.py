"""Planted defects: each a patch of one place in the implementation, which holds no switch for it (docs/writing.md).

`number` is the defect's row in the catalogue of faults, None for one that is not listed there.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.patch import replaced
from tornproof.harness.mutation.processes import purge_regardless
from tornproof.impl.errors import StorageError
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.chain import Resolved, TokenMissingError, check_checksum, walk
from tornproof.impl.table.partition import PartitionFiles, PublishedMetadata
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.txn.write import NextVersion, PartitionState
from tornproof.impl.write.commit import HARDENED, Action
from tornproof.impl.write.merge_plan import Keep, Merge

Resolve = Callable[..., Resolved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A defect: the part that it is in, what it does in words, and how it is planted."""

    number: int | None
    part: str
    text: str
    plant: Callable[[], AbstractContextManager[None]]


@contextmanager
def wrapped(place: str, wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Put what `wrap` makes of the original at `package.module:name` while the block runs."""
    module_name, _, name = place.partition(":")
    with replaced(place, wrap(getattr(importlib.import_module(module_name), name))):
        yield


def patch(place: str, wrap: Callable[[Any], Any]) -> Callable[[], AbstractContextManager[None]]:
    """Return how a defect is planted."""
    return lambda: wrapped(place, wrap)


def protocol(**actions: Any) -> Callable[[], AbstractContextManager[None]]:
    """Return how another order of actions is planted, whatever protocol a writer was opened with."""
    other = dataclasses.replace(HARDENED, **actions)
    return patch("tornproof.impl.write.table_writer:execute", lambda execute: lambda _, *rest: execute(other, *rest))


def swallow_sync(actions: Mapping[Action, Callable[[Any], None]]) -> dict[Action, Callable[[Any], None]]:
    """Ignore what a sync of data.parquet reports."""

    def sync(run: Any) -> None:
        with suppress(StorageError):
            actions[Action.SYNC_DATA](run)

    return {**actions, Action.SYNC_DATA: sync}


def read_to_the_end(read_published: Callable[[PartitionFiles], PublishedMetadata]) -> Any:
    """Take the size of `_pm` for the published one."""

    def read(files: PartitionFiles) -> PublishedMetadata:
        published = read_published(files)
        with files.open_pm() as handle:
            return dataclasses.replace(published, content=handle.pread(published.file_size_bytes, 0))

    return read


def resolve_at_least(_: Resolve) -> Resolve:
    """Take the first footer with the token or a larger one."""

    def resolve(data: Buffer, token: int, *, file: str) -> Resolved:
        for count, place in enumerate(walk(data, file=file)):
            if place.token >= token:
                check_checksum(data, place, file=file)
                return Resolved(place=place, orphan_count=count)
        raise _missing(token, file)

    return resolve


def resolve_newest(original: Resolve) -> Resolve:
    """Look at the newest footer only."""

    def resolve(data: Buffer, token: int, *, file: str) -> Resolved:
        if next(walk(data, file=file)).token != token:
            raise _missing(token, file)
        return original(data, token, file=file)

    return resolve


def _missing(token: int, file: str) -> TokenMissingError:
    return TokenMissingError(file=file, field="token", offset_bytes=None, expected="another one", actual=token)


def keep_replaced(plan_merge: Callable[..., tuple[Any, ...]]) -> Any:
    """Keep a row group that was merged beside the merged one."""

    def plan(*arguments: Any, **settings: Any) -> tuple[Any, ...]:
        steps: list[Any] = []
        for step in plan_merge(*arguments, **settings):
            steps += [Keep(step.first, step.last + 1), step] if isinstance(step, Merge) else [step]
        return tuple(steps)

    return plan


def keep_names(next_version: Callable[..., NextVersion]) -> Any:
    """Leave the name of a partition that was written anew as it was."""

    def following(current: Transaction, *, partitions: Sequence[PartitionState], **rest: Any) -> NextVersion:
        names = {partition.timestamp: partition.name_txn for partition in current.partitions}
        kept = [dataclasses.replace(each, name_txn=names.get(each.timestamp, each.name_txn)) for each in partitions]
        return next_version(current, partitions=kept, **rest)

    return following


UPDATE, PUBLISH = HARDENED.update, HARDENED.publish
PLANTED = (
    Planted(
        number=7,
        part="writer",
        text="the record goes into the area of the committed version",
        plant=patch(
            "tornproof.impl.txn.write:area_of", lambda area_of: lambda base, version: area_of(base, version + 1)
        ),
    ),
    Planted(
        number=9,
        part="writer",
        text="the version is stored before the record and its slot",
        plant=protocol(publish=(*PUBLISH[3:5], *PUBLISH[0:2])),
    ),
    Planted(
        number=17,
        part="writer",
        text="a rewrite does not change the name in the entry",
        plant=patch("tornproof.impl.write.table_writer:next_version", keep_names),
    ),
    Planted(
        number=18,
        part="writer",
        text="the header of _pm is not patched before the version is stored",
        plant=protocol(update=UPDATE[:4]),
    ),
    Planted(
        number=27,
        part="writer",
        text="a failed sync of data.parquet is ignored",
        plant=patch("tornproof.impl.write.commit:_PARTITION_ACTIONS", swallow_sync),
    ),
    Planted(
        number=34,
        part="writer",
        text="each generation says that it is the first",
        plant=patch(
            "tornproof.impl.write.partition_writer:lay_out_generation",
            lambda lay_out: lambda header, point, *rest: lay_out(header, dataclasses.replace(point, prev=0), *rest),
        ),
    ),
    Planted(
        number=35,
        part="writer",
        text="the header of _pm is patched before the body is written",
        plant=protocol(update=(*UPDATE[:2], UPDATE[4], *UPDATE[2:4], UPDATE[5])),
    ),
    Planted(
        number=69,
        part="writer",
        text="a row group that was merged stays beside the merged one",
        plant=patch("tornproof.impl.write.partition_change:plan_merge", keep_replaced),
    ),
    Planted(
        number=43,
        part="reader",
        text="the size of _pm is that of the file, not the published one",
        plant=patch("tornproof.impl.table.partition:read_published", read_to_the_end),
    ),
    Planted(
        number=46,
        part="reader",
        text="the walk takes the first footer with the token or a larger one",
        plant=patch("tornproof.impl.table.partition:resolve", resolve_at_least),
    ),
    Planted(
        number=47,
        part="reader",
        text="the walk looks at the newest footer only",
        plant=patch("tornproof.impl.table.partition:resolve", resolve_newest),
    ),
    Planted(
        number=None,
        part="recovery",
        text="directories of commits that never came about stay",
        plant=patch("tornproof.impl.write.recovery:_remove_unborn", lambda _: lambda *arguments: None),
    ),
    Planted(
        number=None,
        part="recovery",
        text="directories that only pinned versions name are removed",
        plant=patch(
            "tornproof.impl.write.recovery:split_name", lambda split_name: lambda name: (split_name(name)[0], 1 << 62)
        ),
    ),
    Planted(
        number=80,
        part="recovery",
        text="the version before the committed one is stored again",
        plant=patch(
            "tornproof.impl.write.recovery:_store_version_again",
            lambda store: lambda storage, path, version: store(storage, path, max(version - 1, 0)),
        ),
    ),
    Planted(
        number=73,
        part="purger",
        text="pins are not asked for",
        plant=patch("tornproof.impl.write.table_writer:purge", purge_regardless),
    ),
)
