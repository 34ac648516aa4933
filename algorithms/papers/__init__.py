"""The five papers' algorithms as printed, in plain numpy: for readers of the papers, and as a reference.

Each function takes the tables of all silos `[n_rows, n_variables]` and runs the whole algorithm in one process. Nothing
here is private, fast or used by a run. The learners with the preset `paper` compute the same
(`tests/algorithms/papers`). What the learners add is documented in their own modules.
"""
