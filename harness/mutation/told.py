"""Runs the cheapest explorer of one fault in this process, told its scenario: `python -m … NAME FILE`."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path

from tornproof.harness.mutation.baseline import baseline_of
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.detectors import mutation_run


def main(name: str, path: Path) -> None:
    """Write the run as JSON, with the CPU seconds that it took after imports and without the fault-free run."""
    fault = fault_named(name)
    baseline_of(fault.scenario)
    begin = time.process_time()
    run = mutation_run(fault)
    path.write_text(json.dumps({**dataclasses.asdict(run), "cpu_seconds": time.process_time() - begin}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
