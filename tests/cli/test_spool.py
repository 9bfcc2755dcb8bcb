"""Values of a command that are kept in a file: all come back, often, and memory has one at a time."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tornproof.cli.output import write_json, write_json_list
from tornproof.cli.spool import Spool


def test_values_come_back_in_their_order_as_often_as_they_are_asked_for() -> None:
    with Spool([1, 2]) as spool:
        spool.append(3)
        assert (list(spool), list(spool), len(spool)) == ([1, 2, 3], [1, 2, 3], 3)


def test_memory_has_one_value_at_a_time() -> None:
    tracemalloc.start()
    with Spool(bytes(100_000) for _ in range(200)) as spool:
        assert sum(map(len, spool)) == 20_000_000
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2_000_000


def test_a_closed_spool_has_no_values() -> None:
    with Spool([1]) as spool:
        pass
    with pytest.raises(ValueError, match="closed"):
        list(spool)


@pytest.mark.parametrize("items", [[], [{"a": 1}], [{"a": [1, {"b": "two\nlines"}]}, {}, {"path": "\udcff"}]])
def test_a_document_with_a_list_that_is_made_item_by_item_has_the_same_text(
    tmp_path: Path, items: list[dict[str, Any]]
) -> None:
    document = {"format": 2, "counts": {"sources": len(items)}}
    write_json(document | {"sources": items}, str(tmp_path / "whole.json"))
    write_json_list(document, "sources", iter(items), str(tmp_path / "pieces.json"))
    assert (tmp_path / "pieces.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
