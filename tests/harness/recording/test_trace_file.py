"""Trace files: what was written is read, and a file that is none is rejected by line and field."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tornproof.harness.recording.steps import End, Start, Step, StepKind, Trace
from tornproof.harness.recording.trace_file import read_trace, write_trace
from tornproof.impl.errors import UsageError

START = Start(
    format=1, tornproof="0", command=("run", "it"), directories=("x",), files={"x/a": b"\0\xff"}, links={"l": "a"}
)
STEPS = (
    Step(kind=StepKind.OPEN, call=1, name="openat", path="x/a", handle=1),
    Step(kind=StepKind.WRITE, call=2, name="write", process=2, path="x/a", handle=1, content=b"\xfe", stack=("f",)),
)
TRACE = Trace(start=START, steps=STEPS, end=End(exit_code=0, calls=2, steps=2))


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_trace(TRACE, tmp_path / "trace")
    assert read_trace(tmp_path / "trace") == TRACE


def test_a_trace_names_hard_links_only_where_there_are_any(tmp_path: Path) -> None:
    """A trace of an earlier release has none, and is read as before."""
    write_trace(TRACE, tmp_path / "trace")
    assert b"hard_links" not in (tmp_path / "trace").read_bytes()
    start = structs.replace(START, files={"x/a": b"", "b": b""}, hard_links=(("b", "x/a"),))
    write_trace(structs.replace(TRACE, start=start), tmp_path / "trace")
    assert read_trace(tmp_path / "trace").start == start


def damaged(path: Path, line: int, /, **changes: Any) -> Path:
    write_trace(TRACE, path)
    lines = [json.loads(each) for each in path.read_text().splitlines()]
    lines[line - 1] = {name: value for name, value in (lines[line - 1] | changes).items() if value is not None}
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize(
    ("line", "changes", "said"),
    [
        (1, {"format": 2}, "line 1: format: expected 1, found 2"),
        (1, {"files": {"a": "no base 64!"}}, r"line 1: .*\$\.files"),
        (2, {"kind": "wish"}, r"line 2: .*'wish' - at `\$\.kind`"),
        (2, {"call": "one"}, r"line 2: Expected `int`, got `str` - at `\$\.call`"),
        (3, {"name": None}, "line 3: .*`name`"),
        (3, {"colour": 1}, "line 3: .*`colour`"),
        (1, {"files": {"/x": ""}}, "line 1: files: expected a path below the recorded directory, found '/x'"),
        (1, {"directories": ["x", "x/../.."]}, "line 1: directories: expected a path below .*, found 'x/../..'"),
        (1, {"directories": ["x", "./y"]}, "line 1: directories: expected a path below .*, found './y'"),
        (1, {"links": {"n" * 256: "a"}}, "line 1: links: expected a path below .*, found 'nnn"),
        (1, {"links": {"x/a": "a"}}, "line 1: files: expected paths that differ, found 'x/a' twice"),
        (1, {"links": {"y/l": "a"}}, "line 1: links: expected a path in a directory that there is, found 'y/l'"),
        (1, {"links": {"l": ""}}, "line 1: links: expected where 'l' leads, found ''"),
        (1, {"hard_links": [["x/a", "b"]]}, "line 1: hard_links: expected names of one file, found 'x/a', 'b'"),
        (2, {"path": "/x/a"}, "line 2: path: expected a path below the recorded directory, found '/x/a'"),
        (2, {"path": "x/\0"}, r"line 2: path: expected a path below .*, found 'x/\\x00'"),
        (2, {"kind": "rename", "target": "../a"}, "line 2: target: expected a path below .*, found '../a'"),
        (2, {"kind": "link symbolically"}, "line 2: target: expected where the link leads, found ''"),
        (2, {"handle": 2}, "line 3: handle: expected one that an earlier step opened, found 1"),
        (3, {"handle": -1}, r"line 3: Expected `int` >= 0 - at `\$\.handle`"),
        (3, {"offset": -1}, r"line 3: Expected `int` >= 0 - at `\$\.offset`"),
        (4, {"steps": 3}, "line 4: steps: expected 2, as there are, found 3"),
    ],
)
def test_rejects_what_is_no_trace(tmp_path: Path, line: int, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_trace(damaged(tmp_path / "trace", line, **changes))


def test_a_symbolic_link_may_lead_anywhere(tmp_path: Path) -> None:
    link = Step(kind=StepKind.SYMLINK, call=1, name="symlink", path="m", target="../../etc/x")
    trace = Trace(
        start=structs.replace(START, links={"l": "/etc//x/"}), steps=(link,), end=End(exit_code=0, calls=1, steps=1)
    )
    write_trace(trace, tmp_path / "trace")
    assert read_trace(tmp_path / "trace") == trace


def test_rejects_a_trace_that_was_cut(tmp_path: Path) -> None:
    write_trace(TRACE, tmp_path / "trace")
    whole = (tmp_path / "trace").read_bytes()
    for size in range(0, len(whole) - 1, 7):
        (tmp_path / "trace").write_bytes(whole[:size])
        with pytest.raises(UsageError, match=str(tmp_path / "trace")):
            read_trace(tmp_path / "trace")
    with pytest.raises(UsageError, match="cannot read"):
        read_trace(tmp_path / "none")
