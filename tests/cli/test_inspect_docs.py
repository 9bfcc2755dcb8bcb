"""docs/inspect.md against the command: its examples are real, and it leaves no field out."""

import io
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspecting import document_of
from rich.console import Console

from tornproof.cli.inspection.inspector import inspect_path
from tornproof.cli.inspection.tree import Printer
from tornproof.impl.storage.operating_system import OperatingSystemStorage

DOCS = (Path(__file__).parents[2] / "docs" / "inspect.md").read_text(encoding="utf-8")
CHAIN = "tables/9.4.2/chain/table"
FILES = {
    "_pm": f"{CHAIN}/2024-01-01.1/_pm",
    "_txn": f"{CHAIN}/_txn",
    "_meta": f"{CHAIN}/_meta",
    "parquet": f"{CHAIN}/2024-01-01.1/data.parquet",
}
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL)]
DESCRIBED = set(re.findall(r"`([a-z0-9_]+)`", DOCS))


def is_part(example: Any, document: Any) -> bool:
    """Whether the document says all that the example says; lists may go on."""
    if isinstance(example, dict):
        return all(key in document and is_part(value, document[key]) for key, value in example.items())
    if isinstance(example, list):
        return len(example) <= len(document) and all(map(is_part, example, document))
    return bool(example == document)


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from keys_of(element)


def test_there_is_an_example_of_every_kind_of_file() -> None:
    assert [example["kind"] for example in EXAMPLES] == list(FILES)


@pytest.mark.parametrize("example", EXAMPLES, ids=list(FILES))
def test_examples_are_what_the_command_says(questdb_data: Path, example: dict[str, Any]) -> None:
    at = ("--at", 8524) if example["kind"] == "_pm" else ()
    assert is_part(example, document_of(questdb_data / FILES[example["kind"]], *at))


def test_printed_example_is_what_the_command_prints(questdb_data: Path) -> None:
    example = re.search(r"    \$ tornproof inspect \S+ --at 8524\n    …\n((?:    .*\n)+)", DOCS)
    assert example is not None
    output = io.StringIO()
    printer = Printer(Console(file=output, width=80, highlight=False), show_all=False)
    inspect_path(OperatingSystemStorage(), str(questdb_data / FILES["_pm"]), 8524).print(printer, hexadecimal=False)
    shown = "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())
    assert textwrap.dedent(example[1]) in shown


@pytest.mark.parametrize(
    "name",
    [
        *FILES.values(),
        f"{CHAIN}/2024-01-01.1",
        "power-loss/2026-07/pm-one-bit-flipped-in-a-committed-block/table/2024-01-01.1/_pm",
        "tables/9.4.2/bloom/table/2024-06-01.1/_pm",
        "vectors/footer-two-cols-stats-bloom-2-rg.parquet",
        "vectors/footer-ext-seed-form-08ffff01-utf8.parquet",
        "vectors/backfill-sort2.parquet",
    ],
)
def test_every_field_is_described(questdb_data: Path, name: str) -> None:
    assert set(keys_of(document_of(questdb_data / name))) - DESCRIBED == set()


def test_fields_that_are_not_described_would_be_noticed() -> None:
    assert set(keys_of([{"kind": [{"nonsense": 1}]}])) - DESCRIBED == {"nonsense"}
    assert not is_part({"a": [1, 2]}, {"a": [1]})
    assert not is_part({"a": 1}, {"b": 1})
