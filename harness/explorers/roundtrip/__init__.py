"""Compares what files say in several ways: other forms, encoded again, worked out twice. Begin with `explorer.py`."""
