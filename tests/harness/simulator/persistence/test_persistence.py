"""What a crash may leave of a kernel: every model on files, blocks, sizes and names that can be counted by hand."""

from dataclasses import replace

import pytest

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence import legal_disks as legal_disks_module
from tornproof.harness.simulator.persistence import legal_files
from tornproof.harness.simulator.persistence.legal_disks import chosen_disk, legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits, file_content, legal_file
from tornproof.harness.simulator.persistence.legal_names import is_legal, nearest_names
from tornproof.harness.simulator.persistence.models import (
    C_8,
    C_512,
    C_4096,
    CDIR,
    MODELS,
    N_512,
    POWER_MODELS,
    STALE,
    STALE_BYTE,
    W_512,
    A,
    B,
    Choice,
    FileChoice,
    Model,
    Names,
    choice_of,
    is_contained,
    model_named,
)
from tornproof.impl.storage.interface import OpenMode


def machine(**contents: bytes) -> Kernel:
    """A kernel with files in the directory `d`, all durable."""
    kernel = Kernel()
    do(kernel, CallKind.MKDIR, "d")
    for name, content in contents.items():
        write(kernel, f"d/{name}", content)
    do(kernel, CallKind.SYNC_DIRECTORY, "d")
    do(kernel, CallKind.SYNC_DIRECTORY, "")
    kernel.files = {number: FileState(state.content) for number, state in kernel.files.items()}
    kernel.durable_directories, kernel.entry_changes, kernel.journalled_count = kernel.directories.copy(), (), 0
    return kernel


def do(kernel: Kernel, kind: CallKind, path: str, target: str = "", **fields: object) -> None:
    apply(kernel, 0, Call(kind=kind, path=path, target_path=target, **fields))  # type: ignore[arg-type]


def write(kernel: Kernel, path: str, content: bytes, offset_bytes: int = 0) -> None:
    do(kernel, CallKind.OPEN_FOR_WRITING, path, file=1, mode=OpenMode.EXISTING_OR_NEW)
    do(kernel, CallKind.PWRITE, path, file=1, offset_bytes=offset_bytes, content=content)
    do(kernel, CallKind.CLOSE, path, file=1)


def contents(kernel: Kernel, model: Model, path: str = "d/f") -> set[bytes | None]:
    return {picked.disk.files().get(path) for picked in legal_disks(kernel, model)}


def test_each_model_says_which_file_systems_it_stands_for_by_which_sources_and_what_dies() -> None:
    names = ["A", "B", "C-4096", "C-512", "C-8", "W-512", "Cdir", "N-512", "D"]
    assert [model.name for model in MODELS] == names
    assert {model.name for model in MODELS if not model.everything_dies} == {"A", "D"}
    for model in MODELS:
        assert model_named(model.name) is model
        assert any(word in model.stands_for for word in ("ext4", "Btrfs", "every file system"))
        assert all(source.address.startswith("https://") and source.title for source in model.sources)
        assert model.sources and model.content and model.names


def test_no_model_that_stands_for_a_journal_or_less_makes_a_name_durable_at_once() -> None:
    assert {model.name for model in MODELS if model.names is Names.ALL} == {"A", "D"}


def test_containment_is_transitive_and_never_of_a_model_in_itself() -> None:
    contained = {model.name for model in MODELS if is_contained(model, N_512)}
    assert contained == {"B", "C-4096", "C-512", "W-512", "Cdir"}
    assert not any(is_contained(model, model) for model in MODELS)


def test_what_is_synced_is_kept_in_every_model() -> None:
    kernel = machine(f=b"synced")
    for model in MODELS:
        (only,) = legal_disks(kernel, model)
        assert only.disk.files() == {"d/f": b"synced"}


def test_of_a_journal_what_it_has_stays_and_the_nearest_choice_to_less_is_that() -> None:
    kernel = machine()
    write(kernel, "d/a", b"")
    write(kernel, "d/b", b"")
    kernel.journalled_count = 1
    subsets = [(), (0,), (1,), (0, 1)]
    assert [names for names in subsets if is_legal(kernel, W_512, names)] == [(0,), (0, 1)]
    assert [names for names in subsets if is_legal(kernel, N_512, names)] == subsets
    assert [nearest_names(kernel, W_512, names) for names in subsets] == [(0,), (0,), (0,), (0, 1)]


