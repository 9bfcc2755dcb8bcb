"""What a command imports: each takes time, and a small table is verified sooner than some of them are imported."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import TIMEOUT_SECONDS, environment

TABLE = "tables/9.4.2/dedup/table"
"""Its doubles and native partitions are what pyarrow would import pandas for."""
FOR_EXPLORERS = {"hypothesis", "greenlet", "tornproof.harness.explorers"}
FOR_PAGES = {"jinja2", "junitparser", "matplotlib", "tornproof.reports"}
FOR_SPARK = {"pyspark", "py4j", "pandas.core", "tornproof.pipeline"}
"""Not "pandas": Python counts the attempt that fails."""
FOR_FEW = {"pydantic", "rich.live", "rich.progress", "sqlglot"}
"""Numbers of the command line, progress on a terminal, conditions."""
FOR_WRITING = {"tornproof.impl.write", "tornproof.impl.parquet.arrow_writer"}
FOR_TABLES = {"numpy", "pyarrow"}
FOR_LARGE_TABLES = {"concurrent.futures", "logging"}
"""Threads."""
FOR_NETWORKS = {"pyarrow.parquet", "pyarrow.fs", "ssl", "asyncio", "multiprocessing", "multiprocess", "http"}
UNNEEDED = FOR_EXPLORERS | FOR_PAGES | FOR_SPARK | FOR_FEW | FOR_LARGE_TABLES | FOR_NETWORKS
DATACLASSES_MAX = 12
"""Making 10 takes as long as importing rich.table; a Struct takes a thirtieth of a dataclass."""
COUNTING = """
import gc, sys
from tornproof.cli.entry import main

collections = []
gc.collect()
gc.callbacks.append(lambda phase, info: collections.append(phase))
try:
    main()
except SystemExit as ended:
    assert ended.code == 0
modules = [module for name, module in sys.modules.items() if name.startswith("tornproof.")]
classes = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
own = [kind for kind in classes if kind.__module__.startswith("tornproof.") and "__dataclass_fields__" in vars(kind)]
print(len(collections), len(gc.get_objects()), len(own), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        # Typer's help needs logging.
        (["--help"], (UNNEEDED | FOR_WRITING | FOR_TABLES) - FOR_LARGE_TABLES),
        (["verify", TABLE], UNNEEDED | FOR_WRITING | {"pyarrow.compute"}),
        (["read", TABLE], UNNEEDED | FOR_WRITING | {"rich", "pyarrow.compute"}),
        (["inspect", f"{TABLE}/_txn"], UNNEEDED | FOR_WRITING | {"pyarrow"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_imports_nothing_that_it_has_no_use_for(
    questdb_data: Path, arguments: Sequence[str], unneeded: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tornproof", *arguments],
        cwd=questdb_data,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "tornproof.cli.app" in loaded
    assert loaded & unneeded == set()


@pytest.mark.parametrize(
    "arguments", [["verify", TABLE], ["read", TABLE], ["inspect", f"{TABLE}/_txn"]], ids=lambda given: given[0]
)
def test_a_small_table_is_done_without_collecting_garbage_and_with_few_dataclasses(
    questdb_data: Path, arguments: Sequence[str]
) -> None:
    # Searching for garbage among the modules took longer than verifying a small table, and making 128 dataclasses too.
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *arguments],
        cwd=questdb_data,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    collection_count, object_count, dataclass_count = map(int, done.stderr.split()[-3:])
    assert collection_count == 0
    assert object_count < 1000, "the rest is frozen, so that Python does not look at it when it ends"
    assert dataclass_count <= DATACLASSES_MAX
