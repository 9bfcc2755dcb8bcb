"""The page of a campaign. Begin with `page.py`."""
