"""A finding is a file that carries all that is needed to see it again, here or elsewhere, today or later."""

import base64
import json
import zlib
from pathlib import Path

import pm_builder as pm
import pytest
import table_builder as tb
from command_line import WarmRunner, cold_run, sentence_of
from explorations import explore_damage
from golden_data import CUT_DATA, CopyOf

from tornproof.cli.findings import load_finding, save_findings
from tornproof.harness.common.patch import blind_to_metadata
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.older_words import FORMAT
from tornproof.harness.replay import replay_finding
from tornproof.impl.errors import UsageError

FLIPPED_PM = "power-loss/9.4.2/pm-one-bit-flipped-in-a-committed-block/table"
TABLE = tb.SMALL
ODD = TABLE.with_file(tb.PM, pm.set_chunk(TABLE.files[tb.PM], "distinct_count", 7))
TIMES, FEW_TIMES = 10, 3


def found_by_check(tornproof: WarmRunner, table: Path, folder: Path) -> Path:
    """Check a table and return the file of its one finding."""
    asked = ("check", table, "--only", "roundtrip", "--effort", "small", "--fail-fast")
    run = tornproof(*asked, "--findings", folder, "--json", "-")
    assert run.code == 1, run
    (found,) = run.document["findings"]
    return Path(found["file"])


@pytest.fixture
def unsound(copy_of: CopyOf) -> Path:
    return copy_of(CUT_DATA)


def test_an_unsound_table_is_seen_again_each_time_and_from_a_shell(
    tornproof: WarmRunner, unsound: Path, tmp_path: Path
) -> None:
    file = found_by_check(tornproof, unsound, tmp_path / "findings")
    # The finding must not need the table any more.
    unsound.rename(tmp_path / "elsewhere")
    runs = [tornproof("replay", file, "--json", "-") for _ in range(FEW_TIMES)]
    assert [(run.code, run.document["verdict"]) for run in runs] == [(1, "INVALID")] * FEW_TIMES
    assert len({run.out for run in runs}) == 1
    assert runs[0].document.keys() == {"format", "finding", "verdict", "sentence"}
    assert "size: expected 6667 bytes or more" in runs[0].document["sentence"]
    run = cold_run("replay", file)
    assert (run.code, run.err) == (1, "")
    assert run.out.endswith("INVALID: it happens again\n")


@pytest.mark.nightly
def test_metadata_that_is_encoded_differently_is_seen_again_each_time(tornproof: WarmRunner, tmp_path: Path) -> None:
    file = found_by_check(tornproof, ODD.write_to(tmp_path / "table"), tmp_path / "findings")
    assert [tornproof("replay", file).code for _ in range(FEW_TIMES)] == [1] * FEW_TIMES


