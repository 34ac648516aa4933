"""Learning from resampled rows, for the confidence in each edge."""

from ..core.spec import Wrapper, lazy_factory

WRAPPERS: dict[str, Wrapper] = {
    "bootstrap": Wrapper(
        summary="the learner on resamples of each silo's rows, all of them in lockstep",
        maker=lazy_factory("resampling.bootstrap:Bootstrap", "wrap"),
    ),
}
"""the wrappers of this family, by name"""
