"""Blocks of whole lines from files: plain, gzipped, gzipped in members, cut off, damaged, with lines of any length."""

import errno
import gzip
import io
import os
import zlib
from pathlib import Path

import pytest

from tornproof.pipeline.ingest import source as archive_source
from tornproof.pipeline.ingest import values as archive_values
from tornproof.pipeline.ingest.source import (
    Block,
    DamagedMemberError,
    Lines,
    Reject,
    SourceUnreadableError,
    digest_of,
    find_sources,
    sample_frames,
    task_groups,
)
from tornproof.pipeline.ingest.values import Reason

TEXT = b"".join(b'{"line": %d}\n' % number for number in range(1, 5001))
MARK = b"\xef\xbb\xbf"


def read(path: Path, block_bytes: int = 1000) -> tuple[bytes, list[Reject], int]:
    """Return the text of all blocks, the rejects and the number of lines; blocks must follow each other."""
    try:
        return read_lines(path, Lines(str(path), block_bytes=block_bytes))
    except DamagedMemberError as damage:
        return read_lines(path, Lines(str(path), block_bytes=block_bytes, damage=damage))


def read_lines(path: Path, lines: Lines) -> tuple[bytes, list[Reject], int]:
    text, rejects, following = b"", [], 1
    for piece in lines:
        if isinstance(piece, Block):
            assert piece.first_line == following
            following += piece.text.count(b"\n") + (not piece.text.endswith(b"\n"))
            text += piece.text
        else:
            assert piece.line == following
            following += 1
            rejects.append(piece)
    assert lines.line_count == following - 1
    assert lines.digest == digest_of(str(path))
    return text, rejects, lines.line_count


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("block_bytes", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        TEXT[:-1],
        MARK + TEXT,
        gzip.compress(TEXT),
        gzip.compress(MARK + TEXT),
        gzip.compress(TEXT[:999]) + gzip.compress(TEXT[999:]) + gzip.compress(b""),
        gzip.compress(TEXT) + bytes(1000),
    ],
    ids=["plain", "no last line end", "mark", "gzip", "gzip with mark", "members", "padded"],
)
def test_all_lines_are_read_once_whatever_the_file_is_called(tmp_path: Path, content: bytes, block_bytes: int) -> None:
    text, rejects, count = read(written(tmp_path / "frames", content), block_bytes)
    assert (text.rstrip(b"\n"), rejects, count) == (TEXT.rstrip(b"\n"), [], 5000)


def test_of_a_gzip_file_that_was_cut_off_all_whole_lines_are_kept_and_the_rest_is_one_reject(tmp_path: Path) -> None:
    content = gzip.compress(TEXT)
    for size in (len(content) - 1, len(content) - 8, len(content) // 2, 30, 12, 5):
        text, (reject,), count = read(written(tmp_path / "cut.gz", content[:size]))
        assert TEXT.startswith(text) and (text.endswith(b"\n") or not text)
        # With the trailer alone missing all lines are there.
        assert text == TEXT if size >= len(content) - 8 else len(text) < len(TEXT)
        assert (reject.reason, reject.line, count) == (Reason.BAD_GZIP, text.count(b"\n") + 1, text.count(b"\n") + 1)
        assert TEXT[len(text) :].startswith(reject.raw)


def test_damage_and_foreign_bytes_behind_gzip_are_one_reject(tmp_path: Path) -> None:
    content = gzip.compress(TEXT)
    for damaged in (content[:-8] + bytes(8), content + b"not gzip", content + b"\x1f", content[:200] + bytes(400)):
        text, (reject,), _ = read(written(tmp_path / "damaged.gz", damaged), 100)
        assert TEXT.startswith(text) and reject.reason is Reason.BAD_GZIP and reject.detail


@pytest.mark.parametrize("block_bytes", [100, 1 << 20])
@pytest.mark.parametrize("place", [-1, -6, -2000], ids=["length", "check", "data"])
def test_of_a_damaged_gzip_member_nothing_counts_and_members_before_it_stay(
    tmp_path: Path, place: int, block_bytes: int
) -> None:
    """Lines that no source had were rows in a large file, because its check came last, and a small one lost all."""
    first, second = TEXT[:999], TEXT[999:]
    last = bytearray(gzip.compress(second))
    last[place] ^= 1
    content = gzip.compress(first) + bytes(last) + gzip.compress(TEXT)
    text, (reject,), count = read(written(tmp_path / "frames.gz", content), block_bytes)
    whole = first[: first.rfind(b"\n") + 1]
    assert (text, count) == (whole, whole.count(b"\n") + 1)
    assert (reject.line, reject.raw) == (count, first[len(whole) :])
    assert reject.detail.startswith("nothing of gzip member 2 counts: ")
    numbers = [sample["line"] for sample in sample_frames([str(tmp_path / "frames.gz")], 10_000)]
    assert max(numbers) == whole.count(b"\n")


def test_without_the_fast_library_the_standard_one_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_source, "_inflater", lambda: zlib)
    content = gzip.compress(TEXT)
    assert read(written(tmp_path / "frames.gz", content))[:2] == (TEXT, [])
    text, (reject,), _ = read(written(tmp_path / "cut.gz", content[:-3]))
    assert (text, reject.reason) == (TEXT, Reason.BAD_GZIP)


