"""Findings of the simulator: the decisions of a run as data, seen again, made small, and put in words."""
