"""Whether structs of Thrift's compact protocol are decoded in each form that a writer may choose, and nothing else is.

The bytes are made here by the protocol's description, and share nothing with the code that reads and writes them.
Source: [Thrift compact protocol encoding](https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.parquet.thrift import (
    BrokenError,
    Entries,
    Field,
    Items,
    Known,
    Padded,
    Struct,
    Value,
    decode,
    encode,
    moved,
    packed,
    struct_list,
    structs_in,
    value_of,
    with_fields,
    without,
)

PROPERTY = "structs of Thrift are decoded in each form that they may have, and others are rejected"
FILE = "structs"
BEFORE, BEHIND = b"\xff\x19\x7c", b"\x15\x02\x19"
"""Bytes around a struct that are not its own."""
START, BASE_BYTES = len(BEFORE), 1000
DEPTH_MAX = 64
TRUE, FALSE = 1, 2
KINDS = {"byte": 3, "i16": 4, "i32": 5, "i64": 6, "double": 7, "binary": 8, "list": 9, "set": 10, "map": 11}
STRUCT, UUID = 12, 13
CONTAINERS = frozenset({9, 10, 11, STRUCT})
INTEGER_KINDS = (KINDS["i16"], KINDS["i32"], KINDS["i64"])
NUMBERS = (
    *(0, 1, -1, 2, 63, -64, 64, -65, 127, 128, 8191, -8192, 8192, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 31),
    *((1 << 63) - 1, -(1 << 63), (1 << 62) + 1),
)
VARINT_BYTES_MAX = 10
COUNTS = (0, 1, 2, 14, 15, 16, 127, 128, 200)
CUTS_MAX, CHANGES_MAX = 300, 48

Made: TypeAlias = Callable[[int], tuple[bytes, Value]]
"""Returns the bytes of a value at a position, and what they are decoded to."""
Members: TypeAlias = tuple[tuple[int, int, Made, int], ...]
"""Of each field its id, its wire type, its value, and how many bytes its id takes, 0 where it is in the first byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A struct in a form, by its bytes; with what it is decoded to, or why not: an error, its offset and its field."""

    kind: str
    name: str
    content: bytes
    tree: Struct | None = None
    error: type[ProblemError] = CorruptError
    offset_bytes: int = 0
    field: str = ""


@functools.cache
def thrift_forms() -> tuple[Form, ...]:
    """Return all forms, always in the same order."""
    made = (*_numbers(), *_ids(), *_plain(), *_lists(), *_maps(), *_nested())
    return (*_rejected(), *(_form(kind, name, members) for kind, name, members in made))


def problem_of(form: Form) -> str | None:
    """Say what is wrong with how a struct is decoded; None if nothing is."""
    return next(_problems_of_rejected(form) if form.tree is None else _problems(form, form.tree), None)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of decoders that take too much, and of an encoder that shortens what it writes."""
    thrift, of_all = "tornproof.impl.parquet.thrift", f"{__name__}:decode"
    decoded = original_of(of_all)
    rejections: Controls = (
        ("every field id is taken", f"{thrift}:FIELD_ID_MAX", 1 << 40, "it is taken for"),
        ("numbers of any length are taken", f"{thrift}:VARINT_LENGTH_MAX_BYTES", 1 << 10, "it is taken for"),
        ("errors are one byte further", of_all, partial(_one_further, decoded), "it is rejected, but not at byte"),
        (
            "no bytes are left",
            f"{thrift}:_Decoder",
            _broken("too_long", _none_left),
            "it is rejected for another number",
        ),
    )
    controls: Controls = (
        ("truth is false", f"{thrift}:TRUE", FALSE, "and should be to"),
        ("what is cut ends at 0", f"{thrift}:_Decoder", _broken("broken", _at_0), "bytes are rejected at byte 0"),
        ("what is cut is filled", of_all, lambda data, **of: decoded(data + bytes(9), **of), "are taken for all"),
        ("all is left out", of_all, partial(_none_if_limited, decoded), "it is decoded to something else where"),
        ("there are no limits", of_all, partial(_without_limit, decoded), "nodes are taken where one less is"),
        ("lists have no limits", of_all, partial(_without_limit_of_lists, decoded), "nodes are enough"),
        ("inner lists are kept", f"{thrift}:ELEMENT_DEPTH", 0, "without containers in those of field"),
        ("caches know all", of_all, lambda data, **of: decoded(_Alike(data), **of), "it is decoded as before"),
        ("what is longer than needed is written shorter", f"{thrift}:put_varint", _shortest, "and should be as"),
        ("no value is found", f"{__name__}:value_of", lambda *_: None, "the value of field"),
        ("no field is left out", f"{__name__}:without", lambda tree, _: tree, "without field"),
        ("no structs are found", f"{__name__}:structs_in", lambda *_: (), "the structs of field"),
        ("no field is moved", f"{__name__}:moved", lambda tree, *_: tree, "moved it is"),
        (
            "new fields come first",
            f"{__name__}:with_fields",
            lambda tree, new: Struct((new, *tree.fields)),
            "with field",
        ),
        ("lists have no structs", f"{__name__}:struct_list", lambda *_: Field(1, KINDS["list"], 0), "a list of"),
    )
    forms = thrift_forms()
    yield from not_noticed(rejections, problem_of, [form for form in forms if form.tree is None])
    yield from not_noticed(controls, problem_of, [form for form in forms if form.tree is not None])