def test_model_a_leaves_the_page_cache() -> None:
    kernel = machine(f=b"old")
    write(kernel, "d/f", b"newer")
    assert contents(kernel, A) == {b"newer"}


def test_model_b_leaves_what_was_written_up_to_some_time() -> None:
    kernel = machine(f=b"0")
    write(kernel, "d/f", b"1", 1)
    write(kernel, "d/f", b"2", 2)
    assert contents(kernel, B) == {b"0", b"01", b"012"}


def test_model_c_mixes_blocks_and_sizes_and_leaves_zeros_where_nothing_came() -> None:
    kernel = machine(f=b"a" * 8)
    write(kernel, "d/f", b"b" * 12)
    old, new = b"a" * 8, b"b" * 8
    expected = {old, new, *(first + rest for first in (old, new) for rest in (bytes(4), b"bbbb"))}
    assert contents(kernel, C_8) == expected
    assert contents(kernel, C_512) == {b"a" * 8, b"b" * 8, b"a" * 8 + bytes(4), b"b" * 12}


def test_a_block_may_be_at_any_version_that_it_had() -> None:
    kernel = machine(f=b"0" * 16)
    for version in (b"1", b"2"):
        write(kernel, "d/f", version * 8, 0)
    write(kernel, "d/f", b"3" * 8, 8)
    assert contents(kernel, C_8) == {one * 8 + other * 8 for one in (b"0", b"1", b"2") for other in (b"0", b"3")}


def test_a_truncation_may_be_lost_and_what_it_cut_comes_back() -> None:
    kernel = machine(f=b"x" * 16)
    do(kernel, CallKind.OPEN_FOR_WRITING, "d/f", file=1)
    do(kernel, CallKind.TRUNCATE, "d/f", file=1, size_bytes=8)
    assert contents(kernel, C_8) == {b"x" * 16, b"x" * 8, b"x" * 8 + bytes(8)}


def test_after_a_sync_that_failed_power_cuts_leave_the_old_bytes() -> None:
    kernel = machine(f=b"old")
    write(kernel, "d/f", b"new")
    number = kernel.entry("d/f")
    kernel.files[number] = kernel.files[number].failed()
    assert contents(kernel, A) == {b"new"}
    assert [contents(kernel, model) for model in POWER_MODELS] == [{b"old"}] * len(POWER_MODELS)


def test_every_power_cut_can_lose_a_name_that_was_not_synced() -> None:
    kernel = machine()
    write(kernel, "d/f", b"")
    for model in MODELS:
        assert contents(kernel, model) == ({b"", None} if model in POWER_MODELS else {b""})


def test_equal_names_that_lead_to_different_files_are_different_disks() -> None:
    """A file that was removed and made again came back only as the new one: their trees are equal."""
    kernel = machine(f=b"old")
    do(kernel, CallKind.UNLINK, "d/f")
    write(kernel, "d/f", b"new")
    for model in POWER_MODELS:
        assert contents(kernel, model) >= {b"old", None, b"new"}


def test_an_older_change_of_a_name_does_not_come_after_a_newer_one_that_is_durable() -> None:
    """A file that was made and moved to another directory was in both, after a sync of the second one."""
    kernel = machine()
    do(kernel, CallKind.MKDIR, "d/e")
    do(kernel, CallKind.SYNC_DIRECTORY, "d")
    write(kernel, "d/f", b"")
    do(kernel, CallKind.RENAME, "d/f", "d/e/f")
    do(kernel, CallKind.SYNC_DIRECTORY, "d/e")
    for model in POWER_MODELS:
        assert [picked.disk.tree.paths for picked in legal_disks(kernel, model)] == [("d/e/f",)]


@pytest.mark.parametrize("names", [(1,), (0, 2), (3,), (-1,)])
def test_a_choice_of_names_that_a_model_does_not_leave_is_rejected(names: tuple[int, ...]) -> None:
    kernel = machine()
    for name in "abc":
        write(kernel, f"d/{name}", b"")
    with pytest.raises(IndexError, match="does not leave the changes of names"):
        chosen_disk(kernel, C_4096, Choice("C-4096", names))


def test_stale_blocks_are_rejected_where_a_model_leaves_none() -> None:
    kernel = machine(f=b"")
    write(kernel, "d/f", b"new")
    choice = Choice("C-512", None, (("d/f", FileChoice(1, 1, ((0, STALE),))),))
    with pytest.raises(IndexError, match="C-512 does not leave this content of d/f"):
        chosen_disk(kernel, C_512, choice)
    left = chosen_disk(kernel, W_512, choice._replace(model="W-512"))
    assert left.files() == {"d/f": STALE_BYTE * 3}
    assert "block 0 stale" in str(choice)


