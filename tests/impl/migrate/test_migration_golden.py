import json
import re
from pathlib import Path

import migrated_files as mf
import pytest
from migrated_files import SERVER, TOOL, converted

from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.rejections import Cause

# Messages of QuestDB's converter, by class; the first match counts.
ERRORS = {
    "The file must end with PAR1|at least 12 bytes|footer size must be smaller": Cause.TAIL,
    "could not read parquet bloom filter": Cause.BLOOM,
    "could not decode page": Cause.PAGES,
    "Number must be zero or positive": Cause.NEGATIVE,
    "Invalid thrift: protocol error": Cause.FIELD_MISSING,
    "Invalid thrift: bad data": Cause.BAD_DATA,
    "Invalid thrift: message too long": Cause.BUDGET,
    "Invalid thrift: end of file": Cause.TRUNCATED,
    "Invalid thrift: transport error": Cause.VARINT,
    "Invalid thrift: maximum skip depth": Cause.DEPTH,
    "Thrift out of range": Cause.OUT_OF_RANGE,
    "Unknown type|must be defined for|MUST be a group|Cannot annotate|can only annotate|LogicalType value"
    "|exactly one root": Cause.SCHEMA,
    "number of columns in the row group|Column chunk requires": Cause.ROW_GROUP,
    "questdb metadata version|QdbMeta schema|at line \\d+ column \\d+": Cause.JSON,
    "external file_path": Cause.FILE_PATH,
    "sorting column": Cause.SORTING,
    "does not fit in u8": Cause.LEVELS,
    "out-of-line stat length": Cause.LONG_STATISTIC,
}
MODES = {"tool": TOOL, "server": SERVER}
BLOOM_TABLE = "server-mode/tables-9.4.2-bloom-2024-06-01.1.pm"
BLOOM_FILE = "server-mode/data_index_bloom_encoding_with_length.parquet"
# Refused by QuestDB alone: its budget, and what is unknown to it.
TAKEN_WITHOUT_BUDGET = {
    "footer-budget-300-encodings",
    "footer-ext-in-columnmetadata-nonutf8",
    "footer-size-stats-histogram-200",
    "footer-unknown-uuid-type-13",
}
AS_QUESTDB = pytest.mark.parametrize("as_questdb", [True, False])


def cause_in(text: str) -> Cause:
    return next(cause for pattern, cause in ERRORS.items() if re.search(pattern, text))


def answers(questdb_data: Path) -> dict[str, dict[str, str]]:
    index: dict[str, dict[str, str]] = json.loads((questdb_data / "vectors/index.json").read_text())
    return index


@AS_QUESTDB
@pytest.mark.parametrize("name", mf.EXTERNAL)
def test_public_files_are_converted_as_by_the_tool(name: str, as_questdb: bool, questdb_data: Path) -> None:
    pm = converted(mf.external(questdb_data, name), TOOL, as_questdb=as_questdb)
    assert pm == (questdb_data / f"{name}.pm").read_bytes()


@AS_QUESTDB
@pytest.mark.parametrize("name", mf.REGENERATED)
def test_partitions_are_converted_as_by_the_tool(name: str, as_questdb: bool, questdb_data: Path) -> None:
    pm = converted(mf.partition(questdb_data, name), TOOL, as_questdb=as_questdb)
    assert pm == (questdb_data / name).read_bytes()


@AS_QUESTDB
@pytest.mark.parametrize("name", mf.MIGRATED)
def test_old_tables_are_converted_as_by_the_server(name: str, as_questdb: bool, questdb_data: Path) -> None:
    pm = converted(mf.partition(questdb_data, name), SERVER, as_questdb=as_questdb)
    assert pm == (questdb_data / name).read_bytes()


def test_archive_holds_every_kind_of_converted_file() -> None:
    counts = [
        len(names) for names in (mf.EXTERNAL, mf.REJECTED, mf.REGENERATED, mf.MIGRATED, mf.VECTORS, mf.SERVER_MODE)
    ]
    assert counts == [47, 6, 36, 12, 100, 2]


@AS_QUESTDB
def test_server_inlines_the_filters_of_a_table(as_questdb: bool, questdb_data: Path) -> None:
    data = (questdb_data / "tables/9.4.2/bloom/table/2024-06-01.1/data.parquet").read_bytes()
    assert converted(data, SERVER, as_questdb=as_questdb) == (questdb_data / BLOOM_TABLE).read_bytes()


@AS_QUESTDB
def test_server_inlines_the_filters_of_a_public_file(as_questdb: bool, questdb_data: Path) -> None:
    data = (questdb_data / BLOOM_FILE).read_bytes()
    assert converted(data, SERVER, as_questdb=as_questdb) == (questdb_data / f"{BLOOM_FILE}.pm").read_bytes()
    assert converted(data, TOOL) != converted(data, SERVER)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", mf.VECTORS)
def test_vectors_have_the_answers_of_the_converter(name: str, mode: str, questdb_data: Path) -> None:
    data = (questdb_data / f"{name}.parquet").read_bytes()
    answer = answers(questdb_data)[name.removeprefix("vectors/")][mode]
    if answer != "ok":
        assert mf.cause_of(data, MODES[mode], as_questdb=True) is cause_in(answer)
        return
    golden = questdb_data / f"{name}.{mode}.pm"
    expected = (golden if golden.exists() else questdb_data / f"{name}.tool.pm").read_bytes()
    assert converted(data, MODES[mode], as_questdb=True) == expected
    assert converted(data, MODES[mode]) == expected


@pytest.mark.parametrize("mode", MODES)
def test_without_the_limits_of_the_converter_only_what_is_wrong_is_rejected(mode: str, questdb_data: Path) -> None:
    taken = set()
    for name, answer in answers(questdb_data).items():
        if answer[mode] != "ok":
            cause = mf.cause_of((questdb_data / f"vectors/{name}.parquet").read_bytes(), MODES[mode])
            assert cause in (None, cause_in(answer[mode])), name
            taken |= {name} if cause is None else set()
    assert taken == TAKEN_WITHOUT_BUDGET


@pytest.mark.parametrize("name", mf.REJECTED)
def test_public_files_are_rejected_for_the_causes_of_the_converter(name: str, questdb_data: Path) -> None:
    rejected = dict(json.loads((questdb_data / "external/index.json").read_text())["refused"])
    cause = mf.cause_of(mf.external(questdb_data, name), TOOL, as_questdb=True)
    assert cause is cause_in(rejected[name.removeprefix("external/")])


def test_modes_have_names_of_their_own() -> None:
    assert list(ConversionMode) == [TOOL, SERVER]
