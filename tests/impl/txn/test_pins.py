"""Pins and the writer's lock exclude others until they are released or their process ends."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import golden_data
import pytest
from processes import descriptor_count, forked, holding

from tornproof.impl.errors import BusyError, CorruptError, FileMissingError, StorageError
from tornproof.impl.storage.interface import File, LockMode, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.txn import pins
from tornproof.impl.txn.pins import (
    PIN_ATTEMPTS_MAX,
    PINS_FILE,
    WRITER_LOCK_OFFSET_BYTES,
    pin_committed,
    take_writer_lock,
)
from tornproof.impl.txn.transaction import TXN_FILE, Transaction

HISTORY = golden_data.files("tables/9.4.2/history/history/*/_txn")
FIRST_VERSION = 3


class MovingStorage(OperatingSystemStorage):
    """Calls a function after every read of `_txn`, with the number of the read."""

    def __init__(self, happen: Callable[[int], None]) -> None:
        super().__init__()
        self._happen = happen
        self._look_count = 0

    def open_for_reading(self, path: str) -> File:
        if path.endswith(PINS_FILE) or self._look_count == 0:
            self._look_count += path.endswith(TXN_FILE)
            return super().open_for_reading(path)
        # A read is over when the next one begins.
        self._happen(self._look_count)
        self._look_count += 1
        return super().open_for_reading(path)


@pytest.fixture
def versions(questdb_data: Path) -> list[bytes]:
    """`_txn` at versions 3, 4, 5 and so on."""
    return [(questdb_data / name).read_bytes() for name in HISTORY]


@pytest.fixture
def table(tmp_path: Path, versions: list[bytes]) -> Path:
    """A table that a writer has opened once, so that it has `_pins`."""
    (tmp_path / TXN_FILE).write_bytes(versions[0])
    take_writer_lock(OperatingSystemStorage(), str(tmp_path)).release()
    return tmp_path


def child(table: Path, call: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run a process that holds what `call` returns until it is killed."""
    script = (
        "import sys\n"
        "from tornproof.impl.storage.operating_system import OperatingSystemStorage\n"
        "from tornproof.impl.txn.pins import pin_committed, take_writer_lock\n"
        f"held = {call}(OperatingSystemStorage(), sys.argv[1])"
    )
    return holding(script, table)


def may_purge(storage: OperatingSystemStorage, table: Path, oldest_kept_version: int) -> bool:
    with take_writer_lock(storage, str(table)) as lock, lock.exclude_pins(range(oldest_kept_version)) as is_granted:
        return is_granted


def test_a_writer_is_seen_without_a_trace(storage: OperatingSystemStorage, table: Path) -> None:
    assert not pins.has_writer(storage, str(table))
    with take_writer_lock(storage, str(table)):
        assert pins.has_writer(storage, str(table))
    assert not pins.has_writer(storage, str(table))
    (table / PINS_FILE).unlink()
    assert not pins.has_writer(storage, str(table)) and not (table / PINS_FILE).exists()


def test_a_table_has_one_writer_at_a_time(storage: OperatingSystemStorage, table: Path) -> None:
    with take_writer_lock(storage, str(table)) as lock:
        before_count = descriptor_count()
        with pytest.raises(BusyError, match="another writer"):
            take_writer_lock(storage, str(table))
        assert descriptor_count() == before_count
        lock.release()
        take_writer_lock(storage, str(table)).release()
    take_writer_lock(storage, str(table)).release()


def test_the_lock_of_a_killed_writer_is_free_at_once(storage: OperatingSystemStorage, table: Path) -> None:
    with child(table, "take_writer_lock") as process:
        with pytest.raises(BusyError):
            take_writer_lock(storage, str(table))
        process.kill()
        process.wait()
        take_writer_lock(storage, str(table)).release()
    assert (table / PINS_FILE).read_bytes() == b""


def test_the_pin_of_a_killed_reader_is_gone_at_once(storage: OperatingSystemStorage, table: Path) -> None:
    with child(table, "pin_committed") as process:
        assert not may_purge(storage, table, FIRST_VERSION + 1)
        process.kill()
        process.wait()
        assert may_purge(storage, table, FIRST_VERSION + 1)


def test_a_forked_process_releases_no_pin_and_no_lock_of_the_one_before_it(
    storage: OperatingSystemStorage, table: Path
) -> None:
    """A purge removed what the snapshot of the parent read, and a second writer came in."""
    with pin_committed(storage, str(table)) as pin:
        assert forked(lambda: pin.is_held) == "False" and forked(pin.release) == "None"
        assert pin.is_held and not may_purge(storage, table, FIRST_VERSION + 1)
    assert may_purge(storage, table, FIRST_VERSION + 1)
    with take_writer_lock(storage, str(table)) as lock:
        assert forked(lock.release) == "None"
        with pytest.raises(BusyError):
            take_writer_lock(storage, str(table))
    take_writer_lock(storage, str(table)).release()


