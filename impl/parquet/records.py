"""Reading Thrift structs by tables of fields, with ranges, and encoding them.

Like the readers that Thrift generates, this skips unknown fields and fields of another wire type, uses the last of
repeated ids and demands required fields; in addition it checks ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tornproof.impl.parquet.thrift import (
    STOP,
    BrokenError,
    Field,
    Items,
    Kind,
    Known,
    Padded,
    Step,
    Struct,
    Value,
    path_text,
)

INTEGER_KINDS = {Kind.I16, Kind.I32, Kind.I64}
BOOLEAN_KINDS = {Kind.TRUE, Kind.BOOL}
"""Writers of lists of booleans differ in it."""
LIST_KINDS = frozenset({STOP, *Kind})
"""Wire types in headers of lists that readers accept; fastparquet gives the first one to lists without elements."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """The type of a field: its wire kind and, depending on that, the range of a number or the form of its contents.

    `low_tolerant` replaces `low` if the caller of `read` is tolerant. With `is_open`, values above `high` may come from
    newer releases of the format: they are unsupported, not corrupt. `as_tree` leaves the value undecoded.
    """

    kind: Kind
    low: int = 0
    low_tolerant: int = 0
    high: int = 0
    is_open: bool = False
    is_text: bool = False
    as_tree: bool = False
    table: Table | None = None
    element: Form | None = None


class Member(msgspec.Struct, frozen=True):
    """One field of a struct."""

    id: int
    name: str
    form: Form
    required: bool = False


class Table:
    """One struct: its members by id."""

    __slots__ = ("by_id", "by_name", "name", "required")

    def __init__(self, name: str, *members: Member) -> None:
        """Declare a struct, whose members have unique ids."""
        self.name = name
        self.by_id = {member.id: member for member in members}
        self.by_name = {member.name: member for member in members}
        self.required = tuple(member for member in members if member.required)
        assert len(self.by_id) == len(members), name

    def path_text(self, steps: Sequence[Step]) -> str:
        """Return a path with names instead of the field ids that this table knows: `row_groups[0].num_rows`."""
        named: list[Step] = []
        table: Table | None = self
        for step in steps:
            member = table.by_id.get(step) if table and isinstance(step, int) else None
            if isinstance(step, int):
                table = _inner_table(member.form) if member else None
            named.append(member.name if member else step)
        return path_text(named)


class UnionTable(Table):
    """A struct of which exactly one member is present; in newer releases of the format it may be another one."""

    __slots__ = ()

    def may_have(self, field: Field) -> bool:
        """Whether a field may be its member."""
        member = self.by_id.get(field.id)
        return member is None or field.kind == member.form.kind


class ClosedUnionTable(UnionTable):
    """A union that gets no new members."""

    __slots__ = ()

    def may_have(self, field: Field) -> bool:
        """Whether a field is its member."""
        return field.id in self.by_id and super().may_have(field)


def integer(kind: Kind, bits: int) -> Form:
    """Return the form of a signed number."""
    low = -1 << bits - 1
    return Form(kind=kind, low=low, low_tolerant=low, high=~low)


def size(kind: Kind, bits: int, *, tolerated: bool = False) -> Form:
    """Return the form of a number of 0 or more; with `tolerated`, tolerant callers also accept negative ones."""
    low = -1 << bits - 1
    return Form(kind=kind, low_tolerant=low if tolerated else 0, high=~low)


def choice(last: int) -> Form:
    """Return the form of an enumeration whose last known value is `last`."""
    return Form(kind=Kind.I32, high=last, is_open=True)


def struct_of(table: Table | None, *, as_tree: bool = False) -> Form:
    """Return the form of a field that holds a struct."""
    return Form(kind=Kind.STRUCT, table=table, as_tree=as_tree)


def list_of(element: Form, *, as_tree: bool = False) -> Form:
    """Return the form of a field that holds a list."""
    return Form(kind=Kind.LIST, element=element, as_tree=as_tree)


def read(struct: Struct, table: Table, *, tolerant: bool = False, known: Known | None = None) -> dict[str, Any]:
    """Return the members of a struct by name, inner ones too, and its own position as `offset_bytes`.

    Absent members are left out; inner structs that `known` has are taken from there. Raises BrokenError for a value out
    of range, invalid UTF-8 and a required member that is missing or of another wire type.
    """
    values: dict[str, Any] = {"offset_bytes": struct.offset_bytes}
    by_id = table.by_id
    for field in struct.fields:
        field_id, kind, value, offset_bytes, _ = field
        member = by_id.get(field_id)
        if member is None or kind != member.form.kind or (value.__class__ is Items and not _fits(value, member.form)):
            continue
        try:
            values[member.name] = _convert(value, member.form, tolerant, known)
        except BrokenError as error:
            error.steps.append(member.name)
            if error.offset_bytes is None:
                error.offset_bytes = offset_bytes
            raise
    for member in table.required:
        if member.name not in values:
            raise _missing(struct, member)
    return values


def check(struct: Struct, table: Table) -> None:
    """Raise BrokenError where other readers would reject a struct that `read` accepts: in what that leaves undecoded.

    They skip fields that they do not know or that have another wire type, and read lists whatever is in them.
    """
    for field in struct.fields:
        member = table.by_id.get(field.id)
        if member is not None and field.kind == member.form.kind:
            try:
                _check_value(field.value, member.form)
            except BrokenError as error:
                error.steps.append(member.name)
                raise
    if isinstance(table, UnionTable) and not any(map(table.may_have, struct.fields)):
        raise BrokenError(f"one of {', '.join(table.by_name)}", "none", struct.offset_bytes)


def _check_value(value: Value, form: Form) -> None:
    if isinstance(value, Struct) and form.table is not None:
        if form.as_tree:
            read(value, form.table)
        check(value, form.table)
    elif isinstance(value, Items) and form.element is not None:
        if not _fits(value, form) or value.element_kind not in LIST_KINDS:
            raise BrokenError(f"a list of {form.element.kind.name}", f"one of wire type {value.element_kind}")
        element_form = replace(form.element, as_tree=form.as_tree)
        for index, element in enumerate(value.elements if element_form.table is not None else ()):
            try:
                _check_value(element, element_form)
            except BrokenError as error:
                error.steps.append(f"[{index}]")
                raise


def make(table: Table, **values: Any) -> Struct:
    """Return the struct of these members by name, the inverse of `read`; members that are None are left out.

    Inner structs are given as trees, lists as their elements.
    """
    fields = []
    for name, value in values.items():
        if value is not None:
            member = table.by_name[name]
            fields.append(Field(member.id, member.form.kind, _tree_value(value, member.form)))
    fields.sort()
    return Struct(tuple(fields))


def _tree_value(value: Any, form: Form) -> Value:
    if form.element is not None:
        return Items(form.element.kind, tuple([_tree_value(element, form.element) for element in value]))
    encoded: Value = value.encode() if form.is_text else value
    return encoded


def _inner_table(form: Form) -> Table | None:
    return form.element.table if form.element else form.table


def _fits(items: Items, form: Form) -> bool:
    if form.element is None or not items.elements:
        return True
    # All integers are zigzag varints, so readers accept any kind of them in a list, and public files have mixed ones.
    kinds = {items.element_kind, form.element.kind}
    return len(kinds) == 1 or kinds <= INTEGER_KINDS or kinds <= BOOLEAN_KINDS


def _convert(value: Value, form: Form, tolerant: bool, known: Known | None) -> Any:
    if value.__class__ is Padded:
        value = value.value
    if form.as_tree:
        return value
    if value.__class__ is int or value.__class__ is bool:
        if not (form.low_tolerant if tolerant else form.low) <= value <= form.high:
            raise _out_of_range(value, form)
        return value
    if value.__class__ is bytes:
        return _text(value) if form.is_text else value
    if value.__class__ is Struct:
        assert form.table is not None
        by_table = known.values.get(id(value)) if known else None
        if by_table is None:
            return read(value, form.table, tolerant=tolerant, known=known)
        if form.table not in by_table:
            by_table[form.table] = read(value, form.table, tolerant=tolerant, known=known)
        return by_table[form.table]
    assert isinstance(value, Items) and form.element is not None
    converted: list[Any] = []
    form = form.element
    try:
        for element in value.elements:
            converted.append(_convert(element, form, tolerant, known))  # noqa: PERF401  # an error counts what came before it
    except BrokenError as error:
        error.steps.append(f"[{len(converted)}]")
        raise
    return converted


def _out_of_range(value: int, form: Form) -> BrokenError:
    return BrokenError(
        f"a number from {form.low} to {form.high}", value, is_supported=not (form.is_open and value > form.high)
    )


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BrokenError("UTF-8", f"byte {value[error.start]:#04x} at {error.start} of {len(value)}") from None


def _missing(struct: Struct, member: Member) -> BrokenError:
    found = [
        Kind(field.kind).name + (f" of wire type {field.value.element_kind}" if isinstance(field.value, Items) else "")
        for field in struct.fields
        if field.id == member.id
    ]
    return BrokenError(_expected(member.form), " and ".join(found) or "none", struct.offset_bytes, step=member.name)


def _expected(form: Form) -> str:
    return f"a required {form.kind.name}" + (f" of {form.element.kind.name}" if form.element else "")
