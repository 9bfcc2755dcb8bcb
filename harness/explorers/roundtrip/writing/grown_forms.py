"""Whether rows can be added to partitions whose files are in other forms, and all footers say the same afterwards."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.parquet as pq

from tornproof.harness.common.new_tables import commit_prepared
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.forms import FORMS, Form, in_form, opened, reader_of
from tornproof.harness.explorers.roundtrip.writing.kills import (
    WRITER,
    Rows,
    commit,
    execute_and_spoil,
    reported,
    rows_in,
    table_of_rows,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm, ParquetTail
from tornproof.impl.migrate.convert import convert
from tornproof.impl.parquet.thrift import Field, decode
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.write.adoption import PreparedPartition

PROPERTY = "rows can be added to a partition whose file is in another form"
PATH, PREPARED = "grown", "grown/prepared"
DAY = 86_400_000_000
FIRST_DAY = FIRST_TIME // DAY * DAY
FIRST: Rows = [(FIRST_TIME + 10 * number, number) for number in range(5)]
OTHER_DAY: Rows = [(FIRST_TIME + DAY, 7)]
EXTENSION_IDS = {-16_384, 32_767}
"""What 32767 is as it is, read as a zigzag number, and as one."""
TIMES = {"behind the others": 100, "between others": 15}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownForm:
    """The form of a partition's file, and where a row is added."""

    form: Form
    kind: str

    @property
    def name(self) -> str:
        """It in words."""
        return f"a row {self.kind} in a file with {self.form.name}"


@functools.cache
def grown_forms() -> tuple[GrownForm, ...]:
    """Return each form with each row, always in the same order."""
    forms = [form for form in FORMS if form.is_for_others]
    return tuple(GrownForm(form=form, kind=kind) for kind in TIMES for form in forms)


def problem_of(case: GrownForm) -> str | None:
    """Say what is wrong with the partition after the commit; None if nothing is."""
    storage = MemoryStorage.of(_image(case.form))
    added = (FIRST_TIME + TIMES[case.kind], 9)
    commit(storage, PATH, [added])
    expected = sorted([*FIRST, added])
    if (rows := rows_in(storage, PATH)) != [*expected, *OTHER_DAY]:
        return f"the rows are {rows}"
    table = open_table(storage, PATH)
    partition = table.transaction().partitions[0]
    with table.files_of(partition).open_data() as data:
        content = data.pread(partition.token, 0)
    footer = opened(content)
    if (footer.form, footer.doubt) != (case.form.footer, None):
        return f"its footer is {footer.form}, with the doubt {footer.doubt}"
    if len(found := _extensions(content)) != (case.form.footer is not FooterForm.THRIFT):
        return f"its footer has {len(found)} extensions"
    if (seen := _seen_by_others(content)) != [value for _, value in expected]:
        return f"pyarrow reads {seen}"
    return reported(storage, PATH)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that keep, lose or change what they must not."""
    writer = "tornproof.impl.write.partition_writer"
    controls: Controls = (
        ("rows are lost", f"{__name__}:rows_in", lambda *_: [], "the rows are"),
        ("the name is lost", f"{WRITER}:execute", execute_and_spoil, "verify reports"),
        ("the extension is forgotten", f"{writer}:form_of_extension", lambda _: FooterForm.THRIFT, "its footer is"),
        ("the old extension stays, too", f"{writer}:without_extension", lambda struct: struct, "2 extensions"),
        ("others see other rows", f"{__name__}:_seen_by_others", lambda content: [], "pyarrow reads"),
    )
    for each in grown_forms():
        # Made before all mistakes, because it is kept.
        _image(each.form)
    return not_noticed(controls, problem_of, grown_forms())


def _extensions(content: bytes) -> list[Field]:
    """Return the fields of the Thrift footer in which extensions are."""
    end = len(content) - ParquetTail.layout.size_bytes
    start = end - ParquetTail.unpack(content, end, file=DATA_FILE).footer_length
    tree, _ = decode(content[start:end], file=DATA_FILE)
    return [field for field in tree.fields if field.id in EXTENSION_IDS]


def _seen_by_others(content: bytes) -> list[int]:
    values: list[int] = pq.read_table(io.BytesIO(content))["v"].to_pylist()
    return values


@functools.cache
def _image(form: Form) -> DiskImage:
    """Return a table with a partition that was adopted in this form."""
    made = table_of_rows(PATH, FIRST)
    path = the_only(path for path in made.files if path.endswith(DATA_FILE))
    content = in_form(made.files[path], form.footer, form.chunks, form.header)
    metadata = convert(reader_of(content), size_bytes=len(content), file=path)
    there = table_of_rows(PATH, OTHER_DAY)
    files = {f"{PREPARED}/{DATA_FILE}": content, f"{PREPARED}/{PM_FILE}": metadata}
    storage = MemoryStorage.of(DiskImage({**there.files, **files}, there.directories | {PREPARED}))
    prepared = PreparedPartition(directory_path=PREPARED, timestamp=FIRST_DAY, row_count=len(FIRST), token=len(content))
    commit_prepared(storage, PATH, prepared)
    return storage.image()
