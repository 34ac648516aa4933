"""Learning from a part of the rows: resamples for the confidence in each edge, and the silos but one."""

from ..core.spec import Wrapper, lazy_factory

WRAPPERS: dict[str, Wrapper] = {
    "bootstrap": Wrapper(
        summary="the learner on resamples of each silo's rows, all of them in lockstep",
        maker=lazy_factory("resampling.bootstrap:Bootstrap", "wrap"),
    ),
    "held-out": Wrapper(
        summary="each silo scores its own rows by what the learner finds in the sums of the others",
        maker=lazy_factory("resampling.held_out:HeldOut", "wrap"),
    ),
}
"""the wrappers of this family, by name"""
