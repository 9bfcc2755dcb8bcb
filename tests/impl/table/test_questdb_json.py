"""The JSON that QuestDB keeps in a footer is written and updated byte for byte as by the real releases."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import golden_data
import pytest
from parquet_files import footer_bytes

from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.parquet.footer import split_footer
from tornproof.impl.pm.chain import walk
from tornproof.impl.table.questdb_json import QUESTDB_KEY, JsonColumn, ids_in, new_json, updated_json

DESIGNATED_TIMESTAMP, LONG, SYMBOL, VARCHAR = 131080, 6, 12, 26
PLAIN = '{"version":1,"schema":[{"column_type":6,"column_top":0}]}'


def texts_of(questdb_data: Path, pm_name: str) -> list[tuple[str, int]]:
    """The JSON of every published generation, oldest first, and the unused bytes in `_pm`."""
    pm = (questdb_data / pm_name).read_bytes()
    data = (questdb_data / pm_name).with_name("data.parquet").read_bytes()
    found = []
    for position in walk(pm[: int.from_bytes(pm[:8], "little")], file=pm_name):
        footer, offset_bytes = footer_bytes(data[: position.token])
        text = split_footer(footer, file=pm_name, offset_bytes=offset_bytes).key_value(QUESTDB_KEY)
        assert text is not None
        found.append((text, position.fixed.unused_bytes))
    return found[::-1]


@pytest.fixture(scope="module")
def real_texts(questdb_data: Path) -> list[list[tuple[str, int]]]:
    """The results of `texts_of` for every partition with `_pm` in the finished tables."""
    names = [name for name in golden_data.files_named("_pm") if name.startswith("tables/")]
    return [texts_of(questdb_data, name) for name in names]


def test_json_of_the_next_real_generation_is_predicted(real_texts: list[list[tuple[str, int]]]) -> None:
    update_count = 0
    for texts in real_texts:
        for (old, _), (new, unused_bytes) in pairwise(texts):
            assert updated_json(old, unused_bytes=unused_bytes) == new
            update_count += 1
    assert update_count > 100


def test_json_of_a_real_new_file_is_made_again(real_texts: list[list[tuple[str, int]]]) -> None:
    forms = set()
    for texts in real_texts:
        text, unused_bytes = texts[0]
        columns = json.loads(text)["schema"]
        if unused_bytes or any(column["column_top"] for column in columns):
            continue
        made = new_json(
            [
                JsonColumn(
                    column_type=column["column_type"],
                    is_ascii=column.get("ascii", False),
                    is_local_key_global="format" in column,
                    id=column.get("id"),
                )
                for column in columns
            ]
        )
        assert made == text
        forms |= {tuple(column) for column in columns}
    assert len(forms) == 6


def test_flags_of_new_columns_stand_where_they_mean_something() -> None:
    text = new_json(
        [
            JsonColumn(DESIGNATED_TIMESTAMP, False, False, 0),
            JsonColumn(SYMBOL, True, True, 7),
            JsonColumn(VARCHAR, False, False, None),
            JsonColumn(VARCHAR, True, False, None),
            JsonColumn(LONG, True, False, None),
        ]
    )
    assert text == (
        '{"version":1,"schema":[{"column_type":131080,"column_top":0,"id":0},'
        '{"column_type":12,"column_top":0,"format":1,"id":7},{"column_type":26,"column_top":0,"ascii":false},'
        '{"column_type":26,"column_top":0,"ascii":true},{"column_type":6,"column_top":0}]}'
    )


def test_column_tops_end_with_an_update() -> None:
    text = '{"version":1,"schema":[{"column_type":6,"column_top":30,"id":4},{"column_type":8}]}'
    expected = '{"version":1,"schema":[{"column_type":6,"column_top":0,"id":4},{"column_type":8}]}'
    assert updated_json(text, unused_bytes=0) == expected


def test_unused_bytes_follow_the_schema_and_are_left_out_at_zero() -> None:
    with_tracker = PLAIN[:-1] + ',"squash_tracker":5}'
    grown = PLAIN[:-1] + ',"unused_bytes":17,"squash_tracker":5}'
    assert updated_json(with_tracker, unused_bytes=17) == grown
    assert updated_json(grown, unused_bytes=0) == with_tracker
    assert updated_json(grown, unused_bytes=18) == grown.replace("17", "18")


def test_unknown_members_keep_their_position_and_value() -> None:
    text = '{"z":[1,2.5,{"å":null}],"version":1,"schema":[{"new":"✓","column_type":6}],"a":true}'
    assert updated_json(text, unused_bytes=0) == text
    spaced = json.dumps(json.loads(text), indent=2)
    assert updated_json(spaced, unused_bytes=0) == text


def schema_with(**members: Any) -> str:
    return json.dumps({"version": 1, "schema": [{"column_type": 6, **members}]})


@pytest.mark.parametrize(
    "members",
    [
        {"column_type": 1},
        {"column_type": 0x7FFFFFFF},
        {"column_top": 1 << 62},
        {"format": None},
        {"format": 1},
        {"ascii": None},
        {"ascii": False},
        {"id": None},
        {"id": -(1 << 31)},
        {"id": (1 << 31) - 1},
    ],
)
def test_known_members_of_a_column_are_taken(members: dict[str, Any]) -> None:
    updated_json(schema_with(**members), unused_bytes=1)


@pytest.mark.parametrize(
    ("text", "kind", "field"),
    [
        ("", CorruptError, "questdb"),
        ("{", CorruptError, "questdb"),
        (PLAIN + "x", CorruptError, "questdb"),
        ("[]", CorruptError, "questdb"),
        ("1", CorruptError, "questdb"),
        ('{"a":1,"a":2}', CorruptError, "questdb"),
        ('{"a":NaN}', CorruptError, "questdb"),
        ('{"a":-Infinity}', CorruptError, "questdb"),
        ('{"a":1e999}', CorruptError, "questdb"),
        ('{"a":"\\ud800"}', CorruptError, "questdb"),
        ("[" * 200_000, CorruptError, "questdb"),
        ("1" * 5000, CorruptError, "questdb"),
        ('{"schema":[]}', CorruptError, "questdb version"),
        ('{"version":true,"schema":[]}', CorruptError, "questdb version"),
        ('{"version":1.0,"schema":[]}', CorruptError, "questdb version"),
        ('{"version":"1","schema":[]}', CorruptError, "questdb version"),
        (json.dumps({"version": "long" * 1000}), CorruptError, "questdb version"),
        ('{"version":2,"schema":[]}', UnsupportedError, "questdb version"),
        ('{"version":1}', CorruptError, "questdb schema"),
        ('{"version":1,"schema":{}}', CorruptError, "questdb schema"),
        ('{"version":1,"schema":[6]}', CorruptError, "questdb schema[0]"),
        ('{"version":1,"schema":[{}]}', CorruptError, "questdb schema[0].column_type"),
        ('{"version":1,"schema":[],"unused_bytes":-1}', CorruptError, "questdb unused_bytes"),
        ('{"version":1,"schema":[],"unused_bytes":null}', CorruptError, "questdb unused_bytes"),
        (schema_with(column_type=0), CorruptError, "questdb schema[0].column_type"),
        (schema_with(column_type=1 << 31), CorruptError, "questdb schema[0].column_type"),
        (schema_with(column_type=True), CorruptError, "questdb schema[0].column_type"),
        (schema_with(column_top=-1), CorruptError, "questdb schema[0].column_top"),
        (schema_with(column_top=None), CorruptError, "questdb schema[0].column_top"),
        (schema_with(format="1"), CorruptError, "questdb schema[0].format"),
        (schema_with(format=True), CorruptError, "questdb schema[0].format"),
        (schema_with(format=2), UnsupportedError, "questdb schema[0].format"),
        (schema_with(ascii=1), CorruptError, "questdb schema[0].ascii"),
        (schema_with(id="1"), CorruptError, "questdb schema[0].id"),
        (schema_with(id=True), CorruptError, "questdb schema[0].id"),
        (schema_with(id=1 << 31), CorruptError, "questdb schema[0].id"),
        (schema_with(id=-(1 << 31) - 1), CorruptError, "questdb schema[0].id"),
    ],
)
def test_json_that_servers_would_not_take_is_rejected_by_name(text: str, kind: type[ProblemError], field: str) -> None:
    with pytest.raises(ProblemError) as caught:
        updated_json(text, unused_bytes=1, file="2024-01-01.1/data.parquet")
    assert type(caught.value) is kind
    assert (caught.value.problem.file, caught.value.problem.field) == ("2024-01-01.1/data.parquet", field)
    assert len(str(caught.value)) < 300


def test_an_id_below_0_is_none() -> None:
    columns = [JsonColumn(LONG, False, False, column_id) for column_id in (0, None, -1, 7)]
    assert ids_in(new_json(columns)) == (0, None, None, 7)
