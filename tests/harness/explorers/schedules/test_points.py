"""Coverage points of readers: each stands for what happened, and for nothing else."""

from tornproof.harness.explorers.schedules.points import DATA_GREW, _AnsweredCall, _of_generations
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.impl.table.partition import TAIL_BYTES


def read_of(directory: str, *, size_bytes: int, token: int) -> list[_AnsweredCall]:
    """Return the calls of a reader to one partition, of which `_pm` cannot be decoded."""
    pm, data = f"t/{directory}/_pm", f"t/{directory}/data.parquet"
    return [
        _AnsweredCall(Call(kind=CallKind.PREAD, path=pm, size_bytes=16), b"?" * 16),
        _AnsweredCall(Call(kind=CallKind.SIZE, path=data), size_bytes),
        _AnsweredCall(
            Call(kind=CallKind.PREAD, path=data, offset_bytes=token - TAIL_BYTES, size_bytes=TAIL_BYTES),
            bytes(TAIL_BYTES),
        ),
    ]


def test_a_file_grew_past_its_token_only_if_it_is_itself_larger() -> None:
    large, small = read_of("large", size_bytes=900, token=900), read_of("small", size_bytes=300, token=300)
    assert DATA_GREW not in {*_of_generations([*large, *small])}
    assert DATA_GREW in {*_of_generations(read_of("grown", size_bytes=301, token=300))}
