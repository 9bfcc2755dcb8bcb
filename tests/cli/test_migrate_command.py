"""`tornproof migrate` as its users meet it: what PATH can be, exit codes, JSON, who holds a table, and the document."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import WarmRunner, cold_run, sentence_of
from depth import sampled
from golden_data import CopyOf, content_of

from tornproof.api.roots import TABLES_OF_TASK
from tornproof.cli.commands.migrate import STYLES, migrate
from tornproof.cli.migration_sources import Source, find_sources
from tornproof.impl.errors import UsageError
from tornproof.impl.migrate.plan import Outcome
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.txn.pins import take_writer_lock

DOCS = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
RELEASE = "legacy/9.3.4"
CHAIN, MANY = f"{RELEASE}/chain", f"{RELEASE}/many"
DAY = "2024-01-01.1"


def golden_pm(questdb_data: Path, name: str, file: str) -> dict[str, bytes]:
    """What the real migration wrote; `file` says where, with the partition's name for {}."""
    return {file.format(pm.stem): pm.read_bytes() for pm in (questdb_data / name / "migrated").glob("*.pm")}


def test_a_table_is_migrated_from_a_shell_and_read_then(
    tornproof: WarmRunner, copy_of: CopyOf, questdb_data: Path
) -> None:
    table = copy_of(CHAIN) / "table"
    before = content_of(table)
    assert tornproof("read", table).code == 2
    planned = tornproof("migrate", table, "--dry-run")
    assert (planned.code, planned.err) == (0, "")
    assert f"{table}: 1 migrated (--dry-run: nothing was changed)" in planned.out
    assert content_of(table) == before
    run = cold_run("migrate", table)
    assert (run.code, run.err) == (0, "")
    assert re.search(rf"{DAY} +migrated +10886 +1824", run.out)
    assert f"{table}: 1 migrated\n" in run.out
    assert "looked at 1 table or file, 1 parquet partition; 1 native partition without _pm" in run.out
    after = content_of(table)
    assert after.pop("_pins") == b""
    assert after == before | golden_pm(questdb_data, CHAIN, "{}/_pm")
    assert len(tornproof("read", table).out.splitlines()) == 24
    verified = tornproof("verify", table)
    assert (verified.code, "note" in verified.out) == (0, False)


