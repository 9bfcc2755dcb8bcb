"""What calls on an open file or a mapping do to a kernel."""

from __future__ import annotations

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.intercept import OFFSET_BYTES_END, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import (
    Answer,
    BusFault,
    CallRejectedError,
    Effect,
    Kernel,
    Lease,
    Lock,
    Mapped,
)
from tornproof.impl.storage.interface import LockMode, StorageReason

# A write at a corrupt offset must fail as on a full disk, and not use up the memory of this process.
CAPACITY_BYTES = 1 << 30


def _file(kernel: Kernel, session: int, call: Call) -> int:
    file = kernel.file_of(session, call)
    if file is None:
        raise CallRejectedError(StorageReason.NOT_OPEN)
    return file


def _writable(kernel: Kernel, session: int, call: Call, end_bytes: int) -> int:
    handle = kernel.handles.get((session, call.file))
    if handle is None or not handle.is_writable:
        raise CallRejectedError(StorageReason.NOT_OPEN)
    if end_bytes > CAPACITY_BYTES:
        raise CallRejectedError(StorageReason.NO_SPACE)
    return handle.file


def _pread(kernel: Kernel, session: int, call: Call) -> Answer:
    content = kernel.files[_file(kernel, session, call)].content
    return content[call.offset_bytes : call.offset_bytes + call.size_bytes]


def _size(kernel: Kernel, session: int, call: Call) -> Answer:
    return len(kernel.files[_file(kernel, session, call)].content)


def _pwrite(kernel: Kernel, session: int, call: Call) -> Answer:
    if not call.content:
        # Nothing is written at any offset, and a file that ends before it does not become longer.
        return None
    end_bytes = call.offset_bytes + len(call.content)
    file = _writable(kernel, session, call, end_bytes)
    _change(kernel, file, call, kernel.files[file].written(call.content, call.offset_bytes))
    return None


def _truncate(kernel: Kernel, session: int, call: Call) -> Answer:
    file = _writable(kernel, session, call, call.size_bytes)
    _change(kernel, file, call, kernel.files[file].resized(call.size_bytes))
    return None


def _change(kernel: Kernel, file: int, call: Call, state: FileState) -> None:
    """Replace the content of a file; a lease is broken if its bytes differ, as only then a reader can tell."""
    before, after = kernel.files[file].content, state.content
    for lease in kernel.leases:
        if lease.file == file and before[lease.start : lease.stop] != after[lease.start : lease.stop]:
            broken = f"{call.kind} {call.path}, of which bytes {lease.start} to {lease.stop} are leased"
            kernel.broken_leases = (*kernel.broken_leases, broken)
    kernel.files[file] = state


def _map(kernel: Kernel, session: int, call: Call) -> Answer:
    file = _file(kernel, session, call)
    if call.size_bytes > len(kernel.files[file].content):
        raise CallRejectedError(StorageReason.TOO_SHORT)
    kernel.mappings[session, call.mapping] = Mapped(file, call.size_bytes)
    return None


def _sync(kernel: Kernel, session: int, call: Call) -> Answer:
    file = _file(kernel, session, call)
    kernel.files[file] = kernel.files[file].synced()
    kernel.sync_names_of(file, is_data_only=call.kind is CallKind.FDATASYNC)
    return None


def _msync(kernel: Kernel, session: int, call: Call) -> Answer:
    if call.mapping:
        file, size_bytes = kernel.mappings[session, call.mapping]
        kernel.files[file] = kernel.files[file].synced_until(size_bytes)
    else:
        # A part of a mapping, which a recorded program names by its place in the file.
        file = _file(kernel, session, call)
        end_bytes = call.offset_bytes + call.size_bytes
        kernel.files[file] = kernel.files[file].synced_between(call.offset_bytes, end_bytes)
    # Linux syncs a mapping as fdatasync does a file.
    kernel.sync_names_of(file, is_data_only=True)
    return None


def _lock(kernel: Kernel, session: int, call: Call) -> Answer:
    handle = kernel.handles.get((session, call.file))
    if handle is None or (call.lock is LockMode.EXCLUSIVE and not handle.is_writable):
        raise CallRejectedError(StorageReason.NOT_OPEN)
    start, stop = call.offset_bytes, call.offset_bytes + call.size_bytes
    for lock in kernel.locks.get(handle.file, ()):
        is_own = (lock.session, lock.handle) == (session, call.file)
        if not is_own and lock.start < stop and start < lock.stop and LockMode.EXCLUSIVE in (lock.mode, call.lock):
            return False
    _free(kernel, handle.file, session, call.file, start, stop)
    kernel.locks[handle.file] = (*kernel.locks[handle.file], Lock(session, call.file, call.lock, start, stop))
    return True


