"""Lines of strace: calls in one line or several, stacks, stops, and what was cut."""

import pytest

from tornproof.harness.recording.system_calls import (
    Begun,
    Ended,
    Event,
    Lines,
    Stopped,
    SystemCall,
    descriptor_of,
    text_of,
    texts_of,
)


def events(*lines: str) -> list[Event]:
    reader = Lines()
    return [event for line in lines for event in reader.events(line + "\n")] + list(reader.rest())


def call(*lines: str) -> SystemCall:
    (found,) = events(*lines)
    assert isinstance(found, SystemCall)
    return found


def test_a_call_has_arguments_descriptors_and_a_result() -> None:
    found = call(r'7 pwritev(3<\x2f\x61>, [{iov_base="\x61\x29", iov_len=2}, {iov_base="", iov_len=0}], 2, 100) = 2')
    assert (found.process, found.name, found.result, len(found.arguments)) == (7, "pwritev", 2, 4)
    assert found.descriptor(0) == (3, "/a", False) and found.number(3) == 100
    assert not found.has_failed and call('7 unlink("x") = -1 ENOENT (No such file or directory)').has_failed


def test_an_interrupted_call_is_put_together() -> None:
    found = events(
        r'1 write(3<\x61>, "\x61\x62", 2 <unfinished ...>',
        r"2 read(0x4,  <unfinished ...>",
        r"1 <... write resumed>) = 2",
        r"2 <... read resumed>0x7ffc, 0x10) = 0x10",
    )
    assert found[:2] == [Begun(1), Begun(2)]
    write, read = found[2:]
    assert isinstance(write, SystemCall) and isinstance(read, SystemCall)
    assert [(each.process, each.name, each.result) for each in (write, read)] == [(1, "write", 2), (2, "read", 16)]
    assert write.text(1) == b"ab"


def test_frames_belong_to_the_call_before_them() -> None:
    found = call("1 fsync(3) = 0", " > /usr/lib/libc.so.6(fsync+0x14) [0x1]", " > /opt/store(commit+0x20) [0x2]")
    assert found.stack == ["/usr/lib/libc.so.6: fsync+0x14 [0x1]", "/opt/store: commit+0x20 [0x2]"]


def test_stops_and_ends_are_told() -> None:
    assert events(
        "5 --- SIGSTOP {si_signo=SIGSTOP} ---", "5 --- stopped by SIGSTOP ---", "5 +++ exited with 0 +++"
    ) == [
        Stopped(5),
        Ended(5),
    ]


def test_a_stop_is_told_once_though_all_threads_stop() -> None:
    received, stopped = "--- SIGSTOP {si_signo=SIGSTOP} ---", "--- stopped by SIGSTOP ---"
    assert events(f"5 {received}", f"6 {stopped}", f"5 {stopped}", f"7 {stopped}", f"5 {stopped}") == [Stopped(5)]


@pytest.mark.parametrize("argument", ['"\\x61"...', "NULL", "0x7ffc"])
def test_rejects_a_string_that_was_cut_or_is_none(argument: str) -> None:
    with pytest.raises(ValueError, match="cut"):
        text_of(argument)


def test_descriptors_say_whether_their_file_is_still_there() -> None:
    assert descriptor_of(r"4<\x2f\x79>(deleted)") == (4, "/y", True)
    assert descriptor_of(r"AT_FDCWD<\x2f\x79>") == (None, "/y", False)
    assert descriptor_of("0x1f") == (31, None, False)
    with pytest.raises(ValueError, match="no descriptor"):
        descriptor_of("{}")


def test_a_vector_with_a_buffer_that_was_cut_is_rejected() -> None:
    assert texts_of(r'[{iov_base="\x61", iov_len=1}, {iov_base="\x62\x63", iov_len=2}]') == b"abc"
    with pytest.raises(ValueError, match="cut"):
        texts_of(r'[{iov_base="\x61", iov_len=1}, {iov_base="\x62"..., iov_len=9}]')
