"""What is done with whole tables, by a program."""

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
from golden_data import CHAIN, CopyOf

import tornproof
from tornproof.harness import check as harness_check
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.parallel.tasks import explore


def test_a_sound_table_is_sound_and_needs_nothing(copy_of: CopyOf) -> None:
    table = copy_of(CHAIN)
    report = tornproof.verify(table)
    assert report.sound and report.counts.rows == 23 and report.counts.decoded_chunks > 0
    assert tornproof.verify(table, quick=True).counts.decoded_chunks == 0
    assert tornproof.recover(table).actions == ()
    migration = tornproof.migrate(table)
    assert migration.is_complete and migration.counts()["already"] == 1


def test_damage_is_named_by_file_and_offset(copy_of: CopyOf) -> None:
    table = copy_of(CHAIN)
    pm = table / "2024-01-01.1" / "_pm"
    content = bytearray(pm.read_bytes())
    content[200] ^= 1
    pm.write_bytes(content)
    (problem, *_) = tornproof.verify(table).all_problems
    assert problem.file == "2024-01-01.1/_pm"
    with tornproof.open(table).snapshot() as snapshot, pytest.raises(tornproof.CorruptError):
        snapshot.to_arrow()


def test_what_a_killed_server_left_is_cut_off(copy_of: CopyOf) -> None:
    table = copy_of("crashes/9.4.2/rewrite-3-06/table")
    planned = tornproof.recover(table, dry_run=True)
    done = tornproof.recover(table)
    assert planned.actions == done.actions and planned.is_dry_run and not done.is_dry_run
    assert tornproof.recover(table).actions == ()


def test_a_table_of_an_older_release_gets_its_metadata_files(copy_of: CopyOf) -> None:
    table = copy_of("legacy/9.3.4/chain/table")
    assert not list(table.glob("*/_pm"))
    assert tornproof.migrate(table, dry_run=True).counts()["migrated"] and not list(table.glob("*/_pm"))
    assert tornproof.migrate(table).is_complete and list(table.glob("*/_pm"))


@pytest.mark.parametrize("operation", [tornproof.verify, tornproof.recover, tornproof.migrate])
def test_what_is_no_table_is_none_to_every_operation(tmp_path: Path, operation: Callable[[Path], object]) -> None:
    with pytest.raises(tornproof.NotATableError):
        operation(tmp_path)


@pytest.mark.parametrize("operation", [tornproof.verify, tornproof.recover, tornproof.migrate])
def test_a_path_that_cannot_be_looked_at_is_an_error_of_storage(operation: Callable[[str], object]) -> None:
    """Recover and migrate look for the table before they read it, and raised the system's own error."""
    with pytest.raises(tornproof.StorageError, match="its name is too long"):
        operation("x" * 300)


def test_a_check_explores_what_is_named(questdb_data: Path) -> None:
    outcome = tornproof.check(questdb_data / CHAIN, only=["verify", "memory"], effort=1, seed=2, workers=1)
    assert [phase.name for phase in outcome.phases] == ["verify", "memory"]
    assert all(phase.explored and phase.bound for phase in outcome.phases)
    assert outcome.verdict is Verdict.VALID and outcome.findings == ()


@pytest.mark.parametrize("seed", [-1, 1 << 62, 1.5, "seven", True, None])
def test_a_seed_that_is_none_is_rejected(seed: Any) -> None:
    with pytest.raises(ValueError, match=r"seed: expected (0 to 4,611,686,018,427,387,903|int), found"):
        tornproof.check(seed=seed)


def test_numbers_of_numpy_are_whole_numbers(questdb_data: Path) -> None:
    """An effort of NumPy was rejected."""
    few: Any = numpy.int64(1)
    asked, same = (
        tornproof.check(questdb_data / CHAIN, only=["verify", "memory"], effort=one, seed=one, workers=1)
        for one in (few, 1)
    )
    assert [each.explored for each in asked.phases] == [each.explored for each in same.phases]


@pytest.mark.parametrize("effort", [0, 10_001, "huge", 1.5, None])
def test_an_effort_that_is_none_is_rejected(effort: Any) -> None:
    with pytest.raises(ValueError, match=r"effort: expected (small, medium, large or 1 to 10,000|int \| str), found"):
        tornproof.check(effort=effort)


NO_PATHS = [5, 3.5, True, [], tornproof.Table("t")]


@pytest.mark.parametrize("path", [None, *NO_PATHS], ids=str)
@pytest.mark.parametrize("operation", ["open", "verify", "recover", "migrate", "column", "footer", "extend"])
def test_what_is_no_path_is_rejected_in_words(operation: str, path: Any) -> None:
    """It ended in Python's TypeError."""
    others = ["v"] if operation == "column" else []
    with pytest.raises(tornproof.UsageError, match=r"^path: expected str \| bytes \| PathLike\[str\], found "):
        getattr(tornproof, operation)(path, *others)


@pytest.mark.parametrize(
    "arguments", [*({"path": path} for path in NO_PATHS), {"only": 5}, {"only": "crash"}, {"workers": "2"}], ids=str
)
def test_an_argument_of_another_type_is_rejected_by_a_check(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^{next(iter(arguments))}: expected .* \| None, found "):
        tornproof.check(**arguments)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_ends_a_check_reaches_the_handler_of_the_program(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Ctrl-C made the verdict UNKNOWN, and the program went on."""
    interrupt = partial(explore, on_progress=lambda progress: signal.raise_signal(number))
    monkeypatch.setattr(harness_check, "explore", lambda *args, on_progress, **named: interrupt(*args, **named))
    received: list[int] = []
    before = signal.signal(number, lambda received_number, frame: received.append(received_number))
    try:
        outcome = tornproof.check(questdb_data / CHAIN, only=["verify", "memory"], effort=1, workers=1)
    finally:
        signal.signal(number, before)
    assert (received, outcome.interrupted_by) == ([number], number)
    assert [phase.name for phase in outcome.phases] == ["verify", "memory"]


def test_an_empty_path_is_no_table_to_check() -> None:
    """It was the working directory."""
    with pytest.raises(ValueError, match=r"^path: the path is empty"):
        tornproof.check("")


@pytest.mark.parametrize("arguments", [{"out": 5}, {"footer": 5}, {"encoding": b"alp"}], ids=str)
def test_an_argument_of_another_type_is_rejected_before_a_file_is_read(arguments: dict[str, Any]) -> None:
    with pytest.raises(tornproof.UsageError, match=rf"^{next(iter(arguments))}: expected .* \| None, found "):
        tornproof.extend("missing", **arguments)


def test_an_explorer_that_there_is_not_is_rejected(questdb_data: Path) -> None:
    with pytest.raises(ValueError, match=r"only: expected some of verify, .*, found 'random'"):
        tornproof.check(questdb_data / CHAIN, only=["crash", "random"])


def test_every_public_name_is_there_and_importing_the_package_imports_none_of_it() -> None:
    import subprocess
    import sys

    for name in tornproof.__all__:
        assert getattr(tornproof, name) is not None
    assert set(dir(tornproof)) == set(tornproof.__all__)
    with pytest.raises(AttributeError, match="no attribute 'close'"):
        tornproof.close  # noqa: B018
    script = "import sys, tornproof; print(*(name for name in sys.modules if name.startswith('tornproof.')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
