"""What other processes do in the middle of an operation, and which of them have files of a table open.

It imports `impl` and what explorers have in common. Begin with `changed_meanwhile.py`.
"""
