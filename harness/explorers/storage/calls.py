"""Calls on a storage as data: what may be drawn, and a session that makes them and tells what each answers.

A call is a list of a name and its arguments, all of which JSON can hold: bytes are hexadecimal, modes are names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tornproof.harness.common.whose_error import is_of_machine
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import File, LockMode, Mapping, OpenMode, Storage

Call = Sequence[Any]
CALLS_MAX = 40
_MODES: dict[Any, OpenMode | LockMode] = {mode.name: mode for mode in (*OpenMode, *LockMode)}
_OF_PATHS = frozenset(dir(MemoryStorage))
_NOT_WHEN_CLOSED = frozenset(
    {
        *("map", "try_lock", "unlock", "fsync", "fdatasync"),
        *("load_u64", "load_u32", "store_u64", "store_u32", "read", "view", "msync"),
    }
)
NOTHING_OPEN, BUG = "nothing is open", "a bug of the caller"
_PATHS = ("a", "b", "d", "e", "d/a", "d/b", "d/e", "d/e/a", "e/a", "a/b", "missing/a")
_LOOKED_AT = (*_PATHS, ".", "..", "", "d/..", "d/./a", "d//b", "../a", "d/e/../b", "d/")
_OFTEN = ("open_for_writing", "open_for_reading", "pwrite", "map", "mkdir")
_BEGINNING: tuple[Call, ...] = (
    ("mkdir", "d"),
    ("open_for_writing", "a", OpenMode.EXISTING_OR_NEW.name),
    ("pwrite", 0, bytes(range(120)).hex(), 100),
    ("map", 0, 200),
    ("open_for_reading", "a"),
    ("open_for_writing", "a", OpenMode.EXISTING.name),
    ("map", 1, 120),
)
Draw = Callable[[np.random.Generator], Any]


def _one_of(values: Sequence[Any]) -> Draw:
    return lambda chance: values[int(chance.integers(len(values)))]


def _number(end: int, *, begin: int = 0, unit: int = 1) -> Draw:
    return lambda chance: int(chance.integers(begin, end)) * unit


def _content(chance: np.random.Generator) -> str:
    return chance.bytes(int(chance.integers(120))).hex()


_PATH, _LOOK, _INDEX, _OFFSET = _one_of(_PATHS), _one_of(_LOOKED_AT), _number(4), _number(300)
_SIZE, _WORD, _LOCKED = _number(300, begin=1), _number(13, unit=8), (_number(10), _number(6, begin=1))
_LOOKING = ("listdir", "kind", "own_kind", "sync_directory", "open_for_reading")
ARGUMENTS: dict[str, tuple[Draw, ...]] = {
    **dict.fromkeys(("mkdir", "rmdir", "unlink"), (_PATH,)),
    **dict.fromkeys(_LOOKING, (_LOOK,)),
    **dict.fromkeys(("rename", "link"), (_PATH, _PATH)),
    "link_symbolically": (_one_of(("a", "d")), _one_of(("b", "e", "d/b"))),
    # Most often it may be there and need not.
    "open_for_writing": (_PATH, _one_of([*(mode.name for mode in OpenMode), *[OpenMode.EXISTING_OR_NEW.name] * 3])),
    "pwrite": (_INDEX, _content, _OFFSET),
    "pread": (_INDEX, _OFFSET, _OFFSET),
    **dict.fromkeys(("truncate", "map"), (_INDEX, _SIZE)),
    **dict.fromkeys(("size_bytes", "fsync", "fdatasync", "close", "msync", "unmap"), (_INDEX,)),
    "try_lock": (_INDEX, _one_of([mode.name for mode in LockMode]), *_LOCKED),
    "unlock": (_INDEX, *_LOCKED),
    **dict.fromkeys(("load_u64", "load_u32"), (_INDEX, _WORD)),
    **dict.fromkeys(("store_u64", "store_u32"), (_INDEX, _WORD, _number(1 << 32))),
    "read": (_INDEX, _OFFSET, _OFFSET),
    "view": (_INDEX, _OFFSET, _OFFSET, _one_of((False, True))),
}
"""The calls, each of which must be answered without an error at least once, and what is drawn for each argument.

