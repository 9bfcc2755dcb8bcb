"""The files of the operating system beside the simulated ones. Begin with `explorer.py`."""
