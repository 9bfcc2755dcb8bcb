"""Bytes and plain data as JSON: a file can neither name code nor unpack to more than a limit."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

UNPACKED_LIMIT_BYTES = 64 << 20


def packed(content: bytes) -> str:
    """Return bytes as text."""
    return base64.b64encode(zlib.compress(content)).decode()


def unpacked(text: str, limit_bytes: int = UNPACKED_LIMIT_BYTES) -> bytes:
    """Return the bytes; raises ValueError, TypeError and zlib.error for other text, or for too many bytes."""
    inflater = zlib.decompressobj()
    content = inflater.decompress(base64.b64decode(text), limit_bytes)
    if inflater.unconsumed_tail:
        raise ValueError(f"more than {limit_bytes} bytes")
    return content


def document_of(operation: Any) -> Any:
    """Return plain data as JSON; raises TypeError for anything else."""
    kind = type(operation)
    if kind in (type(None), bool, int, float, str):
        return operation
    if kind is bytes:
        return {"bytes": operation.hex()}
    if kind in (list, tuple):
        return {kind.__name__: [document_of(each) for each in operation]}
    if kind is dict:
        return {"dict": [[document_of(key), document_of(value)] for key, value in operation.items()]}
    raise TypeError(f"{kind.__name__} is no plain data")


def operation_of(document: Any, operations: Sequence[Any] | None) -> Any:
    """Return what `document_of` was given; an index stands for an operation of the list."""
    if not isinstance(document, dict):
        return document
    ((kind, content),) = document.items()
    match kind:
        case "index" if operations is not None:
            return operations[content]
        case "bytes":
            return bytes.fromhex(content)
        case "list":
            return [operation_of(each, operations) for each in content]
        case "tuple":
            return tuple(operation_of(each, operations) for each in content)
        case "dict":
            return {operation_of(key, operations): operation_of(value, operations) for key, value in content}
    raise ValueError(f"no operation is written as {kind!r}")
