"""A user's own system under kills and failing calls, as stories that Hypothesis makes small. Begin with `machine.py`."""
