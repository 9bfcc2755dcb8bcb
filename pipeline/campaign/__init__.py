"""Campaigns: many seeded runs of the simulator as one job. Begin with `job.py`."""
