"""How a reader finds its row groups and what it holds their values against, as a value: ours is `HARDENED_READER`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tornproof.impl.errors import Problem
from tornproof.impl.pm.block import Block
from tornproof.impl.table.partition import PartitionFiles, ResolvedPartition, check_partition, resolve_partition
from tornproof.impl.txn.transaction import Partition

Resolver: TypeAlias = Callable[[PartitionFiles, Partition], ResolvedPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderProtocol:
    """How row groups are found for the entry of a partition, and what is checked before and while they are decoded.

    `resolve` raises CorruptError and UnsupportedError; what it returns also says how much of the files is to be seen.
    What `described` leaves out of a block is not compared with the values.
    """

    resolve: Resolver
    check: Callable[[ResolvedPartition], Iterator[Problem]]
    described: Callable[[Block], Block]


def fully_described(block: Block) -> Block:
    """Leave nothing out: every count and bound must fit the values."""
    return block


HARDENED_READER = ReaderProtocol(resolve=resolve_partition, check=check_partition, described=fully_described)
