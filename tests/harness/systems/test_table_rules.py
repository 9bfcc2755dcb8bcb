"""Rules for single steps on a table: they let the hardened commit pass, and name each planted step that breaks one."""

import re
from collections.abc import Callable

import pytest
from msgspec import structs
from planted_faults import planted

from tornproof.harness.explorers.barriers.explorer import ALL, protocol_with
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.trace_rules import Broken
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems import table_rules, table_rules_controls
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_rules import TableRules, live_record
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import HEADER_BYTES, VERSION_BYTES
from tornproof.impl.write import commit
from tornproof.impl.write.commit import HARDENED, Action, Protocol
from tornproof.impl.write.recovery import _restate

pytestmark = pytest.mark.usefixtures("remembering")

TXN = f"{MADE_PATH}/_txn"


@pytest.fixture(scope="module")
def start() -> DiskImage:
    return made_image()


def run(start: DiskImage, protocol: Protocol, *, promises_barriers: bool = True) -> World:
    case = TestCase(
        target=TableTarget(protocol=protocol),
        path=MADE_PATH,
        operations=crash_operations(start, MADE_PATH),
        first_session=(0, 1, 2, 3),
        readers=(Readers(),),
        start=start,
        rules=TableRules(MADE_PATH, promises_barriers=promises_barriers),
    )
    process_group = case.process_group()
    world = case.begin(process_group)
    world.run(0)
    process_group.close()
    return world


def test_the_hardened_commit_breaks_no_rule(start: DiskImage) -> None:
    assert run(start, HARDENED).progress.violations == ()


@pytest.mark.parametrize("missing", ALL)
def test_each_missing_barrier_is_named_at_once(start: DiskImage, missing: str) -> None:
    protocol = protocol_with(set(ALL) - {missing})
    violations = run(start, protocol).progress.violations
    assert {violation.property for violation in violations} == {Property.BARRIERS}
    assert all(missing in violation.sentence for violation in violations)
    assert run(start, protocol, promises_barriers=False).progress.violations == ()


@pytest.mark.parametrize("action", [Action.SYNC_DIRECTORY, Action.SYNC_TABLE_DIRECTORY])
def test_either_directory_sync_that_is_missing_is_named(start: DiskImage, action: Action) -> None:
    rewrite = tuple(each for each in HARDENED.rewrite if each is not action)
    violations = run(start, structs.replace(HARDENED, rewrite=rewrite)).progress.violations
    assert violations and all("F6" in violation.sentence for violation in violations)


def test_a_barrier_that_comes_too_late_is_named(start: DiskImage) -> None:
    update = (*(each for each in HARDENED.update if each is not Action.SYNC_DATA), Action.SYNC_DATA)
    assert run(start, structs.replace(HARDENED, update=update)).progress.violations == ()
    record, version = HARDENED.publish.index(Action.SYNC_RECORD), HARDENED.publish.index(Action.STORE_VERSION)
    publish = list(HARDENED.publish)
    publish[record], publish[version] = publish[version], publish[record]
    violations = run(start, structs.replace(HARDENED, publish=tuple(publish))).progress.violations
    assert violations and all("F4" in violation.sentence for violation in violations)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("version before its record", "can be read (F4)"),
        ("header after the version", "_pm leads to the generation of"),
        ("header before the body", None),
    ],
)
def test_a_version_that_no_reader_could_follow_is_named(start: DiskImage, name: str, missing: str | None) -> None:
    with planted(name):
        violations = run(start, commit.HARDENED).progress.violations
    assert bool(violations) is (missing is not None)
    assert all(each.property == Property.BARRIERS and str(missing) in each.sentence for each in violations)