@pytest.mark.parametrize(("durable", "written"), [(bytes(64), b""), (b"old", b""), (b"old", b"new")])
def test_stale_bytes_are_only_in_blocks_that_were_written_to_and_had_none_before(
    durable: bytes, written: bytes
) -> None:
    kernel = machine(f=durable)
    if written:
        write(kernel, "d/f", written)
    version = int(bool(written))
    with pytest.raises(IndexError, match="W-512 does not leave this content of d/f"):
        chosen_disk(kernel, W_512, Choice("W-512", None, (("d/f", FileChoice(version, version, ((0, STALE),))),)))


def test_a_rename_is_on_disk_as_a_whole_or_not_at_all() -> None:
    kernel = machine(f=b"new", g=b"old")
    do(kernel, CallKind.RENAME, "d/f", "d/g")
    trees = [picked.disk.files() for picked in legal_disks(kernel, CDIR)]
    assert trees == [{"d/g": b"new"}, {"d/f": b"new", "d/g": b"old"}]


def test_names_that_cannot_be_there_without_others_are_left_out() -> None:
    kernel = machine()
    do(kernel, CallKind.MKDIR, "d/inner")
    write(kernel, "d/inner/f", b"x")
    do(kernel, CallKind.LINK, "d/inner/f", "d/other")
    disks = legal_disks(kernel, CDIR)
    trees = {picked.disk.tree.paths for picked in disks}
    assert trees == {("d/inner/f",), ("d/other",), ()}
    directories = {picked.disk.kernel().image().directories for picked in disks}
    assert {"d/inner" in names for names in directories} == {True, False}


def test_a_removed_directory_comes_back_with_what_was_in_it() -> None:
    kernel = machine(f=b"x")
    do(kernel, CallKind.UNLINK, "d/f")
    do(kernel, CallKind.RMDIR, "d")
    images = [picked.disk.kernel().image() for picked in legal_disks(kernel, CDIR)]
    found = {("d" in image.directories, "d/f" in image.files) for image in images}
    # The directory cannot go while a name is in it.
    assert found == {(False, False), (True, False), (True, True)}


def test_a_link_leads_to_one_file_after_the_crash_as_before() -> None:
    kernel = machine(f=b"x")
    do(kernel, CallKind.LINK, "d/f", "d/g")
    after = next(iter(legal_disks(kernel, B))).disk.kernel()
    write(after, "d/g", b"y")
    assert after.image().files == {"d/f": b"y", "d/g": b"y"}


def test_equal_disks_are_equal_however_they_came_about() -> None:
    one, other = machine(f=b"1", g=b"2"), machine(g=b"2", f=b"0")
    write(other, "d/f", b"1")
    (first,) = legal_disks(one, A)
    (second,) = legal_disks(other, A)
    assert first.disk == second.disk
    assert first.disk.kernel().identity() == second.disk.kernel().identity()


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_each_disk_is_named_by_a_choice_that_makes_it_again_from_its_text(model: Model) -> None:
    kernel = machine(f=b"a" * 20, g=b"")
    write(kernel, "d/f", b"b" * 24)
    write(kernel, "d/h", b"c" * 9)
    do(kernel, CallKind.RENAME, "d/g", "d/i")
    disks = legal_disks(kernel, model)
    choices = [disks.choice(picked) for picked in disks]
    assert disks.is_complete
    assert len({choice.text() for choice in choices}) == len(choices)
    for picked, choice in zip(disks, choices, strict=True):
        again = choice_of(choice.text())
        assert again == choice
        assert chosen_disk(kernel, model, again) == picked.disk
        assert str(choice).startswith(model.name)