class _Alike(bytes):
    def startswith(self, *_: Any) -> bool:
        return True


def _broken(place: str, broken: Callable[..., Any]) -> Any:
    decoder = original_of("tornproof.impl.parquet.thrift:_Decoder")
    return type("Broken", (decoder,), {"__slots__": (), place: broken})


def _none_left(decoder: Any, claim: str, position: int) -> BrokenError:
    return BrokenError("at most the 0 bytes that remain", claim, decoder.base + position)


def _at_0(*_: Any) -> BrokenError:
    return BrokenError("more bytes", "their end", 0)


def _one_further(decoded: Callable[..., Any], data: bytes, *, offset_bytes: int, **settings: Any) -> Any:
    return decoded(data, offset_bytes=offset_bytes + 1, **settings)


def _none_if_limited(decoded: Callable[..., Any], data: bytes, **settings: Any) -> Any:
    return (Struct(()), 0) if "node_count_max" in settings else decoded(data, **settings)


def _without_limit(decoded: Callable[..., Any], data: bytes, *, node_count_max: int = 0, **settings: Any) -> Any:
    return decoded(data, **settings)


def _without_limit_of_lists(decoded: Callable[..., Any], data: bytes, **settings: Any) -> Any:
    if "shallow_list_id" in settings:
        settings.pop("node_count_max", None)
    return decoded(data, **settings)


def _shortest(out: bytearray, number: int, _: int) -> None:
    out += varint(number)


def _problems(form: Form, tree: Struct) -> Iterator[str]:
    known = Known()
    for how, taken in (("", None), ("by a cache that is empty ", known), ("by a cache ", known)):
        found = _decoded(form.content + BEHIND, known=taken)
        if found != (tree, START + len(form.content)):
            yield f"it is {how}decoded to {found}, and should be to {tree}"
    for how, written in (("", tree), ("packed ", packed(tree))):
        if encode(written) != form.content:
            yield f"it is {how}written as {encode(written).hex()}, and should be as {form.content.hex()}"
    yield from _problems_of_limits(form, tree, known)
    yield from _problems_of_cuts(form.content)
    for number in {field.id for field in tree.fields if field.kind == KINDS["list"]}:
        shallow, _ = _decoded(form.content, shallow_list_id=number)
        if shallow != _without_containers(tree, number):
            yield f"without containers in those of field {number}, it is decoded to {shallow}"
        yield from _problems_of_shallow_limits(form, tree, number)
    yield from _problems_of_caches(form.content)
    yield from _problems_of_changes(tree)


def _problems_of_rejected(form: Form) -> Iterator[str]:
    try:
        found, _ = _decoded(form.content + BEHIND * 8)
    except form.error as error:
        where = BASE_BYTES + START + form.offset_bytes
        if (error.problem.offset_bytes, error.problem.field) != (where, form.field):
            yield f"it is rejected, but not at byte {where} in {form.field}: {error}"
        left_bytes = len(form.content + BEHIND * 8) - form.offset_bytes
        if "remain" in error.problem.expected and f"the {left_bytes} bytes" not in error.problem.expected:
            yield f"{left_bytes} bytes are left, and it is rejected for another number: {error}"
    else:
        yield f"it is taken for {found}"


