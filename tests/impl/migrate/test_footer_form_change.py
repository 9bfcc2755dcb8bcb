"""Files whose footers get another form: there and back, in place or elsewhere, and what is rejected."""

import itertools
import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_forms import in_form, read, sample_file
from parquet_files import footer_bytes

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import BusyError, CorruptError, StorageError, UnsupportedError, UsageError
from tornproof.impl.extension.point import HeaderForm, append_extension
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.chunk_form import PART_SIZE_BYTES
from tornproof.impl.migrate.footer_form import change_footer_form
from tornproof.impl.parquet.footer import file_tail
from tornproof.impl.storage.operating_system import OperatingSystemStorage

PATH = "d/x.parquet"


def storage_of(content: bytes, path: str = PATH) -> MemoryStorage:
    return MemoryStorage.of(DiskImage.of_files({path: content}))


def test_every_change_of_form_and_back_gives_the_same_bytes() -> None:
    content = sample_file()
    for header, (first, second) in itertools.product(HeaderForm, itertools.permutations(FooterForm, 2)):
        storage = storage_of(content)
        for form in (first, second, FooterForm.THRIFT):
            done = change_footer_form(storage, PATH, form, header=header)
            now = storage.image().files
            assert (done.after, done.written_to) == (form, PATH)
            assert list(now) == [PATH]
            assert len(now[PATH]) == done.size_after
            assert now[PATH] == in_form(content, form, header)
        assert now[PATH] == content


def test_a_copy_leaves_the_file_as_it_was() -> None:
    content = sample_file()
    storage = storage_of(content)
    done = change_footer_form(storage, PATH, FooterForm.FINAL, out="d/y.parquet")
    assert (done.before, done.after, done.path, done.written_to) == (
        FooterForm.THRIFT,
        FooterForm.FINAL,
        PATH,
        "d/y.parquet",
    )
    assert storage.image().files == {PATH: content, "d/y.parquet": in_form(content, FooterForm.FINAL)}
    assert done.footer_before + done.size_after == done.footer_after + done.size_before


def test_files_of_several_parts_are_copied_whole() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": pa.array(range(400_000))}), sink, use_dictionary=False, compression="none")
    content = sink.getvalue().to_pybytes()
    assert len(content) > 2 * PART_SIZE_BYTES
    storage = storage_of(content)
    change_footer_form(storage, PATH, FooterForm.PRIVATE)
    assert storage.image().files[PATH] == in_form(content, FooterForm.PRIVATE)


@pytest.mark.parametrize("out", [None, "t/day/data.parquet", "./t/day/../day//data.parquet"])
@pytest.mark.parametrize("recorded_in", ["t/day/_pm", "t/_txn"])
def test_the_data_of_a_partition_is_changed_in_a_copy_only(recorded_in: str, out: str | None) -> None:
    """An `out` that was the file itself replaced it, and so did any call where there is no `_pm`."""
    content = sample_file()
    storage = MemoryStorage.of(DiskImage.of_files({"t/day/data.parquet": content, recorded_in: b"x"}))
    with pytest.raises(UsageError, match="it is the data of a partition"):
        change_footer_form(storage, "t/day/data.parquet", FooterForm.PRIVATE, out=out)
    change_footer_form(storage, "t/day/data.parquet", FooterForm.PRIVATE, out="copy.parquet")
    with pytest.raises(UsageError, match="it is the data of a partition"):
        change_footer_form(storage, "copy.parquet", out="t/day/data.parquet")
    assert storage.image().files["t/day/data.parquet"] == content
    change_footer_form(storage_of(content, "data.parquet"), "data.parquet", FooterForm.PRIVATE)


