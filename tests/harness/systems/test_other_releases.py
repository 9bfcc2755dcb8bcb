"""Every release can go on from a table after our recovery, because it republishes generations."""

import pytest
from real_tables import with_wal

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.search.crash_world import WRITER_INDEX, Sessions
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.systems.probe import probe
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import load_scenario
from tornproof.harness.systems.simulation import setting_of

RELEASES = ["questdb-9.4.2", "questdb-9.4.3", "questdb-2026-07", "specification"]


def case() -> TestCase:
    return setting_of(load_scenario("reader-lives-through-a-kill"), PRESETS["hardened"]).case


def images_after_recovery(chosen: TestCase) -> dict[str, DiskImage]:
    """Kill the writer before each of its calls, run the next one to its end, and return the disks by step."""
    sessions = Sessions.of(chosen)
    world = chosen.begin(sessions.first)
    images: dict[str, DiskImage] = {}
    while world.nodes[WRITER_INDEX].call is not None:
        after = sessions.after_kill(world)
        after.run(WRITER_INDEX)
        step = f"{world.nodes[WRITER_INDEX].depth}: {world.call(WRITER_INDEX).kind} {world.call(WRITER_INDEX).path}"
        images[step] = after.kernel.image()
        world.step(WRITER_INDEX)
    sessions.close()
    return images


def distinct(images: dict[str, DiskImage]) -> dict[str, DiskImage]:
    seen: dict[object, tuple[str, DiskImage]] = {}
    for step, image in images.items():
        seen.setdefault(frozenset(image.files.items()), (step, image))
    return dict(seen.values())


@pytest.mark.parametrize("release", RELEASES)
def test_after_any_kill_and_our_recovery_every_release_reads_and_goes_on(release: str) -> None:
    with remembered_decoding():
        chosen = case()
        recovered = distinct(images_after_recovery(chosen))
        assert len(recovered) > 3
        for step, image in recovered.items():
            compatibility = probe(with_wal(image, chosen.path), chosen.path, PRESETS[release])
            assert (compatibility.readable, compatibility.writable) == (True, True), (step, compatibility.reason)


def test_without_republishing_a_release_that_takes_the_newest_footer_cannot_go_on() -> None:
    with remembered_decoding(), replaced("tornproof.impl.write.recovery:_republish", lambda storage, resolved: None):
        chosen = case()
        # The second session commits nothing, so that the orphan stays the newest.
        chosen = TestCase(
            target=chosen.target,
            path=chosen.path,
            operations=chosen.operations,
            first_session=chosen.first_session,
            start=chosen.start,
        )
        compatibilities = [
            probe(with_wal(image, chosen.path), chosen.path, PRESETS["questdb-9.4.2"])
            for image in distinct(images_after_recovery(chosen)).values()
        ]
    assert not all(compatibility.readable for compatibility in compatibilities)
