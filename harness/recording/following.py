"""System calls of a program, followed as steps on a kernel in memory: of those that reach the recorded directory.

Whatever changes files and cannot be followed is rejected by `NotFollowedError`, so that no trace is silently wrong.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

from tornproof.harness.recording.open_files import Mapping, OpenFile, Process
from tornproof.harness.recording.replaying import Machine, link_text
from tornproof.harness.recording.steps import NOT_TEXT, STORE, NotFollowedError, Step, StepKind, as_text, insert
from tornproof.harness.recording.system_calls import (
    Begun,
    Descriptor,
    Ended,
    Event,
    Stopped,
    SystemCall,
    descriptor_of,
    texts_of,
)
from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES, in_pages
from tornproof.impl.storage.interface import OpenMode

LINKS_MAX = 40
PARTS_MAX = 16
"""A write is at most so many steps."""
PARTED_BYTES_MAX = 4 << 20
"""The file after each step of one write is remembered, and has together no more bytes than this."""
NO_OFFSET = (1 << 64) - 1
"""Stands for the position of a descriptor, where strace shows plain numbers."""


class Follower:
    """Follows one run; `steps` are the result so far.

    Calls of several processes overlap, and nobody sees in which order they take effect. A step has its place where its
    call returned; but an acknowledgement has it where its call began, and a sync covers nothing that returned after the
    sync had begun, so that no sync counts for more than it guarantees.
    """

    def __init__(self, machine: Machine, root: str, first: Process, not_recorded: Iterable[str] = ()) -> None:
        """Follow changes below `root`, an absolute path without links, of a first process and those that it makes.

        `not_recorded` are the paths below it of devices, FIFOs and sockets.
        """
        self.steps: list[Step] = []
        self.call_count = 0
        self.counts: Counter[str] = Counter()
        self.notes: set[str] = set()
        self.has_overlapping_appends = False
        """Whether files were appended to by calls of which strace does not show which came first."""
        self._machine = machine
        self._root = root
        self._first = first
        self._not_recorded = set(not_recorded)
        self._processes: dict[int, Process] = {}
        self._process_count = 0
        self._early: dict[int, list[tuple[int, SystemCall]]] = {}
        self._running: set[int] = set()
        """The processes whose calls have begun and not returned."""
        self._began: dict[int, int] = {}
        """How many steps there were when the latest call of each process began."""
        self._at_stop: dict[int, list[Callable[[], None]]] = {}
        self._handle_count = 0
        self._mapped: dict[int, str] = {}
        self._now: SystemCall | None = None
        self._last_call: SystemCall | None = None

    def take(self, event: Event) -> None:
        """Follow what has happened."""
        number = event.process
        match event:
            case Begun():
                self._begin_call(number)
                self._running.add(number)
            case SystemCall():
                if number not in self._running:
                    self._begin_call(number)
                self._running.discard(number)
                process = self._process(number)
                if process is None:
                    self._early.setdefault(number, []).append((self._began[number], event))
                else:
                    self._follow(process, event)
            case Stopped():
                self._finish_call(number)
            case Ended():
                self._finish_call(number)
                self._running.discard(number)
                self._began.pop(number, None)
                self._processes.pop(number, None)

    def end(self) -> None:
        """Follow what strace cannot show: stores through mappings that no sync followed."""
        for number in list(self._at_stop):
            self._finish_call(number)
        if self._early:
            raise NotFollowedError(f"calls of {len(self._early)} processes of which nobody knows who made them")
        self._now = SystemCall(0, "exit_group", [], 0, "0")
        self._take_mapped()

    # Processes.

    def _process(self, number: int) -> Process | None:
        """Return a process, None for one whose parent's call has not returned yet."""
        if not self._process_count:
            self._process_count = 1
            self._processes[number] = self._first
        return self._processes.get(number)

    def _follow(self, process: Process, call: SystemCall) -> None:
        handler = _HANDLERS.get(call.name)
        if handler is None or call.has_failed:
            return
        self._now, before = call, len(self.steps)
        try:
            handler(self, process, call)
        except (ValueError, IndexError) as error:
            raise NotFollowedError(f"{call}: {error}") from error
        if len(self.steps) > before:
            self.counts[call.name] += 1

    def _begin_call(self, process: int) -> None:
        # A process that makes two calls has been stopped and has gone on since the first.
        self._finish_call(process)
        self._began[process] = len(self.steps)

    def _finish_call(self, process: int) -> None:
        for finish in self._at_stop.pop(process, ()):
            finish()

    def _forked(self, process: Process, call: SystemCall) -> None:
        child = call.result
        assert child is not None
        self._process_count += 1
        flags = set(re.findall(r"CLONE_\w+", ", ".join(call.arguments)))
        self._processes[child] = process.child(self._process_count, flags)
        for began, early in self._early.pop(child, ()):
            self._finish_call(child)
            self._began[child] = began
            self._follow(self._processes[child], early)

    def _executed(self, process: Process, call: SystemCall) -> None:
        process.execute()

    def _changed_directory(self, process: Process, call: SystemCall) -> None:
        if call.name == "fchdir":
            process.directory.path = call.descriptor(0).path or process.directory.path
        else:
            process.directory.path = self._resolved(process, None, call.text(0), follows=True)

    # Paths.

    def _below(self, path: str) -> str | None:
        """Return a path below the recorded directory relative to it, None for any other path."""
        if path == self._root:
            return "."
        return path.removeprefix(f"{self._root}/") if path.startswith(f"{self._root}/") else None

    def _resolved(self, process: Process, at: Descriptor | None, path: bytes, *, follows: bool = False) -> str:
        """Return an absolute path whose directories are no links; its last name may be one unless that is followed."""
        base = process.directory.path if at is None or at.path is None else at.path
        pending = posixpath.join(base, path.decode(errors="surrogateescape")).rstrip("/").split("/")[1:]
        current, links = "", 0
        while pending:
            name = pending.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                current = posixpath.dirname(current)
                continue
            following = f"{current}/{name}"
            target = self._link(following) if pending or follows else None
            if target is None:
                current = following
                continue
            links += 1
            if links > LINKS_MAX:
                raise ValueError("too many links")
            pending = [*target.split("/"), *pending]
            current = "" if target.startswith("/") else current
        return current or "/"

    def _link(self, path: str) -> str | None:
        inside = self._below(path)
        if inside is not None:
            return self._machine.links(inside)
        outside = Path(path)
        return link_text(outside) if outside.is_symlink() else None

    def _path(
        self, process: Process, call: SystemCall, text: int, at: int | None = None, *, follows: bool = False
    ) -> str | None:
        """Return the path that arguments name, relative to the recorded directory; None for one that is not below."""
        directory = None if at is None else call.descriptor(at)
        return self._below(self._resolved(process, directory, call.text(text), follows=follows))

    # Steps.

    def _add(
        self, process: Process | None, kind: StepKind, *, name: str | None = None, at: int | None = None, **fields: Any
    ) -> None:
        """Make a step, before that of index `at` or after all others."""
        call = self._now
        assert call is not None
        if not self.steps or self._last_call is not call:
            self.call_count += 1
            self._last_call = call
        step = Step(
            kind=kind,
            call=self.call_count,
            name=name or call.name,
            process=1 if process is None else process.number,
            stack=tuple(call.stack),
            **fields,
        )
        if any(as_text(each) != each for each in (step.path, step.target)):
            raise ValueError(NOT_TEXT)
        self._machine.apply(step, len(self.steps))
        at = len(self.steps) if at is None else at
        insert(self.steps, at, step)
        for number, began in self._began.items():
            # The next step of the same call has its place after this one.
            if began > at or (began == at and number == call.process):
                self._began[number] = began + 1

    @property
    def _began_now(self) -> int:
        """How many steps there were when the call that is followed began."""
        assert self._now is not None
        return self._began.get(self._now.process, len(self.steps))

    def _new_handle(self) -> int:
        self._handle_count += 1
        return self._handle_count

    def _open(self, process: Process, path: str, mode: OpenMode = OpenMode.EXISTING) -> int:
        handle = self._new_handle()
        self._add(process, StepKind.OPEN, path=path, handle=handle, mode=mode)
        return handle

    def _opened(self, process: Process, call: SystemCall) -> None:
        """Follow an opening; a file that is only read has no handle."""
        is_at = call.name != "open" and call.name != "creat"
        flags = call.flags(2 if is_at else 1) if call.name != "creat" else {"O_WRONLY", "O_CREAT", "O_TRUNC"}
        flags = {flag.rpartition("flags=")[2].strip("{}") for flag in flags}
        found = _returned(call)
        assert found.number is not None and found.path is not None
        # Of a file that is only read, and of one elsewhere, only the position matters.
        opened = OpenFile()
        process.lead(found.number, opened, is_closed_by_exec="O_CLOEXEC" in flags)
        path = self._below(found.path)
        if path is None or path in self._not_recorded:
            return
        if "O_TMPFILE" in flags:
            raise ValueError("a file without a name (O_TMPFILE)")
        kernel = self._machine.kernel
        number = kernel.find(path)
        writes = bool(flags & {"O_WRONLY", "O_RDWR"})
        is_file = number in kernel.files if number is not None else "O_CREAT" in flags
        if not is_file or not (writes or "O_CREAT" in flags):
            return
        mode = OpenMode.EXISTING
        if "O_CREAT" in flags:
            mode = OpenMode.NEW if "O_EXCL" in flags else OpenMode.EXISTING_OR_NEW
        handle = self._open(process, path, mode)
        if "O_TRUNC" in flags and number is not None:
            self._add(process, StepKind.TRUNCATE, path=path, handle=handle)
        if writes:
            opened.handle, opened.appends, opened.syncs = handle, "O_APPEND" in flags, _syncs_of(flags, "O_")

    def _open_file(self, process: Process, descriptor: Descriptor) -> OpenFile | None:
        """Return what a descriptor leads to, None for a file elsewhere."""
        assert descriptor.number is not None
        known = self._known(process, descriptor)
        path = None if descriptor.path is None else self._below(descriptor.path)
        if known is not None:
            return known if known.handle or known.acknowledges is not None else None
        if path is None or descriptor.is_deleted or self._machine.kernel.find(path) not in self._machine.kernel.files:
            return None
        # It came from elsewhere: by inheritance, or from another process.
        opened = OpenFile(handle=self._open(process, path), position=None)
        process.descriptors[descriptor.number] = opened
        return opened

    def _known(self, process: Process, descriptor: Descriptor) -> OpenFile | None:
        """Return what a descriptor is known to lead to, None if strace shows that it leads elsewhere by now."""
        known = process.descriptors.get(descriptor.number or 0)
        if known is not None and known.handle and descriptor.path and self._below(descriptor.path) is None:
            return None
        return known

    def _closed(self, process: Process, call: SystemCall) -> None:
        number = call.descriptor(0).number
        if number is not None:
            process.lead(number, None)

    def _closed_range(self, process: Process, call: SystemCall) -> None:
        """Follow close_range, which can also unshare descriptors and leave it to exec to close them."""
        flags = call.flags(2)
        if "CLOSE_RANGE_UNSHARE" in flags:
            process.unshare_descriptors()
        for number in [each for each in process.descriptors if call.number(0) <= each <= call.number(1)]:
            if "CLOSE_RANGE_CLOEXEC" in flags:
                process.close_by_exec(number, is_closed=True)
            else:
                process.lead(number, None)

    def _duplicated(self, process: Process, call: SystemCall) -> None:
        old, new = call.descriptor(0), _returned(call)
        assert old.number is not None and new.number is not None
        is_closed_by_exec = any("CLOEXEC" in argument for argument in call.arguments)
        if new.number != old.number:
            process.lead(new.number, self._known(process, old), is_closed_by_exec=is_closed_by_exec)

    def _changed_descriptor(self, process: Process, call: SystemCall) -> None:
        """Follow fcntl."""
        command, descriptor = call.arguments[1], call.descriptor(0)
        if command.startswith("F_DUPFD"):
            self._duplicated(process, call)
        elif command == "F_SETFD":
            process.close_by_exec(descriptor.number or 0, is_closed="FD_CLOEXEC" in call.flags(2))
        elif command == "F_SETFL" and (opened := self._known(process, descriptor)) is not None:
            opened.appends = "O_APPEND" in call.flags(2)

    def _sought(self, process: Process, call: SystemCall) -> None:
        opened = self._known(process, call.descriptor(0))
        if opened is not None:
            opened.position = call.result

    def _read(self, process: Process, call: SystemCall) -> None:
        """Follow a read, of which strace shows plain numbers; at an offset it moves no position."""
        if call.name == "preadv2" and call.number(3) != NO_OFFSET:
            return
        opened = self._known(process, call.descriptor(0))
        if opened is not None and opened.position is not None:
            opened.position += call.result or 0

    def _wrote(self, process: Process, call: SystemCall) -> None:
        """Follow a write of one buffer or several, at the position or at an offset."""
        is_vector = "writev" in call.name
        content = texts_of(call.arguments[1]) if is_vector else b""
        descriptor = call.descriptor(0)
        opened = self._open_file(process, descriptor)
        if opened is None:
            return
        content = content if is_vector else call.text(1)
        count = call.result or 0
        if len(content) < count:
            raise ValueError("what it writes was cut by strace")
        offset = call.number(3) if call.name.startswith("pwrite") else None
        flags = call.flags(4) if call.name == "pwritev2" else set()
        self._write(process, descriptor, opened, content[:count], None if offset == -1 else offset, flags)

    def _write(
        self,
        process: Process,
        descriptor: Descriptor,
        opened: OpenFile,
        content: bytes,
        offset: int | None,
        flags: Set[str] = frozenset(),
    ) -> None:
        if opened.acknowledges is not None:
            for line in opened.lines(content):
                self._add(process, StepKind.ACKNOWLEDGE, at=self._began_now, content=line)
            return
        appends = opened.appends or "RWF_APPEND" in flags
        at = self._size(opened) if appends else opened.position if offset is None else offset
        if at is None:
            raise ValueError("a descriptor whose position is not known, because another program opened it")
        if offset is None:
            opened.position = at + len(content)
        path = self._current(descriptor)
        if appends and any(step.kind is StepKind.WRITE and step.path == path for step in self.steps[self._began_now :]):
            self.has_overlapping_appends = True
        if content:
            self._add_write(process, path, opened, at, content)
        if content and (syncs := opened.syncs or _syncs_of(flags, "RWF_")) is not None:
            self._add(process, syncs, path=path, handle=opened.handle, offset=at, size=len(content))

    def _add_write(self, process: Process, path: str, opened: OpenFile, offset: int, content: bytes) -> None:
        """Make a step for each page of a write, because it can end between any two; fewer of a large one."""
        end = offset + len(content)
        pages = [start for start, _ in in_pages(offset, end)]
        count = min(len(pages), PARTS_MAX, max(1, PARTED_BYTES_MAX // max(end, self._size(opened))))
        if count < len(pages):
            self.notes.add("of some writes of many pages, or to large files, crashes between some pages are not tried")
        starts = [pages[number * len(pages) // count] for number in range(count)]
        for start, stop in pairwise([*starts, end]):
            part = content[start - offset : stop - offset]
            self._add(process, StepKind.WRITE, path=path, handle=opened.handle, offset=start, content=part)

    def _size(self, opened: OpenFile) -> int:
        kernel = self._machine.kernel
        return len(kernel.files[kernel.handles[0, opened.handle].file].content)

    def _current(self, descriptor: Descriptor) -> str:
        return "" if descriptor.path is None else self._below(descriptor.path) or ""

    def _copied(self, process: Process, call: SystemCall) -> None:
        """Follow a copy inside the system, which strace does not show, by the content of its source."""
        source, source_offset, target, target_offset = _COPIES[call.name]
        descriptor, count = call.descriptor(target), call.result or 0
        origin = self._known(process, call.descriptor(source))
        start = call.number(source_offset) if call.arguments[source_offset] != "NULL" else None
        if start is None and origin is not None:
            start, origin.position = origin.position, None if origin.position is None else origin.position + count
        opened = self._open_file(process, descriptor)
        if opened is None or not count:
            return
        if start is None:
            raise ValueError("it copies from a descriptor whose position is not known")
        content = self._content(origin, call.descriptor(source), start, count)
        if len(content) < count:
            raise ValueError("what it copies has grown meanwhile, as when a file is copied into itself")
        is_at = target_offset is not None and call.arguments[target_offset] != "NULL"
        offset = call.number(target_offset) if is_at and target_offset is not None else None
        self._write(process, descriptor, opened, content, offset)

    def _content(self, origin: OpenFile | None, source: Descriptor, start: int, count: int) -> bytes:
        """Return a part of a file; one elsewhere is taken to be as it was when it was copied."""
        kernel = self._machine.kernel
        if origin is not None and origin.handle:
            return kernel.files[kernel.handles[0, origin.handle].file].content[start : start + count]
        if source.path is None or source.is_deleted:
            raise ValueError("it copies from what has no name")
        inside = self._below(source.path)
        if inside is not None:
            return kernel.files[kernel.entry(inside)].content[start : start + count]
        try:
            with Path(source.path).open("rb") as file:
                file.seek(start)
                return file.read(count)
        except OSError as error:
            raise ValueError(f"what it copies cannot be read: {error.strerror}") from error

    def _truncated(self, process: Process, call: SystemCall) -> None:
        if call.name == "truncate":
            path = self._path(process, call, 0, follows=True)
            if path is not None:
                self._add(process, StepKind.TRUNCATE, path=path, size=call.number(1))
            return
        descriptor = call.descriptor(0)
        opened = self._open_file(process, descriptor)
        if opened is not None:
            path = self._current(descriptor)
            self._add(process, StepKind.TRUNCATE, path=path, handle=opened.handle, size=call.number(1))

    def _allocated(self, process: Process, call: SystemCall) -> None:
        """Follow fallocate: what it makes longer is zeros, and what it punches becomes zeros."""
        descriptor = call.descriptor(0)
        opened = self._open_file(process, descriptor)
        if opened is None:
            return
        flags = call.flags(1)
        offset, length, size = call.number(2), call.number(3), self._size(opened)
        if flags & {"FALLOC_FL_COLLAPSE_RANGE", "FALLOC_FL_INSERT_RANGE", "FALLOC_FL_UNSHARE_RANGE"}:
            raise ValueError("a range is taken out of a file, or put into it")
        path, end = self._current(descriptor), offset + length
        if end > size and "FALLOC_FL_KEEP_SIZE" not in flags:
            self._add(process, StepKind.TRUNCATE, path=path, handle=opened.handle, size=end)
            size = end
        if flags & {"FALLOC_FL_PUNCH_HOLE", "FALLOC_FL_ZERO_RANGE"} and offset < size:
            self._add_write(process, path, opened, offset, bytes(min(end, size) - offset))

    def _synced(self, process: Process, call: SystemCall) -> None:
        """Follow a sync, of which stores through mappings are a part: they are read when the process has stopped."""
        descriptor = call.descriptor(0)
        if descriptor.path is None or (path := self._below(descriptor.path)) is None:
            return
        kernel = self._machine.kernel
        if kernel.find(path) in kernel.directories:
            self._sync(process, call, StepKind.SYNC_DIRECTORY, path=path)
            return
        opened = self._known(process, descriptor) or OpenFile()
        if not opened.handle and (descriptor.is_deleted or kernel.find(path) not in kernel.files):
            return
        kind = StepKind.FSYNC if call.name == "fsync" else StepKind.FDATASYNC
        self._sync(process, call, kind, path=path, handle=opened.handle)

    def _synced_all(self, process: Process, call: SystemCall) -> None:
        if call.name == "sync" or self._is_same_file_system(call.descriptor(0).path):
            self._sync(process, call, StepKind.SYNC_ALL)

    def _is_same_file_system(self, path: str | None) -> bool:
        """Return whether a path is on the file system of the recorded directory; one that is gone counts for none."""
        if path is None or self._below(path) is not None:
            return path is not None
        try:
            return Path(path).stat().st_dev == Path(self._root).stat().st_dev
        except OSError:
            return False

    def _synced_mapping(self, process: Process, call: SystemCall) -> None:
        """Follow msync, by the file and the offset that its address stands for."""
        if "MS_SYNC" not in call.flags(2):
            return
        start = call.number(0)
        for each in process.mappings:
            for part in each.part(start, start + _pages(call.number(1))):
                place = {"offset": part.offset_bytes, "size": part.end - part.address}
                self._sync(process, call, StepKind.MSYNC, path=self._mapped[part.handle], handle=part.handle, **place)

    def _sync(self, process: Process, call: SystemCall, kind: StepKind, **fields: Any) -> None:
        def finish() -> None:
            self._now = call
            self._take_mapped()
            # What returned while it ran may have been made after it had looked at the files.
            covers = self._began_now if self._began_now < len(self.steps) else None
            self._add(process, kind, covers=covers, **fields)

        if self._mapped:
            self._at_stop.setdefault(call.process, []).append(finish)
        else:
            finish()

    def _mapped_file(self, process: Process, call: SystemCall) -> None:
        """Note a mapping through which a file can be stored to, which may be in place of another one."""
        address = call.result
        assert address is not None
        end = address + _pages(call.number(1))
        process.unmap(address, end)
        descriptor = call.descriptor(4)
        if descriptor.path is None or not call.flags(3) & {"MAP_SHARED", "MAP_SHARED_VALIDATE"}:
            return
        opened = self._known(process, descriptor)
        path = self._below(descriptor.path)
        if opened is None or not opened.handle or path is None:
            return
        process.mappings.append(Mapping(address, end, opened.handle, call.number(5)))
        self._mapped[opened.handle] = path

    def _unmapped(self, process: Process, call: SystemCall) -> None:
        start = call.number(0)
        process.unmap(start, start + _pages(call.number(1)))

    def _remapped(self, process: Process, call: SystemCall) -> None:
        """Follow mremap, which moves, cuts or extends what is mapped, or maps it a second time."""
        start, address = call.number(0), call.result
        assert address is not None
        old_size, end = _pages(call.number(1)), address + _pages(call.number(2))
        # Without an old size it is mapped a second time.
        moved = [part for each in process.mappings for part in each.part(start, start + (old_size or PAGE_BYTES))]
        if old_size and "MREMAP_DONTUNMAP" not in call.flags(3):
            process.unmap(start, start + old_size)
        process.unmap(address, end)
        process.mappings += [Mapping(address, end, part.handle, part.offset_bytes) for part in moved[:1]]

    def _take_mapped(self) -> None:
        """Add what was stored through mappings since they were read last, a step for each page that differs.

        The program stored it before its sync began, so it has its place there if no write to the page is between.
        """
        kernel = self._machine.kernel
        paths = {number: path for path, number in kernel.paths()}
        for number in sorted({kernel.handles[0, handle].file for handle in self._mapped}):
            path = paths.get(number)
            if path is None:
                continue
            handle = next(each for each in self._mapped if kernel.handles[0, each].file == number)
            self._mapped[handle] = path
            try:
                content = Path(self._root, path).read_bytes()
            except OSError:
                continue
            known = kernel.files[number].content
            for start in range(0, min(len(known), len(content)), PAGE_BYTES):
                page = content[start : start + PAGE_BYTES][: len(known) - start]
                if page != known[start : start + PAGE_BYTES]:
                    place = {"path": path, "handle": handle, "offset": start, "content": page}
                    self._add(None, StepKind.WRITE, name=STORE, at=self._before_sync(number, start), **place)

    def _before_sync(self, file: int, start: int) -> int | None:
        """Return where a page could have been stored to before the call that is followed, None for after all steps."""
        for step in self.steps[self._began_now :]:
            is_there = step.kind in (StepKind.OPEN, StepKind.TRUNCATE, StepKind.WRITE)
            is_other = step.kind is StepKind.WRITE and not (
                step.offset < start + PAGE_BYTES and start < step.offset + len(step.content)
            )
            if is_there and not is_other and self._machine.is_of(step, file):
                return None
        return self._began_now

    # Names.

    def _made_directory(self, process: Process, call: SystemCall) -> None:
        path = self._path(process, call, 1, 0) if call.name == "mkdirat" else self._path(process, call, 0)
        if path is not None:
            self._add(process, StepKind.MKDIR, path=path)

    def _made_node(self, process: Process, call: SystemCall) -> None:
        """Follow mknod, which makes a FIFO, a device or a socket, and can make an empty file."""
        is_at = call.name == "mknodat"
        path = self._path(process, call, 1, 0) if is_at else self._path(process, call, 0)
        if path is None:
            return
        if call.flags(2 if is_at else 1) & _NOT_RECORDED:
            self._not_recorded.add(path)
        else:
            self._open(process, path, OpenMode.NEW)

    def _removed(self, process: Process, call: SystemCall) -> None:
        path = self._path(process, call, 1, 0) if call.name == "unlinkat" else self._path(process, call, 0)
        if path is None:
            return
        self._not_recorded.discard(path)
        if self._machine.kernel.find(path) is None:
            # What is no file and no directory is not followed.
            return
        is_directory = call.name == "rmdir" or (call.name == "unlinkat" and "AT_REMOVEDIR" in call.flags(2))
        self._add(process, StepKind.RMDIR if is_directory else StepKind.UNLINK, path=path)

    def _renamed(self, process: Process, call: SystemCall) -> None:
        if call.name == "rename":
            source, target = self._path(process, call, 0), self._path(process, call, 1)
        else:
            source, target = self._path(process, call, 1, 0), self._path(process, call, 3, 2)
        if call.name == "renameat2" and "RENAME_EXCHANGE" in call.flags(4):
            raise ValueError("two names are exchanged")
        if source is None and target is None:
            return
        kernel = self._machine.kernel
        is_recorded = source not in self._not_recorded
        self._move_not_recorded(source, target)
        if not is_recorded:
            if target is not None and kernel.find(target) in kernel.files:
                self._add(process, StepKind.UNLINK, path=target)
        elif target is None and source is not None and kernel.find(source) in kernel.files:
            self._add(process, StepKind.UNLINK, path=source)
        elif source is None or target is None:
            raise ValueError("it moves something into the recorded directory, or a directory out of it")
        elif kernel.find(source) is not None:
            self._add(process, StepKind.RENAME, path=source, target=target)
            self._move_working_directories(f"{self._root}/{source}", f"{self._root}/{target}")

    def _move_working_directories(self, source: str, target: str) -> None:
        """Rename what processes work in, whose relative paths lead there under any name."""
        for process in self._processes.values():
            path = process.directory.path
            if f"{path}/".startswith(f"{source}/"):
                process.directory.path = target + path.removeprefix(source)

    def _move_not_recorded(self, source: str | None, target: str | None) -> None:
        """Rename what is not recorded at a path and below it; without a target it leaves the recorded directory."""
        moved = {path for path in self._not_recorded if path == source or path.startswith(f"{source}/")}
        self._not_recorded -= {*moved, target}
        if source is not None and target is not None:
            self._not_recorded |= {target + path.removeprefix(source) for path in moved}

    def _linked(self, process: Process, call: SystemCall) -> None:
        if call.name == "link":
            source, target = self._path(process, call, 0), self._path(process, call, 1)
        else:
            source, target = self._path(process, call, 1, 0), self._path(process, call, 3, 2)
            if "AT_EMPTY_PATH" in call.flags(4):
                raise ValueError("a name for an open file without a path (AT_EMPTY_PATH)")
        if target is None:
            return
        if source is None:
            raise ValueError("it links something into the recorded directory")
        if source in self._not_recorded:
            self._not_recorded.add(target)
        else:
            self._add(process, StepKind.LINK, path=source, target=target)

    def _linked_symbolically(self, process: Process, call: SystemCall) -> None:
        path = self._path(process, call, 1) if call.name == "symlink" else self._path(process, call, 2, 1)
        if path is not None:
            target = call.text(0).decode(errors="surrogateescape")
            self._add(process, StepKind.SYMLINK, path=path, target=target)

    def _rejected(self, process: Process, call: SystemCall) -> None:
        raise ValueError("what it does to files cannot be seen")

    def _noted(self, process: Process, call: SystemCall) -> None:
        descriptor = call.descriptor(0)
        if descriptor.path is not None and self._below(descriptor.path) is not None:
            self.notes.add(f"{call.name} guarantees nothing, and is not taken for a sync")

    def _controlled(self, process: Process, call: SystemCall) -> None:
        if call.arguments[1] in ("FIOCLEX", "FIONCLEX"):
            process.close_by_exec(call.descriptor(0).number or 0, is_closed=call.arguments[1] == "FIOCLEX")
        path = call.descriptor(0).path
        if call.arguments[1] in _CLONES and path is not None and self._below(path) is not None:
            raise ValueError("it clones a range of a file")


def _pages(size: int) -> int:
    """Return a size in bytes, up to the end of a page."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def _returned(call: SystemCall) -> Descriptor:
    return descriptor_of(call.returned)


def _syncs_of(flags: Set[str], prefix: str) -> StepKind | None:
    """Return how a write syncs itself by its flags, or those of its file."""
    if f"{prefix}SYNC" in flags:
        return StepKind.FSYNC
    return StepKind.FDATASYNC if f"{prefix}DSYNC" in flags else None


_COPIES: dict[str, tuple[int, int, int, int | None]] = {
    "copy_file_range": (0, 1, 2, 3),
    "splice": (0, 1, 2, 3),
    "sendfile": (1, 2, 0, None),
}
"""The arguments of the calls that copy: the source and its offset, the target and its offset."""
_CLONES = ("FICLONE", "FICLONERANGE", "FIDEDUPERANGE", "BTRFS_IOC_CLONE", "BTRFS_IOC_CLONE_RANGE")
_NOT_RECORDED = {"S_IFIFO", "S_IFCHR", "S_IFBLK", "S_IFSOCK"}
_HANDLERS: dict[str, Callable[[Follower, Process, SystemCall], None]] = {
    name: handler
    for handler, names in {
        Follower._forked: "fork vfork clone clone3",
        Follower._executed: "execve execveat",
        Follower._changed_directory: "chdir fchdir",
        Follower._opened: "open openat openat2 creat",
        Follower._closed: "close",
        Follower._closed_range: "close_range",
        Follower._duplicated: "dup dup2 dup3",
        Follower._changed_descriptor: "fcntl",
        Follower._sought: "lseek",
        Follower._read: "read readv preadv2",
        Follower._wrote: "write writev pwrite64 pwritev pwritev2",
        Follower._copied: " ".join(_COPIES),
        Follower._truncated: "truncate ftruncate",
        Follower._allocated: "fallocate",
        Follower._synced: "fsync fdatasync",
        Follower._synced_all: "sync syncfs",
        Follower._synced_mapping: "msync",
        Follower._mapped_file: "mmap",
        Follower._unmapped: "munmap",
        Follower._remapped: "mremap",
        Follower._made_directory: "mkdir mkdirat",
        Follower._made_node: "mknod mknodat",
        Follower._removed: "unlink unlinkat rmdir",
        Follower._renamed: "rename renameat renameat2",
        Follower._linked: "link linkat",
        Follower._linked_symbolically: "symlink symlinkat",
        Follower._noted: "sync_file_range",
        Follower._controlled: "ioctl",
        Follower._rejected: "io_uring_setup io_submit",
    }.items()
    for name in names.split()
}
FOLLOWED = tuple(_HANDLERS)
"""The system calls that are asked of strace; the first process is known by its own beginning."""
STOPS = ("msync", "fsync", "fdatasync", "sync", "syncfs")
"""After these the process is stopped, because stores are read then. A call that a signal interrupts cannot be here."""
NOT_SHOWN = ("read", "readv", "preadv2")
"""Of these only the number of bytes is asked for."""
