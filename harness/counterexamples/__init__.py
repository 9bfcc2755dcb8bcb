"""A run that broke a property, as data: its decisions, which are replayed, shrunk and explained.

It imports `search` and the rooms before it. Begin with `log.py`, then `run.py`.
"""