def test_the_data_of_a_partition_is_known_through_links_and_from_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = sample_file()
    for directory in ("t/day", "elsewhere"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "data.parquet").write_bytes(content)
    (tmp_path / "t" / "_txn").touch()
    (tmp_path / "t" / "linked").symlink_to("../elsewhere")
    (tmp_path / "link.parquet").symlink_to("t/day/data.parquet")
    monkeypatch.chdir(tmp_path / "t" / "day")
    for path in ("data.parquet", "../linked/data.parquet"):
        with pytest.raises(UsageError, match="it is the data of a partition"):
            change_footer_form(OperatingSystemStorage(), path, FooterForm.PRIVATE)
    with pytest.raises(StorageError, match="it is a symbolic link"):
        change_footer_form(OperatingSystemStorage(), "data.parquet", FooterForm.PRIVATE, out="../../link.parquet")
    assert (
        (tmp_path / "t/day/data.parquet").read_bytes() == (tmp_path / "elsewhere/data.parquet").read_bytes() == content
    )


def test_an_empty_out_is_no_place() -> None:
    """It was taken for none, so that the file itself was replaced."""
    storage = storage_of(content := sample_file())
    with pytest.raises(UsageError, match="out: expected the path of a file, found an empty one"):
        change_footer_form(storage, PATH, FooterForm.PRIVATE, out="")
    assert storage.image().files == {PATH: content}


def test_the_extension_of_somebody_else_is_not_replaced() -> None:
    content = sample_file()
    thrift, offset_bytes = footer_bytes(content)
    foreign = content[:offset_bytes] + file_tail(append_extension(thrift, b"somebody else's"))
    for form in FooterForm:
        storage = storage_of(foreign)
        with pytest.raises(UnsupportedError, match="expected none, or one with a footer, found one of which its UUID"):
            change_footer_form(storage, PATH, form)
        assert storage.image().files == {PATH: foreign}


def test_damage_is_not_hidden_by_a_new_footer() -> None:
    content = in_form(sample_file(), FooterForm.FINAL)
    damaged = content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]
    storage = storage_of(damaged)
    with pytest.raises(CorruptError, match="FLATBUFFER_CRC"):
        change_footer_form(storage, PATH, FooterForm.THRIFT)
    assert storage.image().files == {PATH: damaged}


def test_a_damaged_extension_is_made_anew_from_thrift() -> None:
    content = in_form(sample_file(), FooterForm.PRIVATE)
    damaged = content[:-60] + bytes([content[-60] ^ 1]) + content[-59:]
    assert read(damaged).doubt is not None
    storage = storage_of(damaged)
    change_footer_form(storage, PATH, FooterForm.PRIVATE)
    assert storage.image().files[PATH] == content


def numbers_from(start: int) -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.table({"x": pa.array(range(start, start + 400_000))})
    pq.write_table(rows, sink, use_dictionary=False, compression="none", store_schema=False)
    return bytes(sink.getvalue())


class Meanwhile(InterceptedStorage):
    """A storage in which another process writes to the file while it is copied."""

    def __init__(self, storage: MemoryStorage, content: bytes, offset_bytes: int) -> None:
        super().__init__(storage)
        self._written = content, offset_bytes

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        if call.kind is CallKind.PWRITE and call.path.endswith(".migrating"):
            with self._inner.open_for_writing(PATH) as file:
                file.pwrite(*self._written)
        return run()


@pytest.mark.parametrize("is_longer", [True, False])
@pytest.mark.parametrize("chunks", ChunkForm)
def test_a_file_that_changes_meanwhile_is_left_alone(chunks: ChunkForm, is_longer: bool) -> None:
    one, other = (numbers_from(start) for start in (0, 1))
    assert len(one) == len(other) and one != other
    storage = storage_of(one)
    meanwhile = Meanwhile(storage, b"more", len(one)) if is_longer else Meanwhile(storage, other, 0)
    with pytest.raises(BusyError, match="the file changed while it was read; nothing was written"):
        change_footer_form(meanwhile, PATH, FooterForm.PRIVATE, chunks=chunks)
    assert storage.image().files == {PATH: one + b"more" if is_longer else other}


class Overtaken(InterceptedStorage):
    """A storage in which another process changes the file, too, before a call of a kind on the unfinished one."""

    def __init__(self, storage: MemoryStorage, kind: CallKind) -> None:
        super().__init__(storage)
        self._other, self._kind, self.said = storage.fork_process(), kind, ""

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        if call.kind is self._kind and call.path.endswith(".migrating") and not self.said:
            try:
                change_footer_form(self._other, PATH, FooterForm.MIGRATION)
                self.said = "done"
            except BusyError as error:
                self.said = str(error)
        return run()


