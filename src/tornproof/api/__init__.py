"""What a program does with tables, and what the command line is made of; `tornproof` itself has its names.

It imports all but the command line. Begin with `tables.py` for reading and writing, `operations.py` for the rest.
"""
