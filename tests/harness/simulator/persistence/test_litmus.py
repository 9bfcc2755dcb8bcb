"""Published litmus tests of file systems: what each persistence model must allow and what it must forbid.

The cases are those of Bornholt et al. (ASPLOS 2016) and of Pillai et al. (OSDI 2014). Outcomes are what readers find in
one or two files; `None` is a file that is not there.
"""

from typing import NamedTuple

import pytest
from brute_disks import Call, History, disks
from kernel_programs import EVERYTHING, machine, run

from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import (
    C_8,
    C_512,
    C_4096,
    CDIR,
    MODELS,
    N_512,
    POWER_MODELS,
    STALE_BYTE,
    W_512,
    A,
    B,
    D,
    Model,
)

Outcome = tuple[bytes | None, ...]
KEEPS_CACHE = frozenset({A, D})
POWER = frozenset(POWER_MODELS)
JOURNALLED = frozenset({B, C_4096, C_512, C_8, W_512})
UNORDERED = frozenset({CDIR, N_512})
STALE = frozenset({W_512, N_512})
MIXED = POWER - {B}
SECTORS = frozenset({C_512, C_8, W_512, N_512})
NOBODY: frozenset[Model] = frozenset()
PAGE, SECTOR = 4096, 512


class Litmus(NamedTuple):
    """Calls on a disk, the files that are looked at, and which models allow each outcome; all others forbid it."""

    title: str
    durable: tuple[Call, ...]
    calls: tuple[Call, ...]
    files: tuple[str, ...]
    allowed_by: dict[Outcome, frozenset[Model]]


def create(path: str, content: bytes) -> tuple[Call, ...]:
    return ("create", path), ("write", path, 0, content)


def replace(*synced: Call) -> tuple[Call, ...]:
    return (*create("r/new", b"new"), *synced, ("rename", "r/new", "r/f"))


