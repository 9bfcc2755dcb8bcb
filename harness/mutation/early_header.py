"""A reader that looks at the headers of all `_pm` before it looks at `_txn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tornproof.impl.errors import StorageError
from tornproof.impl.layout import pm as layout
from tornproof.impl.storage.interface import File, ReadableFile, ReadableStorage
from tornproof.impl.table.partition import PM_FILE

HEAD_BYTES = layout.Header.layout.field("parquet_meta_file_size").end_bytes


def early_headers(table: Callable[..., Any]) -> Callable[..., Any]:
    """Open a table whose headers are read at once, and used when the files are read for the first time."""

    def opened(*, storage: ReadableStorage, path: str, metadata: Any) -> Any:
        return table(storage=_EarlyHeaders(storage, path), path=path, metadata=metadata)

    return opened


class _EarlyHeaders:
    def __init__(self, storage: ReadableStorage, path: str) -> None:
        self._storage = storage
        self._heads: dict[str, bytes] = {}
        for name in storage.listdir(path):
            pm_path = f"{path}/{name}/{PM_FILE}"
            try:
                with storage.open_for_reading(pm_path) as file:
                    self._heads[pm_path] = file.pread(HEAD_BYTES, 0)
            except StorageError:
                continue

    def open_for_reading(self, path: str) -> ReadableFile:
        file = self._storage.open_for_reading(path)
        head = self._heads.pop(path, None)
        return file if head is None else _EarlyHead(file, head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


class _EarlyHead:
    def __init__(self, file: ReadableFile | File, head: bytes) -> None:
        self._file = file
        self._head = head

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        content = self._file.pread(size_bytes, offset_bytes)
        return self._head if (size_bytes, offset_bytes) == (HEAD_BYTES, 0) else content

    def __enter__(self) -> _EarlyHead:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
