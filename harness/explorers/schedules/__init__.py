"""Commits beside readers, in every order of calls that matters, alone and with crashes. Begin with `explorer.py`."""
