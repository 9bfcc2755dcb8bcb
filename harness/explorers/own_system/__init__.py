"""A user's own system under kills and failing calls; Hypothesis makes the stories small. Begin with `machine.py`."""
