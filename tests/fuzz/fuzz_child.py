"""One process that fuzzes one target until its time is up or an input ends it; `fuzz_run.py` starts it and continues.

Coverage-guided by atheris if that is installed; it must be active before the project is imported, so imports are
inside functions here.
"""

import argparse
import importlib.util
import os
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from fuzz_planted import PLANTED, SEEDS

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]

INSTRUMENTED = ["tornproof.impl", "tornproof.cli"]
DECODED_BY_HARNESS = ("scenario", "finding")
SIZE_MAX_BYTES = 20 << 10
NEVER_SECONDS = 1_000_000
ATHERIS = "atheris"
MUTATION = "mutation"


def has_atheris() -> bool:
    """Whether the coverage-guided engine is installed."""
    return importlib.util.find_spec(ATHERIS) is not None


def main() -> None:
    """Fuzz the target of the command line in its folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("folder", type=Path, help="where seeds, corpus, bugs and the board of this target are")
    parser.add_argument("--engine", choices=(ATHERIS, MUTATION), required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--inputs", type=int, required=True, help="at most so many; -1: as many as there is time for")
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    with _instrumentation(given.engine, given.target):
        import fuzz_watch

        run, seeds, repair = subject(given.target)
    corpus = given.folder / "corpus"

    def report(bug: fuzz_watch.Bug) -> None:
        save(given.folder / "bugs", bug.name, bug.content, bug.report)
        if bug.kind == "memory":
            # The peak of a process never sinks, so that only a new one can notice the next bug.
            os._exit(fuzz_watch.EXIT_MEMORY)

    board = fuzz_watch.Board(given.folder / "board")
    watch = fuzz_watch.Watch(run, report, board)
    fuzz_watch.limit_memory()
    if given.engine == ATHERIS:
        _guided(watch, seeds, corpus, repair, given)
    else:
        _blind(watch, [*seeds, *(path.read_bytes() for path in sorted(corpus.iterdir()))], repair, given)


def subject(target: str) -> tuple[Callable[[bytes], None], list[bytes], Callable[[bytes], bytes]]:
    """Return what is fuzzed, what to start from, and how to make checksums right; a planted one without the others."""
    if target in PLANTED:
        return PLANTED[target], SEEDS, bytes
    from fuzz_corpus import seeds_of
    from fuzz_repair import REPAIRS
    from fuzz_targets import TARGETS

    return TARGETS[target], seeds_of(target), REPAIRS.get(target, bytes)


def save(folder: Path, name: str, content: bytes, report: str) -> None:
    """Keep the first input that shows a bug, with its traceback beside it."""
    if not (folder / name).exists():
        (folder / f"{name}.txt").write_text(report, encoding="utf-8", errors="backslashreplace")
        (folder / name).write_bytes(content)


def _instrumentation(engine: str, target: str) -> AbstractContextManager[object]:
    if engine == MUTATION:
        return nullcontext()
    import atheris

    packages = [*INSTRUMENTED, "tornproof.harness"] if target in DECODED_BY_HARNESS else INSTRUMENTED
    context: AbstractContextManager[object] = atheris.instrument_imports(include=packages)
    return context


def _guided(
    run: Callable[[bytes], None],
    seeds: list[bytes],
    corpus: Path,
    repair: Callable[[bytes], bytes],
    given: argparse.Namespace,
) -> None:
    """Hand over to libFuzzer, which ends the process."""
    import atheris

    def mutate(content: bytes, size_max_bytes: int, seed: int) -> bytes:
        mutated: bytes = atheris.Mutate(content, size_max_bytes)
        return repair(mutated)[:size_max_bytes] if seed % 2 else mutated

    first = given.folder / "seeds"
    first.mkdir(exist_ok=True)
    for seed in seeds:
        (first / f"{zlib.crc32(seed):08x}").write_bytes(seed)
    options = {
        "max_total_time": given.seconds,
        "runs": given.inputs,
        "seed": given.seed,
        "max_len": SIZE_MAX_BYTES,
        "len_control": 0,
        "artifact_prefix": f"{given.folder}/",
        # The watch has limits of its own, on CPU time and on what was added to the memory.
        "timeout": NEVER_SECONDS,
        "rss_limit_mb": 0,
    }
    atheris.Setup(
        [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(corpus), str(first)],
        run,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def _blind(
    run: Callable[[bytes], None], inputs: list[bytes], repair: Callable[[bytes], bytes], given: argparse.Namespace
) -> None:
    from fuzz_mutation import Mutator

    mutator = Mutator(inputs, seed=given.seed, size_max_bytes=SIZE_MAX_BYTES)
    end_seconds = time.monotonic() + given.seconds
    count = 0
    while time.monotonic() < end_seconds and count != given.inputs:
        content = inputs[count] if count < len(inputs) else mutator.mutated()
        run(repair(content) if count >= len(inputs) and mutator.below(2) else content)
        count += 1


if __name__ == "__main__":
    main()
