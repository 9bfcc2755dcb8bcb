"""A QuestDB server: found and started (`release.py`, `process.py`), and asked over HTTP (`client.py`).

It imports nothing of the other systems. Begin with `client.py`.
"""
