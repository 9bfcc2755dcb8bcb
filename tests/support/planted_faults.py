"""Faults of the catalogue that the explorers of whole tables must find, planted in every writer that is opened."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from msgspec import structs
from msgspec.structs import replace

from tornproof.harness.common.patch import wrapped
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.mutation.fault_file import FaultFile, file_named
from tornproof.impl.write.commit import HARDENED

NOTICED = (
    fault_named("record over the live one"),
    fault_named("version before its record"),
    fault_named("name forgotten"),
    replace(
        fault_named("header of _pm not synced (F3)"),
        name="header never patched",
        before="        Action.PATCH_HEADER,\n        Action.SYNC_HEADER,\n",
        after="",
    ),
    fault_named("failed sync ignored"),
    fault_named("prev is always 0"),
    fault_named("header before the body"),
    fault_named("replaced row group stays"),
    fault_named("size from the file"),
    fault_named("first footer with the token or more"),
    fault_named("newest footer only"),
    fault_named("uncommitted directories stay"),
    fault_named("pinned directories taken for uncommitted"),
    fault_named("version before stored again"),
    fault_named("pins not asked for"),
)
NOT_FOR_CRASHES = {"pinned directories taken for uncommitted", "pins not asked for"}
"""Only readers that pin old versions or live long see these, which the stateful explorer has."""


def planted(fault: FaultFile | str) -> AbstractContextManager[None]:
    """Plant a fault, or the one of that name, while the block runs."""
    return Mutant(file_named(fault) if isinstance(fault, str) else fault).planted()


def protocol(**actions: Any) -> AbstractContextManager[None]:
    """Let writers follow another order of actions, whatever they were opened with."""
    other = structs.replace(HARDENED, **actions)
    return wrapped("tornproof.impl.write.table_writer:execute", lambda execute: lambda _, *rest: execute(other, *rest))


def first_of_each_key(without_duplicates: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
    """Keep the first row of each key instead of the last one."""

    def backwards(rows: pa.Table, keys: Mapping[str, int], **_: int) -> pa.Table:
        kept = without_duplicates(rows.take(list(range(rows.num_rows))[::-1]), keys)
        return kept.take(list(range(kept.num_rows))[::-1])

    return backwards
