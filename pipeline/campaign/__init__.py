"""Many explorations as one job. Begin with `job.py`."""
