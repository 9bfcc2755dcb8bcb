"""Changes of a file under power cuts: every crash leaves the old form or the new one whole; and planted defects."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from chunk_forms import changed
from depth import nightly, sampled
from footer_forms import in_form, sample_file
from migration_power import coverage_goals, digest, explore_migration
from planted_faults import planted

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.persistence.models import C_512, C_4096, CDIR, A, B, D
from tornproof.harness.simulator.process.case import TestCase
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.extension.footer import read_file_footer
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.footer_form import change_footer_form
from tornproof.impl.migrate.partition_publish import sync_name
from tornproof.impl.storage.interface import Storage

PATH = "d"
FILE = f"{PATH}/x.parquet"
THERE = (FooterForm.PRIVATE, FooterForm.MIGRATION, FooterForm.FINAL)
BACK = (FooterForm.MIGRATION, FooterForm.THRIFT)
CHUNKS_THERE = (ChunkForm.ALP, ChunkForm.ALP_ALONE)
CHUNKS_BACK = (ChunkForm.OLD,)
Form = FooterForm | ChunkForm


@dataclass(frozen=True, slots=True)
class SeenFile:
    """The form of a file, and digests of it and of what its footer says."""

    form: str
    content: str
    thrift_size: int


class Changes:
    """One process that changes the form of the footer or of the chunks."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def commit(self, operation: str) -> None:
        if operation in {*ChunkForm}:
            change_footer_form(self._storage, FILE, chunks=ChunkForm(operation))
        else:
            change_footer_form(self._storage, FILE, FooterForm(operation))


@dataclass(frozen=True, slots=True, kw_only=True)
class FormTarget(Target):
    """A file whose footer changes; an operation is a form."""

    name: str = "footer form"

    def create(self, storage: Storage, path: str) -> None:
        raise NotImplementedError("there is a start state")

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[Changes]:
        """Make durable what is there, as the judge expects of a recovery."""
        sync_name(storage, FILE)
        yield Changes(storage)

    def read(self, storage: Storage, path: str) -> SeenFile:
        with storage.open_for_reading(FILE) as file:
            footer = read_file_footer(file.pread, file.size_bytes(), file=FILE)
        return SeenFile(footer.form, digest(storage, FILE), len(footer.thrift()))


def case_of(start: Form, forms: tuple[Form, ...]) -> TestCase:
    numbers = tuple(range(len(forms)))
    return TestCase(
        target=FormTarget(),
        path=PATH,
        operations=tuple(map(str, forms)),
        first_session=numbers,
        second_session=numbers[-1:],
        start=DiskImage.of_files({FILE: content_in(start)}),
    )


@functools.cache
def content_in(form: Form) -> bytes:
    return changed(sample_file(), form)[0] if isinstance(form, ChunkForm) else in_form(sample_file(), form)


CASES: dict[str, tuple[Form, tuple[Form, ...]]] = {
    "from Thrift to FlatBuffers alone": (FooterForm.THRIFT, THERE),
    "from FlatBuffers alone to Thrift": (FooterForm.FINAL, BACK),
    "from old chunks to new ones alone": (ChunkForm.OLD, CHUNKS_THERE),
    "from both chunks to old ones": (ChunkForm.ALP, CHUNKS_BACK),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", sampled(1, list(CASES), seed=2))
def test_every_crash_of_a_migration_leaves_one_of_its_forms_whole(name: str) -> None:
    models = (A, B, C_4096, CDIR, D)
    phase = explore_migration(case_of(*CASES[name]), models=models)
    assert (phase.verdict, phase.findings, phase.note) == (Verdict.VALID, (), "")
    assert phase.complete and phase.controls == "passed"
    assert all(phase.reached[point] for point in coverage_goals(models))
    # The file has more blocks of 512 bytes than can be lost in all combinations.
    torn = explore_migration(case_of(*CASES[name]), models=(C_512,))
    assert (torn.verdict, torn.findings) == (Verdict.VALID, ())
    assert torn.complete is (CASES[name][1] == CHUNKS_BACK)


DETECTED_BY = {
    "_pm is written under its name": {A, B, C_4096, C_512, CDIR, D},
    "the new _pm is not synced": {B, C_4096, C_512, CDIR, D},
    "the partition's directory is not synced": {B, C_4096, C_512, CDIR, D},
}


@pytest.mark.parametrize("fault", sampled(1, list(DETECTED_BY)))
@pytest.mark.parametrize(
    ("start", "forms"),
    [(FooterForm.THRIFT, (FooterForm.MIGRATION,)), nightly(ChunkForm.OLD, (ChunkForm.ALP,))],
)
def test_a_missing_step_is_found_in_the_models_that_need_it_and_in_no_other(
    fault: str, start: Form, forms: tuple[Form, ...]
) -> None:
    sound = case_of(start, forms)
    sound.oracle((0,))
    for model in (A, B, C_4096, C_512, CDIR, D):
        with planted(fault):
            case = case_of(start, forms).expecting(sound)
            phase = explore_migration(case, models=(model,), settings=Settings(stops_at_first=True))
        assert bool(phase.findings) is (model in DETECTED_BY[fault]), model
