"""The JSON documents of extensions: whatever stands in field 32767 of any struct of a Parquet footer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tornproof.cli.inspection.report import Document
from tornproof.impl.parquet.fields import FILE_META_DATA
from tornproof.impl.parquet.thrift import Field, Items, Kind, Padded, Step, Struct, Value

# A Thrift encoder writes field 32767 as a zigzag number; written plainly, its bytes decode as another id.
EXTENSION_FORMS = {32767: "zigzag", -16384: "plain"}


def extension_documents(tree: Struct) -> Iterator[Document]:
    """Yield a document for every field with the extension's id; `form` says how the id is written."""
    pending: list[tuple[Value, tuple[Step, ...]]] = [(tree, ())]
    while pending:
        value, steps = pending.pop()
        if isinstance(value, Struct):
            for field in value.fields:
                if field.id in EXTENSION_FORMS and field.kind == Kind.BINARY:
                    yield _extension_document(field, steps)
            pending += [(field.value, (*steps, field.id)) for field in reversed(value.fields) if _holds(field.value)]
        elif isinstance(value, Items):
            pending += [
                (element, (*steps, f"[{index}]"))
                for index, element in reversed(list(enumerate(value.elements)))
                if _holds(element)
            ]


def _holds(value: Value) -> bool:
    return isinstance(value, Struct | Items)


def _extension_document(field: Field, steps: tuple[Step, ...]) -> Document:
    content: Any = field.value.value if isinstance(field.value, Padded) else field.value
    return {
        "struct": FILE_META_DATA.path_text(steps) if steps else "FileMetaData",
        "form": EXTENSION_FORMS[field.id],
        "offset_bytes": field.offset_bytes,
        "length_bytes": len(content),
        "uuid": content[-16:].hex() if len(content) >= 16 else None,
    }
