"""A user's own system under kills and failing calls; Hypothesis shrinks what it finds. Begin with `machine.py`."""
