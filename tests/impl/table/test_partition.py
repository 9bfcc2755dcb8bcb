"""Files that change or cannot be opened while they are read, and chunks at the limit of what is read at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pm_builder as pm
import pytest
from msgspec.structs import replace
from real_tables import rows_of, seen, snapshot_of, table_image, verified
from rejections import rejection

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind, InterceptedStorage, Run
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import CorruptError, FileMissingError, StorageError, UnsupportedError
from tornproof.impl.limits import CHUNK_LIMIT_BYTES
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import PartitionFiles, read_chunk, read_published

DAY = "2024-01-01.1"
DATA, PM = f"{DAY}/data.parquet", f"{DAY}/_pm"
TOKEN = 10642


class UnkindStorage(InterceptedStorage):
    """An image of which some files are truncated after their size was read, and others cannot be opened."""

    def __init__(
        self, image: DiskImage, cuts: dict[str, int] | None = None, rejections: dict[str, StorageError] | None = None
    ) -> None:
        super().__init__(MemoryStorage.of(image))
        self.cuts, self.rejections = cuts or {}, rejections or {}

    def intercept(self, call: Call, run: Run[Any]) -> Any:
        if call.kind is CallKind.OPEN_FOR_READING and call.path in self.rejections:
            raise self.rejections[call.path]
        answer = run()
        if call.kind is CallKind.PREAD and call.path in self.cuts:
            return answer[: max(0, self.cuts[call.path] - call.offset_bytes)]
        return answer


def test_metadata_that_is_cut_while_it_is_read_is_a_problem_of_its_size(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    size_bytes = len(image.files[f"{path}/{PM}"])
    assert verified(path, UnkindStorage(image, {f"{path}/{PM}": size_bytes})).sound
    cut = UnkindStorage(image, {f"{path}/{PM}": size_bytes - 1})
    (problem,) = verified(path, cut).all_problems
    assert (problem.file, problem.field, problem.offset_bytes) == (PM, "size", None)
    assert problem.expected == f"{size_bytes} bytes, as the header says"
    assert problem.actual == f"{size_bytes - 1}: the file was cut while it was read"
    gone = rejection(lambda: read_published(PartitionFiles(storage=cut, path=f"{path}/{DAY}", name=DAY)))
    assert gone == problem


@pytest.mark.parametrize("end_bytes", [0, TOKEN - 8, TOKEN - 1])
def test_data_that_is_cut_while_it_is_read_is_a_problem_of_its_size(end_bytes: int, questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    assert verified(path, UnkindStorage(image, {f"{path}/{DATA}": TOKEN})).sound
    (problem,) = verified(path, UnkindStorage(image, {f"{path}/{DATA}": end_bytes})).all_problems
    assert (problem.file, problem.field, problem.offset_bytes) == (DATA, "size", None)
    assert problem.actual == "a file that was cut meanwhile"


def test_a_chunk_that_is_cut_while_it_is_read_is_named(questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    chunk = pm.read(image.files[f"{path}/{PM}"], TOKEN).blocks[0].chunks[1]

    def read(end_bytes: int) -> bytes:
        handle = UnkindStorage(image, {f"{path}/{DATA}": end_bytes}).open_for_reading(f"{path}/{DATA}")
        return read_chunk(handle, chunk, file=DATA)

    assert len(read(chunk.byte_range_end)) == chunk.total_compressed
    problem = rejection(lambda: read(chunk.byte_range_end - 1))
    assert (problem.field, problem.offset_bytes) == ("column chunk", chunk.byte_range_start)
    assert problem.actual == f"{chunk.total_compressed - 1} bytes before the file ends"


@pytest.mark.parametrize("size_bytes", [TOKEN - 1, TOKEN - 500, 0])
def test_data_shorter_than_the_token_has_no_dead_bytes(size_bytes: int, questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    content = image.files[f"{path}/{DATA}"]
    assert (len(content), verified(path, image).partitions[0].dead_bytes) == (TOKEN, 0)
    report = verified(path, image.with_file(f"{path}/{DATA}", content[:size_bytes]))
    assert seen(report) == [(DATA, "size", None)]
    assert report.partitions[0].dead_bytes == 0
    longer = verified(path, image.with_file(f"{path}/{DATA}", content + b"dead"))
    assert longer.partitions[0].dead_bytes == 4


@pytest.mark.parametrize("file", [PM, DATA])
def test_a_file_that_cannot_be_read_just_now_is_no_damage(file: str, questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    rejected = StorageError(file=f"{path}/{file}", operation="open", reason="Input/output error")
    storage = UnkindStorage(image, rejections={f"{path}/{file}": rejected})
    actions: list[Callable[[], object]] = [lambda: verified(path, storage), lambda: rows_of(snapshot_of(path, storage))]
    for action in actions:
        with pytest.raises(StorageError) as caught:
            action()
        assert caught.value is rejected


@pytest.mark.parametrize("file", [PM, DATA])
def test_what_is_no_file_or_is_not_there_is_damage(file: str, questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    missing = FileMissingError(file=f"{path}/{file}", operation="open", reason="No such file or directory")
    odd = StorageError(file=f"{path}/{file}", operation="open", reason="it is a directory")
    directory = image.without_file(f"{path}/{file}").with_file(f"{path}/{file}/entry", b"")
    for storage, actual in (
        (UnkindStorage(image, rejections={f"{path}/{file}": missing}), "none"),
        (UnkindStorage(directory, rejections={f"{path}/{file}": odd}), "it is a directory"),
    ):
        with pytest.raises(CorruptError) as caught:
            rows_of(snapshot_of(path, storage))
        problem = caught.value.problem
        assert (problem.file, problem.field, problem.actual) == (file, "file", actual)


def test_a_chunk_above_the_limit_is_not_read(tmp_path: Path) -> None:
    position = tmp_path / "data.parquet"
    with position.open("wb") as made:
        made.truncate(CHUNK_LIMIT_BYTES + 100)
    storage = OperatingSystemStorage()
    with storage.open_for_reading(str(position)) as handle:
        fitting = replace(pm.chunk(4), total_compressed=CHUNK_LIMIT_BYTES)
        above = replace(fitting, total_compressed=CHUNK_LIMIT_BYTES + 1)
        problem = rejection(lambda: read_chunk(handle, above, file=DATA), UnsupportedError)
        assert (problem.field, problem.offset_bytes) == ("column chunk", 4)
        assert (problem.expected, problem.actual) == (f"at most {128 << 20} bytes", str((128 << 20) + 1))
        assert storage.counters().read_bytes == 0
        assert len(read_chunk(handle, fitting, file=DATA)) == CHUNK_LIMIT_BYTES
