"""Learning from a part of the rows: resamples for the confidence in each edge, and all silos except one."""

from typing import Any

from ..core.schema import Schema
from ..core.spec import Entry, Wrapper, lazy_factory


def _resampled(settings: Any, schema: Schema) -> Schema:
    """The public schema of each resample."""
    from .bootstrap import resampled_schema

    return resampled_schema(schema, settings.sampling)


STEPS: dict[str, Entry] = {
    "moment-sum": Entry(
        releases="moments",
        at_sums={},
        summary="before a tuned run: second moments, with which candidates are scored on held-out halves",
        source="ours",
        disclosure="its part of the second moments about its own means, of all rows and of random halves, once; "
        "masked if the run is",
        maker=lazy_factory("resampling.held_out:MomentSum", "build_moment_sum"),
        takes=("rows in passes",),
    ),
}
"""additional exchanges of a run, before or after the exchanges of its algorithm, by name"""

WRAPPERS: dict[str, Wrapper] = {
    "bootstrap": Wrapper(
        summary="the learner on resamples of each silo's rows, all of them in lockstep",
        maker=lazy_factory("resampling.bootstrap:Bootstrap", "wrap"),
        at_sums=lambda settings: not settings.replacement,
        schema=_resampled,
        draws=lambda settings: settings.resamples,
    ),
    "held-out": Wrapper(
        summary="each silo scores its own rows by the model learned from the sums of the others",
        maker=lazy_factory("resampling.held_out:HeldOut", "wrap"),
    ),
}
"""the wrappers of this family, by name"""
