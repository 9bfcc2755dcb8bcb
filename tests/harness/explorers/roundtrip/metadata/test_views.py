"""Views of real generations say what decoding them says, and mistakes of either are noticed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import golden_archive
import pm_builder as pm
import pytest
from depth import sampled

from tornproof.harness.common.patch import replaced, wrapped
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip import explorer
from tornproof.harness.explorers.roundtrip.explorer import replay_roundtrip
from tornproof.harness.explorers.roundtrip.metadata import metadata_rules, views
from tornproof.harness.explorers.roundtrip.metadata.views import failed_controls, view_problems
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.parallel.tasks import TableQuestion, explore_here
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.chain import decode_chain
from tornproof.impl.pm.view import MetadataView
from tornproof.impl.storage.operating_system import OperatingSystemStorage

REAL = tuple(
    name for name in golden_archive.member_names() if name.startswith(("tables/", "legacy/")) and name.endswith("/_pm")
)
BLOOM, CHAIN = "tables/9.4.2/bloom/table/2024-06-01.1/_pm", "tables/9.4.2/chain/table"
VIEW = "tornproof.impl.pm.view"


def published(path: Path) -> bytes:
    content = path.read_bytes()
    return content[: layout.Header.unpack(content, 0, file=str(path)).parquet_meta_file_size]


@pytest.mark.parametrize("name", sampled(20, REAL))
def test_views_of_real_generations_say_what_decoding_all_of_them_says(name: str, questdb_data: Path) -> None:
    content = published(questdb_data / name)
    assert [*view_problems(content, file=name)] == []
    assert [*failed_controls(content, file=name)] == []


def one_later(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda view, start=None, end=None: method(view, None if start is None else start + 1, end)


def without_a_start(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda view, start=None, end=None: [] if start is None else method(view, start, end)


@pytest.mark.parametrize(
    ("method", "broken", "said"),
    [
        ("find_column", lambda find: lambda view, name: None, "at another place"),
        ("chunk", lambda chunk: lambda view, ordinal, index: chunk(view, ordinal, 0), "chunk 1 of row group 0"),
        ("row_groups_between", one_later, "row groups [] are read, and not [0]"),
        ("row_groups_between", without_a_start, "of times from None to"),
        ("row_counts", lambda _: property(lambda view: view.block_offsets * 0), "other numbers of rows"),
    ],
)
def test_each_mistake_of_a_view_is_noticed(
    method: str, broken: Callable[..., Any], said: str, questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MetadataView, method, broken(getattr(MetadataView, method)))
    content = published(questdb_data / BLOOM)
    ends, problems = zip(*view_problems(content, file=BLOOM), strict=True)
    assert said in problems[0]
    assert {*ends} <= {
        each.generation.position.end_bytes for each in decode_chain(content, file=BLOOM, end_bytes=len(content))
    }


def test_a_checksum_that_is_remembered_for_other_bytes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    content = pm.chain_of(10_000, 20_000)
    assert [*view_problems(content, file=pm.FILE)] == []
    with wrapped(f"{VIEW}:check_checksum", lambda check: lambda *_, **__: None):
        said = {problem for _, problem in view_problems(content, file=pm.FILE)}
    assert said == {"after it was read, a wrong checksum in its place is not noticed"}


def test_blind_comparisons_fail_both_controls(questdb_data: Path) -> None:
    def nothing(*_: object) -> Iterator[str]:
        return iter(())

    with replaced("tornproof.harness.explorers.roundtrip.metadata.views:_problems", nothing):
        assert len([*failed_controls(published(questdb_data / BLOOM), file=BLOOM)]) == 2


def test_what_is_different_is_a_finding_that_replays(questdb_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(questdb_data / CHAIN)
    image = DiskImage.capture(OperatingSystemStorage(), path, size_bytes_max=1 << 24)
    monkeypatch.setattr(explorer, "files_to_change", lambda table: {})
    monkeypatch.setattr(explorer, "PARTS", (part_of("rule"),))
    with monkeypatch.context() as patch:
        patch.setattr(MetadataView, "find_column", lambda view, name: None)
        findings = explore_here(explorer.roundtrip(), TableQuestion(image=image, path=path)).findings
        assert {finding.property for finding in findings} == {views.PROPERTY, metadata_rules.PROPERTY}
        assert {replay_roundtrip(finding, image, path) for finding in findings} == {Verdict.INVALID}
    assert {replay_roundtrip(finding, image, path) for finding in findings} == {Verdict.VALID}
