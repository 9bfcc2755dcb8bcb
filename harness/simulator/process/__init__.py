"""Processes that run on the simulated computer, one call after the other, and what is observed of them.

It imports `filesystem`. Begin with `world.py`.
"""
