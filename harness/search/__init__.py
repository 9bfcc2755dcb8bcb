"""Ways through schedules: DPOR and its dependencies, random schedules, and reductions for readers.

It imports `systems` and the rooms before it. Begin with `dpor.py`.
"""
