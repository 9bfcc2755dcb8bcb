"""The command line: one module per command in `commands/`, their output and their exit codes.

It may import everything else. Begin with `app.py`.
"""
