"""The result files of a campaign's tasks: finding them, and reading one, which may have been changed since."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tornproof.harness.common.verdict import Verdict
from tornproof.impl.errors import StorageError
from tornproof.pipeline.campaign.spec import CampaignError
from tornproof.pipeline.campaign.tasks import KEY, RESULT_SCHEMA, RESULTS
from tornproof.pipeline.files import Location

RESULT_NAMES = tuple(RESULT_SCHEMA.names)
ROWS_A_FILE_MAX = 100_000
"""A spec allows no larger tasks."""
BYTES_A_FILE_MAX = 1 << 30
"""Larger files, by their own footer, are not read."""
MESSAGE_CHARACTERS_MAX = 400
_TASK_FILE = re.compile(r"group=([^/]*)/task-(\d{7,12})\.parquet")
_VERDICTS = pa.array([verdict.name for verdict in Verdict])


class ResultFile(NamedTuple):
    """The result file of a task; `number` is its index in the plan."""

    number: int
    group: str
    location: Location


def result_files(out: Location) -> list[ResultFile]:
    """Return the result files that there are, in the order of the plan."""
    directory = out / RESULTS
    if not directory.exists():
        return []
    found = ((_TASK_FILE.fullmatch(file.relative_to(directory)), file) for file, _ in directory.files_below())
    return sorted(ResultFile(int(match[2]), match[1], file) for match, file in found if match)


def read_results(file: ResultFile) -> pa.Table:
    """Return the results of a task; raises CampaignError for what no task writes.

    A task has one cell, and consecutive seeds.
    """
    try:
        with file.location.open_for_reading(mapped=True) as source, pq.ParquetFile(source) as parquet:
            _check_schema(file, parquet.schema_arrow)
            _check_size(file, parquet.metadata)
            rows = parquet.read(columns=list(RESULT_NAMES), use_threads=False).select(RESULT_NAMES)
            rows.validate(full=True)
    except (OSError, MemoryError, pa.ArrowException, StorageError) as error:
        reject(file, str(error).partition("\n")[0])
    for name, column in zip(RESULT_NAMES, rows.columns, strict=True):
        inner_null_count = column.combine_chunks().flatten().null_count if pa.types.is_list(column.type) else 0
        if column.null_count + inner_null_count:
            reject(file, f"{name}: expected a value in each row, found nothing")
    for field in KEY[:3]:
        if pc.count_distinct(rows.column(field.name)).as_py() != 1:
            reject(file, f"{field.name}: expected the same in all rows, found others")
    seeds = rows.column("seed").to_numpy()
    if (seeds[1:] - seeds[:-1] != 1).any():
        reject(file, "seed: expected numbers that follow each other, found others")
    if not pc.all(pc.is_in(rows.column("verdict"), _VERDICTS)).as_py():
        reject(file, f"verdict: expected one of {', '.join(_VERDICTS.to_pylist())}, found another one")
    return rows


def reject(file: ResultFile, why: str) -> NoReturn:
    """Raise the error of a file that no task has written."""
    raise CampaignError(f"{file.location}: not the results of a task: {why[:MESSAGE_CHARACTERS_MAX]}")


def _check_schema(file: ResultFile, schema: pa.Schema) -> None:
    for wanted in RESULT_SCHEMA:
        indices = schema.get_all_field_indices(wanted.name)
        if len(indices) != 1 or schema.field(indices[0]).type != wanted.type:
            found = ", ".join(str(schema.field(index).type) for index in indices) or "none"
            reject(file, f"{wanted.name}: expected one column of type {wanted.type}, found {found}")


def _check_size(file: ResultFile, metadata: pq.FileMetaData) -> None:
    if not 1 <= metadata.num_rows <= ROWS_A_FILE_MAX:
        reject(file, f"rows: expected 1 to {ROWS_A_FILE_MAX:,}, found {metadata.num_rows:,}")
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    size_bytes = sum(group.total_byte_size for group in groups)
    if size_bytes > BYTES_A_FILE_MAX:
        reject(file, f"size: expected at most {BYTES_A_FILE_MAX:,} bytes, found {size_bytes:,}")
