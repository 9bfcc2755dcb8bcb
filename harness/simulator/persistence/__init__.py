"""What a crash may leave on a disk, under each persistence model. A new model goes into `models.py`.

It imports `filesystem`.
"""
