"""What a crash may leave, compared with brute force over the calls of random programs on tiny disks."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from brute_disks import Call, Disk, History, disks
from depth import nightly

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call as KernelCall
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel, Rejected
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence.legal_disks import chosen_disk, legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.legal_names import legal_names
from tornproof.harness.simulator.persistence.models import MODELS, Model, choice_of, model_named
from tornproof.impl.storage.interface import OpenMode

PROGRAM_COUNT, PROGRAM_COUNT_BY_NIGHT = 40, 2_000
CALL_COUNT = 9
CHANGES_MAX = 6
EVERYTHING = Limits(file_count=1 << 14, names_count=1 << 14, disk_count=1 << 17)
KINDS = {
    "mkdir": CallKind.MKDIR,
    "rmdir": CallKind.RMDIR,
    "rename": CallKind.RENAME,
    "link": CallKind.LINK,
    "unlink": CallKind.UNLINK,
    "syncdir": CallKind.SYNC_DIRECTORY,
}
FILES, DIRECTORIES = ("r/a", "r/b", "r/d/a", "r/e/a"), ("r/d", "r/e")
CALLS = ("create", "mkdir", "write", "write", "truncate", "fsync", "fdatasync", "syncdir", "rename", "unlink", "rmdir")


def tiny(model: Model) -> Model:
    """Return a model whose blocks are so small that all disks of a file of some bytes can be tried."""
    sizes = {None: None, 8: 1, 512: 2, 4096: 4}
    return replace(model, block_bytes=sizes[model.block_bytes], stale_block_bytes=sizes[model.stale_block_bytes])


def run(kernel: Kernel, call: Call) -> bool:
    """Make a call of a program; return whether it was possible."""
    kind, path, *rest = call

    def make(kind: CallKind, **fields: object) -> bool:
        made = KernelCall(kind=kind, path=str(path), **fields)  # type: ignore[arg-type]
        return not isinstance(apply(kernel, 0, made), Rejected)

    if kind in KINDS:
        return make(KINDS[str(kind)], target_path=str(rest[0]) if rest else "")
    mode = OpenMode.NEW if kind == "create" else OpenMode.EXISTING
    if not make(CallKind.OPEN_FOR_WRITING, file=1, mode=mode):
        return False
    match kind:
        case "write":
            make(CallKind.PWRITE, file=1, offset_bytes=rest[0], content=rest[1])
        case "truncate":
            make(CallKind.TRUNCATE, file=1, size_bytes=rest[0])
        case "fsync" | "fdatasync":
            make(CallKind.FSYNC if kind == "fsync" else CallKind.FDATASYNC, file=1)
    return make(CallKind.CLOSE, file=1)


def programs(count: int, seed: int) -> Iterator[tuple[Kernel, History, list[Call]]]:
    """Yield random programs with the kernel and the history that they lead to, of which some calls were not possible."""
    chance = random.Random(seed)
    for _ in range(count):
        kernel, history, calls = machine(), History(), list[Call]()
        while len(calls) < CALL_COUNT and len(history.changes) < CHANGES_MAX:
            call = drawn_call(chance)
            if run(kernel, call):
                history.call(call)
                calls.append(call)
        yield kernel, history, calls


def machine() -> Kernel:
    """Return a kernel with the durable directory `r`."""
    return Kernel.of(DiskImage({}, frozenset({"r"})))


def drawn_call(chance: random.Random) -> Call:
    kind, file = chance.choice(CALLS), chance.choice(FILES)
    match kind:
        case "write":
            return kind, file, chance.randrange(6), bytes(chance.choices(b"xyz", k=chance.randrange(1, 4)))
        case "truncate":
            return kind, file, chance.randrange(7)
        case "rename":
            names = chance.choice((FILES, FILES, DIRECTORIES))
            return kind, *chance.sample(names, 2)
        case "mkdir" | "rmdir":
            return kind, chance.choice(DIRECTORIES)
        case "syncdir":
            return kind, chance.choice(("r", *DIRECTORIES))
    return kind, file


def left(kernel: Kernel, model: Model) -> set[Disk]:
    """Return every disk that the simulator says a crash may leave; each is also made again from its choice."""
    found = set()
    legal = legal_disks(kernel, model, EVERYTHING)
    assert legal.is_complete
    for picked in legal:
        image = picked.disk.kernel().image()
        found.add((frozenset(image.files.items()), frozenset(image.directories - {"/", "."})))
        assert chosen_disk(kernel, model, choice_of(legal.choice(picked).text())) == picked.disk
    return found


@pytest.mark.parametrize(
    ("count", "seed"), [(PROGRAM_COUNT, 1), nightly(PROGRAM_COUNT_BY_NIGHT, 2)], ids=["some", "many"]
)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_every_model_leaves_the_disks_that_brute_force_finds(model: Model, count: int, seed: int) -> None:
    compared = several = 0
    for kernel, history, calls in programs(count, seed):
        expected = disks(history, tiny(model))
        found = left(kernel, tiny(model))
        assert found == expected, (
            f"{calls}: missing {sorted(map(str, expected - found))[:3]}, wrong {sorted(map(str, found - expected))[:3]}"
        )
        compared += 1
        several += len(expected) > 1
    assert compared == count and (several > count // 2 or model.keeps_cache)


@pytest.mark.parametrize("model", [model for model in MODELS if model.contained_in], ids=str)
def test_a_model_leaves_no_disk_that_the_one_that_contains_it_does_not(model: Model) -> None:
    other, fewer = model_named(model.contained_in), 0
    for kernel, _, calls in programs(PROGRAM_COUNT, 3):
        some, all_of_them = left(kernel, tiny(model)), left(kernel, tiny(other))
        assert some <= all_of_them, calls
        fewer += some < all_of_them
    assert fewer, "the models are the same"


def test_names_under_every_model_are_those_of_its_documented_kind() -> None:
    """One rename between directories after a synced file: at once, as a prefix, as a set, and one entry of two."""
    kernel = machine()
    for call in (("mkdir", "r/d"), ("create", "r/a"), ("syncdir", "r"), ("rename", "r/a", "r/d/a"), ("create", "r/b")):
        assert run(kernel, call)
    counts = {model.name: legal_names(kernel, model, EVERYTHING).legal_count for model in MODELS}
    assert counts == {
        "A": 1, "D": 1, "B": 3, "C-4096": 3, "C-512": 3, "C-8": 3, "W-512": 3, "Cdir": 4, "N-512": 8,
    }  # fmt: skip
