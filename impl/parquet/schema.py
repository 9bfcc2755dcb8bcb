"""The schema: a list of elements in depth-first order, turned into leaves with their levels.

Source: parquet.thrift of Apache Parquet format, SchemaElement; levels as in "Nested Encoding" of the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tornproof.impl.parquet.fields import LOGICAL_TYPE, SCHEMA_ELEMENT, ConvertedType, Repetition
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import BrokenError, Struct
from tornproof.impl.types.physical import PhysicalType

# Paths are tuples, so this also bounds what a hostile schema of many deep leaves can cost.
SCHEMA_DEPTH_MAX = 64
BIT_WIDTHS: dict[PhysicalType | None, tuple[int, ...]] = {PhysicalType.INT32: (8, 16, 32), PhysicalType.INT64: (64,)}
"""Of annotated integers."""
DIGITS_MAX: dict[PhysicalType | None, int] = {PhysicalType.INT32: 9, PhysicalType.INT64: 18}
"""Of decimals in integers."""


class SchemaElement(msgspec.Struct, frozen=True, kw_only=True):
    """One element of the footer; a group has no physical type, the root no repetition.

    `logical_type` stays a tree, because newer releases define more of them: read it with the table LOGICAL_TYPE.
    """

    name: str
    offset_bytes: int
    physical_type: PhysicalType | None
    type_length: int | None
    repetition: Repetition | None
    child_count: int
    converted_type: int | None
    scale: int | None
    precision: int | None
    field_id: int | None
    logical_type: Struct | None


class SchemaLeaf(msgspec.Struct, frozen=True, kw_only=True):
    """One column: a primitive element, its path from the root's child down, and its levels.

    `top` is the root's child that contains the leaf; in flat schemas it is the leaf's own element.
    """

    element: SchemaElement
    top: SchemaElement
    path: tuple[str, ...]
    physical_type: PhysicalType
    repetition: Repetition
    max_rep: int
    max_def: int

    @property
    def dotted_path(self) -> str:
        """The path as readers print it; names may contain dots, so compare `path`."""
        return ".".join(self.path)


class _Group(msgspec.Struct):
    path: tuple[str, ...]
    children_left: int
    max_rep: int
    max_def: int
    top: SchemaElement | None


def read_leaves(elements: Sequence[dict[str, Any]]) -> tuple[SchemaLeaf, ...]:
    """Return the leaves of a decoded schema; raises BrokenError if the elements are not one tree."""
    leaves: list[SchemaLeaf] = []
    groups: list[_Group] = []
    for index, values in enumerate(elements):
        try:
            element = _element(values)
            if index == 0:
                groups.append(_root(element))
            else:
                _descend(groups, element, leaves)
        except BrokenError as error:
            error.steps.append(f"[{index}]")
            raise
        while groups and groups[-1].children_left == 0:
            groups.pop()
    if groups or not elements:
        missing = sum(group.children_left for group in groups) or "a root"
        offset_bytes = elements[-1]["offset_bytes"] if elements else None
        raise BrokenError("an element for each child of a group", f"{len(elements)} without {missing}", offset_bytes)
    return tuple(leaves)


def read_element(struct: Struct) -> SchemaElement:
    """Return a decoded element; raises BrokenError."""
    return _element(read(struct, SCHEMA_ELEMENT))


def check_annotation(element: SchemaElement) -> None:
    """Raise BrokenError for an annotation with numbers that no type has.

    Source: [LogicalTypes.md](https://github.com/apache/parquet-format/blob/master/LogicalTypes.md).
    """
    logical = {} if element.logical_type is None else read(element.logical_type, LOGICAL_TYPE)
    if "INTEGER" in logical:
        expected, found = BIT_WIDTHS.get(element.physical_type, ()), logical["INTEGER"]["bit_width"]
        if found not in expected:
            raise BrokenError(f"one of {expected} bits", found, element.offset_bytes, step="logical_type")
    decimals = [logical.get("DECIMAL")]
    if element.converted_type == ConvertedType.DECIMAL:
        decimals.append({"precision": element.precision or 0, "scale": element.scale or 0})
    for decimal in filter(None, decimals):
        precision, scale = decimal["precision"], decimal["scale"]
        if not (1 <= precision <= DIGITS_MAX.get(element.physical_type, precision) and 0 <= scale <= precision):
            raise BrokenError(
                "digits that fit", f"DECIMAL({precision}, {scale})", element.offset_bytes, step="precision"
            )


def _element(values: dict[str, Any]) -> SchemaElement:
    physical_type = values.get("type")
    repetition = values.get("repetition_type")
    return SchemaElement(
        name=values["name"],
        offset_bytes=values["offset_bytes"],
        physical_type=None if physical_type is None else PhysicalType(physical_type),
        type_length=values.get("type_length"),
        repetition=None if repetition is None else Repetition(repetition),
        child_count=values.get("num_children", 0),
        converted_type=values.get("converted_type"),
        scale=values.get("scale"),
        precision=values.get("precision"),
        field_id=values.get("field_id"),
        logical_type=values.get("logical_type"),
    )


def _root(element: SchemaElement) -> _Group:
    if element.child_count == 0:
        raise BrokenError("a root with children", "none", element.offset_bytes)
    return _Group((), element.child_count, 0, 0, None)


def _descend(groups: list[_Group], element: SchemaElement, leaves: list[SchemaLeaf]) -> None:
    if not groups:
        raise BrokenError("the end of the schema, whose groups are full", "one more element", element.offset_bytes)
    if len(groups) > SCHEMA_DEPTH_MAX:
        raise BrokenError(f"at most {SCHEMA_DEPTH_MAX} levels", "more", element.offset_bytes, is_supported=False)
    if element.repetition is None:
        raise BrokenError("a repetition_type", "none", element.offset_bytes)
    parent = groups[-1]
    parent.children_left -= 1
    group = _Group(
        path=(*parent.path, element.name),
        children_left=element.child_count,
        max_rep=parent.max_rep + (element.repetition is Repetition.REPEATED),
        max_def=parent.max_def + (element.repetition is not Repetition.REQUIRED),
        top=parent.top or element,
    )
    if element.child_count:
        groups.append(group)
    elif element.physical_type is None:
        raise BrokenError("a type or children", "neither", element.offset_bytes)
    else:
        leaves.append(_leaf(element, group, element.physical_type, element.repetition))


def _leaf(element: SchemaElement, group: _Group, physical_type: PhysicalType, repetition: Repetition) -> SchemaLeaf:
    return SchemaLeaf(
        element=element,
        top=group.top or element,
        path=group.path,
        physical_type=physical_type,
        repetition=repetition,
        max_rep=group.max_rep,
        max_def=group.max_def,
    )
