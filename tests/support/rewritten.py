"""Rewrites the assertions of all test modules once, before the workers start.

pytest rewrites a module when it imports one that has no rewritten code beside it. Each worker imports all of them, at
the same time as the others, so that each would rewrite all of them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

TESTS = Path(__file__).parents[1]


def pytest_configure(config: pytest.Config) -> None:
    """Rewrite what is not yet rewritten, in as many processes as there are cores."""
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None) or sys.dont_write_bytecode:
        return
    modules, count = sorted(TESTS.rglob("test_*.py")), os.cpu_count() or 1
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_rewrite, args=(modules[start::count], config)) for start in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _rewrite(modules: Sequence[Path], config: pytest.Config) -> None:
    """Write the rewritten code of these modules as pytest would; pytest has no call of its own for that."""
    for module in modules:
        rewritten = rewrite.get_cache_dir(module) / (module.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(module, rewritten) is None and rewrite.try_makedirs(rewritten.parent):
            source_hash, code = rewrite._rewrite_test(module, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, rewritten)
