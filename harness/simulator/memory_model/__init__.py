"""What a load of a word may return beside a writer, under each memory model.

It imports `filesystem`.
"""