class Machine:
    """A kernel with the table, on which single calls are checked and made."""

    def __init__(self, start: DiskImage) -> None:
        self.kernel = Kernel.of(start)
        self.rules = TableRules(MADE_PATH)
        table = open_table(start, MADE_PATH)
        self.partition = table.transaction().partitions[0]
        self.directory = f"{MADE_PATH}/{table.directory_of(self.partition)}"

    def judge(self, kind: CallKind, path: str, **fields: object) -> Broken | None:
        call = Call(kind=kind, path=path, file=1, **fields)  # type: ignore[arg-type]
        broken = self.rules.before(self.kernel, call)
        apply(self.kernel, 0, Call(kind=CallKind.OPEN_FOR_WRITING, path=path, file=1, mode=OpenMode.EXISTING))
        apply(self.kernel, 0, call)
        return broken

    def content(self, path: str) -> bytes:
        return self.kernel.files[self.kernel.entry(path)].content


@pytest.fixture
def machine(start: DiskImage) -> Machine:
    return Machine(start)


def test_committed_data_may_be_written_again_as_it_is_and_followed_but_not_changed(machine: Machine) -> None:
    path, token = f"{machine.directory}/data.parquet", machine.partition.token
    old = machine.content(path)
    assert machine.judge(CallKind.PWRITE, path, offset_bytes=0, content=old) is None
    assert machine.judge(CallKind.PWRITE, path, offset_bytes=token, content=b"dead bytes") is None
    assert machine.judge(CallKind.TRUNCATE, path, size_bytes=token) is None
    for offset_bytes in (0, token - 1):
        changed = bytes([old[offset_bytes] ^ 1])
        broken = machine.judge(CallKind.PWRITE, path, offset_bytes=offset_bytes, content=changed)
        assert broken is not None and broken.is_content and f"below {token}" in broken.sentence
    assert machine.judge(CallKind.TRUNCATE, path, size_bytes=token - 1) is not None


def test_published_bytes_of_pm_do_not_change_but_its_header_word_does(machine: Machine) -> None:
    path = f"{machine.directory}/_pm"
    old = machine.content(path)
    published = int.from_bytes(old[:8], "little")
    assert machine.judge(CallKind.PWRITE, path, offset_bytes=published, content=b"next") is None
    for offset_bytes in (8, published - 1):
        changed = bytes([old[offset_bytes] ^ 1])
        broken = machine.judge(CallKind.PWRITE, path, offset_bytes=offset_bytes, content=changed)
        assert broken is not None and broken.is_content
    assert machine.judge(CallKind.PWRITE, path, offset_bytes=0, content=(published + 4).to_bytes(8, "little")) is None


def test_the_committed_record_does_not_change_but_the_free_area_does(machine: Machine) -> None:
    entry = machine.partition.entry_offset_bytes
    assert machine.judge(CallKind.PWRITE, TXN, offset_bytes=2048, content=b"free") is None
    broken = machine.judge(CallKind.PWRITE, TXN, offset_bytes=entry, content=b"\xff")
    assert broken is not None and broken.is_content


@pytest.mark.parametrize("is_body_synced", [True, False])
def test_a_header_that_a_killed_recovery_stored_needs_no_sync_if_what_it_names_is_on_disk(
    machine: Machine, *, is_body_synced: bool
) -> None:
    # Seen in a table with an orphan in a partition that the next commit left alone: an old header leads there too.
    path = f"{machine.directory}/_pm"
    before = machine.content(path)
    published = int.from_bytes(before[:8], "little")
    resolved = resolve_partition(
        open_table(machine.kernel.image(), MADE_PATH).files_of(machine.partition), machine.partition
    )
    again = _restate(resolved)
    machine.judge(CallKind.PWRITE, path, offset_bytes=published, content=again)
    if is_body_synced:
        machine.judge(CallKind.FDATASYNC, path)
    header = (published + len(again)).to_bytes(8, "little")
    machine.judge(CallKind.PWRITE, path, offset_bytes=0, content=header)
    number = machine.kernel.entry(path)
    assert len(machine.kernel.files[number].versions) > 1
    version = machine.content(TXN)[:8]
    machine.judge(CallKind.PWRITE, TXN, content=bytes(8))
    broken = machine.rules.before(machine.kernel, Call(kind=CallKind.STORE, path=TXN, content=version))
    assert broken is None if is_body_synced else broken is not None and "_pm is on disk (F2, F3)" in broken.sentence


