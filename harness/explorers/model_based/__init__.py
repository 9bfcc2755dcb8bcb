"""Random programs run on a table and on the model side by side. Begin with `explorer.py`."""
