"""The simulated disk: the same answers as the storage in memory, and what a sync and a kill leave."""

from collections.abc import Callable, Hashable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from depth import nightly, sampled
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tornproof.harness.simulator.filesystem.accesses import accesses, are_dependent
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import BusError, BusFault, Directories, Kernel, Rejected
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.process.simulated_process import Process
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import LockMode, OpenMode, Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage

PATHS = ("t", "t/a", "t/b", "t/d", "t/d/a", "t/a/x", "other")
SPELLED = ("t/d/", "./t//b", "t/d/../a", "")
MODES = tuple(OpenMode)
Step = tuple[Any, ...]


def steps() -> st.SearchStrategy[list[Step]]:
    path = st.sampled_from((*PATHS, *SPELLED))
    small = st.integers(0, 40)
    return st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["mkdir", "rmdir", "unlink", "listdir", "kind", "sync_directory"]), path),
            st.tuples(st.sampled_from(["rename", "link"]), path, path),
            st.tuples(st.just("open"), path, st.sampled_from(MODES)),
            st.tuples(st.just("read_only"), path),
            st.tuples(st.just("pwrite"), st.binary(max_size=20), small),
            st.tuples(st.just("pread"), small, small),
            st.tuples(st.sampled_from(["truncate", "map"]), small),
            st.tuples(st.sampled_from(["size", "fsync", "close", "msync", "load", "store", "unmap"])),
            st.tuples(st.sampled_from(["lock", "unlock"]), st.sampled_from(LockMode), small, st.integers(1, 9)),
        ),
        max_size=25,
    )


def run(storage: Storage, todo: list[Step], note: Callable[[Hashable], None]) -> None:
    """Do the steps on the file and the mapping that were opened last, and note every answer."""
    file: Any = None
    mapping: Any = None
    for name, *arguments in todo:
        try:
            if name in ("mkdir", "rmdir", "unlink", "listdir", "kind", "sync_directory", "rename", "link"):
                note(getattr(storage, name)(*arguments))
            elif name == "open":
                file = storage.open_for_writing(*arguments)
            elif name == "read_only":
                file = storage.open_for_reading(*arguments)
            elif name in ("load", "store", "msync", "unmap"):
                if mapping is not None:
                    note(mapped(mapping, name))
                    mapping = None if name == "unmap" else mapping
            elif file is not None:
                mapping = on_file(file, name, arguments, note) or mapping
        except StorageError as error:
            note((type(error).__name__, error.reason))


def process_of(name: str, todo: list[Step]) -> Process:
    return Process(name, lambda storage, say: run(storage, todo, lambda answer: say("answer", answer)))


def mapped(mapping: Any, name: str) -> Hashable:
    try:
        if name == "load":
            return int(mapping.load_u64(0))
        return mapping.store_u64(0, 7) if name == "store" else getattr(mapping, name)()  # type: ignore[no-any-return]
    except BusError:
        return "bus error"
    except AssertionError:
        return "not for writing"


def on_file(file: Any, name: str, arguments: list[Any], note: Callable[[Hashable], None]) -> Any:
    if name == "map":
        return file.map(max(arguments[0], 8))
    if name == "lock":
        mode, offset, size = arguments
        note(file.try_lock(mode, offset_bytes=offset, size_bytes=size))
    elif name == "unlock":
        _, offset, size = arguments
        file.unlock(offset_bytes=offset, size_bytes=size)
    else:
        note(getattr(file, {"size": "size_bytes"}.get(name, name))(*arguments))
    return None


def answers_of(kernel: Kernel, todo: list[Step]) -> list[Hashable]:
    """Return what a process notes that does the steps on a kernel."""
    process = process_of("it", todo)
    node = process.root
    seen = [mark.value for mark in node.marks]
    while node.call is not None:
        node = process.advance(node, apply(kernel, 0, node.call))
        seen += [mark.value for mark in node.marks]
    process.close()
    assert node.outcome == ""
    return seen


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(steps())
@example([("open", "t/a", OpenMode.EXISTING), ("pwrite", b"", 40), ("size",)])
def test_a_process_gets_the_answers_that_the_storage_in_memory_gives(todo: list[Step]) -> None:
    start = DiskImage.of_files({"t/a": b"0123456789abcdef"})
    todo = [step for step in todo if step[0] != "store"]
    expected: list[Hashable] = []
    memory = MemoryStorage.of(start)
    run(memory, todo, expected.append)

    kernel = Kernel.of(start)
    assert answers_of(kernel, todo) == expected
    assert kernel.image().files == memory.image().files
    assert kernel.image().directories == memory.image().directories


