"""The page of a table. Begin with `page.py`."""
