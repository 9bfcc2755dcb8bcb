"""Planted faults, and which explorers find them.

It imports all rooms before it. Begin with `fault.py`; `catalogue.py` lists them.
"""