def test_the_writer_and_its_readers_are_independent(storage: OperatingSystemStorage, table: Path) -> None:
    with take_writer_lock(storage, str(table)), pin_committed(storage, str(table)) as pin:
        assert pin.is_held
    with pin_committed(storage, str(table)):
        take_writer_lock(storage, str(table)).release()


def test_a_version_stays_pinned_until_its_last_pin_is_released(storage: OperatingSystemStorage, table: Path) -> None:
    first, second = pin_committed(storage, str(table)), pin_committed(storage, str(table))
    assert first.version == second.version == first.transaction.version == FIRST_VERSION
    first.release()
    assert not first.is_held and second.is_held
    assert not may_purge(storage, table, FIRST_VERSION + 1)
    first.release()
    assert not may_purge(storage, table, FIRST_VERSION + 1)
    second.release()
    assert may_purge(storage, table, FIRST_VERSION + 1)


def test_a_pin_bars_no_purge_of_what_only_older_versions_need(storage: OperatingSystemStorage, table: Path) -> None:
    with pin_committed(storage, str(table)):
        assert may_purge(storage, table, FIRST_VERSION)
        assert may_purge(storage, table, 0)
        assert not may_purge(storage, table, FIRST_VERSION + 1)
        assert not may_purge(storage, table, WRITER_LOCK_OFFSET_BYTES)
    assert may_purge(storage, table, WRITER_LOCK_OFFSET_BYTES)


def test_a_purge_that_was_rejected_leaves_the_writer_its_lock(storage: OperatingSystemStorage, table: Path) -> None:
    with take_writer_lock(storage, str(table)) as lock:
        with pin_committed(storage, str(table)), lock.exclude_pins(range(FIRST_VERSION + 1)) as is_granted:
            assert not is_granted
        with lock.exclude_pins(range(FIRST_VERSION + 1)) as is_granted:
            assert is_granted
        with pytest.raises(BusyError):
            take_writer_lock(storage, str(table))


def test_after_a_purge_the_versions_can_be_pinned_again(storage: OperatingSystemStorage, table: Path) -> None:
    with take_writer_lock(storage, str(table)) as lock:
        with lock.exclude_pins(range(FIRST_VERSION + 1)) as is_granted:
            assert is_granted
        with pin_committed(storage, str(table)) as pin:
            assert pin.version == FIRST_VERSION


def test_closing_another_open_file_of_the_same_inode_drops_no_lock(
    storage: OperatingSystemStorage, table: Path
) -> None:
    with take_writer_lock(storage, str(table)) as lock, pin_committed(storage, str(table)):
        pin_committed(storage, str(table)).release()
        (table / PINS_FILE).open("rb").close()
        with lock.exclude_pins(range(FIRST_VERSION + 1)) as is_granted:
            assert not is_granted
        with pytest.raises(BusyError):
            take_writer_lock(storage, str(table))


def test_a_version_that_moves_before_it_is_pinned_is_let_go(table: Path, versions: list[bytes]) -> None:
    def happen(look_count: int) -> None:
        (table / TXN_FILE).write_bytes(versions[min(look_count, 2)])

    with pin_committed(MovingStorage(happen), str(table)) as pin:
        assert pin.version == pin.transaction.record.txn == FIRST_VERSION + 2
        assert may_purge(OperatingSystemStorage(), table, FIRST_VERSION + 2)
        assert not may_purge(OperatingSystemStorage(), table, FIRST_VERSION + 3)


def test_a_version_that_is_being_purged_is_never_pinned(table: Path, versions: list[bytes]) -> None:
    storage = OperatingSystemStorage()
    with take_writer_lock(storage, str(table)) as lock, lock.exclude_pins(range(FIRST_VERSION + 1)):

        def happen(_: int) -> None:
            (table / TXN_FILE).write_bytes(versions[1])

        with pin_committed(MovingStorage(happen), str(table)) as pin:
            assert pin.is_held and pin.version == FIRST_VERSION + 1


def test_a_pin_that_is_rejected_for_good_ends_in_words_and_not_in_a_leak(
    storage: OperatingSystemStorage, table: Path
) -> None:
    with take_writer_lock(storage, str(table)) as lock, lock.exclude_pins(range(FIRST_VERSION + 1)):
        before_count, before_steps = descriptor_count(), storage.counters().step_count
        with pytest.raises(BusyError, match="try again"):
            pin_committed(storage, str(table))
        assert descriptor_count() == before_count
        assert storage.counters().step_count - before_steps < 20 * PIN_ATTEMPTS_MAX


