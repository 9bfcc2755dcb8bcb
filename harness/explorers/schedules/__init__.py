"""Commits concurrent with readers in every order of calls that matters, and crashes. Begin with `explorer.py`."""
