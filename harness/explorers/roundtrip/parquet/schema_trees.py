"""Whether the elements of a schema are taken for the tree that they are, and rejected where they are none.

All short sequences of some elements are tried, on the reader of footers and on the migration. What they are is worked
out by recursion, by
[parquet.thrift](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift): elements stand in
depth-first order, each with the number of its children. Which lists are arrays is said in docs/migration.md.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.impl.migrate import schema as migrated
from tornproof.impl.migrate.rejections import RejectionError
from tornproof.impl.migrate.shapes import SchemaElement
from tornproof.impl.parquet import schema
from tornproof.impl.parquet.thrift import BrokenError

PROPERTY = "the elements of a schema are a tree, or are rejected"
INT32, MAP, MAP_KEY_VALUE, LIST = 1, 1, 2, 3
REQUIRED, OPTIONAL, REPEATED = range(3)
LENGTH_MAX = 3
"""Elements behind the root."""


class Element(NamedTuple):
    """An element of a schema: what it says, None for what it does not."""

    children: int | None
    repetition: int | None
    type: int | None
    converted: int | None = None

    @property
    def is_group(self) -> bool:
        """Whether it has children."""
        return bool(self.children)


ELEMENTS = (
    *(Element(None, repetition, INT32) for repetition in (REQUIRED, OPTIONAL, REPEATED, None)),
    Element(0, OPTIONAL, INT32),
    Element(None, OPTIONAL, None),
    *(Element(1, repetition, None) for repetition in (OPTIONAL, REPEATED, None)),
    Element(2, REPEATED, None),
    Element(1, OPTIONAL, None, LIST),
)
LEAF = Element(None, OPTIONAL, INT32)
NESTED = (
    *(
        (Element(1, OPTIONAL, None, outer), Element(count, REPEATED, None, inner), *[LEAF] * count)
        for outer in (None, MAP, LIST)
        for inner in (None, MAP, MAP_KEY_VALUE, LIST)
        for count in (1, 2)
    ),
    (Element(1, OPTIONAL, None, LIST), Element(1, REPEATED, None), Element(2, OPTIONAL, None), LEAF, LEAF),
    *(
        (
            Element(1, outer, None, LIST),
            Element(1, REPEATED, None),
            Element(1, inner, None, LIST),
            Element(1, REPEATED, None),
            Element(None, number, INT32),
        )
        for outer, inner, number in itertools.product((REQUIRED, OPTIONAL), repeat=3)
    ),
)
"""Trees that are longer than those of which all are tried, or have other annotations."""
ROOTS = tuple(Element(count, None, None) for count in (None, 0, 1, 2, 3))
MARKED_ROOTS = tuple(Element(1, repetition, None) for repetition in (None, REQUIRED, OPTIONAL, REPEATED))
"""Writers mark a root as required, or as repeated, which says nothing."""
Leaf: TypeAlias = tuple[int, int, int]
"""Its highest repetition and definition level, and the dimensions of the array that it is."""


@dataclass(frozen=True, slots=True)
class SchemaTree:
    """The elements of a schema, and who reads them."""

    elements: tuple[Element, ...]
    kind: str

    @property
    def name(self) -> str:
        """It in words."""
        shown = "; ".join(
            ", ".join(f"{name} {value}" for name, value in each._asdict().items() if value is not None)
            for each in self.elements
        )
        return f"a schema that is {self.kind}: {shown}"


@functools.cache
def schema_trees() -> tuple[SchemaTree, ...]:
    """Return all sequences, always in the same order."""
    return distinct(
        SchemaTree((root, *rest), kind)
        for kind in ("read", "migrated")
        for root, rest in (*_short(), *itertools.product(MARKED_ROOTS, NESTED))
    )


def _short() -> Iterator[tuple[Element, tuple[Element, ...]]]:
    for length in range(LENGTH_MAX + 1):
        yield from itertools.product(ROOTS, itertools.product(ELEMENTS, repeat=length))


def problem_of(case: SchemaTree) -> str | None:
    """Say what it is taken for instead; None if for what it is."""
    expected = _leaves(case.elements)
    try:
        found = _read(case.elements) if case.kind == "read" else _migrated(case.elements)
    except (BrokenError, RejectionError) as error:
        return None if expected is None else f"it is rejected: {error}"
    if case.kind == "read":
        # Only the migration has arrays.
        expected = expected and [(rep, level, 0) for rep, level, _ in expected]
    return None if found == expected else f"its leaves are {found}, and should be {expected}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of those who reject nothing, and of a migration without arrays."""
    read, migrate = _read, _migrated

    def reject_nothing(elements: Sequence[Element]) -> list[Leaf]:
        try:
            return read(elements)
        except BrokenError:
            return []

    def migrate_anything(elements: Sequence[Element]) -> list[Leaf]:
        try:
            return migrate(elements)
        except RejectionError:
            return []

    controls: Controls = (
        ("anything is read", f"{__name__}:_read", reject_nothing),
        ("anything is migrated", f"{__name__}:_migrated", migrate_anything),
        ("no list is an array", "tornproof.impl.migrate.schema:_is_list", lambda _: False, "its leaves are"),
        ("no group is a list", "tornproof.impl.migrate.schema:GROUP_CONVERTED_TYPES", frozenset(), "it is rejected"),
    )
    return not_noticed(controls, problem_of, schema_trees())


def _leaves(elements: Sequence[Element]) -> list[Leaf] | None:
    """Return the leaves of a tree, None if the elements are none."""
    leaves, left = list[Leaf](), list(elements[1:])

    def is_tree(above: tuple[Element, ...]) -> bool:
        if not left or left[0].repetition is None:
            return False
        path = (*above, left.pop(0))
        element = path[-1]
        if element.is_group:
            return all(is_tree(path) for _ in range(element.children or 0))
        leaves.append(
            (
                sum(each.repetition == REPEATED for each in path),
                sum(each.repetition != REQUIRED for each in path),
                _dimensions(path),
            )
        )
        return element.type is not None

    count = elements[0].children or 0
    return leaves if count and all(is_tree(()) for _ in range(count)) and not left else None


def _dimensions(path: Sequence[Element]) -> int:
    """Return how many repeated groups are below a list, if all groups have one child.

    If two can be null they must be the outermost list and the numbers, as levels do not say which they are.
    """
    *groups, leaf = path
    if not groups or groups[0].converted != LIST or any(group.children != 1 for group in groups):
        return 0
    count = sum(group.repetition == REPEATED for group in groups[1:])
    optional = [each for each in path if each.repetition == OPTIONAL]
    return 0 if len(optional) == 2 and optional != [groups[0], leaf] else count


def _read(elements: Sequence[Element]) -> list[Leaf]:
    found = schema.read_leaves([_values(each) for each in elements])
    return [(leaf.max_rep, leaf.max_def, 0) for leaf in found]


def _values(element: Element) -> dict[str, Any]:
    values = {
        "num_children": element.children,
        "repetition_type": element.repetition,
        "type": element.type,
        "converted_type": element.converted,
    }
    return {"name": "e", "offset_bytes": 0} | {name: value for name, value in values.items() if value is not None}


def _migrated(elements: Sequence[Element]) -> list[Leaf]:
    found = migrated.read_leaves(
        [
            SchemaElement(
                type=each.type,
                type_length=None,
                repetition_type=each.repetition,
                name="e",
                num_children=each.children,
                converted_type=each.converted,
                scale=None,
                precision=None,
                field_id=None,
                logical_type=None,
            )
            for each in elements
        ]
    )
    return [(leaf.max_rep, leaf.max_def, leaf.list_dimensions) for leaf in found]
