"""The page of a run of `check`, and the trend over runs. Begin with `page.py`."""
