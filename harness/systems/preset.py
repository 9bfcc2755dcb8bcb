"""A release as a value: how it commits, how it reads, and how it encodes row groups."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tornproof.impl.read.reader_protocol import ReaderProtocol
from tornproof.impl.write.commit import Protocol
from tornproof.impl.write.partition_change import RowGroupEncoder


class CommitMode(enum.StrEnum):
    """How much of a commit is made durable before it returns: QuestDB's `cairo.commit.mode`."""

    NOSYNC = "nosync"
    ASYNC = "async"
    SYNC = "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One column of the table of axes; `title` is a sentence about it."""

    name: str
    title: str
    protocol: Protocol
    reader: ReaderProtocol
    commit_mode: CommitMode
    encode: RowGroupEncoder