@pytest.mark.parametrize("block_bytes", [1, 3, 10, 1000])
def test_a_line_that_is_too_long_is_passed_over_with_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(archive_source, "LINE_BYTES_MAX", 20)
    monkeypatch.setattr(archive_source, "READ_BYTES", 16)
    monkeypatch.setattr(archive_source, "RAW_BYTES_KEPT", 5)
    content = b"one\n" + b"x" * 100 + b"\nthree\n" + b"y" * 77
    text, rejects, count = read(written(tmp_path / "frames", content), block_bytes)
    assert count == 4
    kept = [line for line in text.split(b"\n") if len(line) <= 20]
    assert b"one" in kept and b"three" in kept
    for reject in rejects:
        assert reject.reason is Reason.TOO_LONG and reject.raw in (b"x" * 5, b"y" * 5)
        assert reject.detail in ("100 bytes, more than 20", "77 bytes, more than 20")
    # A long line that stands in a block with others is for who looks at each line.
    assert len(rejects) + sum(len(line) > 20 for line in text.split(b"\n")) == 2


def test_empty_files_have_no_lines(tmp_path: Path) -> None:
    for name, content in (("a", b""), ("b.gz", b""), ("c.gz", gzip.compress(b""))):
        assert read(written(tmp_path / name, content)) == (b"", [], 0)


@pytest.mark.parametrize("ending", [b"", b"\n"], ids=["no last line end", "last line end"])
def test_a_sample_has_the_first_lines_whatever_the_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: bytes
) -> None:
    """Each block of 1 MiB counted as one line more than it has, and a line that is too long did not count."""
    for module in (archive_source, archive_values):
        monkeypatch.setattr(module, "LINE_BYTES_MAX", 20)
    lines = [b'{"a": 1}', b"x" * 50, b"bad", b"", b'{"a": 5}', b'{"a": 6}', b'{"a": 7}']
    path = str(written(tmp_path / "a.jsonl", b"\n".join(lines) + ending))
    for size_bytes in (1, 9, 30, 1000):
        monkeypatch.setattr(archive_source, "READ_BYTES", size_bytes)
        monkeypatch.setattr(archive_source, "SAMPLE_BLOCK_BYTES", size_bytes)
        for count in range(1, 10):
            expected = [number for number in (1, 5, 6, 7) if number <= count]
            assert [frame["a"] for frame in sample_frames([path], count)] == expected


