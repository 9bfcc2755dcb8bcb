"""A campaign's spec: what it means, and one clear sentence for what it cannot."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.mutation.seeded import SeededRuns
from tornproof.harness.systems.scenario import scenario_names
from tornproof.pipeline.campaign.spec import (
    CONTROL_GROUPS,
    SIZE_LIMIT_BYTES,
    TASKS_MAX,
    CampaignError,
    Group,
    all_groups,
    cells_of,
    digest_of,
    load_spec,
    parse_spec,
)
from tornproof.pipeline.campaign.tasks import plan_of

NIGHTLY = Path(__file__).parents[3] / "scenarios" / "campaigns" / "nightly.toml"
SMALL = b"""
format = 1
name = "small"
seed = 5

[[groups]]
name = "crashes"
scenarios = ["sync-fails", "two-orphans"]
presets = ["hardened", "specification"]
seeds = { first = 10, count = 25 }
seeds_a_task = 10
"""
HEAD = b'format = 1\nname = "x"\n'


def group(text: str) -> bytes:
    return HEAD + b'[[groups]]\nname = "g"\nseeds = { count = 1 }\n' + text.encode()


def test_tasks_are_all_seeds_of_all_cells_once_and_the_controls_come_first() -> None:
    spec = parse_spec(SMALL, "small.toml")
    tasks = plan_of(spec)
    assert [task.number for task in tasks] == list(range(len(tasks)))
    mine = [task for task in tasks if task.group == "crashes"]
    assert list(tasks[-len(mine) :]) == mine and {task.campaign_seed for task in tasks} == {5}
    planned = [(task.cell.key, task.first, task.stop) for task in mine]
    cells = [
        (scenario, preset, "") for preset in ("hardened", "specification") for scenario in ("sync-fails", "two-orphans")
    ]
    assert planned == [(cell, first, stop) for cell in cells for first, stop in ((10, 20), (20, 30), (30, 35))]
    assert {task.group for task in tasks} - {"crashes"} == {control.name for control in CONTROL_GROUPS}


def test_without_names_a_group_is_all_scenarios_for_schedules_or_crashes_under_our_preset() -> None:
    spec = parse_spec(group(""), "x.toml")
    cells = cells_of(spec.groups[0])
    names = [cell.scenario.name for cell in cells]
    assert {"two-orphans", "sync-fails", "a-rewrite-a-commit-and-a-crash"} < set(names) < set(scenario_names())
    assert "words-of-two-commits" not in names
    assert {(cell.preset, cell.fault, cell.watches_steps) for cell in cells} == {("hardened", "", True)}


def test_a_fault_comes_with_the_scenario_that_it_is_hunted_on() -> None:
    spec = parse_spec(group('faults = ["pins not asked for", "prev is always 0"]\nwatches_steps = false'), "x.toml")
    assert [(cell.key, cell.watches_steps) for cell in cells_of(spec.groups[0])] == [
        (("purge-beside-a-pinned-reader", "hardened", "pins not asked for"), False),
        (("append-and-power-cut", "hardened", "prev is always 0"), False),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"format = 2\nname = 'x'\ngroups = []", "x.toml: Expected `int` <= 1 - at `$.format`"),
        (b"format = ", "x.toml: "),
        (b"\xff", "x.toml: "),
        (HEAD, "x.toml: Object missing required field `groups`"),
        (HEAD + b"groups = []", "x.toml: Expected `array` of length >= 1 - at `$.groups`"),
        (group("seed = 3"), "x.toml: Object contains unknown field `seed` - at `$.groups[0]`"),
        (group("presets = []"), "x.toml: Expected `array` of length >= 1 - at `$.groups[0].presets`"),
        (group('scenarios = ["x"]'), "x.toml: there is no scenario 'x' - at `$.groups[0].scenarios`"),
        (group('presets = ["x"]'), "x.toml: there is no preset 'x' - at `$.groups[0].presets`"),
        (group('faults = ["x"]'), "x.toml: there is no fault 'x' - at `$.groups[0].faults`"),
        (
            group('scenarios = ["two-orphans", "two-orphans"]'),
            "x.toml: something is named twice - at `$.groups[0].scenarios`",
        ),
        (
            group('faults = ["prev is always 0"]\npresets = ["specification"]'),
            "x.toml: a fault is planted in 'hardened' and in no other preset - at `$.groups[0].presets`",
        ),
        (
            group("").replace(b'"g"', b'"controls-faults"'),
            "x.toml: `controls-faults` names two groups, or one of tornproof's own - at `$.groups[0].name`",
        ),
        (group("") + group("")[len(HEAD) :], "x.toml: `g` names two groups"),
        (group("").replace(b'"g"', b'"../g"'), "x.toml: Expected `str` matching regex"),
        (group("").replace(b'"g"', b'"g\\n"'), "x.toml: Expected `str` matching regex"),
        (group("").replace(b"count = 1", b"count = 0"), "x.toml: Expected `int` >= 1 - at `$.groups[0].seeds.count`"),
        (
            group("").replace(b"count = 1", b"first = 4611686018427387903, count = 2"),
            "x.toml: seeds go up to 4611686018427387904 - at `$.groups[0].seeds`",
        ),
        (
            group('scenarios = ["two-orphans", "sync-fails"]').replace(b"count = 1", b"count = 20_000_001"),
            f"x.toml: 200,002 tasks of `seeds_a_task` runs each, but at most {TASKS_MAX:,} are allowed - at `$.groups`",
        ),
        (b"#" * (SIZE_LIMIT_BYTES + 1), f"x.toml: more than {SIZE_LIMIT_BYTES} bytes"),
    ],
)
def test_a_spec_that_cannot_be_run_is_rejected_with_file_and_field(content: bytes, sentence: str) -> None:
    with pytest.raises(CampaignError) as rejected:
        parse_spec(content, "x.toml")
    assert str(rejected.value).startswith(sentence)
    assert "\n" not in str(rejected.value)


def test_a_file_that_is_not_there_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="cannot read: No such file or directory"):
        load_spec(tmp_path / "none.toml")


def test_the_digest_stands_for_everything_that_is_run() -> None:
    digests = {digest_of(parse_spec(SMALL, "a.toml")), digest_of(parse_spec(SMALL, "b.toml"))}
    assert len(digests) == 1
    for old, new in (
        (b"seed = 5", b"seed = 6"),
        (b"count = 25", b"count = 26"),
        (b"task = 10", b"task = 11"),
        (b'"sync-fails", ', b""),
        (b'"crashes"\n', b'"crashes"\nwatches_steps = false\n'),
    ):
        assert old in SMALL
        digests.add(digest_of(parse_spec(SMALL.replace(old, new), "c.toml")))
    assert len(digests) == 6


def assert_detected(groups: Sequence[Group]) -> None:
    """Find out that every preset and fault of some controls is convicted by one of the seeds that it has."""
    for group in groups:
        for cell in cells_of(group):
            with SeededRuns(cell, 0) as runs:
                assert any(runs.run(seed).verdict is Verdict.INVALID for seed in range(group.seeds.count)), cell.key


def test_the_controls_of_every_campaign_are_detected() -> None:
    assert len(CONTROL_GROUPS) == 2
    assert_detected(CONTROL_GROUPS)


def test_the_nightly_runs_every_suitable_scenario_and_hunts_planted_faults_as_controls() -> None:
    spec = load_spec(NIGHTLY)
    groups = {group.name: group for group in all_groups(spec)}
    ours = [each for each in groups.values() if not each.control]
    assert len(ours) == 1 and not ours[0].scenarios and not ours[0].faults and ours[0].presets == ("hardened",)
    assert sum(len(each.faults) for each in groups.values() if each.control) >= 20