def _problems_of_limits(form: Form, tree: Struct, known: Known) -> Iterator[str]:
    count = _node_count(tree)
    for taken in (None, known):
        if _decoded(form.content, node_count_max=count, known=taken)[0] != tree:
            yield f"it is decoded to something else where {count} nodes are allowed"
        if not count:
            continue
        try:
            _decoded(form.content, node_count_max=count - 1, known=taken)
        except UnsupportedError:
            continue
        yield f"its {count} nodes are taken where one less is allowed"


def _problems_of_shallow_limits(form: Form, tree: Struct, number: int) -> Iterator[str]:
    """Look for limits with which the elements of a list are taken one by one although they have too many nodes."""
    most = count = 0
    for field in tree.fields:
        if field.id == number and isinstance(field.value, Items):
            count += len(field.value.elements)
            for element in field.value.elements:
                most = max(most, count + _node_count(element))
                count += len(_scalars(element)) if isinstance(element, Struct) else _node_count(element)
        else:
            count += _node_count(field.value)
        # A field counts when its value is known.
        count += 1
        most = max(most, count)
    for limit, is_taken in ((most, True), (most - 1, False)):
        try:
            _decoded(form.content, node_count_max=limit, shallow_list_id=number)
        except UnsupportedError:
            if is_taken:
                yield f"without containers in those of field {number}, {limit} nodes are not enough"
        else:
            if not is_taken:
                yield f"without containers in those of field {number}, {limit} nodes are enough"


def _problems_of_cuts(content: bytes) -> Iterator[str]:
    for length in range(min(len(content), CUTS_MAX)):
        end = BASE_BYTES + START + length
        try:
            _decoded(content[:length])
        except CorruptError as error:
            at = error.problem.offset_bytes
            if at is None or not BASE_BYTES + START <= at <= end:
                yield f"its first {length} bytes are rejected at byte {at}"
        else:
            yield f"its first {length} bytes are taken for all"


def _problems_of_caches(content: bytes) -> Iterator[str]:
    """Look for changes of one byte that are decoded differently because of what was decoded before."""
    for at in range(min(len(content), CHANGES_MAX)):
        changed = content[:at] + bytes([content[at] ^ 2]) + content[at + 1 :] + BEHIND
        known = Known()
        _decoded(content, known=known)
        if _outcome(changed, known) != _outcome(changed, None):
            yield f"after a change of byte {at}, it is decoded as before"


def _problems_of_changes(tree: Struct) -> Iterator[str]:
    """Look for fields that are not found, put, left out or moved where they should be."""
    ids = [field.id for field in tree.fields]
    for id_found in (*ids, max(ids, default=0) + 1):
        first = next((field.value for field in tree.fields if field.id == id_found), None)
        if value_of(tree, id_found) != first:
            yield f"the value of field {id_found} is {value_of(tree, id_found)!r}"
        if without(tree, id_found).fields != tuple(field for field in tree.fields if field.id != id_found):
            yield f"without field {id_found} it is {without(tree, id_found)}"
        lists = [field.value for field in tree.fields if field.id == id_found and isinstance(field.value, Items)]
        structs = [each.elements for each in lists if each.element_kind == STRUCT]
        if structs_in(tree, id_found) != (structs[0] if structs else ()):
            yield f"the structs of field {id_found} are {structs_in(tree, id_found)}"
        if any(field.kind == FALSE for field in tree.fields if field.id == id_found):
            continue
        if moved(tree, {id_found}, 5).fields != tuple(_moved(field, id_found) for field in tree.fields):
            yield f"with field {id_found} moved it is {moved(tree, {id_found}, 5)}"
    if ids == sorted(set(ids)):
        yield from _problems_of_puts(tree, ids)


