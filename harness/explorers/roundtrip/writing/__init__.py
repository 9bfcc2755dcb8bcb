"""What a writer takes and leaves, and what it does with what an earlier one left, worked out a second time.

It imports `impl` and what explorers have in common. Begin with `taken_values.py`.
"""
