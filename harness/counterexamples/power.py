"""What a power cut leaves, by the plain data in a log: `[names, files]` of a `Choice`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tornproof.harness.counterexamples.log import shortest
from tornproof.harness.counterexamples.step_names import without_numbers
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_disks import Disk, chosen_disk
from tornproof.harness.simulator.persistence.models import Choice, FileChoice, Model, choice_of, model_named


class NoSuchDiskError(Exception):
    """A choice names what the disk cannot hold at that moment."""


def written(choice: Choice | str) -> str:
    """Return a choice, or the text of one, as JSON without its model."""
    return shortest(json.loads(choice if isinstance(choice, str) else choice.text())[1:])


def read_choice(model: str, text: str) -> Choice:
    """Return the choice; raises TypeError, ValueError for what is none."""
    return choice_of(shortest([model, *json.loads(text)]))


def disk_after(kernel: Kernel, model: str, text: str) -> Disk:
    """Return the disk after a power cut by a model's choice; raises NoSuchDiskError."""
    try:
        choice = read_choice(model, text)
        if any(not _is_there(each) for each in choice.files) or any(name < 0 for name in choice.names or ()):
            raise NoSuchDiskError(model)
        return chosen_disk(kernel, model_named(model), choice)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise NoSuchDiskError(f"{type(error).__name__}: {error}") from error


def adapted(kernel: Kernel, model: str, text: str) -> str:
    """Return the choice that means the same, as far as there is that, in a case that was made smaller."""
    choice = read_choice(model, text)
    numbers = dict(kernel.paths())
    unnumbered = {without_numbers(path): path for path in numbers}
    files = {}
    for path, (size, base, blocks) in choice.files:
        there = path if path in numbers else unnumbered.get(without_numbers(path))
        if there is not None:
            last = len(kernel.files[numbers[there]].versions) - 1
            old = tuple((block, min(version, last)) for block, version in blocks)
            files[there] = FileChoice(min(size, last), min(base, last), old)
    names = choice.names and tuple(name for name in choice.names if name < len(kernel.entry_changes))
    return written(Choice(choice.model, names, tuple(files.items())))


def simpler_choices(kernel: Kernel, model: str, text: str) -> Iterator[str]:
    """Yield choices of the same model by which more persists: many blocks at once first, then single ones."""
    choice = read_choice(model, text)
    names, files = choice.names, choice.files
    if names is not None:
        yield written(choice._replace(names=None))
        missing = set(range(len(kernel.entry_changes))) - set(names)
        for name in sorted(missing) if len(missing) > 1 else ():
            yield written(choice._replace(names=tuple(sorted({*names, name}))))
    states = {path: kernel.files[number] for path, number in kernel.paths()}
    for place in range(len(files)):
        yield written(choice._replace(files=(*files[:place], *files[place + 1 :])))
    for place, (path, chosen) in enumerate(files):
        if path in states:
            for simpler in _simpler_files(states[path], model_named(model), chosen):
                changed = (*files[:place], (path, simpler), *files[place + 1 :])
                yield written(choice._replace(files=changed))


def _is_there(chosen: tuple[str, FileChoice]) -> bool:
    """Refuse numbers that Python would count from the end."""
    _, (size, base, blocks) = chosen
    return min([size, base, *(number for pair in blocks for number in pair)]) >= 0


def _simpler_files(state: FileState, model: Model, chosen: FileChoice) -> Iterator[FileChoice]:
    last = len(state.versions) - 1
    if model.block_bytes is None:
        later = range(last - 1, chosen.base, -1)
        yield from (FileChoice(number, number) for number in later)
        return
    blocks = _old_blocks(state, model.block_bytes, chosen)
    if chosen.size != last:
        yield FileChoice(last, last, _old_blocks(state, model.block_bytes, chosen._replace(size=last)))
    if chosen != (chosen.size, last, blocks):
        yield FileChoice(chosen.size, last, blocks)
    yield from (FileChoice(chosen.size, last, kept) for kept in _with_fewer(blocks))


def _old_blocks(state: FileState, block_bytes: int, chosen: FileChoice) -> tuple[tuple[int, int], ...]:
    """Return which blocks hold something else than at the last version, with their versions."""
    size_bytes = len(state.versions[chosen.size])
    versions = dict(chosen.blocks)
    old = []
    for block in range(-(-size_bytes // block_bytes)):
        version = versions.get(block, chosen.base)
        start, stop = block * block_bytes, min((block + 1) * block_bytes, size_bytes)
        held, last = (state.versions[number][start:stop].ljust(stop - start, b"\0") for number in (version, -1))
        if held != last:
            old.append((block, version))
    return tuple(old)


def _with_fewer(blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the blocks without the half of them, without a quarter, and so on down to one."""
    width = (len(blocks) + 1) // 2
    while width:
        for start in range(0, len(blocks), width):
            yield (*blocks[:start], *blocks[start + width :])
        width //= 2