def _problems_of_puts(tree: Struct, ids: Sequence[int]) -> Iterator[str]:
    """Put a field in the place of each one, and between them."""
    for id_put in sorted({each + step for each in (*ids, 0) for step in (-1, 0, 1)}):
        new = struct_list(id_put, (Struct(()),))
        kept = [field for field in tree.fields if field.id != id_put]
        expected = tuple(sorted([*kept, new], key=lambda field: field.id))
        if with_fields(tree, new).fields != expected:
            yield f"with field {id_put} it is {with_fields(tree, new)}"
        if new != Field(id_put, KINDS["list"], Items(STRUCT, (Struct(()),))):
            yield f"a list of structs is {new}"


def _moved(field: Field, id_moved: int) -> Field:
    is_moved = field.id == id_moved and isinstance(field.value, int) and field.value != 0
    return field._replace(value=field.value + 5) if is_moved and isinstance(field.value, int) else field


def _outcome(content: bytes, known: Known | None) -> object:
    try:
        return _decoded(content, known=known)
    except (CorruptError, UnsupportedError) as error:
        return str(error)


def _decoded(content: bytes, **settings: Any) -> tuple[Struct, int]:
    return decode(BEFORE + content, file=FILE, offset_bytes=BASE_BYTES, start=START, **settings)


def _node_count(value: Value) -> int:
    """Count the fields, the elements and the entries of a value."""
    if isinstance(value, Struct):
        return len(value.fields) + sum(_node_count(each.value) for each in value.fields)
    if isinstance(value, Items):
        return len(value.elements) + sum(map(_node_count, value.elements))
    if isinstance(value, Entries):
        return len(value.entries) + sum(_node_count(each) for pair in value.entries for each in pair)
    return 0


def _scalars(struct: Struct) -> tuple[Field, ...]:
    return tuple(each for each in struct.fields if each.kind not in CONTAINERS)


def _without_containers(tree: Struct, number: int) -> Struct:
    """Return a struct whose elements of the lists with an id have only fields that contain no others."""

    def cut(value: Value) -> Value:
        return value._replace(fields=_scalars(value)) if isinstance(value, Struct) else value

    return tree._replace(
        fields=tuple(
            field._replace(value=field.value._replace(elements=tuple(map(cut, field.value.elements))))
            if field.id == number and isinstance(field.value, Items)
            else field
            for field in tree.fields
        )
    )


def varint(number: int, width_bytes: int = 0) -> bytes:
    """Return an unsigned number in groups of seven bits, the lowest first, in as many bytes as asked for or needed."""
    digits: list[int] = []
    while number or not digits:
        number, digit = divmod(number, 128)
        digits.append(digit)
    digits += [0] * (width_bytes - len(digits))
    return bytes([*(digit + 128 for digit in digits[:-1]), digits[-1]])


def signed(number: int) -> int:
    """Return the unsigned number that stands for a signed one: 0, -1, 1, -2, 2 are 0, 1, 2, 3, 4."""
    return 2 * number if number >= 0 else -2 * number - 1


def written_bytes(value: Value) -> int:
    """Return in how many bytes a number, or the length of a binary, is written."""
    if isinstance(value, Padded):
        return value.width_bytes
    return len(varint(len(value) if isinstance(value, bytes) else signed(value)))  # type: ignore[arg-type]


def number(value: int, width_bytes: int = 0) -> Made:
    """Return an integer."""
    content = varint(signed(value), width_bytes)
    is_padded = len(content) > len(varint(signed(value)))
    return lambda _: (content, Padded(value, len(content)) if is_padded else value)


def binary(value: bytes, width_bytes: int = 0) -> Made:
    """Return bytes behind their length."""
    length = varint(len(value), width_bytes)
    is_padded = len(length) > len(varint(len(value)))
    return lambda _: (length + value, Padded(value, len(length)) if is_padded else value)


def raw(value: bytes) -> Made:
    """Return bytes whose number follows from the wire type."""
    return lambda _: (value, value)


def byte(value: int) -> Made:
    """Return one byte, a number or a boolean in a list."""
    return lambda _: (bytes([value]), value)


def items(kind: int, elements: tuple[Made, ...], *, is_long: bool = False, width_bytes: int = 0) -> Made:
    """Return a list or a set."""

    def made(position: int) -> tuple[bytes, Value]:
        count = len(elements)
        length = varint(count, width_bytes) if is_long or count > 14 else b""
        content = bytes([(15 if length else count) << 4 | kind]) + length
        values = []
        for each in elements:
            part, value = each(position + len(content))
            content += part
            values.append(value)
        return content, Items(kind, tuple(values), BASE_BYTES + position, len(length))

    return made


