"""Whether a flipped bit of a file's two footers, Thrift and FlatBuffers, is noticed, and harms no more than one.

Each has a checksum of the other one (docs/extensions.md): a Thrift footer that is not the one of which FlatBuffers were
made is rejected, and FlatBuffers that are damaged are in doubt.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Flip
from tornproof.harness.explorers.roundtrip.forms import FILE, in_form, opened, parquet_of
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.extension.footer import FileFooter
from tornproof.impl.layout.parquet import ExtensionTail, FooterForm, ParquetTail

PROPERTY = "a footer that was changed is not taken for the one that was written"
THRIFT, FLATBUFFERS, FINAL = "a Thrift footer", "the FlatBuffers in its extension", "a footer of FlatBuffers alone"
HEADER = "the header of the extension"
STOP_BYTES = 1
"""At the end of a struct."""
BIT_STEP = 5
"""One bit of so many is flipped: one or two of each byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedFooter:
    """A bit of a footer in a file whose footer is of a form."""

    form: FooterForm
    bit: int
    kind: str

    @property
    def name(self) -> str:
        """It in words."""
        return f"bit {self.bit} of a file with a {self.form} footer, in {self.kind}"


@functools.cache
def flipped_footers() -> tuple[FlippedFooter, ...]:
    """Return bits of each footer of each form, always in the same order."""
    return tuple(
        FlippedFooter(form=form, bit=bit, kind=kind)
        for form in (FooterForm.PRIVATE, FooterForm.MIGRATION, FooterForm.FINAL)
        for kind, (start, end) in _footers(form)
        for bit in range(start * BITS_IN_BYTE, end * BITS_IN_BYTE, 1 if kind == HEADER else BIT_STEP)
    )


def problem_of(case: FlippedFooter) -> str | None:
    """Say whether the damage is not noticed, or harms the Thrift footer beside it; None if neither does."""
    try:
        footer = opened(Flip(FILE, case.bit).apply(_file(case.form)))
    except (CorruptError, UnsupportedError):
        return "the file is rejected" if case.kind == FLATBUFFERS else None
    if case.kind not in (FLATBUFFERS, HEADER) or (footer.doubt is None and footer.flat is None):
        return "the damage is not noticed"
    if footer.flat is not None or footer.doubt is None:
        return "the FlatBuffers are believed"
    return None if footer.thrift() == _thrift() else "its Thrift footer is another one"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that reject no file for damage, or each, or believe what is damaged."""
    doubted = next(
        opened(Flip(FILE, case.bit).apply(_file(case.form))) for case in flipped_footers() if case.kind == FLATBUFFERS
    )
    believed, other = opened(_file(FooterForm.PRIVATE)), structs.replace(doubted, thrift_bytes=b"")
    plain, read = _file(FooterForm.THRIFT), original_of(f"{__name__}:opened")

    def other_than_plain(content: bytes) -> FileFooter:
        return read(content) if content == plain else other

    controls: Controls = (
        ("no damage is rejected", f"{__name__}:opened", lambda _: doubted, "the damage is not noticed"),
        ("any damage is rejected", f"{__name__}:opened", _reject, "the file is rejected"),
        ("damage is believed", f"{__name__}:opened", lambda _: believed, "the FlatBuffers are believed"),
        ("another footer is read", f"{__name__}:opened", other_than_plain, "its Thrift footer is another one"),
    )
    return not_noticed(controls, problem_of, flipped_footers())


def _reject(_: bytes) -> NoReturn:
    raise CorruptError(FILE, "footer", 0, "another one", "this one")


def _footers(form: FooterForm) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each footer of a file, and where it is without what is around it."""
    content = _file(form)
    start = opened(content).offset_bytes
    if form is FooterForm.FINAL:
        yield FINAL, (start, len(content))
        return
    header = start + len(_thrift()) - STOP_BYTES
    end = len(content) - ParquetTail.layout.size_bytes - STOP_BYTES
    tail_start = end - ExtensionTail.layout.size_bytes
    flat = tail_start - ExtensionTail.unpack(content, tail_start, file=FILE).flatbuffer_size
    yield from ((THRIFT, (start, header)), (HEADER, (header, flat)), (FLATBUFFERS, (flat, end)))


def _thrift() -> bytes:
    return opened(_file(FooterForm.THRIFT)).thrift()


@functools.cache
def _file(form: FooterForm) -> bytes:
    content = parquet_of(pa.table({"number": [1, 2], "text": ["a", "b"]}), row_group_size=1)
    return content if form is FooterForm.THRIFT else in_form(content, form, ChunkForm.OLD)
