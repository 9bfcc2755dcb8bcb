"""The command line: one module a command in `commands/`, what they print, and how they end.

It imports everything else. Begin with `app.py`.
"""