OLD: tuple[Call, ...] = (*create("r/f", b"old"), ("fsync", "r/f"), ("syncdir", "r"))
CASES = (
    Litmus(
        "replace by rename without a sync: the name can come before the content",
        OLD,
        replace(),
        ("r/f",),
        {(b"new",): POWER | KEEPS_CACHE, (b"old",): POWER, (b"",): POWER, (None,): NOBODY},
    ),
    Litmus(
        "replace by rename after a sync: old or new, and never anything else",
        OLD,
        replace(("fsync", "r/new")),
        ("r/f",),
        {(b"new",): POWER | KEEPS_CACHE, (b"old",): POWER, (b"",): NOBODY, (None,): NOBODY},
    ),
    Litmus(
        "replace by rename, then a sync of the directory: new",
        OLD,
        (*replace(("fsync", "r/new")), ("syncdir", "r")),
        ("r/f", "r/new"),
        {(b"new", None): POWER | KEEPS_CACHE, (b"old", None): NOBODY, (b"old", b"new"): NOBODY},
    ),
    Litmus(
        "replace by rename: both names, or neither, only where a rename is not atomic",
        OLD,
        replace(("fsync", "r/new"), ("syncdir", "r")),
        ("r/f", "r/new"),
        {
            (b"new", None): POWER | KEEPS_CACHE,
            (b"old", b"new"): POWER,
            (b"new", b"new"): frozenset({N_512}),
            (b"old", None): frozenset({N_512}),
        },
    ),
    Litmus(
        "rename, then a sync of the file: a journal has the name, a file system without one need not",
        (*create("r/g", b"x"), ("fsync", "r/g"), ("syncdir", "r")),
        (("rename", "r/g", "r/f"), ("fsync", "r/f")),
        ("r/f", "r/g"),
        {(b"x", None): POWER | KEEPS_CACHE, (None, b"x"): UNORDERED, (None, None): frozenset({N_512})},
    ),
    Litmus(
        "rename, then a sync of the data alone: nothing has to be written",
        (*create("r/g", b"x"), ("fsync", "r/g"), ("syncdir", "r")),
        (("rename", "r/g", "r/f"), ("fdatasync", "r/f")),
        ("r/f", "r/g"),
        {(b"x", None): POWER | KEEPS_CACHE, (None, b"x"): POWER, (None, None): frozenset({N_512})},
    ),
    Litmus(
        "rename, then a sync of a mapping, which Linux does as one of the data alone",
        (*create("r/g", b"x"), ("fsync", "r/g"), ("syncdir", "r")),
        (("rename", "r/g", "r/f"), ("msync", "r/f", 3)),
        ("r/f", "r/g"),
        {(b"x", None): POWER | KEEPS_CACHE, (None, b"x"): POWER, (None, None): frozenset({N_512})},
    ),
    Litmus(
        "create and sync a file, but not its directory: POSIX does not promise the name",
        (),
        (*create("r/f", b"x"), ("fsync", "r/f")),
        ("r/f",),
        {(b"x",): POWER | KEEPS_CACHE, (None,): UNORDERED, (b"",): NOBODY},
    ),
    Litmus(
        "create and sync a file and its directory: it is there",
        (),
        (*create("r/f", b"x"), ("fsync", "r/f"), ("syncdir", "r")),
        ("r/f",),
        {(b"x",): POWER | KEEPS_CACHE, (None,): NOBODY, (b"",): NOBODY},
    ),
    Litmus(
        "two creations, the second synced: the first has a name in a journal, and need not have content",
        (),
        (*create("r/f", b"x"), *create("r/g", b"y"), ("fsync", "r/g")),
        ("r/f", "r/g"),
        {
            (b"x", b"y"): POWER | KEEPS_CACHE,
            (b"", b"y"): POWER,
            (None, b"y"): UNORDERED,
            (None, None): UNORDERED,
            (b"x", None): UNORDERED,
        },
    ),
    Litmus(
        "two creations: a journal never has the second alone",
        (),
        (("create", "r/f"), ("create", "r/g")),
        ("r/f", "r/g"),
        {(b"", b""): POWER | KEEPS_CACHE, (None, None): POWER, (b"", None): POWER, (None, b""): UNORDERED},
    ),
    Litmus(
        "two renames: a journal never has the second alone",
        (*create("r/a", b"1"), *create("r/b", b"2"), ("fsync", "r/a"), ("fsync", "r/b"), ("syncdir", "r")),
        (("rename", "r/a", "r/f"), ("rename", "r/b", "r/g")),
        ("r/f", "r/g"),
        {(b"1", b"2"): POWER | KEEPS_CACHE, (b"1", None): POWER, (None, b"2"): UNORDERED, (None, None): POWER},
    ),
    Litmus(
        "create, then unlink another: a journal never has the second alone",
        OLD,
        (("create", "r/g"), ("unlink", "r/f")),
        ("r/f", "r/g"),
        {(None, b""): POWER | KEEPS_CACHE, (b"old", b""): POWER, (b"old", None): POWER, (None, None): UNORDERED},
    ),
    Litmus(
        "unlink, then create the same name: the old content comes back, and nothing is between only in a journal",
        OLD,
        (("unlink", "r/f"), ("create", "r/f")),
        ("r/f",),
        {(b"",): POWER | KEEPS_CACHE, (None,): POWER, (b"old",): POWER},
    ),
    Litmus(
        "two overwrites of two files, the first not synced: the second can come alone",
        (*create("r/f", b"1"), *create("r/g", b"1"), ("fsync", "r/f"), ("fsync", "r/g"), ("syncdir", "r")),
        (("write", "r/f", 0, b"2"), ("write", "r/g", 0, b"2")),
        ("r/f", "r/g"),
        {(b"2", b"2"): POWER | KEEPS_CACHE, (b"1", b"2"): POWER, (b"2", b"1"): POWER, (b"1", b"1"): POWER},
    ),
    Litmus(
        "two overwrites of two files with a sync between: in order",
        (*create("r/f", b"1"), *create("r/g", b"1"), ("fsync", "r/f"), ("fsync", "r/g"), ("syncdir", "r")),
        (("write", "r/f", 0, b"2"), ("fdatasync", "r/f"), ("write", "r/g", 0, b"2")),
        ("r/f", "r/g"),
        {(b"2", b"2"): POWER | KEEPS_CACHE, (b"2", b"1"): POWER, (b"1", b"2"): NOBODY, (b"1", b"1"): NOBODY},
    ),
    Litmus(
        "two overwrites in one block: in order, or words of their own",
        (*create("r/f", b"1" * 16), ("fsync", "r/f"), ("syncdir", "r")),
        (("write", "r/f", 0, b"2" * 8), ("write", "r/f", 8, b"2" * 8)),
        ("r/f",),
        {
            (b"2" * 16,): POWER | KEEPS_CACHE,
            (b"2" * 8 + b"1" * 8,): POWER,
            (b"1" * 8 + b"2" * 8,): frozenset({C_8}),
        },
    ),
    Litmus(
        "two overwrites in two blocks: in order only where content is journalled",
        (*create("r/f", b"1" * 2 * PAGE), ("fsync", "r/f"), ("syncdir", "r")),
        (("write", "r/f", 0, b"2" * 8), ("write", "r/f", PAGE, b"2" * 8)),
        ("r/f",),
        {
            (b"2" * 8 + b"1" * (PAGE - 8) + b"2" * 8 + b"1" * (PAGE - 8),): POWER | KEEPS_CACHE,
            (b"2" * 8 + b"1" * (2 * PAGE - 8),): POWER,
            (b"1" * PAGE + b"2" * 8 + b"1" * (PAGE - 8),): MIXED,
        },
    ),
    Litmus(
        "one overwrite across the end of a sector: a half of it only where sectors are torn apart",
        (*create("r/f", b"1" * 2 * SECTOR), ("fsync", "r/f"), ("syncdir", "r")),
        (("write", "r/f", SECTOR - 8, b"2" * 16),),
        ("r/f",),
        {
            (b"1" * (SECTOR - 8) + b"2" * 16 + b"1" * (SECTOR - 8),): POWER | KEEPS_CACHE,
            (b"1" * (SECTOR - 8) + b"2" * 8 + b"1" * SECTOR,): SECTORS,
            (b"1" * SECTOR + b"2" * 8 + b"1" * (SECTOR - 8),): SECTORS,
        },
    ),
    Litmus(
        "append: a prefix only where content is journalled, else zeros, or stale bytes, up to the new size",
        (*create("r/f", b"1" * PAGE), ("fsync", "r/f"), ("syncdir", "r")),
        (("write", "r/f", PAGE, b"2" * 3), ("write", "r/f", PAGE + 3, b"2" * 3)),
        ("r/f",),
        {
            (b"1" * PAGE + b"222222",): POWER | KEEPS_CACHE,
            (b"1" * PAGE + b"222",): POWER,
            (b"1" * PAGE + bytes(6),): MIXED,
            (b"1" * PAGE + STALE_BYTE * 6,): STALE,
            (b"1" * PAGE + b"222" + bytes(3),): MIXED,
        },
    ),
    Litmus(
        "append in a block that has data: zeros, but never stale bytes",
        (*create("r/f", b"1" * 8), ("fsync", "r/f"), ("syncdir", "r")),
        (("write", "r/f", 8, b"2" * 8),),
        ("r/f",),
        {
            (b"1" * 8 + b"2" * 8,): POWER | KEEPS_CACHE,
            (b"1" * 8 + bytes(8),): MIXED,
            (b"1" * 8 + STALE_BYTE * 8,): NOBODY,
        },
    ),
    Litmus(
        "append across the end of a block in small writes: the second block with zeros before it",
        (*create("r/f", b"1" * (PAGE - 8)), ("fsync", "r/f"), ("syncdir", "r")),
        (("write", "r/f", PAGE - 8, b"1" * 3), ("write", "r/f", PAGE - 5, b"1" * 13)),
        ("r/f",),
        {
            (b"1" * (PAGE + 8),): POWER | KEEPS_CACHE,
            (b"1" * (PAGE - 5),): POWER,
            (b"1" * (PAGE - 8) + bytes(8) + b"1" * 8,): MIXED,
        },
    ),
    Litmus(
        "truncate and write again: empty, or old, or zeros, or stale bytes of a block that was freed and allocated",
        OLD,
        (("truncate", "r/f", 0), ("write", "r/f", 0, b"new")),
        ("r/f",),
        {
            (b"new",): POWER | KEEPS_CACHE,
            (b"",): POWER,
            (b"old",): POWER,
            (bytes(3),): MIXED,
            (STALE_BYTE * 3,): STALE,
        },
    ),
    Litmus(
        "truncate inside of a block and write again: no stale bytes, because the block stays",
        OLD,
        (("truncate", "r/f", 1), ("write", "r/f", 0, b"new")),
        ("r/f",),
        {
            (b"new",): POWER | KEEPS_CACHE,
            (b"o",): POWER,
            (b"o" + bytes(2),): MIXED,
            (STALE_BYTE * 3,): NOBODY,
        },
    ),
    Litmus(
        "truncate and extend: old or zeros, and no stale bytes without a write that needs a block",
        OLD,
        (("truncate", "r/f", 0), ("truncate", "r/f", 3)),
        ("r/f",),
        {(bytes(3),): POWER | KEEPS_CACHE, (b"old",): POWER, (b"",): POWER, (STALE_BYTE * 3,): NOBODY},
    ),
)


