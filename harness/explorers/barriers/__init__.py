"""Which barriers a commit needs under which model of persistence. Begin with `explorer.py`."""
