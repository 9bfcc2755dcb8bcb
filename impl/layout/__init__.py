"""Every byte layout, declared once as a table of fields; everything else about it is derived."""
