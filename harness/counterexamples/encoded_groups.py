"""Row groups as they were encoded when a finding was made: another release of the encoder may give other bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from tornproof.harness.counterexamples.plain_data import packed, unpacked
from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup
from tornproof.impl.parquet.thrift import Struct, decode, encode
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.write.partition_change import RowGroupEncoder

KEY_BYTES = 16
_NUMBERS = ("codec", "encodings", "num_values", "byte_range_start", "total_compressed", "null_count", "distinct_count")


class EncoderMemory:
    """An encoder that remembers its row groups, and may be given some to begin with."""

    def __init__(self, inner: RowGroupEncoder, known: Mapping[str, EncodedRowGroup] | None = None) -> None:
        """Encode with `inner` what is not known."""
        self.inner = inner
        self._known = dict(known or {})
        self.used: dict[str, EncodedRowGroup] = {}

    def __call__(self, stored: pa.Table, *, bounds: Any, **settings: Any) -> EncodedRowGroup:
        """Return the row group, encoded now or before."""
        if settings:
            return self.inner(stored, bounds=bounds, **settings)
        key = _key(stored, bounds)
        if key not in self._known:
            self._known[key] = self.inner(stored, bounds=bounds)
        return self.used.setdefault(key, self._known[key])

    def renewed(self) -> EncoderMemory:
        """Return an encoder that knows the same row groups and has used none of them."""
        return EncoderMemory(self.inner, self._known)

    def document(self) -> dict[str, Any]:
        """Return the row groups that were used, as JSON."""
        return {key: _document_of(self.used[key]) for key in sorted(self.used)}

    @classmethod
    def of_document(cls, document: Mapping[str, Any], inner: RowGroupEncoder) -> EncoderMemory:
        """Read it back; raises KeyError, TypeError, ValueError, zlib.error, CorruptError for an invalid document."""
        return cls(inner, {key: _group_of(each) for key, each in document.items()})


def _key(stored: pa.Table, bounds: Mapping[str, Any]) -> str:
    """Return a digest of the values, which no release of a library changes."""
    columns = [(field.name, str(field.type), stored[index].to_pylist()) for index, field in enumerate(stored.schema)]
    return blake2b(repr((columns, sorted(bounds.items()))).encode(), digest_size=KEY_BYTES).hexdigest()


def _document_of(group: EncodedRowGroup) -> dict[str, Any]:
    return {
        "row_count": group.row_count,
        "content": packed(group.content),
        "row_group": _thrift(group.row_group),
        "columns": [_thrift(column) for column in group.columns],
        "offset_indexes": [_thrift(index) for index in group.offset_indexes],
        "chunks": [
            {name: getattr(chunk, name) for name in _NUMBERS}
            | {"minimum": _bound(chunk.minimum), "maximum": _bound(chunk.maximum)}
            for chunk in group.chunks
        ],
    }


def _group_of(document: Mapping[str, Any]) -> EncodedRowGroup:
    return EncodedRowGroup(
        row_count=int(document["row_count"]),
        content=unpacked(document["content"]),
        row_group=_struct(document["row_group"]),
        columns=tuple(map(_struct, document["columns"])),
        offset_indexes=tuple(map(_struct, document["offset_indexes"])),
        chunks=tuple(
            Chunk(
                **{name: chunk[name] if chunk[name] is None else int(chunk[name]) for name in _NUMBERS},
                minimum=_statistic(chunk["minimum"]),
                maximum=_statistic(chunk["maximum"]),
            )
            for chunk in document["chunks"]
        ),
    )


def _thrift(tree: Struct) -> str:
    return base64.b64encode(encode(tree)).decode()


def _struct(text: str) -> Struct:
    return decode(base64.b64decode(text), file="the finding")[0]


def _bound(statistic: Statistic | None) -> list[Any] | None:
    return None if statistic is None else [statistic.value.hex(), statistic.exact]


def _statistic(document: list[Any] | None) -> Statistic | None:
    return None if document is None else Statistic(value=bytes.fromhex(document[0]), exact=bool(document[1]))
