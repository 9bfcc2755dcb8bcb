"""The count of behaviours run by run, for comparison with the one that takes parts of a campaign at a time."""

from collections.abc import Sequence


def counts_after(behaviours: Sequence[int], is_held_out: Sequence[bool], run_count: int) -> tuple[int, ...]:
    """Return what is known after some runs: runs, behaviours, those seen once, held-out runs, and new ones of them."""
    seen = list(zip(behaviours, is_held_out, strict=True))[:run_count]
    every = [behaviour for behaviour, _ in seen]
    learnt = {behaviour for behaviour, is_out in seen if not is_out}
    held_out = [behaviour for behaviour, is_out in seen if is_out]
    once_count = sum(every.count(behaviour) == 1 for behaviour in set(every))
    return len(seen), len(set(every)), once_count, len(held_out), sum(each not in learnt for each in held_out)