def entries(kinds: tuple[int, int], pairs: tuple[tuple[Made, Made], ...], width_bytes: int = 0) -> Made:
    """Return a map."""

    def made(position: int) -> tuple[bytes, Value]:
        content = count = varint(len(pairs), width_bytes)
        if pairs:
            content += bytes([kinds[0] << 4 | kinds[1]])
        values = []
        for pair in pairs:
            both = []
            for each in pair:
                part, value = each(position + len(content))
                content += part
                both.append(value)
            values.append((both[0], both[1]))
        return content, Entries(*(kinds if pairs else (0, 0)), tuple(values), BASE_BYTES + position, len(count))

    return made


def struct(members: Members) -> Made:
    """Return a struct; the value of a boolean is its wire type."""

    def made(position: int) -> tuple[bytes, Struct]:
        content, fields, previous = b"", [], 0
        for number, kind, value_made, id_width_bytes in members:
            at = BASE_BYTES + position + len(content)
            is_short = not id_width_bytes and 1 <= number - previous <= 15
            id_bytes = b"" if is_short else varint(signed(number), id_width_bytes)
            content += bytes([((number - previous) << 4 if is_short else 0) | kind]) + id_bytes
            previous = number
            value: Value = kind == TRUE
            if kind not in (TRUE, FALSE):
                part, value = value_made(position + len(content))
                content += part
            fields.append(Field(number, FALSE if kind == TRUE else kind, value, at, len(id_bytes)))
        return content + b"\0", Struct(tuple(fields), BASE_BYTES + position)

    return made


def _form(kind: str, name: str, members: Members) -> Form:
    content, tree = struct(members)(START)
    assert isinstance(tree, Struct)
    return Form(kind=kind, name=f"{kind}: {name}", content=content, tree=tree)


def _fields(*values: tuple[int, Made]) -> Members:
    return tuple((index, kind, value, 0) for index, (kind, value) in enumerate(values, 1))


_nothing = byte(0)


def _numbers() -> Iterator[tuple[str, str, Members]]:
    for kind in INTEGER_KINDS:
        yield "numbers", f"of wire type {kind}", _fields(*((kind, number(each)) for each in NUMBERS))
    for each in NUMBERS:
        widths = range(len(varint(signed(each))) + 1, VARINT_BYTES_MAX + 1)
        yield "numbers", f"{each} in more bytes", _fields(*((KINDS["i64"], number(each, width)) for width in widths))


def _ids() -> Iterator[tuple[str, str, Members]]:
    kinds = ((KINDS["i32"], number(7)), (KINDS["binary"], binary(b"x")), (STRUCT, struct(())), (TRUE, _nothing))
    for numbers in (
        (1, 2, 3), (15, 30, 46), (16,), (1, 17, 34), (0,), (3, 3, 3), (5, 4, 3), (-1, 0, 1), (32767,), (-32768, 32767),
        (32752, 32767), (32767, 1), (-32768, -32767),
    ):  # fmt: skip
        for width in (0, 1, 2, 3, 5):
            if width and width < max(len(varint(signed(each))) for each in numbers):
                continue
            how = f"in {width} bytes" if width else "as short as they can be"
            for kind, value in kinds:
                members = tuple((each, kind, value, width) for each in numbers)
                yield "ids", f"{', '.join(map(str, numbers))} {how}, of wire type {kind}", members


def _plain() -> Iterator[tuple[str, str, Members]]:
    yield "plain values", "none", ()
    yield "plain values", "booleans", _fields((TRUE, _nothing), (FALSE, _nothing), (FALSE, _nothing), (TRUE, _nothing))
    yield "plain values", "booleans with long ids", ((1, TRUE, _nothing, 1), (2, FALSE, _nothing, 2))
    yield "plain values", "bytes", _fields(*((KINDS["byte"], byte(each)) for each in (0, 1, 2, 127, 128, 255)))
    yield "plain values", "a double", _fields((KINDS["double"], raw(bytes(range(1, 9)))))
    yield "plain values", "a UUID", _fields((UUID, raw(bytes(range(16)))))
    for length in (0, 1, 126, 127, 128, 129, 200):
        content = bytes(each % 251 for each in range(length))
        for width in (0, 2, 3, VARINT_BYTES_MAX):
            yield "plain values", f"{length} bytes, {width}", _fields((KINDS["binary"], binary(content, width)))


