"""The page of a finding. Begin with `page.py`."""
