"""What all pages are made of: the document, templates, plots, byte maps and timelines. Begin with `page.py`."""
