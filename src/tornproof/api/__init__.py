"""The Python API, which the command line uses too; `tornproof` exports its names.

It may import everything but the command line. Begin with `tables.py` for reading and writing, and `operations.py`.
"""
