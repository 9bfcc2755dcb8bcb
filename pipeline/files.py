"""Files on local disks, HDFS and S3 by one interface: all that jobs read and write besides tables.

It is `pyarrow.fs`, on the driver and in tasks alike, so that executors need no Hadoop jars and Spark's own readers see
none of these files; HDFS is spoken by `hdfs-native`, which needs no Java. A file appears as a whole or not at all, even
if several processes write the same one.
"""

from __future__ import annotations

import functools
import heapq
import importlib.util
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from tornproof.impl.errors import EMPTY_PATH, FileMissingError, StorageError, UsageError
from tornproof.impl.storage.operating_system_file import LEADS_NOWHERE
from tornproof.pipeline.whole_file import partial_name, whole_file

S3_SCHEMES = ("s3", "s3a", "s3n")
HDFS_SCHEMES = ("hdfs", "viewfs")
LOCAL_SCHEME = "file"
SCHEMES = (LOCAL_SCHEME, *HDFS_SCHEMES, *S3_SCHEMES)
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
CREDENTIALS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or take a profile or a role that may do this"
HDFS_PACKAGE = "hdfs_native"
NO_HDFS = "HDFS needs the package hdfs-native: `pip install 'tornproof[spark]'`"
NO_NAME_NODE = "no NameNode is known: name its port, as in hdfs://HOST:8020/PATH, or set HADOOP_CONF_DIR"
CONNECT_SECONDS = 5
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)/*(.*)", re.DOTALL)
_AWS = re.compile(r"AWS Error (\w+)(?: \[[^]]*\])? during \w+ operation: (.*)", re.DOTALL)
_REQUEST = re.compile(r"[;,]? *\(?Request ?ID.*| No response body\.?.*", re.DOTALL)
_DENIED = re.compile(r"ACCESS_DENIED|CREDENTIAL|ACCESS_KEY|SIGNATURE|TOKEN|AUTH|HTTP response code: 40[13]|Forbidden")
_RPC = re.compile(r'RPCError\("[\w.]*?(\w+)", "(.*?)(?:\\n|"\)$)', re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A file or directory, by a path or by an address such as `s3://bucket/name`.

    `endpoint` and `region` are the driver's, so that executors find the same store. Credentials are those of the
    process that opens it, by the usual variables, files and roles, and are never sent.
    """

    address: str
    endpoint: str = ""
    region: str = ""

    def __truediv__(self, below: str) -> Self:
        """Return a location below this one."""
        return type(self)(f"{self.address.rstrip('/')}/{below}", self.endpoint, self.region)

    def __str__(self) -> str:
        """Return the address, or the path as it was given."""
        return self.address

    @property
    def is_local(self) -> bool:
        """Whether it is a path of a mounted file system."""
        return self.scheme == LOCAL_SCHEME

    @property
    def is_object_store(self) -> bool:
        """Whether it has no directories, and a file is there when its upload is complete."""
        return self.scheme in S3_SCHEMES

    @property
    def scheme(self) -> str:
        """The scheme of the address, that of local files for a path."""
        found = _ADDRESS.match(self.address)
        return found[1].lower() if found else LOCAL_SCHEME

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.address.rstrip("/").rpartition("/")[2]

    @property
    def path(self) -> str:
        """The path within its file system: for S3 the bucket and the key."""
        found = _ADDRESS.match(self.address)
        if found is None:
            return self.address
        return f"{found[2]}/{found[3]}".rstrip("/") if self.is_object_store else f"/{found[3]}"

    @property
    def local(self) -> Path:
        """The path of a local one."""
        assert self.is_local
        return Path(self.path)

    @property
    def _handed(self) -> str | bytes:
        """The path as it is handed to pyarrow: names on this machine need not be UTF-8."""
        return os.fsencode(self.path) if self.is_local else self.path

    def absolute(self) -> Self:
        """Return the same for a process with another working directory."""
        return type(self)(str(self.local.absolute())) if self.is_local else self

    def real(self) -> Self:
        """Return the same for comparisons: by the path that no link is in, whatever links and `..` led to it."""
        return type(self)(os.path.realpath(self.path)) if self.is_local else self

    def is_below(self, other: Location) -> bool:
        """Return whether it is the other one, or in it."""
        return f"{self.absolute().address}/".startswith(f"{other.absolute().address.rstrip('/')}/")

    def relative_to(self, other: Location) -> str:
        """Return the path from the other one, which it is below."""
        return self.absolute().address.removeprefix(other.absolute().address.rstrip("/")).lstrip("/")

    def size_bytes(self) -> int | None:
        """Return the size of a file, None if there is none, and -1 for a directory; raises StorageError."""
        from pyarrow.fs import FileType

        with self._in_words("look at"):
            info = self._filesystem().get_file_info(self._handed)
        if info.type == FileType.NotFound:
            return None
        return info.size if info.type == FileType.File else -1

    def is_file(self) -> bool:
        """Return whether it is a file; raises StorageError."""
        size_bytes = self.size_bytes()
        return size_bytes is not None and size_bytes >= 0

    def exists(self) -> bool:
        """Return whether there is a file or directory; raises StorageError."""
        return self.size_bytes() is not None

    def files_below(self) -> list[tuple[Location, int]]:
        """Return all files below a directory by name, with their sizes; raises StorageError, FileMissingError.

        Links are followed, but no directory is entered twice; a file may have several names (`each_once`). At an
        address, a directory that is not there has none: an object store has no empty ones.
        """
        from pyarrow.fs import FileSelector, FileType

        if self.is_local:
            with self._in_words("list"):
                return sorted((self / below, size_bytes) for below, size_bytes in _names_below(self.path))
        try:
            with self._in_words("list"):
                found = self._filesystem().get_file_info(FileSelector(self.path, recursive=True))
        except FileMissingError:
            return []
        start = len(self.path.rstrip("/")) + 1
        return sorted((self / info.path[start:], info.size) for info in found if info.type == FileType.File)

    def open_for_reading(self, *, mapped: bool = False) -> Any:
        """Return the file as pyarrow reads it, mapped into memory if it is local; raises StorageError."""
        import pyarrow as pa

        with self._in_words("read"):
            if mapped and self.is_local:
                return pa.memory_map(self._handed)
            return self._filesystem().open_input_file(self._handed)

    def read_bytes(self) -> bytes:
        """Return the content of a file; raises StorageError, FileMissingError."""
        with self._in_words("read"), self._filesystem().open_input_file(self._handed) as file:
            return bytes(file.read())

    def move_to(self, other: Location) -> None:
        """Rename a file within its file system; raises StorageError, FileMissingError."""
        with self._in_words("move"):
            self._filesystem().move(self._handed, other._handed)

    def delete_file(self) -> None:
        """Remove a file, if it is there; raises StorageError."""
        if self.exists():
            # Another process may have removed or renamed it since.
            with suppress(FileMissingError), self._in_words("remove"):
                self._filesystem().delete_file(self._handed)

    def delete_directory(self) -> None:
        """Remove a directory, if it is there, with all that is in it; raises StorageError."""
        if self.is_object_store:
            # Removed as a directory, it would leave an empty object in place of the one above it.
            for file, _ in self.files_below():
                file.delete_file()
        elif self.exists():
            with self._in_words("remove"):
                self._filesystem().delete_dir(self._handed)

    @contextmanager
    def whole_file(self) -> Iterator[BinaryIO]:
        """Yield a temporary file that becomes this one when the block ends, with the directories above it.

        After an error nothing has changed. A local file is durable then; raises StorageError.
        """
        if self.is_local:
            with self._in_words("write"):
                self.local.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(self.local) as file:
                    yield file
            return
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            with self._in_words("write"):
                self._put(file)

    def write_bytes(self, content: bytes) -> None:
        """Write a whole file; raises StorageError."""
        with self.whole_file() as file:
            file.write(content)

    def _put(self, content: BinaryIO) -> None:
        filesystem = self._filesystem()
        if self.is_object_store:
            with filesystem.open_output_stream(self.path, compression=None) as stream:
                shutil.copyfileobj(content, stream)
            return
        above, _, name = self.path.rpartition("/")
        partial = f"{above}/{partial_name(name)}"
        filesystem.create_dir(above, recursive=True)
        with filesystem.open_output_stream(partial, compression=None) as stream:
            shutil.copyfileobj(content, stream)
        filesystem.handler.fs.mv(partial, self.path, overwrite=True)

    def _filesystem(self) -> Any:
        found = _ADDRESS.match(self.address)
        return _opened(self.scheme, found[2] if found else "", self.endpoint, self.region)

    @contextmanager
    def _in_words(self, operation: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise FileMissingError(file=self.address, operation=operation, reason="it is not there") from error
        except (OSError, RuntimeError) as error:
            # Of HDFS, what is no OSError is a RuntimeError.
            if isinstance(error, RuntimeError) and self.scheme not in HDFS_SCHEMES:
                raise
            raise StorageError(file=self.address, operation=operation, reason=self._reason(error)) from error

    def _reason(self, error: OSError | RuntimeError) -> str:
        """Return why a file system rejects a call, in one sentence."""
        text = str(error)
        if found := _AWS.search(text):
            if found[1] == "NO_SUCH_BUCKET":
                return f"there is no bucket {self.path.partition('/')[0]!r}"
            if found[1] == "NETWORK_CONNECTION":
                return f"nothing answers at {self.endpoint or 'the address of S3'}"
            if _DENIED.search(f"{found[1]} {found[2]}"):
                return f"S3 denies access: {CREDENTIALS}"
            return " ".join(_REQUEST.sub("", found[2]).split()) or found[1].lower().replace("_", " ")
        if found := _RPC.match(text):
            said = found[2].replace(r"\"", '"')
            return f"HDFS denies access: {said}" if found[1] == "AccessControlException" else said
        if isinstance(error, RuntimeError) and "InvalidArgument" in text:
            return NO_NAME_NODE
        return getattr(error, "strerror", None) or text.partition("\n")[0]


def is_hidden(name: str) -> bool:
    """Return whether a name is that of something unfinished, as in every dataset."""
    return name.startswith((".", "_"))


def is_utf8(text: str) -> bool:
    """Return whether a text can be written in UTF-8, as names on this machine, and texts of JSON, need not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def each_once(files: Iterable[Location]) -> Iterator[Location]:
    """Yield each file by the first of its names: links, and paths such as `a/../a`, lead to the same one."""
    known = set()
    for file in files:
        real = file.real()
        if real not in known:
            known.add(real)
            yield file


def _names_below(top: str) -> Iterator[tuple[str, int]]:
    """Yield the files below a directory of this machine with their sizes.

    Of several names of a directory one that is neither hidden nor a link is entered, and else one that is not hidden.
    """
    entered: set[tuple[int, int]] = set()
    pending, start = [(False, False, top)], len(top.rstrip("/")) + 1
    while pending:
        hides, links, directory = heapq.heappop(pending)
        try:
            status = Path(directory).stat()
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            with os.scandir(directory) as opened:
                entries = list(opened)
        except OSError as error:
            # One below that was removed meanwhile holds nothing; the one that was named has to be there.
            if directory != top and error.errno in LEADS_NOWHERE:
                continue
            raise
        for entry in entries:
            try:
                status = entry.stat()
            except OSError as error:
                if error.errno in LEADS_NOWHERE:
                    continue
                raise
            if stat.S_ISDIR(status.st_mode):
                heapq.heappush(pending, (hides or is_hidden(entry.name), links or entry.is_symlink(), entry.path))
            elif stat.S_ISREG(status.st_mode):
                yield entry.path[start:], status.st_size


def local_path(location: Location | None) -> Path | None:
    """Return the path of a location of this machine, None for another one, and for none."""
    return None if location is None or not location.is_local else location.local


def location_of(given: str | Path | Location) -> Location:
    """Return the location at a path or an address; raises UsageError if it is empty, or an address of another kind."""
    if isinstance(given, Location):
        return given
    text = str(given)
    if not text:
        raise UsageError(EMPTY_PATH)
    found = _ADDRESS.match(text)
    if found is None:
        return Location(text)
    scheme = found[1].lower()
    if scheme not in SCHEMES:
        raise UsageError(f"{text}: no address of a file; valid are paths, hdfs://HOST/PATH and s3://BUCKET/NAME")
    if scheme == LOCAL_SCHEME:
        if found[2] not in ("", "localhost") or found.end(2) == found.start(3):
            # What stands in place of the host would be left out, and the rest taken for a path from the root.
            raise UsageError(f"{text}: names no file of this machine; an address of one is file:///PATH")
        return Location(f"/{found[3]}")
    if not is_utf8(text):
        raise UsageError(f"{text}: an address is text in UTF-8")
    if scheme in HDFS_SCHEMES:
        return Location(text)
    if not found[2]:
        raise UsageError(f"{text}: names no bucket; an address is s3://BUCKET/NAME")
    return Location(text, *(_first_of(names) for names in (ENDPOINT_VARIABLES, REGION_VARIABLES)))


def sizes_of(locations: Sequence[Location]) -> list[int | None]:
    """Return the sizes of files of one file system, asked at once, None for one that is not there."""
    from pyarrow.fs import FileType

    if not locations:
        return []
    with locations[0]._in_words("look at"):
        found = locations[0]._filesystem().get_file_info([location._handed for location in locations])
    return [None if info.type == FileType.NotFound else info.size for info in found]


def _first_of(variables: tuple[str, ...]) -> str:
    return next(filter(None, map(os.environ.get, variables)), "")


@functools.cache
def _opened(scheme: str, host: str, endpoint: str, region: str) -> Any:
    """Return the file system of pyarrow, one in each process: each has connections of its own."""
    from pyarrow import fs

    if scheme == LOCAL_SCHEME:
        return fs.LocalFileSystem()
    if scheme in HDFS_SCHEMES:
        return fs.PyFileSystem(fs.FSSpecHandler(_opened_hdfs(scheme, host)))
    chosen = {"endpoint_override": endpoint or None, "region": region or None}
    return fs.S3FileSystem(**{key: value for key, value in chosen.items() if value})


def _opened_hdfs(scheme: str, host: str) -> Any:
    """Return an HDFS: at the address of a NameNode, or by the name that Hadoop's configuration has for it."""
    if importlib.util.find_spec(HDFS_PACKAGE) is None:
        raise OSError(NO_HDFS)
    from hdfs_native.fsspec import HdfsFileSystem, ViewfsFileSystem

    name, _, port = host.partition(":")
    if port:
        # The client itself tries for three minutes.
        try:
            socket.create_connection((name, int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:
            raise OSError(f"nothing answers at {host}") from error
    kind = ViewfsFileSystem if scheme == "viewfs" else HdfsFileSystem
    return kind(name or None, int(port) if port else None)
