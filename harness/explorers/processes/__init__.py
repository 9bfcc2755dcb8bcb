"""Real writers that are killed beside real readers. Begin with `explorer.py`."""
