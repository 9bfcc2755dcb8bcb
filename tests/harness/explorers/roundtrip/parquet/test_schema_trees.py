"""Each tree of few elements is taken for what it is; readers that miscount are found, and blind looks are noticed."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.parquet import schema_trees as module
from tornproof.harness.explorers.roundtrip.parquet.schema_trees import Element, failed_controls, schema_trees

ROOT, LEAF = Element(1, None, None), Element(None, 0, 1)
LISTED, REPEATED = Element(1, 1, None, 3), Element(1, 2, None)


@pytest.mark.parametrize(
    ("elements", "leaves"),
    [
        ([ROOT, LEAF], [(0, 0, 0)]),
        ([ROOT, LISTED, REPEATED, LEAF], [(1, 2, 1)]),
        ([ROOT, LISTED, REPEATED, REPEATED, LEAF], [(2, 3, 2)]),
        ([ROOT, REPEATED, REPEATED, LEAF], [(2, 2, 0)]),
        ([ROOT._replace(children=2), LEAF, LISTED, LEAF], [(0, 0, 0), (0, 1, 0)]),
        ([ROOT._replace(children=2), LEAF], None),
        ([ROOT, LEAF, LEAF], None),
        ([ROOT, LISTED], None),
        ([ROOT, LEAF._replace(type=None)], None),
        ([ROOT, LEAF._replace(repetition=None)], None),
        ([ROOT._replace(children=None)], None),
    ],
)
def test_what_is_a_tree_and_what_its_leaves_are(elements: list[Element], leaves: Any) -> None:
    assert module._leaves(elements) == leaves


def test_there_are_as_many_trees_as_other_sequences_that_matter() -> None:
    expected = [module._leaves(each.elements) for each in schema_trees() if each.kind == "read"]
    short_count = 5 * sum(len(module.ELEMENTS) ** length for length in range(4))
    # Two of the nested ones are short, too.
    assert len(expected) == short_count + 4 * len(module.NESTED) - 2 == 7450
    assert sum(leaves is not None for leaves in expected) > 200


def uncounted(read: Any) -> Any:
    return lambda elements: read(elements)[:1]


def test_a_migration_that_forgets_leaves_is_found_and_replays() -> None:
    findings = first_that_replays("tree", wrapped("tornproof.impl.migrate.schema:read_leaves", uncounted))
    assert "a schema that is migrated" in findings[0].sentence


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 4
