"""Spark for all jobs: its Java, its session, its progress. Begin with `session.py`."""