The last one of a view says whether its block ends with an error.
"""


def drawn(chance: np.random.Generator) -> list[Call]:
    """Draw a sequence of calls; many begin with some that leave a file open, without which most others do nothing."""
    begun = _BEGINNING[: int(chance.integers(len(_BEGINNING) + 1))]
    name = _one_of((*ARGUMENTS, *_OFTEN))
    names = [name(chance) for _ in range(CALLS_MAX - len(begun))]
    return [*begun, *([each, *(draw(chance) for draw in ARGUMENTS[each])] for each in names)]


def usable_calls(calls: Any) -> list[Call]:
    """Return calls from a file if they can be made; raises ValueError, also where one would change another folder."""
    for name, *arguments in calls:
        is_call = len(arguments) == len(ARGUMENTS.get(name, ())) > 0
        leads_out = any(".." in each.split("/") for each in arguments if isinstance(each, str))
        if not is_call or (leads_out and name not in _LOOKING):
            raise ValueError(f"{name} of {arguments} is not made")
    return [[*call] for call in calls]


@dataclass(slots=True)
class Session:
    """One storage below a folder, driven by calls; what was opened is found again by its number."""

    storage: Storage
    root: str
    files: list[File] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    closed: list[object] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)

    def answer(self, call: Call) -> str:
        """Make a call and return its answer in words; raises BusError where a real process would be killed.

        Raises as the call does where this machine has no room.
        """
        name, *arguments = call
        try:
            answer = self._make(name, [_MODES.get(each, each) for each in arguments])
            self.answered[name] += answer != NOTHING_OPEN
        except AssertionError:
            answer = BUG
        except Exception as error:
            if is_of_machine(error):
                raise
            answer = error if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
        return f"{answer!s}".replace(f"{self.root}/", "")

    def _make(self, name: str, arguments: list[Any]) -> object:
        if name in _OF_PATHS:
            return self._make_at(name, [f"{self.root}/{each}" if isinstance(each, str) else each for each in arguments])
        number, *rest = arguments
        opened: list[Any] = self.files if hasattr(File, name) and name != "read" else self.mappings
        if not opened:
            return NOTHING_OPEN
        receiver = opened[number % len(opened)]
        if receiver in self.closed and name in _NOT_WHEN_CLOSED:
            return BUG
        match name, rest:
            case (("close" | "unmap"), _):
                self.closed.append(receiver)
            case "map", _:
                self.mappings.append(receiver.map(*rest))
                return "mapped"
            case "pwrite", [content, offset_bytes]:
                return receiver.pwrite(bytes.fromhex(content), offset_bytes)
            case "view", [*of, is_failing]:
                return self._view(receiver, *of, is_failing=is_failing)
            case (("try_lock" | "unlock"), [*modes, offset_bytes, size_bytes]):
                return getattr(receiver, name)(*modes, offset_bytes=offset_bytes, size_bytes=size_bytes)
        return getattr(receiver, name)(*rest)

    def _view(self, mapping: Mapping, *of: int, is_failing: bool) -> bytes:
        seen = b""
        with suppress(_BlockError), mapping.view(*of) as lease:
            seen = bytes(lease)
            if is_failing:
                raise _BlockError
        return seen

    def _make_at(self, name: str, paths: list[Any]) -> object:
        if name == "link_symbolically":
            self._link_symbolically(*paths)
            return None
        answer = getattr(self.storage, name)(*paths)
        if name.startswith("open"):
            self.files.append(answer)
            return "opened"
        return answer

    def _link_symbolically(self, target_path: str, path: str) -> None:
        if isinstance(self.storage, MemoryStorage):
            self.storage.link_symbolically(target_path, path)
        else:
            # No process of ours makes one, so the interface has no call; a name that is taken answers as for a file.
            self.storage.open_for_writing(path, OpenMode.NEW).close()
            Path(path).unlink()
            Path(path).symlink_to(target_path)

    def close(self) -> list[str]:
        """Close and release all that is open; return what that is for each: done, or a bug of the caller."""
        return [_ended(end) for end in (*(file.close for file in self.files), *(each.unmap for each in self.mappings))]


class _BlockError(Exception):
    """What a block raises that uses a view."""


def _ended(end: Callable[[], None]) -> str:
    try:
        end()
    except AssertionError:
        return BUG
    return "done"
