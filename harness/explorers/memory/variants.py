"""Variants of the commit and the reader of `_txn` that lack one of the steps that order loads and stores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from tornproof.harness.common.patch import replaced
from tornproof.harness.simulator.memory_model.memory_views import MemoryModel
from tornproof.harness.systems.table import TableTarget
from tornproof.impl.storage.interface import ReadableFile, Storage
from tornproof.impl.txn.transaction import Transaction, read_version, safe_read
from tornproof.impl.write.commit import Action

_TRANSACTION = "tornproof.impl.txn.transaction"
_READER = "tornproof.harness.explorers.memory.trace:safe_read"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCase:
    """What the processor guarantees, and whether a system call orders loads and stores as a fence does."""

    model: MemoryModel
    system_calls_are_fences: bool

    def __str__(self) -> str:
        """Return the name of the case in reports."""
        if self.model is not MemoryModel.WEAK:
            return str(self.model)
        return f"{self.model}, system calls {'are' if self.system_calls_are_fences else 'are no'} fences"


CASES = (
    MemoryCase(model=MemoryModel.SEQUENTIAL, system_calls_are_fences=False),
    MemoryCase(model=MemoryModel.TOTAL_STORE_ORDER, system_calls_are_fences=False),
    MemoryCase(model=MemoryModel.WEAK, system_calls_are_fences=True),
    MemoryCase(model=MemoryModel.WEAK, system_calls_are_fences=False),
)
"""Only under weak memory does a fence, and so a system call, make a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryVariant:
    """Actions that a commit leaves out, and replacements of functions of the reader."""

    name: str
    left_out: tuple[Action, ...] = ()
    patches: tuple[tuple[str, Callable[..., Any]], ...] = ()

    def of(self, target: TableTarget) -> TableTarget:
        """Return a target whose commits leave the actions out."""
        publish = tuple(action for action in target.protocol.publish if action not in self.left_out)
        return dataclasses.replace(target, protocol=structs.replace(target.protocol, publish=publish))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Patch the reader while the block runs."""
        with ExitStack() as patched:
            for location, substitute in self.patches:
                patched.enter_context(replaced(location, substitute))
            yield


def _nothing(*_: object) -> None:
    """Replace a fence."""


def _always(*_: object) -> bool:
    """Replace the check that the version did not change."""
    return True


def _panics(handle: ReadableFile, version: int, file: str) -> bool:
    """Replace the check by one that does not expect a change."""
    if read_version(handle, file) != version:
        raise LookupError("a mistake")
    return True


def _keeps_first(storage: Storage, path: str) -> Transaction:
    """Read twice at first and return the second version, and after that the first."""
    kept: list[Transaction] = vars(storage).setdefault("kept", [])
    if kept:
        return kept[0]
    kept.append(safe_read(storage, path))
    return safe_read(storage, path)


ALL_FENCES = MemoryVariant(name="all fences")
NO_FENCE_BEFORE_VERSION = MemoryVariant(
    name="no store fence before the version", left_out=(Action.FENCE_BEFORE_VERSION,)
)
NO_FENCE_AFTER_VERSION = MemoryVariant(name="no store fence after the version", left_out=(Action.FENCE_AFTER_VERSION,))
NO_BARRIER_BEFORE_VERSION = MemoryVariant(
    name="no barrier before the version", left_out=(Action.FENCE_BEFORE_VERSION, Action.SYNC_RECORD)
)
NO_LOAD_FENCE_AFTER_VERSION = MemoryVariant(
    name="no load fence after the version", patches=((f"{_TRANSACTION}:fence_after_version", _nothing),)
)
NO_LOAD_FENCE_BEFORE_FINAL_LOOK = MemoryVariant(
    name="no load fence before the final look", patches=((f"{_TRANSACTION}:fence_before_final_look", _nothing),)
)
NO_LOAD_FENCES = MemoryVariant(
    name="no load fences",
    patches=(*NO_LOAD_FENCE_AFTER_VERSION.patches, *NO_LOAD_FENCE_BEFORE_FINAL_LOOK.patches),
)
NO_FINAL_LOOK = MemoryVariant(name="no final look", patches=((f"{_TRANSACTION}:is_committed_still", _always),))
PANICS = MemoryVariant(
    name="a reader that expects no change", patches=((f"{_TRANSACTION}:is_committed_still", _panics),)
)
GOES_BACK = MemoryVariant(name="a reader that goes back", patches=((_READER, _keeps_first),))
VARIANTS = (
    ALL_FENCES,
    NO_FENCE_BEFORE_VERSION,
    NO_FENCE_AFTER_VERSION,
    NO_LOAD_FENCE_AFTER_VERSION,
    NO_LOAD_FENCE_BEFORE_FINAL_LOOK,
    NO_LOAD_FENCES,
    NO_FINAL_LOOK,
)