def _unlock(kernel: Kernel, session: int, call: Call) -> Answer:
    file = _file(kernel, session, call)
    _free(kernel, file, session, call.file, call.offset_bytes, call.offset_bytes + call.size_bytes)
    return None


def _close(kernel: Kernel, session: int, call: Call) -> Answer:
    handle = kernel.handles.pop((session, call.file), None)
    if handle is not None and kernel.locks.get(handle.file):
        _free(kernel, handle.file, session, call.file, 0, OFFSET_BYTES_END)
    return None


def _free(kernel: Kernel, file: int, session: int, handle: int, start: int, stop: int) -> None:
    """Unlock a range of an open file; its locks stay on both sides of the range."""
    kept: list[Lock] = []
    for lock in kernel.locks.get(file, ()):
        if (lock.session, lock.handle) != (session, handle):
            kept.append(lock)
            continue
        for left, right in ((lock.start, min(lock.stop, start)), (max(lock.start, stop), lock.stop)):
            if left < right:
                kept.append(lock._replace(start=left, stop=right))
    kernel.locks[file] = tuple(kept)


def _read_mapped(kernel: Kernel, session: int, call: Call) -> Answer:
    content = kernel.files[kernel.mappings[session, call.mapping].file].content
    end_bytes = call.offset_bytes + call.size_bytes
    if end_bytes > len(content):
        return BusFault(end_bytes - 1)
    return content[call.offset_bytes : end_bytes]


def _load(kernel: Kernel, session: int, call: Call) -> Answer:
    word = _read_mapped(kernel, session, call)
    return int.from_bytes(word, "little") if isinstance(word, bytes) else word


def _store(kernel: Kernel, session: int, call: Call) -> Answer:
    file = kernel.mappings[session, call.mapping].file
    end_bytes = call.offset_bytes + call.size_bytes
    state = kernel.files[file]
    if end_bytes > len(state.content):
        return BusFault(end_bytes - 1)
    _change(kernel, file, call, state.written(call.content, call.offset_bytes))
    return None


def _view(kernel: Kernel, session: int, call: Call) -> Answer:
    content = _read_mapped(kernel, session, call)
    if isinstance(content, bytes):
        file = kernel.mappings[session, call.mapping].file
        lease = Lease(session, call.mapping, file, call.offset_bytes, call.offset_bytes + call.size_bytes)
        kernel.leases = (*kernel.leases, lease)
    return content


def _end_view(kernel: Kernel, session: int, call: Call) -> Answer:
    file = kernel.mappings[session, call.mapping].file
    lease = Lease(session, call.mapping, file, call.offset_bytes, call.offset_bytes + call.size_bytes)
    leases = list(kernel.leases)
    leases.remove(lease)
    kernel.leases = tuple(leases)
    return None


def _unmap(kernel: Kernel, session: int, call: Call) -> Answer:
    kernel.mappings.pop((session, call.mapping), None)
    return None


def _nothing(kernel: Kernel, session: int, call: Call) -> Answer:
    return None


def _sleep(kernel: Kernel, session: int, call: Call) -> Answer:
    """Say that only time has passed; a world with several processes knows better."""
    return False


EFFECTS: dict[CallKind, Effect] = {
    CallKind.LOAD_FENCE: _nothing,
    CallKind.STORE_FENCE: _nothing,
    CallKind.CLOCK: _nothing,
    CallKind.SLEEP: _sleep,
    CallKind.PREAD: _pread,
    CallKind.SIZE: _size,
    CallKind.PWRITE: _pwrite,
    CallKind.TRUNCATE: _truncate,
    CallKind.MAP: _map,
    CallKind.FSYNC: _sync,
    CallKind.FDATASYNC: _sync,
    CallKind.LOCK: _lock,
    CallKind.UNLOCK: _unlock,
    CallKind.CLOSE: _close,
    CallKind.LOAD: _load,
    CallKind.STORE: _store,
    CallKind.READ_MAPPED: _read_mapped,
    CallKind.VIEW: _view,
    CallKind.MSYNC: _msync,
    CallKind.UNMAP: _unmap,
    CallKind.END_VIEW: _end_view,
}
