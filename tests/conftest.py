"""What every folder of tests shares: the real files, unpacked once a run, and repeatable Hypothesis runs."""

import fcntl
import gc
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import golden_archive
import hypothesis
import pytest
from _pytest.unraisableexception import gc_collect_iterations_key

from tornproof.harness.common.quiet_hypothesis import by_seed_alone

pytest_plugins = ["cpu_times", "recorded_phases", "rewritten"]

# Same examples in every run, and no failure because a machine was busy; --hypothesis-profile default searches anew.
for name, example_count in (("day", 50), ("night", 500)):
    hypothesis.settings.register_profile(name, derandomize=True, deadline=None, max_examples=example_count)
hypothesis.settings.load_profile("day")


def pytest_configure(config: pytest.Config) -> None:
    """Look for no garbage while tests are collected, because what is made then stays, and but once in the end."""
    gc.disable()
    config.stash[gc_collect_iterations_key] = 1
    if "not nightly" not in config.option.markexpr:
        hypothesis.settings.load_profile("night")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Let examples not depend on loaded modules: which tests one process runs before another is chance.

    Before Hypothesis looks for constants in all that is loaded, which takes longer than many tests.
    """
    stack = ExitStack()
    stack.enter_context(by_seed_alone())
    config.add_cleanup(stack.close)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have garbage collected less often, and without a look at all that was imported and collected as a test."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session")
def questdb_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the unpacked golden files, one for the whole run: read from it, change only a `copy_of`."""
    base = tmp_path_factory.getbasetemp()
    # Each xdist worker has its own base folder below that of the run.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    unpacked = shared / "questdb"
    with (shared / "questdb.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.exists():
            partial = shared / "questdb.partial"
            golden_archive.unpack(partial)
            partial.rename(unpacked)
    return unpacked


@pytest.fixture
def copy_of(questdb_data: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Function that copies a golden folder or file, given by its name, into the test's own folder to be changed."""

    def copy(name: str) -> Path:
        source, target = questdb_data / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)
        return target

    return copy
