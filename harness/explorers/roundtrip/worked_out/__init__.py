"""What the format spells out, worked out a second time by docs/format.md.

It imports `impl` and what explorers have in common. Begin with `questions.py`, which has all of them in order.
"""
