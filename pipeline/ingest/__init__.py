"""Archives of JSON lines as a table. Begin with `job.py`."""