@pytest.mark.parametrize("kind", [CallKind.PWRITE, CallKind.FSYNC, CallKind.RENAME])
def test_of_two_processes_that_change_one_file_the_second_is_told_so(kind: CallKind) -> None:
    """It removed the unfinished file of the first, which then gave the second one's, half written, the name."""
    storage = storage_of(sample_file())
    overtaken = Overtaken(storage, kind)
    change_footer_form(overtaken, PATH, FooterForm.PRIVATE)
    assert overtaken.said == f"{PATH}: another process is writing a new file for it; try again when it is done"
    assert storage.image().files == {PATH: in_form(sample_file(), FooterForm.PRIVATE)}


@pytest.mark.parametrize("kind", [CallKind.OPEN_FOR_WRITING, CallKind.LOCK])
def test_a_process_that_was_overtaken_before_it_had_the_lock_leaves_the_file_to_the_other(kind: CallKind) -> None:
    storage = storage_of(sample_file())
    overtaken = Overtaken(storage, kind)
    with pytest.raises((BusyError, StorageError)):
        change_footer_form(overtaken, PATH, FooterForm.PRIVATE)
    assert overtaken.said == "done"
    assert storage.image().files == {PATH: in_form(sample_file(), FooterForm.MIGRATION)}


def test_a_changed_file_and_a_changed_copy_have_the_permissions_of_the_file(tmp_path: Path) -> None:
    path, copy = tmp_path / "f.parquet", tmp_path / "copy.parquet"
    path.write_bytes(sample_file())
    path.chmod(0o600)
    change_footer_form(OperatingSystemStorage(), str(path), FooterForm.PRIVATE)
    change_footer_form(OperatingSystemStorage(), str(path), FooterForm.THRIFT, out=str(copy))
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, copy)] == [0o600, 0o600]


@pytest.mark.parametrize("may_give_away", [True, False])
def test_a_changed_file_stays_that_of_its_owner(
    may_give_away: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = []

    def chown(_: str, owner: int, group: int) -> None:
        owners.append((owner, group))
        if owner >= 0 and not may_give_away:
            raise PermissionError

    path = tmp_path / "f.parquet"
    path.write_bytes(sample_file())
    owner, group = path.stat().st_uid, path.stat().st_gid
    monkeypatch.setattr("os.chown", chown)
    change_footer_form(OperatingSystemStorage(), str(path), FooterForm.PRIVATE)
    assert owners == [(owner, group), (-1, group)][: 1 if may_give_away else 2]


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    path, pipe = tmp_path / "f.parquet", tmp_path / "pipe"
    path.write_bytes(sample_file())
    os.mkfifo(pipe)
    with pytest.raises(StorageError, match="it is not a regular file"):
        change_footer_form(OperatingSystemStorage(), str(path), FooterForm.PRIVATE, out=str(pipe))
    assert pipe.is_fifo() and sorted(tmp_path.iterdir()) == [path, pipe]


def test_a_symbolic_link_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    path, link = tmp_path / "f.parquet", tmp_path / "link.parquet"
    path.write_bytes(sample_file())
    link.symlink_to(path)
    with pytest.raises(StorageError, match="it is a symbolic link; name the file that it leads to"):
        change_footer_form(OperatingSystemStorage(), str(link), FooterForm.PRIVATE)
    assert link.is_symlink() and path.read_bytes() == sample_file()
    assert sorted(tmp_path.iterdir()) == [path, link]


def test_what_is_no_file_is_said() -> None:
    with pytest.raises(StorageError):
        change_footer_form(storage_of(b""), "d/missing", FooterForm.PRIVATE)
    with pytest.raises(CorruptError, match="magic"):
        change_footer_form(storage_of(b"no Parquet file at all"), PATH, FooterForm.PRIVATE)
