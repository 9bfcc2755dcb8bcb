"""A Parquet file with its footer or its chunks in another form: the old one, both, or the new one alone.

Where only the footer changes, pages stay where they are. The file is written anew beside its path and renamed, so
that at any time, and after a crash at any time, the path leads to the old file or to the new one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import BusyError, UnsupportedError, UsageError
from tornproof.impl.extension.footer import FileFooter, ReadBytes, footer_tail, read_file_footer
from tornproof.impl.extension.point import HeaderForm
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.migrate.chunk_form import PART_SIZE_BYTES, ChunkChange, PlainFile, chunk_form_of, former_file
from tornproof.impl.migrate.partition_publish import parent_of, publish_parts
from tornproof.impl.storage.interface import EntryKind, ReadableFile, Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE


class FormChange(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: the forms, sizes of the file, and sizes of what follows its last page, in bytes."""

    path: str
    written_to: str
    before: FooterForm
    after: FooterForm
    size_before: int
    size_after: int
    footer_before: int
    footer_after: int
    chunks_before: ChunkForm = ChunkForm.OLD
    chunks_after: ChunkForm = ChunkForm.OLD
    encoded_count: int = 0


def change_footer_form(
    storage: Storage,
    path: str,
    form: FooterForm | None = None,
    *,
    chunks: ChunkForm | None = None,
    out: str | None = None,
    header: HeaderForm = HeaderForm.PLAIN,
) -> FormChange:
    """Write a Parquet file with its footer and its chunks in a form to `out`, by default in its place.

    None leaves them in the form that they have. From and back to the same form, the bytes are the same. Raises
    CorruptError, UnsupportedError for an extension that is not ours, UsageError where the result would replace the
    data.parquet of a partition and for chunks that are gone, BusyError, StorageError.
    """
    target = path if out is None else out
    _demand_replaceable(storage, target)
    with storage.open_for_reading(path) as file:
        size_bytes = file.size_bytes()
        read = _unchanged(file, path, size_bytes)
        seen: dict[tuple[int, int], bytes] = {}

        def noting(wanted_bytes: int, offset_bytes: int) -> bytes:
            return seen.setdefault((wanted_bytes, offset_bytes), read(wanted_bytes, offset_bytes))

        before = read_file_footer(noting, size_bytes, file=path)
        form = form or before.form
        plain = PlainFile.of(read, _thrift_of(before), offset_bytes=before.offset_bytes, file=path)
        chunks_before = chunk_form_of(plain)
        if chunks is None or chunks is chunks_before:
            change, chunks = ChunkChange(old=plain, form=ChunkForm.OLD), chunks_before
        else:
            change = ChunkChange(old=former_file(plain), form=chunks)
        tails: list[bytes] = []

        def parts() -> Iterator[bytes]:
            yield from change.parts()
            tails.append(footer_tail(change.thrift, form, file=path, header=header))
            _check(tails[0], change, form, path)
            yield tails[0]

        def check_unchanged() -> None:
            # Another file may have come there meanwhile, or other data into this one.
            with storage.open_for_reading(path) as again:
                if again.size_bytes() != size_bytes or any(again.pread(*at) != part for at, part in seen.items()):
                    raise _changed(path)

        publish_parts(storage, target, _in_large_parts(parts()), check_unchanged, like=path)
    return FormChange(
        path=path,
        written_to=target,
        before=before.form,
        after=form,
        size_before=size_bytes,
        size_after=change.end_bytes + len(tails[0]),
        footer_before=size_bytes - before.offset_bytes,
        footer_after=len(tails[0]),
        chunks_before=chunks_before,
        chunks_after=chunks,
        encoded_count=change.chunk_count,
    )


def _demand_replaceable(storage: Storage, target: str) -> None:
    if not target:
        raise UsageError("out: expected the path of a file, found an empty one")
    if _is_of_partition(storage, target):
        raise UsageError(
            f"{target}: it is the data of a partition, whose size {PM_FILE} or {TXN_FILE} records; write a copy "
            "elsewhere with --out, or have the writer of the table do it, after which no server goes on with it "
            "(WriterOptions, encoding.footer_extension)"
        )


def _is_of_partition(storage: Storage, path: str) -> bool:
    """Whether a file is a partition's data: also without `_pm`, as older releases write it, or behind a link."""
    directory = parent_of(path)
    beside = (f"{directory}/{PM_FILE}", f"{directory}/../{TXN_FILE}", f"{parent_of(directory)}/{TXN_FILE}")
    return path.rpartition("/")[2] == DATA_FILE and any(storage.kind(each) is not EntryKind.MISSING for each in beside)


def _thrift_of(footer: FileFooter) -> bytes:
    if footer.doubt is not None and footer.form is FooterForm.THRIFT:
        raise UnsupportedError(
            footer.file, "extension", footer.offset_bytes, "none, or one with a footer", f"one of which {footer.doubt}"
        )
    return footer.thrift()


def _check(tail: bytes, change: ChunkChange, form: FooterForm, file: str) -> None:
    """Read the new footer as any reader would, so that nothing is lost that could not be made again."""

    def read(size_bytes: int, offset_bytes: int) -> bytes:
        start = offset_bytes - change.end_bytes
        return tail[max(start, 0) : start + size_bytes]

    after = read_file_footer(read, change.end_bytes + len(tail), file=file)
    assert (after.form, after.doubt) == (form, None), after
    made = after.flat.thrift() if after.flat else after.thrift()
    assert made == change.thrift, "the Thrift footer is made again byte for byte"


def _in_large_parts(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in parts that take few calls to write."""
    held = bytearray()
    for part in parts:
        held += part
        if len(held) >= PART_SIZE_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _unchanged(file: ReadableFile, path: str, size_bytes: int) -> ReadBytes:
    def read(wanted_bytes: int, offset_bytes: int) -> bytes:
        part = file.pread(wanted_bytes, offset_bytes)
        if file.size_bytes() != size_bytes:
            raise _changed(path)
        return part

    return read


def _changed(path: str) -> BusyError:
    return BusyError(f"{path}: the file changed while it was read; nothing was written")
