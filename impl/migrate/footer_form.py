"""A Parquet file with its footer in another form: Thrift alone, with FlatBuffers beside it, or FlatBuffers alone.

Pages stay where they are, so only the end of the file differs. The file is written anew beside its path and renamed, so
that at any time, and after a crash at any time, the path leads to the old file or to the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tornproof.impl.errors import BusyError, UnsupportedError, UsageError
from tornproof.impl.extension.footer import FileFooter, footer_tail, read_file_footer
from tornproof.impl.extension.point import HeaderForm
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.migrate.partition_publish import parent_of, publish_parts
from tornproof.impl.storage.interface import EntryKind, ReadableFile, Storage
from tornproof.impl.table.partition import PM_FILE

PART_SIZE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FormChange:
    """What was done: the forms, sizes of the file, and sizes of what follows its last page, in bytes."""

    path: str
    written_to: str
    before: FooterForm
    after: FooterForm
    size_before: int
    size_after: int
    footer_before: int
    footer_after: int


def change_footer_form(
    storage: Storage, path: str, form: FooterForm, *, out: str | None = None, header: HeaderForm = HeaderForm.PLAIN
) -> FormChange:
    """Write a Parquet file with its footer in a form to `out`, by default in its place.

    From and back to the same form, the bytes are the same. Raises CorruptError, UnsupportedError for an extension that
    is not ours, UsageError for the data.parquet of a partition in its place, BusyError, StorageError.
    """
    if out is None and _is_of_partition(storage, path):
        raise UsageError(
            f"{path}: it is pinned by its {PM_FILE}; write a copy with --out, or have the writer of the table do it "
            "(WriterOptions, encoding.footer_extension)"
        )
    with storage.open_for_reading(path) as file:
        size_bytes = file.size_bytes()
        before = read_file_footer(file.pread, size_bytes, file=path)
        thrift = _thrift_of(before)
        tail = footer_tail(thrift, form, file=path, header=header)
        _check(tail, thrift, before, form)
        publish_parts(storage, out or path, _parts(file, path, before.offset_bytes, tail, size_bytes))
    return FormChange(
        path=path,
        written_to=out or path,
        before=before.form,
        after=form,
        size_before=size_bytes,
        size_after=before.offset_bytes + len(tail),
        footer_before=size_bytes - before.offset_bytes,
        footer_after=len(tail),
    )


def _is_of_partition(storage: Storage, path: str) -> bool:
    directory = parent_of(path)
    beside = f"{directory}/{PM_FILE}"
    return path.rpartition("/")[2] == DATA_FILE and storage.kind(beside) is not EntryKind.MISSING


def _thrift_of(footer: FileFooter) -> bytes:
    if footer.doubt is not None and footer.form is FooterForm.THRIFT:
        raise UnsupportedError(
            footer.file, "extension", footer.offset_bytes, "none, or one with a footer", f"one of which {footer.doubt}"
        )
    return footer.thrift()


def _check(tail: bytes, thrift: bytes, before: FileFooter, form: FooterForm) -> None:
    """Read the new footer as any reader would, so that nothing is lost that could not be made again."""

    def read(size_bytes: int, offset_bytes: int) -> bytes:
        start = offset_bytes - before.offset_bytes
        return tail[max(start, 0) : start + size_bytes]

    after = read_file_footer(read, before.offset_bytes + len(tail), file=before.file)
    assert (after.form, after.doubt) == (form, None), after
    made = after.flat.thrift() if after.flat else after.thrift()
    assert made == thrift, "the Thrift footer is made again byte for byte"


def _parts(file: ReadableFile, path: str, end_bytes: int, tail: bytes, size_bytes: int) -> Iterator[bytes]:
    for start in range(0, end_bytes, PART_SIZE_BYTES):
        wanted = min(PART_SIZE_BYTES, end_bytes - start)
        part = file.pread(wanted, start)
        if len(part) < wanted or file.size_bytes() != size_bytes:
            raise BusyError(f"{path}: the file changed while it was read; nothing was written")
        yield part
    yield tail
