"""Whether FlatBuffers with right checksums are rejected where they say something else, and never end in another error.

Checksums only say that nobody damaged the bytes; whoever writes them may have made any. Every byte is changed alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace

import pyarrow as pa

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.roundtrip.forms import FILE, in_form, opened, parquet_of
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.extension.decode import FlatFooter
from tornproof.impl.extension.footer import checksums
from tornproof.impl.layout.parquet import FINAL_MAGIC, FinalTail, FooterForm

PROPERTY = "FlatBuffers that say something else are rejected"
BYTES: Mapping[str, Callable[[int], int]] = {
    "one more": lambda byte: byte + 1 & 255,
    "one less": lambda byte: byte - 1 & 255,
    "all bits": lambda _: 255,
}


@dataclass(frozen=True, slots=True)
class ForgedFlatBuffers:
    """A byte of the FlatBuffers of a file that has no other footer, and what becomes of it."""

    at: int
    kind: str

    @property
    def name(self) -> str:
        """It in words."""
        return f"FlatBuffers with {self.kind} in byte {self.at}"

    def content(self) -> bytes:
        """Return the file with right checksums."""
        before, content = _file()
        flat = bytearray(content)
        flat[self.at] = BYTES[self.kind](flat[self.at])
        return before + flat + FinalTail(**checksums(flat), magic=FINAL_MAGIC).pack()


@functools.cache
def forged_flatbuffers() -> tuple[ForgedFlatBuffers, ...]:
    """Return each change of each byte, always in the same order."""
    _, flat = _file()
    return tuple(ForgedFlatBuffers(at, kind) for kind in BYTES for at in range(len(flat)))


def problem_of(case: ForgedFlatBuffers) -> str | None:
    """Say whether other bytes are taken for the Thrift footer of which they were made; None if they are rejected."""
    try:
        footer = opened(case.content())
        needed(footer.flat, "there is no other footer")
        with suppress(IndexError):  # there may be no row group, or one without chunks
            footer.chunk(0, 0)
        made = footer.thrift()
    except (CorruptError, UnsupportedError):
        return None
    return None if made == _thrift() else "another Thrift footer is made of them"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that believe any FlatBuffers, and that let errors of theirs through."""
    controls: Controls = (
        (
            "nothing is checked",
            "tornproof.impl.extension.footer:_flat_footer",
            lambda content, _: SimpleNamespace(thrift=lambda: content, chunk=lambda *_: None),
            "another Thrift footer",
        ),
        ("errors come through", "tornproof.impl.extension.decode:BROKEN", (), "Error"),
    )
    return not_noticed(controls, problem_of, forged_flatbuffers())


def _thrift() -> bytes:
    _, flat = _file()
    return FlatFooter(flat, file=FILE).thrift()


@functools.cache
def _file() -> tuple[bytes, bytes]:
    """Return what is before the FlatBuffers of a file, and these."""
    rows = pa.table({"number": [1, 2], "text": ["a", "b"]}).replace_schema_metadata({"key": "value"})
    whole = in_form(parquet_of(rows, row_group_size=1), FooterForm.FINAL, ChunkForm.OLD)
    start = opened(whole).offset_bytes
    return whole[:start], whole[start : -FinalTail.layout.size_bytes]
