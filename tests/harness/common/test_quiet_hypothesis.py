"""A seed alone decides the values of Hypothesis for an explorer, whatever else the process has loaded."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import given
from hypothesis.internal.conjecture import providers

from tornproof.harness.common.quiet_hypothesis import quiet_hypothesis, quiet_settings

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