def outcomes(litmus: Litmus, model: Model) -> set[Outcome]:
    kernel = machine()
    for call in (*litmus.durable, *litmus.calls):
        assert run(kernel, call), call
    found = set()
    legal = legal_disks(kernel, model, EVERYTHING)
    assert legal.is_complete
    for picked in legal:
        files = picked.disk.kernel().image().files
        found.add(tuple(files.get(file) for file in litmus.files))
    return found


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("litmus", CASES, ids=[litmus.title for litmus in CASES])
def test_a_model_allows_and_forbids_what_is_published(litmus: Litmus, model: Model) -> None:
    found = outcomes(litmus, model)
    for outcome, models in litmus.allowed_by.items():
        assert (outcome in found) is (model in models), [each and each[:16] for each in outcome]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("litmus", CASES, ids=[litmus.title for litmus in CASES])
def test_brute_force_agrees_about_every_outcome(litmus: Litmus, model: Model) -> None:
    history = History()
    for call in (*litmus.durable, *litmus.calls):
        history.call(call)
    every = {tuple(dict(files).get(file) for file in litmus.files) for files, _ in disks(history, model)}
    assert outcomes(litmus, model) == every


def test_the_litmus_tests_tell_all_models_apart_but_those_of_one_power() -> None:
    """A model that no litmus test tells from another would be one too many; A and D are the same until a sync fails."""
    told = {
        model: tuple(model in models for litmus in CASES for models in litmus.allowed_by.values()) for model in MODELS
    }
    same = {frozenset(other.name for other in MODELS if told[other] == told[model]) for model in MODELS}
    assert same == {frozenset({"A", "D"}), *(frozenset({model.name}) for model in MODELS if model not in KEEPS_CACHE)}
