"""Shared parts of pages: the document, templates, plots and byte maps. Begin with `page.py`."""
