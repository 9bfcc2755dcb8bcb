"""Lines of strace, read as system calls.

Strings and paths are hexadecimal (`strace -xx`), so that no character of theirs can be taken for one of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

_CALL = re.compile(r"(\w+)\((.*)\)\s+= (.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>,? ?(.*)", re.DOTALL)
_FRAME = re.compile(r" > (.*?)\((.*?)\) \[(0x[0-9a-f]+)\]")
_PART = re.compile(r'"[^"]*"|[\[{(]|[\]})]|, |[^"\[{(\]}),]+|,')
_DESCRIPTOR = re.compile(r"(-?\d+|AT_FDCWD)(?:<([^>]*)>(\(deleted\))?)?")
_TEXT = re.compile(r'"([^"]*)"(\.\.\.)?')
_BASES = re.compile(r'iov_base=("[^"]*"(?:\.\.\.)?)')
SHOWN_MAX = 200
UNFINISHED = "<unfinished ...>"
STOP_RECEIVED, STOPPED = "--- SIGSTOP {", "--- stopped by SIGSTOP ---"
"""The thread that receives it stops, and all the others of its process with it."""


class Descriptor(NamedTuple):
    """A file descriptor, and the path that the kernel knew its file by."""

    number: int | None
    path: str | None
    is_deleted: bool


@dataclass(slots=True)
class SystemCall:
    """A system call that has returned; `result` is None where it does not return."""

    process: int
    name: str
    arguments: list[str]
    result: int | None
    returned: str
    stack: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Write it as strace does, with paths and strings as text."""
        shown = re.sub(r"(?:\\x[0-9a-f]{2})+", lambda found: repr(_text(found[0]))[1:-1], ", ".join(self.arguments))
        return f"{self.name}({shown[:SHOWN_MAX]})"

    @property
    def has_failed(self) -> bool:
        """Whether it changed nothing."""
        return self.result is None or self.result < 0

    def descriptor(self, index: int) -> Descriptor:
        """Return an argument that is a file descriptor."""
        return descriptor_of(self.arguments[index])

    def text(self, index: int) -> bytes:
        """Return an argument that is a string; raises ValueError where it was cut."""
        return text_of(self.arguments[index])

    def number(self, index: int) -> int:
        """Return an argument that is a number, or one that is passed by its address."""
        return int(self.arguments[index].lstrip("[").partition("]")[0], 0)

    def flags(self, index: int) -> set[str]:
        """Return an argument that is flags."""
        return set(re.split(r"[|, ]", self.arguments[index]))


class Begun(NamedTuple):
    """A process has begun a call, and others go on before it returns."""

    process: int


class Ended(NamedTuple):
    """A process or thread has ended."""

    process: int


class Stopped(NamedTuple):
    """A process has been stopped after a call, so that its files can be read before it goes on."""

    process: int


Event: TypeAlias = SystemCall | Begun | Ended | Stopped


def text_of(argument: str) -> bytes:
    """Return the bytes of a string; raises ValueError where it was cut."""
    found = _TEXT.fullmatch(argument)
    if found is None or found[2]:
        raise ValueError(f"a string that was cut or is none: {argument[:40]}")
    return bytes.fromhex(found[1].replace("\\x", ""))


def _text(escaped: str) -> str:
    return bytes.fromhex(escaped.replace("\\x", "")).decode(errors="surrogateescape")


def texts_of(argument: str) -> bytes:
    """Return the bytes of all buffers of a vector."""
    return b"".join(text_of(base) for base in _BASES.findall(argument))


def descriptor_of(argument: str) -> Descriptor:
    """Return a descriptor; one of a call that is not decoded is a plain number, without a path."""
    if argument.startswith("0x"):
        return Descriptor(int(argument, 16), None, False)
    found = _DESCRIPTOR.match(argument)
    if found is None:
        raise ValueError(f"no descriptor: {argument[:40]}")
    path = None if found[2] is None else _text(found[2])
    return Descriptor(None if found[1] == "AT_FDCWD" else int(found[1]), path, bool(found[3]))


class Lines:
    """Puts together what strace writes in several lines: interrupted calls, and stacks."""

    def __init__(self) -> None:
        """Start with nothing begun."""
        self._begun: dict[int, tuple[str, str]] = {}
        self._last: SystemCall | None = None
        self._receivers: set[int] = set()

    def events(self, line: str) -> Iterator[Event]:
        """Yield what a line completes; a call is yielded with the next line, because its stack follows it."""
        if line.startswith(" > "):
            self._add_frame(line)
            return
        if self._last is not None:
            yield self._last
            self._last = None
        number, _, rest = line.rstrip("\n").partition(" ")
        rest = rest.lstrip()
        if not number.isdigit():
            return
        process = int(number)
        if rest.startswith("---"):
            if rest.startswith(STOP_RECEIVED):
                self._receivers.add(process)
            elif rest == STOPPED and process in self._receivers:
                # Once for a process: it would be let go again while it is stopped for its next call.
                self._receivers.remove(process)
                yield Stopped(process)
        elif rest.startswith("+++"):
            yield Ended(process)
        else:
            if rest.endswith(UNFINISHED):
                yield Begun(process)
            self._last = self._call(process, rest)

    def rest(self) -> Iterator[SystemCall]:
        """Yield the last call."""
        if self._last is not None:
            yield self._last

    def _call(self, process: int, rest: str) -> SystemCall | None:
        if rest.endswith(UNFINISHED):
            name, _, start = rest.removesuffix(UNFINISHED).partition("(")
            self._begun[process] = name, start.rstrip(", ")
            return None
        if (resumed := _RESUMED.fullmatch(rest)) is not None:
            name, start = self._begun.pop(process, (resumed[1], ""))
            glue = ", " if start and not resumed[2].startswith((")", " =>")) else ""
            rest = f"{name}({start}{glue}{resumed[2]}"
        found = _CALL.fullmatch(rest)
        if found is None:
            return None
        returned = found[3].strip()
        number = re.match(r"-?(?:0x[0-9a-f]+|\d+)", returned)
        return SystemCall(process, found[1], split_arguments(found[2]), int(number[0], 0) if number else None, returned)

    def _add_frame(self, line: str) -> None:
        found = _FRAME.match(line)
        if self._last is not None and found is not None:
            self._last.stack.append(f"{found[1]}: {found[2]} [{found[3]}]")


def split_arguments(text: str) -> list[str]:
    """Return the arguments of a call as texts."""
    arguments, depth = [""], 0
    for part in _PART.findall(text):
        depth += (part in "[{(") - (part in "]})")
        if part == ", " and not depth:
            arguments.append("")
        else:
            arguments[-1] += part
    return arguments
