"""A format that is not ours: records in a log, and a manifest that says how much of it is valid; and its mistakes."""

import struct
import zlib

from tornproof.testing import EntryKind, OpenMode, Storage

HEAD = struct.Struct("<IIQ")
CHECKSUM_BYTES = 4


class Log:
    """Appends to `log`, syncs it, and replaces `manifest`, which has a checksum of both."""

    rejections = (ValueError,)
    syncs_directory = syncs_manifest = syncs_log = appends_first = believes_manifest = compares = True

    def __init__(self, name: str = "log", **without: bool) -> None:
        self.name = name
        self.__dict__.update(without)

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        storage.open_for_writing(f"{path}/log", OpenMode.NEW).close()
        self.publish(storage, path, 0, b"")

    def publish(self, storage: Storage, path: str, count: int, log: bytes) -> None:
        head = HEAD.pack(count, zlib.crc32(log), len(log))
        with storage.open_for_writing(f"{path}/new", OpenMode.NEW) as file:
            file.pwrite(head + zlib.crc32(head).to_bytes(CHECKSUM_BYTES, "little"), 0)
            if self.syncs_manifest:
                file.fdatasync()
        storage.rename(f"{path}/new", f"{path}/manifest")
        if self.syncs_directory:
            storage.sync_directory(path)

    def manifest(self, storage: Storage, path: str) -> tuple[int, int, int]:
        with storage.open_for_reading(f"{path}/manifest") as file:
            content = file.pread(HEAD.size + CHECKSUM_BYTES, 0)
        head = content[: HEAD.size]
        if len(content) < HEAD.size + CHECKSUM_BYTES or zlib.crc32(head).to_bytes(4, "little") != content[HEAD.size :]:
            raise ValueError("the manifest is damaged")
        count, checksum, size = HEAD.unpack(head)
        return count, checksum, size

    def read(self, storage: Storage, path: str) -> bytes:
        _, checksum, size = self.manifest(storage, path)
        with storage.open_for_reading(f"{path}/log") as file:
            log = file.pread(size if self.believes_manifest else file.size_bytes(), 0)
        if self.compares and (len(log) < size or (self.believes_manifest and zlib.crc32(log) != checksum)):
            raise ValueError("the log is damaged")
        return log

    def recover(self, storage: Storage, path: str) -> None:
        if storage.kind(f"{path}/new") is EntryKind.FILE:
            storage.unlink(f"{path}/new")
        storage.sync_directory(path)
        self.read(storage, path)

    def commit(self, storage: Storage, path: str, record: bytes) -> None:
        count, log = self.manifest(storage, path)[0], self.read(storage, path)
        if not self.appends_first:
            self.publish(storage, path, count + 1, log + record)
        with storage.open_for_writing(f"{path}/log") as file:
            file.pwrite(record, len(log))
            if self.syncs_log:
                file.fdatasync()
        if self.appends_first:
            self.publish(storage, path, count + 1, log + record)

    def fields(self, file: str, content: bytes) -> list[tuple[int, int, str]]:
        names = [(0, 4, "record count"), (4, 4, "checksum of the log"), (8, 8, "size of the log"), (16, 4, "checksum")]
        return names if file == "manifest" else []


MISTAKES = {
    "no directory sync": Log("no directory sync", syncs_directory=False),
    "no sync of the manifest": Log("no sync of the manifest", syncs_manifest=False),
    "no sync of the log": Log("no sync of the log", syncs_log=False),
    "manifest before data": Log("manifest before data", appends_first=False),
    "trusts the file's size": Log("trusts the file's size", believes_manifest=False),
    "compares nothing": Log("compares nothing", compares=False),
}
