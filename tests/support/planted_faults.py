"""Faults of the catalogue that the explorers of whole tables must find, planted in every writer that is opened."""

import dataclasses
from contextlib import AbstractContextManager
from typing import Any

from msgspec import structs

from tornproof.harness.common.patch import wrapped
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant, PlantedFault
from tornproof.impl.write.commit import HARDENED, Protocol

NOTICED = (
    fault_named("record over the live one"),
    fault_named("version before its record"),
    fault_named("name forgotten"),
    dataclasses.replace(
        fault_named("header after the version"),
        name="header never patched",
        location="Protocol.update",
        substitute=structs.replace(HARDENED, update=HARDENED.update[:4]),
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


def planted(fault: PlantedFault) -> AbstractContextManager[None]:
    """Plant a fault while the block runs; it may be another order of actions."""
    substitute = fault.substitute
    return in_any_writer(substitute) if isinstance(substitute, Protocol) else Mutant(fault).planted()


def protocol(**actions: Any) -> AbstractContextManager[None]:
    """Plant another order of actions."""
    return in_any_writer(structs.replace(HARDENED, **actions))


def in_any_writer(other: Protocol) -> AbstractContextManager[None]:
    """Let writers follow this protocol, whatever they were opened with."""
    return wrapped("tornproof.impl.write.table_writer:execute", lambda execute: lambda _, *rest: execute(other, *rest))