@pytest.fixture(scope="module")
def damage_finding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let a blind reader find silent damage, and save the first of it."""
    folder = tmp_path_factory.mktemp("damage")
    image = TABLE.image()
    with blind_to_metadata():
        # Silence is everywhere for who is blind, so a sample shows it.
        phase = explore_damage(image, "/table", damages_max=200)
    saved = save_findings([phase], "/table", "/table", image, folder)
    assert phase.verdict is Verdict.INVALID
    return Path(saved[0]["file"])


@pytest.mark.nightly
def test_silent_damage_is_seen_again_ten_times_of_ten_by_the_reader_that_is_blind_to_it(damage_finding: Path) -> None:
    finding, image, path = load_finding(damage_finding)
    with blind_to_metadata():
        assert [replay_finding(finding, image, path) for _ in range(TIMES)] == [Verdict.INVALID] * TIMES


@pytest.mark.nightly
def test_silent_damage_does_not_happen_to_a_reader_that_was_mended(tornproof: WarmRunner, damage_finding: Path) -> None:
    run = tornproof("replay", damage_finding)
    assert (run.code, run.err) == (0, "")
    assert "the table is verified as sound, and other rows are read" in run.out
    assert run.out.endswith("VALID: it does not happen any more\n")


def test_an_unsound_table_that_was_mended_is_valid(tornproof: WarmRunner, unsound: Path, tmp_path: Path) -> None:
    file = found_by_check(tornproof, unsound, tmp_path / "findings")
    document = json.loads(file.read_text())
    document["start_files"] = {
        name: base64.b64encode(zlib.compress(content)).decode() for name, content in TABLE.files.items()
    }
    file.write_text(json.dumps(document))
    assert tornproof("replay", file).code == 0


def test_the_same_finding_is_the_same_file_and_another_one_another(
    tornproof: WarmRunner, copy_of: CopyOf, unsound: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "findings"
    first = found_by_check(tornproof, unsound, folder)
    content = first.read_bytes()
    assert found_by_check(tornproof, unsound, folder) == first
    assert first.read_bytes() == content
    other = found_by_check(tornproof, copy_of(FLIPPED_PM), folder)
    assert sorted(folder.iterdir()) == sorted([first, other])


def test_a_finding_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    finding = Finding(property="p", phase="verify", sentence="s", evidence={"bit": 1, "file": "ä"})
    phase = Phase(
        name="verify", explored=1, complete=True, bound="b", verdict=Verdict.INVALID, seconds=0, findings=(finding,)
    )
    image = TABLE.image("/some/where")
    (saved,) = save_findings([phase], "somewhere", "/some/where", image, tmp_path)
    loaded, files, path = load_finding(Path(saved["file"]))
    assert loaded == finding
    assert {name.removeprefix(f"{path}/"): content for name, content in files.files.items()} == dict(TABLE.files)


def finding_with(**changes: object) -> str:
    document: dict[str, object] = {
        "format": FORMAT,
        "tornproof": "0",
        "property": "p",
        "phase": "verify",
        "sentence": "s",
        "table": "t",
        "evidence": {},
        "start_files": {},
    }
    return json.dumps({**document, **changes})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="half"),
        pytest.param("\x1b[2J", id="escape"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("[]", id="list"),
        pytest.param("null", id="null"),
        pytest.param('"x"', id="text"),
        pytest.param("{}", id="no format"),
        pytest.param(finding_with(format=5), id="later format"),
        pytest.param(json.dumps({"format": FORMAT}), id="format alone"),
        pytest.param(finding_with(start_files=[]), id="files as list"),
        pytest.param(finding_with(start_files={"_txn": 7}), id="file as number"),
        pytest.param(finding_with(start_files={"_txn": "ä"}), id="file not in base 64"),
        pytest.param(finding_with(start_files={"_txn": "AAAA"}), id="file not compressed"),
        pytest.param(finding_with(start_files={"a": "eJwDAAAAAAE=", "a/b": "eJwDAAAAAAE="}), id="file below a file"),
        pytest.param(finding_with(evidence=7), id="evidence as number"),
    ],
)
def test_what_is_no_finding_is_exit_2(tornproof: WarmRunner, tmp_path: Path, text: str) -> None:
    file = tmp_path / "finding.json"
    file.write_text(text)
    run = tornproof("replay", file)
    assert (run.code, run.out) == (2, "")
    assert sentence_of(run).startswith(f"{file}: ")


def test_bytes_a_folder_and_nothing_are_no_findings(tornproof: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for position in (tmp_path / "bytes", tmp_path, tmp_path / "missing"):
        run = tornproof("replay", position)
        assert (run.code, run.out) == (2, "")
        assert sentence_of(run).startswith(f"{position}: ")


def test_files_that_unpack_to_too_much_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.cli.findings.UNPACKED_LIMIT_BYTES", 1000)
    bomb = base64.b64encode(zlib.compress(bytes(1001))).decode()
    file = tmp_path / "finding.json"
    for files in ({"a": bomb}, {"a": base64.b64encode(zlib.compress(bytes(600))).decode(), "b": bomb}):
        file.write_text(finding_with(start_files=files))
        with pytest.raises(UsageError, match="its files hold more than 1000 bytes"):
            load_finding(file)


@pytest.mark.parametrize(
    ("phase", "evidence"),
    [
        ("another", {}),
        ("roundtrip", {}),
        ("roundtrip", {"file": "2030-01-01.1/_pm"}),
        ("damage", {}),
        ("damage", {"kind": "flip", "file": "_txn"}),
        ("damage", {"kind": "flip", "file": "_txn", "bit": "x"}),
        ("damage", {"kind": "flip", "file": "_txn", "bit": None}),
        ("damage", {"kind": "flip", "file": "_txn", "bit": 10**30}),
        ("damage", {"kind": "flip", "file": "_txn", "bit": -(10**30)}),
        ("damage", {"kind": "cut", "file": "_nope", "size_bytes": 1}),
        ("damage", {"kind": "cut", "file": ["_txn"], "size_bytes": 1}),
        ("damage", {"kind": "flip", "file": "_txn", "bit": float("inf")}),
    ],
    ids=str,
)
def test_a_finding_that_cannot_be_tried_is_unknown(
    tornproof: WarmRunner, tmp_path: Path, phase: str, evidence: dict[str, object]
) -> None:
    files = {name: base64.b64encode(zlib.compress(content)).decode() for name, content in TABLE.files.items()}
    file = tmp_path / "finding.json"
    file.write_text(finding_with(phase=phase, evidence=evidence, start_files=files))
    run = tornproof("replay", file)
    assert (run.code, run.err) == (3, "")
    assert run.out.endswith("UNKNOWN: this release cannot replay it\n")