def test_directories_are_searched_and_files_are_taken_by_any_name(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("b.jsonl", "a.ndjson.gz", "deep/c.jsonl.gz", "d.ndjson", "e.txt", "f.json"):
        written(tmp_path / "in" / name, b"")
    inside = [f"{tmp_path}/in/{name}" for name in ("a.ndjson.gz", "b.jsonl", "d.ndjson", "deep/c.jsonl.gz")]
    assert find_sources([str(tmp_path / "in")]) == tuple(inside)
    other = f"{tmp_path}/in/e.txt"
    assert find_sources([other, str(tmp_path / "in"), inside[0]]) == (other, *inside)
    assert find_sources([str(tmp_path / "in")], outside=[str(tmp_path / "in" / "deep")]) == tuple(inside[:3])


def test_directories_to_leave_out_are_left_out_whatever_links_and_paths_lead_to_them(tmp_path: Path) -> None:
    """Paths were compared as they were spelled, so that the rejects of a run were sources of the next one."""
    (tmp_path / "in" / "table").mkdir(parents=True)
    (tmp_path / "link").symlink_to("in")
    source, _ = (written(tmp_path / "in" / name, b"") for name in ("a.jsonl", "table/rejects.jsonl"))
    for given, outside in (
        (tmp_path / "in", f"{tmp_path}/in/../in/table"),
        (tmp_path / "in", f"{tmp_path}/link/table"),
        (tmp_path / "link", f"{tmp_path}/in/table"),
    ):
        assert [Path(found).resolve() for found in find_sources([str(given)], outside=[outside])] == [source]


def test_files_in_tables_are_no_sources_unless_they_are_named_themselves(tmp_path: Path) -> None:
    """Rejects of another table in the same directory were archived, and gave a new table their columns."""
    archived = tmp_path / "in" / "table" / "_archive"
    archived.mkdir(parents=True)
    (tmp_path / "in" / "_archive").mkdir()
    rejects = written(archived / "rejects-000000001.jsonl", b"")
    for name in ("table/_txn", "table/notes.jsonl"):
        written(tmp_path / "in" / name, b"")
    with pytest.raises(SourceUnreadableError, match=r"holds no file called .* but those of tables and rejects$"):
        find_sources([str(tmp_path / "in")])
    source = written(tmp_path / "in" / "_archive" / "a.jsonl", b"")
    (tmp_path / "in" / "link").symlink_to(archived)
    (tmp_path / "in" / "link.jsonl").symlink_to(rejects)
    assert find_sources([str(tmp_path / "in")]) == (str(source),)
    assert find_sources([str(rejects)]) == (str(rejects),)


def test_sources_are_there_once_whatever_links_and_paths_lead_to_them(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.jsonl").symlink_to("a.jsonl")
    (tmp_path / "itself").symlink_to(".")
    assert find_sources([str(tmp_path), f"{tmp_path}/../{tmp_path.name}"]) == (str(tmp_path / "a.jsonl"),)


def test_names_need_not_be_utf8(tmp_path: Path) -> None:
    """One such name below a directory, also of what is no source, ended all in an error of Python."""
    source, _ = (written(tmp_path / os.fsdecode(name), b"{}") for name in (b"a\xff.jsonl", b"\xff.txt"))
    for given in (tmp_path, source):
        assert find_sources([str(given)]) == (str(source),)
    assert task_groups([str(source)]) == [[0]] and read(source) == (b"{}", [], 1)


def test_sources_have_absolute_paths_because_executors_work_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.jsonl", b"")
    assert find_sources(["a.jsonl"]) == find_sources(["."]) == (str(tmp_path / "a.jsonl"),)


def test_what_cannot_be_a_source_is_rejected_in_words(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, words in ((tmp_path / "empty", "holds no file called"), (tmp_path / "none", "is not there")):
        with pytest.raises(SourceUnreadableError, match=words):
            find_sources([str(path)])
    with pytest.raises(SourceUnreadableError, match="cannot be read"):
        digest_of(str(tmp_path / "empty"))


def test_a_pipe_is_no_regular_file(tmp_path: Path) -> None:
    """It was listed as if it were a directory, and the message was that it is none."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    for given in (f"{tmp_path}/pipe.jsonl", os.devnull):
        with pytest.raises(SourceUnreadableError, match=f"^{given}: is no regular file$"):
            find_sources([given])


def test_a_source_whose_bytes_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that failed while a file was hashed ended the run in an error of the system without the file's name."""

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(archive_source, "opened", lambda path: Failing())
    for reading in (digest_of, lambda path: list(Lines(path))):
        with pytest.raises(SourceUnreadableError, match=r"^a\.jsonl: cannot be read: Input/output error$"):
            reading("a.jsonl")
