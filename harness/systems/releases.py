"""The presets: this implementation, the text of the specification, and released servers as observed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from tornproof.harness.systems.preset import CommitMode, Preset, cut_both_files, physical_length, remove_at_once
from tornproof.harness.systems.readers import BY_HEADER, BY_NEWEST, BY_TOKEN
from tornproof.impl.chunk.row_group_encoder import EncodeOptions, encode_row_group
from tornproof.impl.read.reader_protocol import HARDENED_READER, ReaderProtocol
from tornproof.impl.storage.interface import Storage
from tornproof.impl.write.commit import (
    HARDENED,
    Action,
    PartitionWrite,
    Protocol,
    RecoveryAction,
    encoded_end,
    leave_dead_bytes,
    leave_to_purger,
)

WITHOUT_CHECKSUMS = partial(encode_row_group, options=EncodeOptions(page_checksums=False))
GROW = (Action.APPEND_DATA, Action.APPEND_PM, Action.PATCH_HEADER)
NEW_DIRECTORY = (Action.MAKE_DIRECTORY, Action.APPEND_DATA, Action.APPEND_PM)
DICTIONARY = (Action.APPEND_SYMBOLS, Action.WRITE_INDEX, Action.NAME_INDEX)
PUBLISH = (Action.STORE_RECORD, Action.FENCE_BEFORE_VERSION, Action.STORE_VERSION)


def _released(mode: CommitMode, base: ReaderProtocol, undo: Callable[[Storage, PartitionWrite], None]) -> Protocol:
    """Return what 9.4.2 and later do, in the order of their system calls.

    `sync` has one barrier for all of `_pm`, after the header, and one for all of `_txn`, after the version; `async`
    starts the latter without waiting for it, so it is no barrier; nothing syncs data or directories.
    """
    pm_barrier = () if mode is CommitMode.NOSYNC else (Action.SYNC_PM,)
    txn_barrier = (Action.SYNC_VERSION,) if mode is CommitMode.SYNC else ()
    return Protocol(
        update=GROW + pm_barrier,
        rewrite=NEW_DIRECTORY + pm_barrier,
        publish=PUBLISH + txn_barrier,
        recovery=(RecoveryAction.REMOVE_UNCOMMITTED,),
        base=base,
        remembers=False,
        token_of=physical_length,
        undo=undo,
        replaced=remove_at_once,
        dictionary=DICTIONARY,
    )


def _modes(
    name: str, title: str, reader: ReaderProtocol, undo: Callable[[Storage, PartitionWrite], None]
) -> Iterable[Preset]:
    """Yield a release in its three commit modes; the default one has the plain name."""
    for mode in CommitMode:
        yield Preset(
            name=name if mode is CommitMode.NOSYNC else f"{name}-{mode}",
            title=f"{title}, commit mode {mode}.",
            protocol=_released(mode, reader, undo),
            reader=reader,
            commit_mode=mode,
            encode=WITHOUT_CHECKSUMS,
            is_server=True,
        )


HARDENED_PRESET = Preset(
    name="hardened",
    title="This implementation: every barrier, orphans restated, page checksums.",
    protocol=HARDENED,
    reader=HARDENED_READER,
    commit_mode=CommitMode.SYNC,
    encode=encode_row_group,
)
SPECIFICATION = Preset(
    name="specification",
    title="The text of the format's specification and nothing that it does not ask for.",
    protocol=Protocol(
        update=GROW,
        rewrite=NEW_DIRECTORY,
        publish=PUBLISH,
        recovery=(RecoveryAction.REMOVE_UNCOMMITTED,),
        base=BY_HEADER,
        remembers=False,
        token_of=encoded_end,
        undo=leave_dead_bytes,
        replaced=leave_to_purger,
        dictionary=DICTIONARY,
    ),
    reader=BY_TOKEN,
    commit_mode=CommitMode.NOSYNC,
    encode=WITHOUT_CHECKSUMS,
)
PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            HARDENED_PRESET,
            SPECIFICATION,
            *_modes("questdb-9.4.2", "QuestDB 9.4.2 as released", BY_NEWEST, cut_both_files),
            *_modes("questdb-9.4.3", "QuestDB 9.4.3 as released", BY_NEWEST, cut_both_files),
            *_modes("questdb-2026-07", "QuestDB's main branch of 17 July 2026", BY_TOKEN, leave_dead_bytes),
        )
    }
)
