"""Processes that run on the simulated computer, one call at a time, and the checks of what they observe.

It imports `filesystem`. Begin with `world.py`.
"""
