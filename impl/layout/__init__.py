"""Every byte layout, declared once as a table of fields, from which everything else is derived.

It imports `errors`. Begin with `record.py`.
"""
