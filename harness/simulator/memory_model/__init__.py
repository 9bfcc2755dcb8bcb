"""What a load of a mapped word may return beside a writer, by memory models.

It imports `filesystem`.
"""
