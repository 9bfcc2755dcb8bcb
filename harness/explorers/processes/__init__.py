"""Real writer processes that are killed beside real readers. Begin with `explorer.py`."""
