"""The schema as the converter accepts it: one tree of elements, turned into leaves (docs/migration.md)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tornproof.impl.migrate.annotations import (
    GROUP_CONVERTED_TYPES,
    GROUP_LOGICAL_TYPES,
    Annotation,
    check_converted,
    check_logical,
    converted_name,
    converted_of,
    logical_of,
    physical_of,
)
from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.migrate.shapes import SchemaElement
from tornproof.impl.parquet.fields import Repetition
from tornproof.impl.types.physical import PhysicalType


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """One column: what `_pm` needs of the leaf, and of `top`, the root's child that contains it.

    `list_dimensions` is the number of repeated groups below a `top` that is a list of single children, else 0.
    """

    top: SchemaElement
    physical_type: PhysicalType
    fixed_byte_len: int
    repetition: Repetition
    converted: Annotation | None
    logical: Annotation | None
    max_rep: int
    max_def: int
    list_dimensions: int


class _Group(msgspec.Struct):
    element: SchemaElement
    index: int
    children_left: int
    max_rep: int
    max_def: int
    top: _Top | None


class _Top(msgspec.Struct):
    """A child of the root, with what the array rule needs to know of its groups."""

    element: SchemaElement
    is_chain: bool
    dimensions: int = 0


def read_leaves(elements: Sequence[SchemaElement]) -> list[Leaf]:
    """Return the leaves in schema order; raises RejectionError."""
    return _Walk(elements).leaves


class _Walk:
    """One pass over the elements, which are in depth-first order."""

    def __init__(self, elements: Sequence[SchemaElement]) -> None:
        self.leaves: list[Leaf] = []
        self.groups: list[_Group] = []
        self.root_count = 0
        for index, element in enumerate(elements):
            try:
                self.take(index, element)
                while self.groups and self.groups[-1].children_left <= 0:
                    self.close(self.groups.pop())
            except RejectionError as rejection:
                raise rejection.at(f"[{index}]", "schema") from None
        if self.groups:
            missing = sum(group.children_left for group in self.groups)
            raise RejectionError(
                Cause.SCHEMA, "an element for each child of a group", f"{missing} too few", step="schema"
            )
        if self.root_count != 1:
            raise RejectionError(Cause.SCHEMA, "exactly one root", self.root_count, step="schema")

    def take(self, index: int, element: SchemaElement) -> None:
        """Open a group, or add a leaf."""
        parent = self.groups[-1] if self.groups else None
        if parent is None:
            self.root_count += 1
            group = _Group(element, index, element.num_children or 0, 0, 0, None)
        else:
            parent.children_left -= 1
            repetition = element.repetition_type
            group = _Group(
                element=element,
                index=index,
                children_left=element.num_children or 0,
                max_rep=parent.max_rep + (repetition == Repetition.REPEATED),
                max_def=parent.max_def + (repetition in (Repetition.REPEATED, Repetition.OPTIONAL)),
                top=parent.top,
            )
            if group.top is None:
                group.top = _Top(element, is_chain=_is_list(element))
            elif element.num_children and repetition == Repetition.REPEATED:
                group.top.dimensions += 1
        if not element.num_children:
            self.add_leaf(group)
            return
        if group.top is not None and element.num_children != 1:
            group.top.is_chain = False
        self.groups.append(group)

    def close(self, group: _Group) -> None:
        """Check a group after its children, as the converter does."""
        element = group.element
        if group.index == 0:
            return
        if element.repetition_type is None:
            raise RejectionError(Cause.SCHEMA, "a repetition_type", "none")
        _repetition(element.repetition_type)
        if element.converted_type is not None and converted_name(element) not in GROUP_CONVERTED_TYPES:
            raise RejectionError(Cause.SCHEMA, "a converted type of groups", element.converted_type)
        if element.logical_type is not None and element.logical_type.name not in GROUP_LOGICAL_TYPES:
            raise RejectionError(Cause.SCHEMA, "a logical type of groups", element.logical_type.name)

    def add_leaf(self, group: _Group) -> None:
        element, top = group.element, group.top
        if element.repetition_type is None:
            raise RejectionError(Cause.SCHEMA, "a repetition_type", "none")
        repetition = _repetition(element.repetition_type)
        if element.type is None:
            raise RejectionError(Cause.SCHEMA, "a type or children", "neither")
        converted, logical = converted_of(element), logical_of(element.logical_type)
        physical_type, fixed_byte_len = physical_of(element.type, element.type_length)
        check_converted(converted, physical_type, fixed_byte_len)
        check_logical(logical, physical_type, fixed_byte_len)
        if top is None:
            raise RejectionError(Cause.SCHEMA, "a root with children", "a leaf")
        self.leaves.append(
            Leaf(
                top=top.element,
                physical_type=physical_type,
                fixed_byte_len=fixed_byte_len,
                repetition=repetition,
                converted=converted,
                logical=logical,
                max_rep=group.max_rep,
                max_def=group.max_def,
                list_dimensions=_dimensions(group, top),
            )
        )


def _dimensions(leaf: _Group, top: _Top) -> int:
    """Return the dimensions of an array, 0 for what is none.

    By levels alone, two that can be null are the outermost list and the elements: others would be read as these.
    """
    # In a chain of single children the leaf is the last element.
    if not top.is_chain or leaf.element is top.element:
        return 0
    are_ends_optional = top.element.repetition_type == leaf.element.repetition_type == Repetition.OPTIONAL
    is_mistaken = leaf.max_def - leaf.max_rep == 2 and not are_ends_optional
    return 0 if is_mistaken else top.dimensions


def _is_list(element: SchemaElement) -> bool:
    converted = element.converted_type is not None and converted_name(element) == "LIST"
    return converted or (element.logical_type is not None and element.logical_type.name == "LIST")


def _repetition(value: int) -> Repetition:
    try:
        return Repetition(value)
    except ValueError:
        raise RejectionError(Cause.OUT_OF_RANGE, "a repetition from 0 to 2", value, step="repetition_type") from None
