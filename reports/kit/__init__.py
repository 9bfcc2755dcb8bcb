"""What all pages are made of: the document, templates, plots and byte maps. Begin with `page.py`."""
