"""A seed alone decides the values of Hypothesis for an explorer, whatever else the process has loaded."""

import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import given
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.internal.conjecture import providers

from tornproof.harness.common.patch import original_of, replaced
from tornproof.harness.common.quiet_hypothesis import HOME, LOADED_CONSTANTS, quiet_hypothesis, quiet_settings

CONSTANTS = range(1_000_003, 2_000_003, 5_003)
# While tests run, no test uses the constants.
USUAL = providers._get_local_constants


def values_from(context: AbstractContextManager[None]) -> list[int]:
    values = []

    @hypothesis.seed(7)
    @quiet_settings(300, shrinks=False)
    @given(st.integers(0, 1 << 30))
    def draw(value: int) -> None:
        values.append(value)

    with context:
        draw()
    return values


@contextmanager
def usual_hypothesis() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers, "_get_local_constants", USUAL)
        yield
    providers.CONSTANTS_CACHE.cache.clear()


@contextmanager
def loaded(path: Path) -> Iterator[None]:
    path.write_text("".join(f"V{value} = {value}\n" for value in CONSTANTS))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    try:
        yield
    finally:
        del sys.modules[path.stem]


@pytest.mark.nightly
def test_constants_of_loaded_modules_are_not_used(tmp_path: Path) -> None:
    before = values_from(quiet_hypothesis())
    with loaded(tmp_path / "module_of_constants.py"):
        assert set(values_from(usual_hypothesis())) & set(CONSTANTS), "the control: by default Hypothesis uses them"
        assert values_from(quiet_hypothesis()) == before
        assert set(values_from(usual_hypothesis())) & set(CONSTANTS), "afterwards it does again"
    assert len(before) == 300 and len(set(before)) > 100


def test_a_second_thread_waits_and_what_hypothesis_was_before_comes_back() -> None:
    """Both replaced it at once, and what the first had put there stayed for the rest of the process."""
    before = [original_of(each) for each in (LOADED_CONSTANTS, HOME)]
    entered: list[str] = []

    def enter_second() -> None:
        with quiet_hypothesis():
            entered.append("second")

    second = threading.Thread(target=enter_second)
    with quiet_hypothesis():
        second.start()
        second.join(0.05)
        entered.append("first")
    second.join()
    assert entered == ["first", "second"]
    assert [original_of(each) for each in (LOADED_CONSTANTS, HOME)] == before


def test_the_home_of_hypothesis_that_a_program_has_chosen_comes_back(tmp_path: Path) -> None:
    """It was forgotten."""
    with replaced(HOME, None):
        set_hypothesis_home_dir(tmp_path)
        with quiet_hypothesis():
            assert original_of(HOME) != tmp_path
        assert original_of(HOME) == tmp_path