def _elements(count: int) -> Iterator[tuple[int, tuple[Made, ...]]]:
    """Yield lists of all wire types."""
    for kind in INTEGER_KINDS:
        yield kind, tuple(number(each * (-1) ** each) for each in range(count))
    yield TRUE, tuple(byte(each % 3) for each in range(count))
    yield FALSE, tuple(byte(each % 3) for each in range(count))
    yield KINDS["byte"], tuple(byte(each) for each in range(count))
    yield KINDS["double"], tuple(raw(bytes([each] * 8)) for each in range(count))
    yield UUID, tuple(raw(bytes([each] * 16)) for each in range(count))
    yield KINDS["binary"], tuple(binary(b"x" * (each % 5), each % 3) for each in range(count))
    inner = (KINDS["list"], items(KINDS["i32"], (number(1), number(-300))))
    yield STRUCT, tuple(struct(_fields((KINDS["i32"], number(each)), inner, (TRUE, _nothing))) for each in range(count))
    yield KINDS["list"], tuple(items(KINDS["byte"], (byte(each),) * (each % 3)) for each in range(count))
    yield KINDS["set"], tuple(items(STRUCT, (struct(_fields((FALSE, _nothing))),)) for _ in range(count))
    pair = (byte(7), struct(_fields((KINDS["i16"], number(-9)))))
    yield KINDS["map"], tuple(entries((KINDS["byte"], STRUCT), (pair,) * (each % 3)) for each in range(count))


def _lists() -> Iterator[tuple[str, str, Members]]:
    for kind, elements in (each for count in COUNTS[:-3] for each in _elements(count)):
        for outer in (KINDS["list"], KINDS["set"]):
            name = f"{len(elements)} of wire type {kind} as one of {outer}"
            yield "lists", name, _fields((outer, items(kind, elements)), (KINDS["i32"], number(1)))
    for count in COUNTS:
        made = items(KINDS["byte"], (byte(5),) * count)
        yield "lists", f"{count} bytes", _fields((KINDS["list"], made))
        for width in (0, 2, 3, VARINT_BYTES_MAX):
            made = items(STRUCT, (struct(()),) * count, is_long=True, width_bytes=width)
            yield "lists", f"{count} in the long form, {width}", _fields((KINDS["list"], made), (TRUE, _nothing))
    yield "lists", "none of a wire type that is none", _fields((KINDS["list"], items(14, ())), (TRUE, _nothing))


def _maps() -> Iterator[tuple[str, str, Members]]:
    for width in (0, 2, 5, VARINT_BYTES_MAX):
        yield "maps", f"nothing, {width}", _fields((KINDS["map"], entries((0, 0), (), width)), (TRUE, _nothing))
        for kind, elements in _elements(3):
            for kinds, pairs in (
                ((KINDS["binary"], kind), tuple((binary(b"k"), each) for each in elements)),
                ((kind, KINDS["i64"]), tuple((each, number(-5)) for each in elements)),
            ):
                name = f"from wire type {kinds[0]} to {kinds[1]}, {width}"
                yield "maps", name, _fields((KINDS["map"], entries(kinds, pairs, width)), (FALSE, _nothing))


def _nested() -> Iterator[tuple[str, str, Members]]:
    for levels in (1, 2, 3, DEPTH_MAX - 2, DEPTH_MAX - 1):
        yield "levels", f"{levels} more, of structs", _fields((STRUCT, in_structs(levels - 1)))
        yield "levels", f"{levels} more, of lists", _fields((KINDS["list"], _in_lists(levels - 1)))
        yield "levels", f"{levels} more, of maps", _fields((KINDS["map"], _in_maps(levels - 1)))
    both = struct(_fields((STRUCT, in_structs(2)), (KINDS["list"], items(STRUCT, (in_structs(1),) * 2))))
    deep = items(STRUCT, (both,) * 3)
    deeper = items(KINDS["list"], (deep, items(KINDS["list"], ()), deep))
    yield "levels", "of lists in lists", _fields((KINDS["list"], deeper), (STRUCT, both), (KINDS["list"], deep))
    yield "levels", "of all kinds", _fields((KINDS["list"], deep), (STRUCT, both), (KINDS["list"], deep))