@pytest.mark.parametrize("kind", [CallKind.UNLINK, CallKind.RENAME])
def test_what_the_committed_version_names_is_not_removed(machine: Machine, kind: CallKind) -> None:
    broken = machine.judge(kind, f"{machine.directory}/_pm", target_path=f"{MADE_PATH}/elsewhere")
    assert broken is not None and broken.is_content


def test_nothing_takes_the_place_of_what_the_committed_version_names(machine: Machine) -> None:
    broken = machine.judge(CallKind.RENAME, f"{MADE_PATH}/elsewhere", target_path=f"{machine.directory}/_pm")
    assert broken is not None and broken.is_content


def test_other_files_and_directories_are_not_checked(machine: Machine) -> None:
    apply(machine.kernel, 0, Call(kind=CallKind.MKDIR, path=f"{MADE_PATH}/2000-01-01T00.1"))
    for name in ("2000-01-01T00.1/data.parquet", "2000-01-01T00.1/_pm", "_name"):
        path = f"{MADE_PATH}/{name}"
        apply(
            machine.kernel,
            0,
            Call(kind=CallKind.OPEN_FOR_WRITING, path=path, file=1, mode=OpenMode.EXISTING_OR_NEW),
        )
        assert machine.judge(CallKind.PWRITE, path, content=b"x") is None
        assert machine.judge(CallKind.UNLINK, path) is None


def test_a_table_that_cannot_be_read_has_no_committed_bytes(machine: Machine) -> None:
    assert machine.judge(CallKind.PWRITE, TXN, content=b"\xff" * 64) is None
    assert machine.judge(CallKind.PWRITE, f"{machine.directory}/data.parquet", content=b"x") is None
    del machine.kernel.directories[machine.kernel.entry(MADE_PATH)]["_txn"]
    assert machine.judge(CallKind.PWRITE, f"{machine.directory}/data.parquet", content=b"y") is None


def blind_to_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rules, "_durable_number", lambda kernel, path: kernel.find(path))


def blind_to(monkeypatch: pytest.MonkeyPatch, bytes_at: tuple[int, int]) -> None:
    sees = table_rules._is_durable
    monkeypatch.setattr(table_rules, "_is_durable", lambda *of: of[2:] == bytes_at or sees(*of))


def blind_to_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    blind_to(monkeypatch, (VERSION_BYTES, HEADER_BYTES))


def blind_to_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    blind_to(monkeypatch, live_record(made_image().files[TXN])[1])


def blind_to_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rules, "_missing_symbols", lambda kernel, extents: iter(()))


def blind_to_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    sees = table_rules._missing_symbols
    monkeypatch.setattr(
        table_rules, "_missing_symbols", lambda kernel, extents: sees(kernel, extents._replace(indexes=()))
    )


DICTIONARY = [rf".*/symbol\.{kind}" for kind in "ockv"]


def missing(*paths: str) -> list[str]:
    forms = ("{} is on disk", "the name {} is on disk", "{} is there")
    return [form.format(path) for form in forms for path in paths]


@pytest.mark.parametrize(
    ("blind", "missed"),
    [
        (blind_to_names, [f"the name {each} is on disk" for each in (r".*/data\.parquet", ".*/_pm", *DICTIONARY)]),
        (blind_to_the_header, ["the header of .*/_txn is on disk"]),
        (blind_to_the_record, ["the record of .*/_txn is on disk"]),
        (blind_to_symbols, missing(*DICTIONARY)),
        (blind_to_indexes, missing(*DICTIONARY[2:])),
    ],
)
def test_rules_that_forget_one_thing_fail_the_controls_of_that_and_no_other(
    blind: Callable[[pytest.MonkeyPatch], None], missed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table_rules_controls.failed_controls.__wrapped__() == ()
    blind(monkeypatch)
    failed = table_rules_controls.failed_controls.__wrapped__()
    assert len(failed) == len(missed)
    for said, what in zip(failed, missed, strict=True):
        assert re.search(f"accept a version before {what}$", said)
