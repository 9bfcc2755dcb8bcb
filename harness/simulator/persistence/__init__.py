"""What a crash may leave of a disk, by models of persistence. A new crash model goes into `models.py`.

It imports `filesystem`.
"""
