"""The disks that a killed process or a failed call leaves, and their recoveries. Begin with `explorer.py`."""
