"""Operations of a story as JSON, without a way for a file to name code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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
    """Return what `document_of` was given, or the operation of the list that an index means."""
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
