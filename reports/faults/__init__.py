"""The page of trials of planted faults. Begin with `page.py`."""
