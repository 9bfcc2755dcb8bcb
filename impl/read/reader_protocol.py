"""How a reader finds row groups and what it checks, as a value; this library's own is `HARDENED_READER`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from tornproof.impl.errors import Problem
from tornproof.impl.pm.block import Block
from tornproof.impl.table.partition import PartitionFiles, ResolvedPartition, check_partition, resolve_partition
from tornproof.impl.txn.transaction import Partition

Resolver: TypeAlias = Callable[[PartitionFiles, Partition], ResolvedPartition]


class ReaderProtocol(msgspec.Struct, frozen=True, kw_only=True):
    """How row groups are found for a partition's entry in `_txn`, and what is checked before and while decoding.

    `resolve` raises CorruptError and UnsupportedError; its result also bounds what is read of the files. What
    `described` removes from a block is not compared with the values.
    """

    resolve: Resolver
    check: Callable[[ResolvedPartition], Iterator[Problem]]
    described: Callable[[Block], Block]


def fully_described(block: Block) -> Block:
    """Return the block unchanged: every count and bound must fit the values."""
    return block


HARDENED_READER = ReaderProtocol(resolve=resolve_partition, check=check_partition, described=fully_described)
