"""Searches of schedules: DPOR and the dependencies that it needs, random schedules, and reductions for readers.

It imports `systems` and the rooms before it. Begin with `dpor.py`.
"""