def in_structs(levels: int) -> Made:
    """Return an empty struct inside of so many others."""
    return struct(_fields((STRUCT, in_structs(levels - 1)))) if levels else struct(())


def _in_lists(levels: int) -> Made:
    return items(KINDS["list"], (_in_lists(levels - 1),)) if levels else items(KINDS["i32"], (number(4),))


def _in_maps(levels: int) -> Made:
    kind = KINDS["map"] if levels else KINDS["byte"]
    return entries((KINDS["byte"], kind), ((byte(1), _in_maps(levels - 1) if levels else byte(2)),))


def _rejected() -> Iterator[Form]:
    long_number = varint((1 << 64) - 1)
    for name, content, offset_bytes, field in (
        ("a field of no wire type", b"\x10", 0, "1"),
        ("a field of a wire type that is none", b"\x1e\x00\x00", 0, "1"),
        ("a second field of a wire type that is none", b"\x11\x2f\x00\x00", 1, "3"),
        ("elements of no wire type", b"\x19\x10\x00\x00", 1, "1[0]"),
        ("elements of a wire type that is none", b"\x19\x1e\x00\x00", 1, "1[0]"),
        ("keys of a wire type that is none", b"\x1b\x01\xe3\x00\x00\x00", 2, "1[0]"),
        ("values of a wire type that is none", b"\x1b\x01\x3f\x00\x00\x00", 3, "1[0]"),
        ("the id 32768", b"\x05" + varint(signed(32768)) + b"\x02\x00", 1, "struct"),
        ("the id -32769", b"\x05" + varint(signed(-32769)) + b"\x02\x00", 1, "struct"),
        ("the id 32768 after 32767", b"\x05" + varint(signed(32767)) + b"\x02\x11\x00", 6, "32768"),
        ("the id 5 after 32768", b"\x05" + varint(signed(32767)) + b"\x02\x11\x05\x0a\x02\x00", 7, "32768"),
        ("a number of 11 bytes", b"\x16" + varint(0, 11) + b"\x00", 1, "1"),
        ("a number of 12 bytes", b"\x11\x16" + varint(5, 12) + b"\x00", 2, "2"),
        ("a number of 65 bits", b"\x16" + varint(1 << 64) + b"\x00", 1, "1"),
        ("a number of 70 bits", b"\x16" + varint((1 << 70) - 1) + b"\x00", 1, "1"),
        ("a length of 11 bytes", b"\x18" + varint(1, 11) + b"x\x00", 1, "1"),
        ("a length of 64 bits", b"\x18" + long_number + b"x\x00", 11, "1"),
        ("a count of 64 bits", b"\x19\xf3" + long_number + b"\x00", 12, "1"),
        ("a count of entries of 64 bits", b"\x1b" + long_number + b"\x33\x00", 11, "1"),
        ("one level of structs too many", b"\x1c" * DEPTH_MAX, DEPTH_MAX, ".".join(["1"] * DEPTH_MAX)),
        ("one level of lists too many", b"\x19" + b"\x19" * DEPTH_MAX, DEPTH_MAX, "1" + "[0]" * (DEPTH_MAX - 1)),
        (
            "one level of maps too many",
            b"\x1b" + b"\x01\x3b\x01" * DEPTH_MAX,
            3 * DEPTH_MAX - 2,
            "1" + "[0]" * (DEPTH_MAX - 1),
        ),
        ("a level too many in lists of structs", b"\x19\x1c" * DEPTH_MAX, DEPTH_MAX, "1[0]." * 31 + "1[0]"),
        ("an id in the third struct of a list", b"\x19\x3c\x00\x00\x05" + varint(1 << 17), 5, "1[2]"),
    ):
        yield Form(kind="rejections", name=name, content=content, offset_bytes=offset_bytes, field=field)
