"""Which columns an archive has: those of a file, of a sample, of a table; and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.types.names import type_name
from tornproof.impl.types.questdb import TypeTag
from tornproof.pipeline.ingest.schema import (
    DOUBLES,
    TYPES,
    ArchiveSchema,
    SchemaRejectedError,
    infer_schema,
    read_schema_file,
    schema_of_table,
)


def shape(schema: ArchiveSchema) -> dict[str, str]:
    return {f"{column.name}={'.'.join(column.keys)}": type_name(column.type) for column in schema.columns}


def inferred(*frames: dict[str, Any], timestamp: str | None = None) -> dict[str, str]:
    return shape(infer_schema(frames, timestamp))


def test_types_are_those_of_the_values() -> None:
    frame = {"b": True, "l": 1, "d": 1.5, "v": "x", "a": [1, 2.5, None], "e": [], "j": ["x"], "n": None, "big": 2**63}
    assert inferred({"ts": "2024-01-01", **frame}) == {
        "ts=ts": "TIMESTAMP", "b=b": "BOOLEAN", "l=l": "LONG", "d=d": "DOUBLE", "v=v": "VARCHAR", "a=a": "DOUBLE[]",
        "e=e": "DOUBLE[]", "j=j": "VARCHAR", "n=n": "VARCHAR", "big=big": "DOUBLE",
    }  # fmt: skip


def test_later_frames_widen_numbers_fill_in_nulls_and_otherwise_change_no_type() -> None:
    first: dict[str, Any] = {"time": 1, "x": 1, "y": None, "z": "text", "g": None, "h": {"a": 1}, "k": 1}
    second: dict[str, Any] = {
        "time": 2.5,
        "x": 0.5,
        "y": 7,
        "z": 1,
        "g": {"lat": 1},
        "h": 3,
        "k": {"a": 1},
        "m": True,
    }
    assert inferred(first, second) == {
        "time=time": "TIMESTAMP", "x=x": "DOUBLE", "y=y": "LONG", "z=z": "VARCHAR", "g_lat=g.lat": "LONG",
        "h=h": "LONG", "k=k": "LONG", "m=m": "BOOLEAN",
    }  # fmt: skip


def test_nested_objects_and_strange_keys_get_names_that_a_table_can_have() -> None:
    frame = {"ts": 1, "gps": {"lat": 1.5, "fix": {"ok": True}}, "a.b": 1, "x" * 200: 1, "": 2}
    assert inferred(frame) == {
        "ts=ts": "TIMESTAMP", "gps_lat=gps.lat": "DOUBLE", "gps_fix_ok=gps.fix.ok": "BOOLEAN", "a_b=a.b": "LONG",
        f"{'x' * 127}={'x' * 200}": "LONG", "_=": "LONG",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "timestamp", "words"),
    [
        ({"x": 1}, None, "none of timestamp, ts, time is there to be the designated timestamp; found are x"),
        ({}, None, "found are no columns"),
        ({"ts": 1}, "at", "there is no 'at' to be the designated timestamp"),
        ({"ts": 1, "a.b": 1, "a": {"b": 2}}, None, "'a.b' and 'a.b' get columns of one name"),
        ({"ts": 1, "A": 1, "a": 2}, None, "'A' and 'a' get columns of one name"),
    ],
)
def test_a_sample_that_gives_no_table_is_rejected(frame: dict[str, Any], timestamp: str | None, words: str) -> None:
    with pytest.raises(SchemaRejectedError, match=words):
        inferred(frame, timestamp=timestamp)


def test_the_designated_timestamp_is_the_one_asked_for_or_the_first_usual_one() -> None:
    frame = {"time": 1, "timestamp": 2, "gps": {"at": 3}}
    assert infer_schema([frame], None).timestamp == "timestamp"
    assert infer_schema([frame], "time").timestamp == "time"
    assert infer_schema([frame], "gps.at").timestamp == "gps_at"


def test_keys_with_half_of_a_surrogate_pair_are_no_columns(tmp_path: Path) -> None:
    """One such line ended a dry run in an error of Python, and else refused the archive of all others."""
    frame = {"ts": 1, "a\ud800": 1, "gps": {"\udc00": 2, "lat": 1.5}, "b\ud800": {"c": 1}, "\U0001f600": 3}
    assert inferred(frame) == {"ts=ts": "TIMESTAMP", "gps_lat=gps.lat": "DOUBLE", "\U0001f600=\U0001f600": "LONG"}
    path = tmp_path / "s.json"
    path.write_text('{"ts": "TIMESTAMP", "a\\ud800": "LONG"}')
    with pytest.raises(SchemaRejectedError, match=r"s\.json: 'a\\ud800': a name is text in UTF-8"):
        read_schema_file(path, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.toml", 'at = "TIMESTAMP"\n"gps.lat" = "double"\n[gps.fix]\nok = "BOOLEAN"\n'),
        ("s.json", '{"at": "TIMESTAMP", "gps": {"lat": "DOUBLE"}, "gps.fix.ok": "boolean"}'),
    ],
)
def test_a_schema_file_names_columns_in_tables_or_with_dots(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    expected = {"at=at": "TIMESTAMP", "gps_lat=gps.lat": "DOUBLE", "gps_fix_ok=gps.fix.ok": "BOOLEAN"}
    assert shape(read_schema_file(path, "at")) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ts =", "cannot be read as a schema"),
        ("\xff", "cannot be read as a schema"),
        ('ts = "SYMBOL"', "'SYMBOL' is not one of the types"),
        ("ts = 1", "1 is not one of the types"),
        ('ts = "LONG"', "there is no column 'ts' of type TIMESTAMP"),
        ('ts = "TIMESTAMP"\na = "LONG"\n"a.b" = "LONG"', "'a.b': is inside of a value that is a column itself"),
        ('ts = "TIMESTAMP"\n"a.b" = "LONG"\na_b = "LONG"', "get columns of one name"),
        ('x = "LONG"', "none of timestamp, ts, time"),
    ],
)
def test_a_schema_file_that_gives_no_table_is_rejected_by_its_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SchemaRejectedError, match=words) as rejected:
        read_schema_file(path, None)
    assert str(rejected.value).startswith(f"{path}: ")
    with pytest.raises(SchemaRejectedError, match="No such file"):
        read_schema_file(tmp_path / "none.toml", None)


def table(*columns: NewColumn) -> TableMetadata:
    numbered = [
        TableColumn(id=number, name=column.name, type=column.type, is_dedup_key=column.is_dedup_key)
        for number, column in enumerate(columns)
    ]
    return TableMetadata(columns=tuple(numbered), partition_by=PartitionBy.DAY, timestamp_id=0)


def test_a_table_that_is_there_gives_the_columns_and_says_where_values_lie() -> None:
    metadata = table(NewColumn(name="at", type=TypeTag.TIMESTAMP), NewColumn(name="gps_lat", type=TypeTag.DOUBLE))
    schema = schema_of_table(metadata, {"gps_lat": ("gps", "lat"), "other": ("other",)})
    assert shape(schema) == {"at=at": "TIMESTAMP", "gps_lat=gps.lat": "DOUBLE"}
    assert schema.timestamp == "at"


@pytest.mark.parametrize("kind", [TypeTag.SYMBOL, TypeTag.UUID, TypeTag.DATE])
def test_a_table_with_types_that_frames_are_not_read_into_is_rejected(kind: TypeTag) -> None:
    metadata = table(NewColumn(name="at", type=TypeTag.TIMESTAMP), NewColumn(name="x", type=kind))
    with pytest.raises(SchemaRejectedError, match="column 'x' of the table has a type that frames are not read into"):
        schema_of_table(metadata, {})


def test_a_table_with_deduplication_keys_is_rejected() -> None:
    metadata = table(NewColumn(name="at", type=TypeTag.TIMESTAMP, is_dedup_key=True))
    with pytest.raises(SchemaRejectedError, match="deduplication keys"):
        schema_of_table(metadata, {})


def test_a_table_without_a_designated_timestamp_is_rejected_in_words() -> None:
    """Such a table ended in an error of Python."""
    metadata = replace(table(NewColumn(name="at", type=TypeTag.TIMESTAMP)), timestamp_id=-1)
    with pytest.raises(SchemaRejectedError, match="the table has no designated timestamp"):
        schema_of_table(metadata, {})


def test_another_designated_timestamp_than_that_of_the_table_is_rejected() -> None:
    """It was ignored, also if it was the name of no column."""
    names = ("gps_at", "seen")
    metadata = table(*(NewColumn(name=name, type=TypeTag.TIMESTAMP) for name in names))
    for asked in (None, "gps_at", "gps.at"):
        assert schema_of_table(metadata, {"gps_at": ("gps", "at")}, asked).timestamp == "gps_at"
    for asked, words in (
        ("seen", "the designated timestamp of the table is 'gps_at', not 'seen'"),
        ("none", "there is no 'none' to be the designated timestamp; found are gps_at, seen"),
    ):
        with pytest.raises(SchemaRejectedError, match=words):
            schema_of_table(metadata, {}, asked)


def test_every_type_has_a_name_of_its_own() -> None:
    assert len(set(TYPES.values())) == len(TYPES) == 11 and TYPES["DOUBLE[]"] == DOUBLES
