"""What a crash may leave, compared with brute force over the calls of random programs on tiny disks."""

import random
from collections.abc import Iterator

import pytest
from brute_disks import Call, History, disks
from depth import nightly
from kernel_programs import EVERYTHING, left, machine, run, tiny

from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_names import legal_names
from tornproof.harness.simulator.persistence.models import MODELS, N_512, Model, model_named

PROGRAM_COUNT, PROGRAM_COUNT_BY_NIGHT = 40, 2_000
CALL_COUNT = 9
CHANGES_MAX = 6
FILES, DIRECTORIES = ("r/a", "r/b", "r/d/a", "r/e/a"), ("r/d", "r/e")
MOVED = (*DIRECTORIES, "r/d/e", "r/e/d")
CALLS = (
    *("create", "mkdir", "write", "write", "truncate", "fsync", "fdatasync", "msync", "syncdir", "rename", "link"),
    *("unlink", "rmdir"),
)


def programs(count: int, seed: int) -> Iterator[tuple[Kernel, History, list[Call]]]:
    """Yield random programs with the kernel and the history that they lead to; impossible calls are left out."""
    chance = random.Random(seed)
    for _ in range(count):
        kernel, history, calls = machine(), History(), list[Call]()
        drawn = chance.choice((drawn_call, drawn_call, drawn_move))
        while len(calls) < CALL_COUNT and len(history.changes) < CHANGES_MAX:
            call = drawn(chance)
            if run(kernel, call):
                history.call(call)
                calls.append(call)
        yield kernel, history, calls


def drawn_call(chance: random.Random) -> Call:
    kind, file = chance.choice(CALLS), chance.choice(FILES)
    match kind:
        case "write":
            return kind, file, chance.randrange(6), bytes(chance.choices(b"xyz", k=chance.randrange(1, 4)))
        case "truncate" | "msync":
            return kind, file, chance.randrange(7)
        case "link":
            return kind, *chance.sample(FILES, 2)
        case "rename":
            names = chance.choice((FILES, FILES, DIRECTORIES))
            return kind, *chance.sample(names, 2)
        case "mkdir" | "rmdir":
            return kind, chance.choice(DIRECTORIES)
        case "syncdir":
            return kind, chance.choice(("r", *DIRECTORIES))
    return kind, file


def drawn_move(chance: random.Random) -> Call:
    """Return a call of a program that moves directories into each other."""
    kind = chance.choice(("mkdir", "rename", "rename", "create", "syncdir"))
    if kind == "create":
        return kind, f"{chance.choice(MOVED)}/a"
    return kind, *chance.sample(MOVED, 2 if kind == "rename" else 1)


@pytest.mark.parametrize(
    ("count", "seed"), [(PROGRAM_COUNT, 1), nightly(PROGRAM_COUNT_BY_NIGHT, 2)], ids=["some", "many"]
)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_every_model_leaves_the_disks_that_brute_force_finds(model: Model, count: int, seed: int) -> None:
    compared = several = 0
    for kernel, history, calls in programs(count, seed):
        expected = disks(history, tiny(model))
        found = left(kernel, tiny(model))
        assert found == expected, f"{calls}: {len(expected - found)} are missing, {len(found - expected)} are wrong"
        compared += 1
        several += len(expected) > 1
    assert compared == count and (several > count // 2 or model.keeps_cache)


def test_directories_of_which_each_is_in_the_other_do_not_keep_the_search_from_ending() -> None:
    """Where two renames had left both old names and both new ones, a power cut was explored without end."""
    kernel, history = machine(), History()
    calls: tuple[Call, ...] = (
        *(("mkdir", "r/e"), ("mkdir", "r/e/d"), ("create", "r/e/d/a"), ("syncdir", "r"), ("syncdir", "r/e")),
        *(("syncdir", "r/e/d"), ("rename", "r/e/d", "r/d"), ("rename", "r/e", "r/d/e")),
    )
    for call in calls:
        assert run(kernel, call)
        history.call(call)
    found = left(kernel, tiny(N_512))
    assert found == disks(history, tiny(N_512))
    assert (frozenset({("r/d/a", b"")}), frozenset({"r", "r/d", "r/d/e", "r/e"})) in found


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
