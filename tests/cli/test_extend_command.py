"""`tornproof extend` as its users meet it: what it writes, prints and says, and what `inspect` says of the result."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from chunk_forms import footer_of_form, in_chunk_form, numbers_file
from command_line import WarmRunner, cold_run, sentence_of
from footer_forms import in_form, sample_file
from golden_data import CopyOf
from inspecting import document_of
from parquet_files import footer_bytes

import tornproof as api
from tornproof.impl.chunk.duplicate_values import ChunkSource
from tornproof.impl.chunk.duplicates import DUPLICATE_UUID, ChunkForm, NewChunk, meta_data_of, with_duplicate
from tornproof.impl.errors import CorruptError, UsageError
from tornproof.impl.extension.footer import UUIDS, Source
from tornproof.impl.layout.parquet import ExtensionTail, FooterForm
from tornproof.impl.parquet.fields import PageEncoding
from tornproof.impl.parquet.footer import file_tail
from tornproof.impl.parquet.thrift import encode

DAY = "tables/9.4.2/chain/table/2024-01-01.1"
ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    path.write_bytes(sample_file())
    return path


def test_from_a_shell_and_back_byte_for_byte(plain: Path) -> None:
    run = cold_run("extend", plain, "--footer", "migration")
    assert (run.code, run.err) == (0, "")
    assert re.search(r"footer +thrift +migration\n", run.out)
    assert plain.read_bytes() == in_form(sample_file(), FooterForm.MIGRATION)
    assert cold_run("extend", plain, "--strip").code == 0
    assert plain.read_bytes() == sample_file()
    assert [path.name for path in plain.parent.iterdir()] == [plain.name]


@pytest.mark.parametrize("form", ["private", "migration", "final"])
def test_a_copy_in_each_form_and_its_document(tornproof: WarmRunner, plain: Path, form: str) -> None:
    copy = plain.with_name("copy.parquet")
    document = tornproof("extend", plain, "--footer", form, "--out", copy, "--json", "-").document
    assert (document["before"], document["after"], document["written_to"]) == ("thrift", form, str(copy))
    assert document["size_after"] == copy.stat().st_size
    assert plain.read_bytes() == sample_file()
    assert copy.read_bytes() == in_form(sample_file(), FooterForm(form))
    back = tornproof("extend", copy, "--strip", "--out", plain.with_name("back.parquet"))
    assert (back.code, plain.with_name("back.parquet").read_bytes()) == (0, sample_file())


def test_numbers_in_a_new_encoding_from_a_shell_and_back_byte_for_byte(plain: Path) -> None:
    plain.write_bytes(numbers_file())
    run = cold_run("extend", plain, "--encoding", "alp", "--footer", "private")
    assert (run.code, run.err) == (0, "")
    assert re.search(r"chunks of numbers +old +alp\n", run.out)
    assert plain.read_bytes() == in_chunk_form(ChunkForm.ALP, FooterForm.PRIVATE)
    assert cold_run("extend", plain, "--strip").code == 0
    assert plain.read_bytes() == numbers_file()


def test_the_new_encoding_alone_has_no_way_back(tornproof: WarmRunner, plain: Path) -> None:
    plain.write_bytes(in_chunk_form(ChunkForm.ALP))
    document = tornproof("extend", plain, "--encoding", "alp-alone", "--json", "-").document
    assert (document["chunks_before"], document["chunks_after"], document["encoded_count"]) == ("alp", "alp-alone", 12)
    assert plain.read_bytes() == in_chunk_form(ChunkForm.ALP_ALONE)
    run = tornproof("extend", plain, "--strip")
    assert run.code == 2
    assert "its chunks cannot be as they were: the chunks that it had before are gone" in sentence_of(run)


def test_inspect_shows_duplicates_and_which_are_not_believed(tornproof: WarmRunner, plain: Path) -> None:
    content = bytearray(in_chunk_form(ChunkForm.ALP))
    plain.write_bytes(content)
    document = document_of(plain)
    assert document["problems"] == [] and len(document["duplicates"]) == 12
    first = document["duplicates"][0]
    assert (first["row_group"], first["column"], first["encoding"], first["doubt"]) == (0, 1, "PFOR", None)
    kinds = [each["what"] for each in document["byte_map"]]
    assert kinds[:3] == ["magic", "duplicate chunk", "duplicate chunk"] and kinds.count("duplicate chunk") == 12
    content[first["byte_range_start"]] ^= 1
    plain.write_bytes(content)
    assert document_of(plain)["duplicates"][0]["doubt"] == "its checksum is wrong"
    shown = tornproof("inspect", plain)
    assert shown.code == 0 and "12 duplicates" in shown.out


def test_inspect_reads_no_more_of_a_duplicate_than_the_file_has(plain: Path) -> None:
    content = in_chunk_form(ChunkForm.ALP)
    footer, offset = footer_bytes(content)
    meta = meta_data_of(footer_of_form(content), 0, 1)
    hostile = encode(with_duplicate(meta, NewChunk(1 << 60, 0, PageEncoding.PFOR), 4))
    changed = footer.replace(encode(meta), hostile)
    plain.write_bytes(content[:offset] + file_tail(changed))
    assert document_of(plain)["duplicates"][0]["doubt"] == "it ends behind the pages"


def test_from_python_a_column_is_read_from_the_encoding_that_is_beyond_doubt(plain: Path) -> None:
    plain.write_bytes(numbers_file())
    old = api.column(plain, "price")
    api.extend(plain, encoding="alp")
    new = api.column(plain, "price")
    assert new.values.equals(old.values) and len(new.values) == 48
    assert (set(old.sources), set(new.sources)) == ({ChunkSource.OLD}, {ChunkSource.DUPLICATE})
    assert new.doubts == (None, None, None)
    with pytest.raises(UsageError, match="it has no column 'other'"):
        api.column(plain, "other")
    api.extend(plain, encoding="old")
    assert plain.read_bytes() == numbers_file()


@pytest.mark.parametrize("form", list(FooterForm))
def test_inspect_shows_the_form_and_the_same_contents(tmp_path: Path, form: FooterForm) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(sample_file())
    plain = document_of(path)
    path.write_bytes(in_form(sample_file(), form))
    document = document_of(path)
    read_from = "Thrift" if form is FooterForm.THRIFT else "FlatBuffers"
    assert document["footer"] == {"form": form, "read_from": read_from, "doubt": None}
    assert document["problems"] == []
    for same in ("schema", "row_groups", "key_values", "created_by", "num_rows"):
        assert document[same] == plain[same]
    assert document["byte_map"][-1]["end_bytes"] == path.stat().st_size
    own = [each["uuid"] for each in document["extensions"]]
    assert own == ([UUIDS[form].hex()] if form in UUIDS else [])


def test_inspect_says_why_an_extension_is_not_believed(tornproof: WarmRunner, plain: Path) -> None:
    content = bytearray(in_form(sample_file(), FooterForm.PRIVATE))
    content[-8 - 1 - ExtensionTail.layout.size_bytes - 5] ^= 1
    plain.write_bytes(content)
    run = tornproof("inspect", plain, "--json", "-")
    assert run.code == 1
    assert run.document["footer"] == {"form": "private", "read_from": "Thrift", "doubt": "its checksum is wrong"}
    assert len(run.document["row_groups"]) == 3
    (problem,) = run.document["problems"]
    assert problem["expected"] == "a FlatBuffers footer of the private form"


def test_a_damaged_final_footer_is_one_problem(tornproof: WarmRunner, plain: Path) -> None:
    content = bytearray(in_form(sample_file(), FooterForm.FINAL))
    content[-30] ^= 1
    plain.write_bytes(content)
    run = tornproof("inspect", plain, "--json", "-")
    assert (run.code, run.document["footer"]) == (1, None)
    assert [problem["field"] for problem in run.document["problems"]] == ["FLATBUFFER_CRC"]
    run = tornproof("extend", plain, "--strip")
    assert run.code == 1 and "FLATBUFFER_CRC" in sentence_of(run)
    assert plain.read_bytes() == bytes(content)


def test_wrong_requests_are_usage_errors(tornproof: WarmRunner, plain: Path, copy_of: CopyOf) -> None:
    for options in ((), ("--footer", "private", "--strip"), ("--encoding", "alp", "--strip"), ("--footer", "other")):
        assert tornproof("extend", plain, *options).code == 2
    assert tornproof("extend", plain.with_name("missing"), "--strip").code == 2
    run = tornproof("extend", copy_of(DAY) / "data.parquet", "--footer", "private")
    assert run.code == 2
    assert "it is the data of a partition" in sentence_of(run)
    assert plain.read_bytes() == sample_file()


def test_from_python_the_footer_is_changed_and_read(plain: Path) -> None:
    done = api.extend(plain, "final")
    assert (done.before, done.after) == ("thrift", "final")
    found = api.footer(plain)
    assert (found.form, found.source, found.doubt) == (FooterForm.FINAL, Source.FLATBUFFERS, None)
    assert found.chunk(0, 1).start_bytes > 0
    api.extend(plain, FooterForm.THRIFT)
    assert pq.read_metadata(plain).row_group(0).column(1).total_compressed_size == found.chunk(0, 1)[3]
    with pytest.raises(ValueError, match="'other' is not a valid FooterForm"):
        api.extend(plain, "other")
    with pytest.raises(UsageError):
        api.extend(Path(plain).with_name("data.parquet"), "final") if _beside_pm(plain) else None


def _beside_pm(plain: Path) -> bool:
    plain.with_name("_pm").write_bytes(b"")
    plain.with_name("data.parquet").write_bytes(sample_file())
    return True


def test_a_mapped_footer_answers_as_one_that_is_read_for_as_long_as_it_lives(plain: Path) -> None:
    for form in FooterForm:
        api.extend(plain, form)
        read, mapped = api.footer(plain), api.footer(plain, mapped=True)
        assert (mapped.form, mapped.source, mapped.doubt) == (read.form, read.source, read.doubt)
        assert mapped.chunk(0, 1) == read.chunk(0, 1)
        content = plain.read_bytes()
        plain.unlink()
        assert mapped.thrift() == read.thrift()
        plain.write_bytes(content)
    damaged = bytearray(in_form(sample_file(), FooterForm.FINAL))
    damaged[-100] ^= 1
    for content in (bytes(damaged), b""):
        plain.write_bytes(content)
        with pytest.raises(CorruptError):
            api.footer(plain, mapped=True)


def test_the_document_has_the_identities_and_the_forms() -> None:
    for form, uuid in (*UUIDS.items(), (ChunkForm.ALP, DUPLICATE_UUID)):
        assert f"| `{form}` |" in DOCS
        assert uuid.hex() in DOCS.replace("-", "")
    assert "| `final` |" in DOCS and "| `alp-alone` |" in DOCS


def test_the_documents_tables_are_what_the_benchmarks_measured() -> None:
    measured = {
        name: (RESULTS / f"{name}.md").read_text() for name in ("extension_damage", "extension_footer", "encodings")
    }
    for name in ("extension_damage", "extension_footer"):
        assert set(table_lines(measured[name])) <= set(table_lines(DOCS)), name
    sizes = DOCS[DOCS.index("**Sizes and speed**") : DOCS.index("## Damage and crashes")]
    assert len(table_lines(sizes)) == 11 and set(table_lines(sizes)) <= set(table_lines(measured["encodings"]))


def table_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]