def test_a_recovery_that_keeps_readers_out_is_named(storage: OperatingSystemStorage, table: Path) -> None:
    """It was said that 100 versions in a row were gone, and none was."""
    with (
        take_writer_lock(storage, str(table)) as lock,
        lock.exclude_pins(range(WRITER_LOCK_OFFSET_BYTES)),
        pytest.raises(BusyError, match="a recovery or a migration keeps readers out; try again when it is done"),
    ):
        pin_committed(storage, str(table))


def test_a_forgotten_pin_is_warned_of_and_released(storage: OperatingSystemStorage, table: Path) -> None:
    """It kept its file open, and what its version names from being purged, as long as the process lived."""
    before_count = descriptor_count()
    with pytest.warns(ResourceWarning, match="_pins: it was never closed, and held its lock until now"):
        pin_committed(storage, str(table))
    assert descriptor_count() == before_count
    assert may_purge(storage, table, FIRST_VERSION + 1)


def test_a_version_that_always_moves_ends_in_words(table: Path, versions: list[bytes]) -> None:
    def happen(look_count: int) -> None:
        (table / TXN_FILE).write_bytes(versions[look_count % 2])

    with pytest.raises(BusyError, match="before they were pinned"):
        pin_committed(MovingStorage(happen), str(table))


def test_a_foreign_table_is_read_without_a_pin_and_gets_no_file(storage: OperatingSystemStorage, table: Path) -> None:
    (table / PINS_FILE).unlink()
    with pin_committed(storage, str(table)) as pin:
        assert not pin.is_held and pin.version == FIRST_VERSION
    assert os.listdir(table) == [TXN_FILE]  # noqa: PTH208


def test_a_read_only_pins_file_can_still_be_pinned(storage: OperatingSystemStorage, table: Path) -> None:
    with storage.open_for_writing(f"{table}/{PINS_FILE}") as opened_before:
        (table / PINS_FILE).chmod(0o444)
        with pin_committed(storage, str(table)) as pin:
            assert pin.is_held
            assert not opened_before.try_lock(LockMode.EXCLUSIVE, offset_bytes=FIRST_VERSION, size_bytes=1)


def without_locks(*_: object) -> NoReturn:
    raise OSError(errno.ENOLCK, "")


@pytest.mark.parametrize(
    ("owner", "name", "substitute"), [(sys, "platform", "darwin"), (fcntl, "fcntl", without_locks)]
)
def test_without_locks_readers_go_unpinned_and_writers_are_rejected(
    storage: OperatingSystemStorage,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: ModuleType,
    name: str,
    substitute: object,
) -> None:
    """On NFS without its lock service no reader could pin, although one without a pin reads the same table."""
    before_count = descriptor_count()
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, substitute)
        with pin_committed(storage, str(table)) as pin:
            assert not pin.is_held and pin.version == FIRST_VERSION
        with pytest.raises(StorageError, match="no locks"):
            take_writer_lock(storage, str(table))
    assert descriptor_count() == before_count


def test_damage_and_other_rejections_reach_the_caller_and_leave_no_file_open(
    storage: OperatingSystemStorage, table: Path, versions: list[bytes]
) -> None:
    before_count = descriptor_count()

    def happen(_: int) -> None:
        (table / TXN_FILE).write_bytes(b"")

    with pytest.raises(CorruptError):
        pin_committed(MovingStorage(happen), str(table))
    (table / PINS_FILE).unlink()
    (table / PINS_FILE).mkdir()
    (table / TXN_FILE).write_bytes(versions[0])
    with pytest.raises(StorageError, match=StorageReason.IS_A_DIRECTORY):
        pin_committed(storage, str(table))
    (table / TXN_FILE).unlink()
    with pytest.raises(FileMissingError):
        pin_committed(storage, str(table))
    with pytest.raises(FileMissingError):
        take_writer_lock(storage, f"{table}/nowhere")
    assert descriptor_count() == before_count


def test_a_lock_that_fails_is_an_error_and_no_unheld_pin(
    storage: OperatingSystemStorage, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Transaction:
        raise StorageError(file=PINS_FILE, operation="lock", reason=StorageReason.INPUT_OUTPUT)

    before_count = descriptor_count()
    with monkeypatch.context() as patched, pytest.raises(StorageError, match=StorageReason.INPUT_OUTPUT):
        patched.setattr(pins, "_lock_committed", fail)
        pin_committed(storage, str(table))
    assert descriptor_count() == before_count