@pytest.mark.parametrize("text", ["", "[]", '["B",null,{"f":[1]}]', '["B",null,{"f":["x",0,[]]}]', "{}"])
def test_a_text_that_no_choice_gave_is_rejected(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        choice_of(text)


def test_a_choice_of_another_kernel_is_rejected() -> None:
    with pytest.raises(IndexError):
        chosen_disk(machine(f=b""), B, Choice("B", None, (("d/f", FileChoice(3, 3)),)))


def test_above_the_limit_a_sample_has_all_old_all_new_and_single_deviations_and_says_how_many_there_are() -> None:
    blocks = 40
    state = FileState(b"o" * 8 * blocks).written(b"n" * 8 * blocks, 0)
    some = legal_file(state, C_8, Limits(file_count=500))
    assert some.legal_count == 2**blocks and not some.is_complete
    assert len(some.contents) == len(set(some.contents)) == 500
    old_counts = [content.count(b"o" * 8) for content in some.contents]
    assert old_counts[:2] == [0, blocks]
    assert old_counts.count(1) == old_counts.count(blocks - 1) == blocks
    again = [file_content(state, C_8, choice) for choice in some.choices]
    assert again == list(some.contents)
    other = legal_file(state, C_8, Limits(file_count=2000, seed=1))
    assert set(other.contents) != set(legal_file(state, C_8, Limits(file_count=2000)).contents)


def test_of_a_point_with_few_disks_all_are_tried_whatever_its_files_share() -> None:
    kernel = machine(f=b"o" * 8 * 5, g=b"")
    write(kernel, "d/f", b"n" * 8 * 5)
    limits = Limits(file_count=3, disk_count=3)
    assert (legal_disks(kernel, C_8, limits).tried_count, legal_disks(kernel, C_8).legal_count) == (3, 32)
    for few_count in (31, 32, 33):
        disks = legal_disks(kernel, C_8, replace(limits, few_count=few_count))
        assert disks.is_complete is (few_count >= 32)
        assert len({picked.disk for picked in disks}) == disks.tried_count == (32 if few_count >= 32 else 3)


def test_above_the_limit_of_a_point_disks_are_sampled_and_counted() -> None:
    kernel = machine(**dict.fromkeys("abcdefgh", b"o" * 4096))
    for name in "abcdefgh":
        write(kernel, f"d/{name}", b"n" * 4096)
    every = legal_disks(kernel, C_4096)
    assert every.is_complete and len({picked.disk for picked in every}) == every.legal_count == 256
    some = legal_disks(kernel, C_4096, Limits(disk_count=50))
    assert not some.is_complete and len(list(some)) == some.tried_count == 50
    assert some.legal_count == 256


def test_above_their_limit_changes_of_names_are_sampled_and_counted() -> None:
    kernel = machine()
    for number in range(12):
        do(kernel, CallKind.MKDIR, f"d/{number}")
    some = legal_disks(kernel, CDIR, Limits(names_count=100))
    assert not some.is_complete and some.legal_count == 2**12 - 100 + len(list(some))
    counts = {len(picked.disk.kernel().image().directories) for picked in some}
    assert {15, 14, 13, 3, 4, 5} <= counts


def test_contents_of_large_files_are_fewer_and_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    block = 4096
    versions = tuple(bytes(block * number) + b"x" * block * (20 - number) for number in range(20))
    state = FileState(versions[-1], versions)
    whole = legal_file(state, C_4096, Limits())
    assert len(whole.contents) == 256 < whole.legal_count
    monkeypatch.setattr(legal_files, "CONTENT_BYTES_MAX", 100 * 20 * block)
    monkeypatch.setattr(legal_files, "REMEMBERED_BYTES_MAX", 250 * 20 * block)
    remembered = legal_files._Memory[legal_files.LegalFile]()
    monkeypatch.setattr(legal_files, "_known_files", remembered)
    samples = [legal_file(state, C_4096, Limits(seed=seed)) for seed in range(4)]
    assert {len(sample.contents) for sample in samples} == {100}
    assert [sample.legal_count for sample in samples] == [whole.legal_count] * 4
    kept = [remembered.get((versions, block, None, Limits(seed=seed))) for seed in range(4)]
    assert [sample is again for sample, again in zip(samples, kept, strict=True)] == [False, False, True, True]
    assert legal_file(state, C_4096, Limits(seed=0)).contents == samples[0].contents


def test_identities_of_disks_are_equal_where_the_disks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legal_disks_module, "LARGE_BYTES", 8)
    kernel = machine(f=b"old" * 7, small=b"x")
    for number in range(5):
        write(kernel, "d/f", bytes([number]) * 5, 4 * number)
        write(kernel, "d/small", bytes([number]))
    disks = [picked.disk for _ in range(2) for picked in legal_disks(kernel, C_8)]
    assert len({disk.identity() for disk in disks}) == len(set(disks)) == len(disks) // 2 > 10
    by_identity = {disk.identity(): disk for disk in disks}
    assert all(by_identity[disk.identity()] == disk for disk in disks)