def test_a_name_with_a_line_break_stays_in_its_line(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(CHAIN) / "table"
    table = table.rename(table.with_name("two\nlines"))
    assert "two\\nlines: 1 migrated" in tornproof("migrate", table, "--dry-run").out
    shutil.copytree(table, table.with_name("another"))
    run = tornproof("migrate", table.parent, "--dry-run")
    assert "two\\nlines" in run.out and "two\n" not in run.out


def test_a_second_run_has_nothing_to_do(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(CHAIN) / "table"
    tornproof("migrate", table)
    times = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    run = tornproof("migrate", table)
    assert run.code == 0 and f"{table}: 1 already\n" in run.out
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == times


def test_spark_is_started_only_where_there_is_something_to_convert(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    folder = copy_of(CHAIN)
    arguments = ("migrate", folder, "--master", "spark://127.0.0.1:1")
    run = tornproof(*arguments)
    assert run.code == 2 and sentence_of(run)
    (folder / "table" / "_txn").write_bytes(b"short")
    run = tornproof(*arguments)
    assert (run.code, "rejected" in run.out, run.err) == (1, True, "")


# What PATH can be


@pytest.mark.parametrize("spelled", sampled(2, [DAY, f"{DAY}/", f"{DAY}/data.parquet", f"{DAY}/.", f"../table/{DAY}"]))
def test_a_partition_ends_where_its_table_says(
    tornproof: WarmRunner, copy_of: CopyOf, questdb_data: Path, spelled: str
) -> None:
    table = copy_of(CHAIN) / "table"
    with (table / DAY / "data.parquet").open("ab") as data:
        data.write(b"of a killed writer")
    before = content_of(table)
    run = tornproof("migrate", spelled, folder=table)
    assert run.code == 0, run
    assert content_of(table) == before | golden_pm(questdb_data, CHAIN, "{}/_pm") | {"_pins": b""}
    alone = tornproof("migrate", ".", folder=table / DAY)
    assert (alone.code, "1 already" in alone.out) == (0, True)


def test_a_native_partition_has_nothing_to_migrate(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    run = tornproof("migrate", copy_of(CHAIN) / "table" / "2024-01-02")
    assert (run.code, "nothing to migrate" in run.out) == (0, True)
    assert "0 parquet partitions; 1 native" in run.out


def test_a_partition_that_no_version_names_is_rejected(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(CHAIN) / "table"
    shutil.copytree(table / DAY, table / "2024-01-01.7")
    run = tornproof("migrate", table / "2024-01-01.7")
    assert run.code == 1
    assert "_txn names no partition 2024-01-01.7" in run.out


def test_a_tree_of_tables_is_migrated_in_order_and_links_are_followed_once(
    tornproof: WarmRunner, copy_of: CopyOf, questdb_data: Path
) -> None:
    tree = copy_of(RELEASE)
    (tree / "a circle").symlink_to(tree)
    (tree / "nowhere").symlink_to(tree / "gone")
    (tree / "zzz").symlink_to(tree / "chain")
    (tree / "bottomless").symlink_to("bottomless")
    document = tornproof("migrate", tree, "--json", "-").document
    names = ["chain", "many", "types"]
    assert sorted(Path(each["path"]).resolve() for each in document["sources"]) == [
        tree / name / "table" for name in names
    ]
    assert document["counts"] == {
        "sources": 3, "migrated": 12, "replaced": 0, "already": 0, "rejected": 0, "native": 4
    }  # fmt: skip
    for name in names:
        written = content_of(tree / name / "table").items()
        assert golden_pm(questdb_data, f"{RELEASE}/{name}", "{}/_pm").items() <= written


def test_order_and_meaning_of_a_path(copy_of: CopyOf) -> None:
    tree = copy_of(RELEASE)
    tables = [Source(path=str(tree / name / "table"), below=f"{name}/table") for name in ("chain", "many", "types")]
    assert find_sources(str(tree)) == (tables, "", "")
    table = tree / "chain" / "table"
    assert find_sources(str(table)) == ([Source(path=str(table))], "", "")
    assert find_sources(str(table / DAY)) == ([Source(path=str(table), only=DAY)], "", "")
    file = tree / "data.parquet"
    shutil.copyfile(table / DAY / "data.parquet", file)
    assert find_sources(str(file)) == ([Source(path=str(file), is_file=True)], "", "")
    assert find_sources(str(table / "_meta")) == ([Source(path=str(table / "_meta"), is_file=True)], "", "")


def test_one_table_of_a_tree_that_is_damaged_keeps_none_from_being_migrated(
    tornproof: WarmRunner, copy_of: CopyOf
) -> None:
    tree = copy_of(RELEASE)
    (tree / "chain/table/_txn").write_bytes(b"short")
    (tree / "many/table/2024-10-01T04.4/data.parquet").write_bytes(b"short")
    run = tornproof("migrate", tree)
    assert run.code == 1
    first, second, third = (line for line in run.out.splitlines() if line.startswith(("chain", "many", "types")))
    assert re.match(r"chain/table +0 +0 +0 +0 +0 +rejected: _txn: ", first)
    assert re.match(r"many/table +\d+ +0 +0 +1 +\d+ +2024-10-01T04\.4: 2024-10-01T04\.4/data\.parquet: size", second)
    assert re.match(r"types/table +\d+ +0 +0 +0 +\d+ *$", third)
    assert f"{tree}: 10 migrated, 1 rejected" in run.out


@pytest.mark.nightly
def test_many_tables_are_migrated_by_processes_as_each_is_alone(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    tree = copy_of(RELEASE)
    alone = tree.parent / "alone"
    shutil.copytree(tree, alone)
    tornproof("migrate", alone / "chain/table")
    expected = content_of(alone / "chain/table")
    for number in range(TABLES_OF_TASK):
        shutil.copytree(tree / "chain/table", tree / f"more~{number:02}")
    planned = tornproof("migrate", tree, "--dry-run", "--json", "-", "--workers", 2).document
    assert planned["counts"]["sources"] == TABLES_OF_TASK + 3
    run = tornproof("migrate", tree, "--json", "-", "--workers", 2)
    assert run.code == 0 and {**planned, "dry_run": False} == run.document
    for number in range(TABLES_OF_TASK):
        assert content_of(tree / f"more~{number:02}") == expected


@pytest.mark.parametrize("out", [None, "out"])
def test_a_plain_file(tornproof: WarmRunner, copy_of: CopyOf, questdb_data: Path, out: str) -> None:
    folder = copy_of(CHAIN)
    (folder / "table" / DAY / "data.parquet").rename(folder / "rows.parquet")
    run = tornproof("migrate", "rows.parquet", *(["--out", out] if out else []), folder=folder)
    assert run.code == 0, run
    (golden,) = golden_pm(questdb_data, CHAIN, "").values()
    assert (folder / (out or ".") / "rows.parquet.pm").read_bytes() == golden


def test_what_is_no_parquet_file_is_rejected(tornproof: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no Parquet at all")
    run = tornproof("migrate", tmp_path / "text")
    assert run.code == 1 and "1 rejected" in run.out
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gone", "there is no file or directory at this path"),
        ("empty", "holds no table: there is no _txn in it or below it"),
        ("lone", "no _txn beside it says where data.parquet ends; for all of it, name the file"),
        ("a\0b", ""),
        ("x" * 300, ""),
    ],
)
def test_what_is_nothing_to_migrate_is_wrong_usage(
    tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path, path: str, words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (copy_of(CHAIN) / "table" / DAY).rename(tmp_path / "lone")
    if "\0" in path:
        with pytest.raises(UsageError):
            find_sources(path)
        return
    run = tornproof("migrate", path, folder=tmp_path)
    assert (run.code, run.out) == (2, "")
    assert words in sentence_of(run)


# Beside the table


def test_files_of_a_tree_go_below_folders_of_their_tables(
    tornproof: WarmRunner, copy_of: CopyOf, questdb_data: Path, tmp_path: Path
) -> None:
    tree = copy_of(RELEASE)
    before = content_of(tree)
    out = tmp_path / "made" / "here"
    planned = tornproof("migrate", tree, "--out", out, "--dry-run", "--json", "-").document
    assert not out.exists()
    document = tornproof("migrate", tree, "--out", out, "--json", "-").document
    assert planned == {**document, "dry_run": True}
    assert content_of(tree) == before
    expected: dict[str, bytes] = {}
    for name in ("chain", "many", "types"):
        expected |= golden_pm(questdb_data, f"{RELEASE}/{name}", f"{name}/table/{{}}.pm")
    assert content_of(out) == expected
    assert tornproof("migrate", tree / "many/table", "--out", tmp_path / "flat").code == 0
    assert content_of(tmp_path / "flat") == golden_pm(questdb_data, MANY, "{}.pm")


def test_the_mode_of_the_tool_leaves_bloom_filters_out(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path
) -> None:
    bloom = questdb_data / "tables/9.4.2/bloom"
    tornproof("migrate", bloom / "table", "--out", tmp_path / "tool", "--mode", "tool")
    tornproof("migrate", bloom / "table", "--out", tmp_path / "server")
    assert content_of(tmp_path / "tool") == content_of(bloom / "regenerated")
    (tool,), (server,) = (content_of(tmp_path / mode).values() for mode in ("tool", "server"))
    assert len(server) > len(tool)
    assert tornproof("migrate", bloom / "table", "--mode", "other").code == 2


@pytest.mark.parametrize("out", ["table", "table/inside", "link/inside", "table/_txn"])
def test_what_is_to_stay_as_it_is_is_no_place_for_output(tornproof: WarmRunner, copy_of: CopyOf, out: str) -> None:
    folder = copy_of(CHAIN)
    (folder / "link").symlink_to(folder / "table")
    before = content_of(folder)
    run = tornproof("migrate", "table", "--out", out, folder=folder)
    assert (run.code, run.out) == (2, "")
    assert re.search(r"is inside the table|is not a directory", sentence_of(run))
    assert content_of(folder) == before


# Who holds the table


def test_a_table_in_use_is_rejected_unless_it_stays_as_it_is(
    tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path
) -> None:
    tree = copy_of(RELEASE)
    table = tree / "chain" / "table"
    script = "import sys; file = open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(table / "_txn")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "held\n"
        for path in (table, table / DAY):
            run = tornproof("migrate", path)
            assert run.code == 2
            assert f"{table}: in use by" in sentence_of(run) and f"(process {process.pid})" in run.err
        assert tornproof("migrate", table, "--out", tmp_path / "out").code == 0
        of_tree = tornproof("migrate", tree)
        assert of_tree.code == 1
        assert f"rejected: {table}: in use by" in of_tree.out and "11 migrated" in of_tree.out
        process.stdin.close()
    assert tornproof("migrate", table).code == 0


def test_a_writer_of_our_own_is_a_reason_to_reject(copy_of: CopyOf) -> None:
    table = copy_of(CHAIN) / "table"
    with (
        take_writer_lock(OperatingSystemStorage(), str(table)),
        pytest.raises(UsageError, match="another writer has the table open"),
    ):
        migrate(str(table))
    assert migrate(str(table)) == 0


def test_a_table_of_another_user_is_rejected(copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    table = copy_of(CHAIN) / "table"
    owner = table.stat().st_uid
    before = content_of(table)
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    with pytest.raises(UsageError, match=f"belongs to user {owner}; run this as that user"):
        migrate(str(table))
    assert migrate(str(table), dry_run=True) == migrate(str(table), out=str(table.parent / "out")) == 0
    assert content_of(table) == before


# The document


def test_the_example_of_the_document_is_what_a_run_says(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    (example,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL))
    folder = copy_of(CHAIN)
    (folder / "table" / DAY / "_pm").write_bytes(b"half")
    run = tornproof("migrate", "table", "--json", "-", folder=folder)
    assert run.document == example
    assert json.dumps(run.document) == json.dumps(example)
    assert "old bytes are kept" not in run.out


def test_replaced_bytes_are_named_and_forgotten_by_recover(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(CHAIN) / "table"
    (table / DAY / "_pm").write_bytes(b"half")
    run = tornproof("migrate", table)
    assert run.code == 0
    assert re.search(rf"{DAY} +replaced +10886 +1824 +_recovered/{DAY}/_pm +{DAY}/_pm: PARQUET_META_FILE_SIZE", run.out)
    assert "old bytes are kept in _recovered until `recover --forget`" in run.out
    assert (table / "_recovered" / DAY / "_pm").read_bytes() == b"half"
    assert tornproof("recover", table, "--forget").code == 0
    assert not (table / "_recovered").exists()


def test_what_cannot_be_replaced_is_rejected_by_a_dry_run_too_and_no_next_step(
    tornproof: WarmRunner, copy_of: CopyOf
) -> None:
    """The next step led to a refusal, whose next step was the same."""
    table = copy_of(CHAIN) / "table"
    (table / "elsewhere").write_bytes(b"half")
    (table / DAY / "_pm").symlink_to(table / "elsewhere")
    for arguments in (("--dry-run",), ()):
        run = tornproof("migrate", table, *arguments)
        assert run.code == 1 and "it is a symbolic link" in run.out
    assert "tornproof migrate" not in tornproof("verify", table).out


def test_the_document_names_every_outcome_field_and_flag(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    described = set(re.findall(r"`([a-z0-9_]+)`", DOCS))
    assert set(Outcome) == STYLES.keys()
    table = copy_of(CHAIN) / "table"
    (table / DAY / "_pm").write_bytes(b"")
    document = tornproof("migrate", table, "--json", "-").document
    (source,) = document["sources"]
    (partition,) = source["partitions"]
    fields = document.keys() | source.keys() | partition.keys() | partition["problems"][0].keys()
    assert fields | document["counts"].keys() <= described
    for flag in ("--out", "--dry-run", "--mode", "--json"):
        assert flag in DOCS
        assert flag in tornproof("migrate", "--help").out
