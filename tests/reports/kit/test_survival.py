"""The product-limit estimate against published numbers, and where a curve stands after some time."""

from tornproof.reports.kit.survival import milestones, survival

# Freireich et al., Blood 21 (1963): weeks of remission under 6-mercaptopurine; False where it went on.
REMISSIONS = [(week, True) for week in (6, 6, 6, 7, 10, 13, 16, 22, 23)]
GOING_ON = [(week, False) for week in (6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35)]
# As textbooks print them: Kleinbaum and Klein, Survival Analysis, chapter 2.
PUBLISHED = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}


def test_survival_is_what_was_published_of_the_remissions() -> None:
    steps = survival([*GOING_ON, *REMISSIONS])
    assert {step.time: round(step.share, 3) for step in steps if step.event_count} == PUBLISHED
    assert steps[0].at_risk_count == 21 and steps[0].censored_count == 1
    assert [step.at_risk_count for step in steps if step.time in (7, 23)] == [17, 6]


def test_survival_without_censoring_is_the_share_that_is_left() -> None:
    assert [step.share for step in survival([(1, True), (2, True), (2, True), (5, True)])] == [0.75, 0.25, 0]
    assert [step.share for step in survival([(3, False), (3, False)])] == [1]
    assert survival([]) == ()


def test_milestones_are_powers_of_ten_and_the_end() -> None:
    steps = survival([(1, True), (30, True), (200, False)])
    assert [(time, round(share, 3)) for time, share in milestones(steps)] == [
        (1, 0.667),
        (10, 0.667),
        (100, 0.333),
        (200, 0.333),
    ]
