"""Ingest of JSON lines into a table. Begin with `job.py`."""
