"""Demands of commands that change a table offline: no process has it open, and it belongs to this user."""

from __future__ import annotations

import os
from pathlib import Path

from tornproof.impl.errors import UsageError
from tornproof.impl.storage.holders import OpenFiles, holders_of
from tornproof.impl.storage.operating_system_file import TranslateOsErrors
from tornproof.impl.table.tables_below import is_table
from tornproof.impl.txn.transaction import TXN_FILE

HOLDERS_NAMED = 5
RECOVERED_OFFLINE = "recovery needs exclusive access"
MIGRATED_OFFLINE = "a server knows only the files that were there when it started"


def demand_offline(table: str, *, because: str, writes: bool, opened: OpenFiles | None = None) -> None:
    """Raise UsageError if another process has a table open or, with `writes`, if it belongs to another user.

    A directory without a table passes. `because` is that of `reject_if_held`, `opened` what was found to be open
    before, by default now. Raises StorageError if the table cannot be looked at.
    """
    if has_table(table):
        reject_if_held(table, because=because, opened=opened)
        if writes:
            demand_owner(table)


def has_table(path: str) -> bool:
    """Return whether a directory holds a table; raises StorageError if it cannot be looked at."""
    with TranslateOsErrors(path, "look at"):
        return is_table(Path(path))


def reject_if_held(table: str, *, because: str, opened: OpenFiles | None = None) -> None:
    """Raise UsageError if another process has a file of the table open, as far as this process can see.

    `because` completes the sentence "stop it first, because ...".
    """
    holders = opened.holders_of(table) if opened else holders_of(table)
    if holders:
        named = ", ".join(map(str, holders[:HOLDERS_NAMED]))
        more = f" and {len(holders) - HOLDERS_NAMED} more" if len(holders) > HOLDERS_NAMED else ""
        raise UsageError(f"{table}: in use by {named}{more}; stop it first, because {because}")


def demand_owner(table: str) -> None:
    """Raise UsageError if the table belongs to another user, who could not write to files made by this process.

    Raises StorageError if it cannot be looked at.
    """
    with TranslateOsErrors(table, "look at"):
        owner = (Path(table) / TXN_FILE).stat().st_uid
    if owner != os.geteuid():
        raise UsageError(f"{table}: belongs to user {owner}; run this as that user, because it creates files")
