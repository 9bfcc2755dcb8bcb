"""The archive of golden files: complete, safe to unpack, and packed the same by everybody."""

import io
import lzma
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import golden_archive
import golden_data
import pytest
from golden_data import CopyOf
from pack import pack

FOLDER = Path(golden_archive.__file__).parent


def run_script(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, FOLDER / name, *arguments], capture_output=True, text=True, check=False)


def names_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def write_archive(path: Path, member: tarfile.TarInfo) -> None:
    with tarfile.open(path, "w:xz") as archive:
        archive.addfile(member, io.BytesIO(bytes(member.size)))


def test_archive_holds_every_kind_of_golden_file() -> None:
    kinds = {
        "tables": golden_data.TABLES,
        "histories": golden_data.HISTORIES,
        "history steps": golden_data.HISTORY_STEPS,
        "indexed tables": golden_data.INDEXED_TABLES,
        "legacy tables": golden_data.LEGACY_TABLES,
        "crashes": golden_data.CRASHES,
        "after restarts": golden_data.AFTER_RESTARTS,
        "power losses": golden_data.POWER_LOSSES,
    }
    assert {kind: len(names) for kind, names in kinds.items()} == {
        "tables": 17,
        "histories": 4,
        "history steps": 67,
        "indexed tables": 3,
        "legacy tables": 3,
        "crashes": 25,
        "after restarts": 4,
        "power losses": 22,
    }


def test_patterns_match_whole_paths_only() -> None:
    assert golden_data.folders("tables/*/types") == ("tables/9.4.2/types",)
    assert golden_data.folders("*/types") == ()
    assert golden_data.files("legacy/*/types/expected.json") == ("legacy/9.3.4/types/expected.json",)
    assert "tables/9.4.2/chain/table/2024-01-01.1/_pm" in golden_data.files_named("_pm")


def test_unpacked_files_are_those_of_the_archive_and_writable(questdb_data: Path) -> None:
    names = names_below(questdb_data)
    assert tuple(names) == golden_archive.member_names()
    assert all((questdb_data / name).stat().st_mode & 0o600 == 0o600 for name in names)


def test_a_copy_can_be_changed_without_changing_the_shared_files(questdb_data: Path, copy_of: CopyOf) -> None:
    name = "tables/9.4.2/chain/table/_txn"
    before = (questdb_data / name).read_bytes()
    copied_file, copied_folder = copy_of(name), copy_of("tables/9.4.2/types/table")
    assert copied_file.read_bytes() == before
    assert names_below(copied_folder) == names_below(questdb_data / "tables/9.4.2/types/table")
    copied_file.write_bytes(b"changed")
    assert (questdb_data / name).read_bytes() == before


def test_unpack_script_writes_one_folder_of_the_archive(questdb_data: Path, tmp_path: Path) -> None:
    finished = run_script("unpack.py", "tables/9.4.2/chain/table", tmp_path / "chain")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    source = questdb_data / "tables/9.4.2/chain/table"
    assert names_below(tmp_path / "chain") == names_below(source)
    assert (tmp_path / "chain/_txn").read_bytes() == (source / "_txn").read_bytes()


def test_unpack_script_says_when_the_archive_has_no_such_folder(tmp_path: Path) -> None:
    finished = run_script("unpack.py", "tables/0.0.0", tmp_path / "nothing")
    assert finished.returncode == 1
    assert finished.stderr == "questdb.tar.xz: no files in 'tables/0.0.0'\n"


@pytest.mark.parametrize("name", ["../outside", "inside/../../outside", "/outside"])
def test_unpack_rejects_a_name_that_leads_outside(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_archive(tmp_path / "bad.tar.xz", tarfile.TarInfo(name))
    monkeypatch.setattr(golden_archive, "ARCHIVE", tmp_path / "bad.tar.xz")
    with pytest.raises(ValueError, match="not a plain file below the root"):
        golden_archive.unpack(tmp_path / "target")
    assert not (tmp_path / "outside").exists()


def test_unpack_rejects_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
    write_archive(tmp_path / "bad.tar.xz", link)
    monkeypatch.setattr(golden_archive, "ARCHIVE", tmp_path / "bad.tar.xz")
    with pytest.raises(ValueError, match="not a plain file below the root"):
        golden_archive.unpack(tmp_path / "target")


@pytest.mark.nightly
def test_packing_the_unpacked_files_again_gives_the_same_archive(questdb_data: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar.xz"
    pack(questdb_data, again)
    # Compared unpacked: another release of the compressor may choose other bytes for the same contents.
    assert lzma.decompress(again.read_bytes()) == lzma.decompress(golden_archive.ARCHIVE.read_bytes())


def test_packing_depends_on_names_and_contents_alone(tmp_path: Path) -> None:
    for folder, names, mode in [("one", ["a", "b/c"], 0o600), ("other", ["b/c", "a"], 0o644)]:
        for name in names:
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            path.chmod(mode)
            os.utime(path, (mode, mode))
        assert pack(tmp_path / folder, tmp_path / f"{folder}.tar.xz") == 2
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "other.tar.xz").read_bytes()


def test_packing_rejects_a_link(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/link").symlink_to("elsewhere")
    with pytest.raises(ValueError, match="link: only plain files"):
        pack(tmp_path / "source", tmp_path / "links.tar.xz")