def spelled(random: Random, *, ends: bool) -> str:
    """Return a path with or without slashes and dots that a system resolves, at its end only as asked."""
    path = "/".join(random.choices("abd", k=random.randrange(1, 4)))
    forms = [path, f"./{path}", path.replace("/", "//"), path.replace("/", "/./"), f"d/../{path}", f"{path}/"]
    return f"t/{random.choice([*forms, f'{path}/.', f'{path}/..'] if ends else forms)}"


@pytest.mark.parametrize("seed", sampled(20, range(1_000)))
def test_a_process_and_the_storage_in_memory_resolve_slashes_and_dots_as_the_system_does(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process "d/" and "./d" were not there, and "a//b" was another file than "a/b"."""
    random = Random(seed)
    todo: list[Step] = [("mkdir", "t")]
    for _ in range(60):
        name = random.choice(["mkdir", "mkdir", "rmdir", "unlink", "listdir", "kind", "rename", "link", "open"])
        paths = [spelled(random, ends=name in ("listdir", "kind")) for _ in range(1 + (name in ("rename", "link")))]
        todo.append((name, *paths, *([random.choice(MODES)] if name == "open" else [])))
    monkeypatch.chdir(tmp_path)
    expected: list[Hashable] = []
    run(OperatingSystemStorage(), todo, expected.append)
    in_memory: list[Hashable] = []
    run(MemoryStorage(), todo, in_memory.append)
    assert in_memory == expected
    assert answers_of(Kernel(), todo) == expected


@pytest.mark.parametrize("path", [".", "/", "t/.", "t/..", "..", "../t"])
def test_what_dots_lead_to_is_neither_made_nor_removed(path: str) -> None:
    kernel = Kernel.of(DiskImage.of_files({"t/a": b""}))
    before = kernel.identity()
    for kind in (CallKind.MKDIR, CallKind.RMDIR, CallKind.UNLINK, CallKind.OPEN_FOR_WRITING):
        assert isinstance(apply(kernel, 0, Call(kind=kind, path=path, mode=OpenMode.NEW)), Rejected)
    for kind, paths in ((CallKind.RENAME, ("t", path)), (CallKind.RENAME, (path, "b")), (CallKind.LINK, ("t/a", path))):
        assert isinstance(apply(kernel, 0, Call(kind=kind, path=paths[0], target_path=paths[1])), Rejected)
    assert kernel.identity() == before


def test_a_path_depends_on_all_directories_that_it_passes() -> None:
    kernel = Kernel.of(DiskImage.of_files({"t/a": b"", "t/d/b": b""}))
    looks = accesses(kernel, 0, Call(kind=CallKind.KIND, path="t/d/../a"))
    for path, expected in (("t/d", True), ("t/a", True), ("t/b", False)):
        renames = accesses(kernel, 1, Call(kind=CallKind.RENAME, path=path, target_path="other"))
        assert are_dependent(looks, renames) is expected


def opened(path: str = "t/a", content: bytes = b"0123456789abcdef", number: int = 1) -> Kernel:
    kernel = Kernel.of(DiskImage.of_files({path: content}))
    apply(kernel, 0, Call(kind=CallKind.OPEN_FOR_WRITING, path=path, file=number))
    return kernel


def write(offset_bytes: int, content: bytes, file: int = 1) -> Call:
    return Call(
        kind=CallKind.PWRITE, path="t/a", file=file, offset_bytes=offset_bytes, size_bytes=len(content), content=content
    )


def random_call(random: Random) -> Call:
    path, size = random.choice(PATHS), random.randrange(40)
    changes = [
        {"kind": random.choice([CallKind.MKDIR, CallKind.RMDIR, CallKind.UNLINK, CallKind.SYNC_DIRECTORY])},
        {"kind": random.choice([CallKind.RENAME, CallKind.LINK]), "target_path": random.choice(PATHS)},
        {"kind": CallKind.OPEN_FOR_WRITING, "file": 1, "mode": OpenMode.EXISTING_OR_NEW},
        {"kind": CallKind.PWRITE, "file": 1, "offset_bytes": size, "content": random.choice([b"", b"0", b"new"])},
        {"kind": CallKind.TRUNCATE, "file": 1, "size_bytes": size},
        {"kind": random.choice([CallKind.FSYNC, CallKind.FDATASYNC]), "file": 1},
    ]
    return Call(path=path, **random.choice(changes))  # type: ignore[arg-type]


def without_caches(kernel: Kernel) -> Kernel:
    fresh = kernel.fork()
    fresh.directories = Directories(kernel.directories)
    fresh.files = {number: FileState(state.content, state.versions) for number, state in kernel.files.items()}
    return fresh


def found(kernel: Kernel) -> list[object]:
    return [(kernel.find(path), accesses(kernel, 0, Call(kind=CallKind.KIND, path=path))) for path in PATHS]


def differs(random: Random, kernels: list[Kernel]) -> bool:
    """Make a random call on a fork of one of some kernels, and say whether what they know leads anywhere else."""
    kernel = random.choice(kernels).fork()
    found(kernel)
    fresh, call = without_caches(kernel), random_call(random)
    answers = apply(kernel, 0, call), apply(fresh, 0, call)
    kernels[random.randrange(len(kernels))] = kernel
    return answers[0] != answers[1] or kernel.identity() != fresh.identity() or found(kernel) != found(fresh)


@pytest.mark.parametrize("count", [2_000, nightly(50_000)])
def test_kernels_that_share_what_they_know_of_paths_and_files_act_as_those_that_know_nothing(count: int) -> None:
    random, kernels = Random(count), [opened() for _ in range(20)]

    assert not any(differs(random, kernels) for _ in range(count))


@pytest.mark.parametrize("kept", ["entries", "lookups"])
def test_what_is_known_of_paths_after_names_have_changed_is_noticed(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def keeping(names: Directories) -> Directories:
        copy = Directories(names)
        setattr(copy, kept, getattr(names, kept, {}))
        return copy

    monkeypatch.setattr("tornproof.harness.simulator.filesystem.kernel.Directories", keeping)
    random, kernels = Random(0), [opened() for _ in range(20)]

    assert any(differs(random, kernels) for _ in range(500))


@pytest.mark.parametrize("offset_bytes", [0, 20, 1 << 62])
def test_an_empty_write_changes_nothing_at_any_offset(offset_bytes: int) -> None:
    """Beyond the end it made a file longer, and beyond what fits on the disk it was rejected."""
    kernel = Kernel.of(DiskImage.of_files({"a": b"0123456789"}))
    before = kernel.files.copy()
    for number, kind in enumerate((CallKind.OPEN_FOR_WRITING, CallKind.OPEN_FOR_READING), start=1):
        apply(kernel, 1, Call(kind=kind, path="a", file=number))
        assert apply(kernel, 1, Call(kind=CallKind.PWRITE, path="a", file=number, offset_bytes=offset_bytes)) is None
    assert kernel.files == before


def test_a_file_knows_its_latest_change_and_no_other() -> None:
    old = FileState(b"old")
    written = old.written(b"new", 0)

    assert old.written(b"new", 0) is written
    assert (old.written(b"new", 1).content, old.resized(1).content) == (b"onew", b"o")
    assert old.written(b"new", 0) == written


def test_a_fork_goes_its_own_way() -> None:
    kernel = opened()
    other = kernel.fork()
    apply(other, 0, write(0, b"x"))
    apply(other, 0, Call(kind=CallKind.MKDIR, path="t/d"))
    assert kernel.image().files["t/a"][:1] == b"0"
    assert "t/d" not in kernel.image().directories
    assert kernel.identity() != other.identity()
    assert kernel.identity() == kernel.fork().identity()


def test_kernels_that_differ_in_their_durable_names_alone_are_not_the_same() -> None:
    kernel = Kernel.of(DiskImage.of_files({"t/a": b"a", "t/b": b"b"}))
    other = kernel.fork()
    apply(other, 0, Call(kind=CallKind.UNLINK, path="t/a"))
    apply(other, 0, Call(kind=CallKind.SYNC_DIRECTORY, path="t"))
    for each in (kernel, other):
        apply(each, 0, Call(kind=CallKind.RENAME, path="t/b", target_path="t/a"))
    assert kernel.entry_changes == other.entry_changes
    assert kernel.identity() != other.identity()


def test_a_killed_process_leaves_its_bytes_and_nothing_that_it_had_open() -> None:
    kernel = opened()
    apply(kernel, 0, write(0, b"x"))
    lock = Call(kind=CallKind.LOCK, path="t/a", file=1, offset_bytes=0, size_bytes=4, lock=LockMode.EXCLUSIVE)
    assert apply(kernel, 0, lock) is True
    apply(kernel, 1, Call(kind=CallKind.OPEN_FOR_WRITING, path="t/a", file=1))
    assert apply(kernel, 1, lock) is False
    kernel.kill(0)
    assert apply(kernel, 1, lock) is True
    assert kernel.image().files["t/a"][:1] == b"x"
    assert list(kernel.handles) == [(1, 1)]


def test_a_write_is_pending_until_it_is_synced() -> None:
    kernel = opened()
    apply(kernel, 0, write(0, b"x"))
    (state,) = kernel.files.values()
    assert [version[:1] for version in state.versions] == [b"0", b"x"] and not state.is_durable
    apply(kernel, 0, Call(kind=CallKind.FDATASYNC, path="t/a", file=1))
    (state,) = kernel.files.values()
    assert state.is_durable and state.content[:1] == b"x"


def test_a_name_is_pending_until_its_directory_is_synced() -> None:
    kernel = opened()
    apply(kernel, 0, Call(kind=CallKind.RENAME, path="t/a", target_path="t/b"))
    directory = kernel.entry("t")
    assert kernel.durable_directories[directory].keys() == {"a"}
    apply(kernel, 0, Call(kind=CallKind.SYNC_DIRECTORY, path="t"))
    assert kernel.durable_directories[directory].keys() == {"b"} and not kernel.entry_changes


def test_a_directory_is_not_moved_into_one_that_it_contains_whatever_the_path() -> None:
    """After a power cut a directory can have two names, of which a path shows one: a rename made an endless path."""
    kernel = Kernel.of(DiskImage({"p/d/f": b"x"}, frozenset({"p", "p/d"})))
    (directory, name), number = kernel.way("q"), kernel.entry("p/d")
    kernel.change_entries((directory, name, number))
    refused = apply(kernel, 0, Call(kind=CallKind.RENAME, path="p", target_path="q/p"))
    assert isinstance(refused, Rejected) and sorted(path for path, _ in kernel.paths()) == ["p/d/f", "q/f"]


def test_a_sync_that_failed_leaves_clean_pages_that_only_a_new_write_takes_to_the_disk() -> None:
    kernel = opened(content=b"0" * 10_000)
    apply(kernel, 0, write(0, b"x"))
    apply(kernel, 0, write(5_000, b"y"))
    (number,) = kernel.files
    kernel.files[number] = kernel.files[number].failed()
    sync = Call(kind=CallKind.FSYNC, path="t/a", file=1)
    apply(kernel, 0, sync)
    assert kernel.files[number].versions == (b"0" * 10_000,)
    assert kernel.files[number].content[5_000:5_001] == b"y"
    apply(kernel, 0, write(5_001, b"z"))
    apply(kernel, 0, sync)
    (durable,) = kernel.files[number].versions
    assert durable[4_999:5_003] == b"0yz0" and durable[:1] == b"0"


def test_pages_that_a_failed_sync_of_the_first_ones_did_not_cover_reach_the_disk_with_the_next_sync() -> None:
    """All pages of the file counted as clean, so that the next sync was said to lose them."""
    kernel = opened(content=b"0" * 5_000)
    for offset_bytes, content in ((0, b"x"), (5_000, b"y"), (9_000, b"z")):
        apply(kernel, 0, write(offset_bytes, content))
    (number,) = kernel.files
    for written, first in ((None, b"0"), (kernel.files[number].content[:4_096], b"x")):
        failed = kernel.files[number].failed(written, 4_096)
        assert failed.content == kernel.files[number].content
        assert [version[:1] + version[4_096:] for version in failed.versions] == [
            first + version[4_096:] for version in kernel.files[number].versions[1:]
        ]
        (durable,) = failed.synced().versions
        assert durable == first + failed.content[1:]


def test_a_page_of_a_longer_file_that_a_failed_sync_did_not_write_is_zeros() -> None:
    kernel = opened(content=b"0")
    apply(kernel, 0, write(1, b"x" * 5_000))
    (number,) = kernel.files
    (_, durable) = kernel.files[number].failed(None, 4_096).versions
    assert durable == b"0" + bytes(4_095) + b"x" * 905


def test_msync_makes_its_own_range_durable_and_no_size() -> None:
    kernel = opened()
    apply(kernel, 0, Call(kind=CallKind.MAP, path="t/a", file=1, mapping=2, size_bytes=8))
    apply(kernel, 0, write(0, b"x"))
    apply(kernel, 0, write(16, b"more"))
    apply(kernel, 0, Call(kind=CallKind.MSYNC, path="t/a", file=1, mapping=2))
    (state,) = kernel.files.values()
    assert {version[:1] for version in state.versions} == {b"x"}
    assert {len(version) for version in state.versions} == {16, 20}


def test_msync_of_a_file_that_has_its_durable_size_again_keeps_no_size_either() -> None:
    """It was taken for a sync of all, so that the disk could not have the size that the file had between."""
    kernel = opened()
    apply(kernel, 0, write(16, b"more"))
    apply(kernel, 0, Call(kind=CallKind.TRUNCATE, path="t/a", file=1, size_bytes=16))
    apply(kernel, 0, Call(kind=CallKind.MAP, path="t/a", file=1, mapping=2, size_bytes=16))
    apply(kernel, 0, Call(kind=CallKind.MSYNC, path="t/a", file=1, mapping=2))
    (state,) = kernel.files.values()
    assert {len(version) for version in state.versions} == {16, 20}


def test_msync_of_a_mapping_beyond_the_end_of_a_cut_file_leaves_the_file_whole_at_its_old_size() -> None:
    """The part between the end and that of the mapping was left out, so that what came after it moved to the front."""
    old = bytes(range(1, 101)) * 100
    synced = FileState(old).resized(40).synced_until(9_000)
    assert synced.versions == (old[:40] + bytes(4_056) + old[4_096:], old[:40])
    assert FileState(old).resized(40).synced_between(50, 60).versions == (old[:50] + bytes(10) + old[60:], old[:40])


def test_msync_keeps_no_later_name_of_a_file_as_fdatasync_does_not() -> None:
    """It kept the last name, as fsync does; but Linux syncs the data of a mapping alone, as do both journals then."""
    counts = []
    for kind in (CallKind.FSYNC, CallKind.FDATASYNC, CallKind.MSYNC):
        kernel = opened()
        apply(kernel, 0, Call(kind=CallKind.MAP, path="t/a", file=1, mapping=2, size_bytes=16))
        apply(kernel, 0, Call(kind=CallKind.RENAME, path="t/a", target_path="t/b"))
        apply(kernel, 0, Call(kind=kind, path="t/b", file=1, mapping=2))
        counts.append(kernel.journalled_count)
    assert counts == [1, 0, 0]


def test_a_mapping_beyond_the_end_of_a_cut_file_is_a_bus_fault() -> None:
    kernel = opened()
    apply(kernel, 0, Call(kind=CallKind.MAP, path="t/a", file=1, mapping=2, size_bytes=16))
    apply(kernel, 0, Call(kind=CallKind.TRUNCATE, path="t/a", file=1, size_bytes=4))
    load = Call(kind=CallKind.LOAD, path="t/a", file=1, mapping=2, offset_bytes=8, size_bytes=8)
    assert apply(kernel, 0, load) == BusFault(15)


@pytest.mark.parametrize(
    ("call", "is_broken"),
    [
        (write(4, b"x"), True),
        (write(4, b"4"), False),
        (write(9, b"x"), False),
        (Call(kind=CallKind.TRUNCATE, path="t/a", file=1), True),
    ],
)
def test_a_change_under_a_lease_is_kept(call: Call, is_broken: bool) -> None:
    kernel = opened()
    apply(kernel, 1, Call(kind=CallKind.OPEN_FOR_READING, path="t/a", file=1))
    view = Call(kind=CallKind.MAP, path="t/a", file=1, mapping=2, size_bytes=16)
    apply(kernel, 1, view)
    lease = Call(kind=CallKind.VIEW, path="t/a", file=1, mapping=2, offset_bytes=0, size_bytes=8)
    assert apply(kernel, 1, lease) == b"01234567"
    apply(kernel, 0, call)
    assert bool(kernel.broken_leases) is is_broken


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (write(0, b"x"), Call(kind=CallKind.PREAD, path="t/a", file=1, offset_bytes=0, size_bytes=1), True),
        (write(0, b"x"), Call(kind=CallKind.PREAD, path="t/a", file=1, offset_bytes=1, size_bytes=1), False),
        (write(0, b"0"), Call(kind=CallKind.PREAD, path="t/a", file=1, offset_bytes=0, size_bytes=1), False),
        (write(16, b"x"), Call(kind=CallKind.SIZE, path="t/a", file=1), True),
        (write(15, b"x"), Call(kind=CallKind.SIZE, path="t/a", file=1), False),
        (write(16, b"x"), Call(kind=CallKind.PREAD, path="t/a", file=1, offset_bytes=8, size_bytes=99), True),
        (Call(kind=CallKind.MKDIR, path="t/d"), Call(kind=CallKind.LISTDIR, path="t"), True),
        (Call(kind=CallKind.MKDIR, path="t/d"), Call(kind=CallKind.MKDIR, path="t/e"), False),
        (Call(kind=CallKind.MKDIR, path="t/d"), Call(kind=CallKind.KIND, path="t/d/x"), True),
        (Call(kind=CallKind.FSYNC, path="t/a", file=1), write(0, b"x"), False),
        (Call(kind=CallKind.MKDIR, path="t/d"), Call(kind=CallKind.SYNC_DIRECTORY, path="t/d"), True),
        (Call(kind=CallKind.MKDIR, path="t/d"), Call(kind=CallKind.SYNC_DIRECTORY, path="t"), False),
        (
            Call(kind=CallKind.LOCK, path="t/a", file=1, size_bytes=2),
            Call(kind=CallKind.LOCK, path="t/a", file=1, size_bytes=2),
            False,
        ),
        (
            Call(kind=CallKind.LOCK, path="t/a", file=1, size_bytes=2, lock=LockMode.EXCLUSIVE),
            Call(kind=CallKind.LOCK, path="t/a", file=1, size_bytes=2),
            True,
        ),
    ],
)
def test_calls_depend_on_each_other_when_their_order_can_be_seen(one: Call, other: Call, expected: bool) -> None:
    kernel = opened()
    apply(kernel, 1, Call(kind=CallKind.OPEN_FOR_WRITING, path="t/a", file=1))
    assert are_dependent(accesses(kernel, 0, one), accesses(kernel, 1, other)) is expected
    assert are_dependent(accesses(kernel, 1, other), accesses(kernel, 0, one)) is expected


@settings(max_examples=120, deadline=None, database=None, derandomize=True)
@given(steps(), steps())
def test_independent_calls_of_two_processes_can_change_places(first: list[Step], second: list[Step]) -> None:
    """Walk both processes step by step; whenever their next calls are independent, both orders must end alike."""
    processes = [process_of("one", first), process_of("other", second)]
    kernel = Kernel.of(DiskImage.of_files({"t/a": b"0123456789abcdef"}))
    nodes = [process.root for process in processes]
    transition = 0
    while nodes[0].call is not None and nodes[1].call is not None:
        some, others = (accesses(kernel, index, nodes[index].call) for index in (0, 1))  # type: ignore[arg-type]
        if not are_dependent(some, others):
            ends = []
            for order in ((0, 1), (1, 0)):
                forked = kernel.fork()
                answers = {index: apply(forked, index, nodes[index].call) for index in order}  # type: ignore[arg-type]
                ends.append((answers[0], answers[1], forked.image().files, forked.image().directories))
            assert ends[0] == ends[1], (nodes[0].call, nodes[1].call)
        call = nodes[transition].call
        assert call is not None
        nodes[transition] = processes[transition].advance(nodes[transition], apply(kernel, transition, call))
        transition = 1 - transition
    for process in processes:
        process.close()
