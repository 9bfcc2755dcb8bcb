"""A computer in memory: files, what a crash may leave of them, loads of mapped words, and processes as trees of calls.

It imports `common`. Begin with `filesystem/kernel.py`.
"""
