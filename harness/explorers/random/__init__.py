"""Random operations, schedules and crashes. Begin with `random_cases.py`."""
