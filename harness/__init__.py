"""The explorers, and all that they need: the only package that imports both the model and the implementation.

Each room imports only rooms to its left: common, simulator, parallel, systems, checkers and recording, search,
counterexamples, explorers, mutation; `check.py` and `replay.py` stand above them, and `trial.py` above all. Begin with
`check.py`.
"""

if __name__ != "tornproof.harness":
    raise ImportError(f"this is tornproof.harness, and was imported as {__name__}", name=__name__)
