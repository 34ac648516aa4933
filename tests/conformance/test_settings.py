"""Every setting of every learner changes its run: another value, another number of rounds, traffic or structure.

The test of a new setting fails until the setting has a value here. Only results of the silos' answers are compared,
never the settings themselves, so the test notices a setting that no code reads.
"""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import unstacked
from fedbnsl.data.generators.events import linked_events
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.conformance.test_laws import LEVELS, as_events, in_stretches

NAMES = tuple("abcdefghi")


@dataclass(frozen=True)
class Change:
    """Another value of a setting, the other settings with which it makes a difference, and the kind of rows."""

    value: Any
    beside: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    """"" for the first kind that the learner takes"""
    hard: bool = False
    """whether the change needs nine variables with much noise, because five are found too easily"""


SHORT = {"rounds": 6, "insecure_seed": 1}
"""of learners that have such settings: few rounds, and repeatable noise"""
SMALL = {
    "notears-mlp": {"units": 3, "steps": 20, "rounds": 3},
    "notears-mlp-admm": {"units": 3, "steps": 5, "rounds": 3},
    "pfdbnl": {"refine": False, "rounds": 3},
    "dp-covariance": {"epsilon": 50.0},
    "dp-fed-sparse": {"epsilon": 50.0},
}
LEARNERS = (
    *("fed-sparse", "notears-admm", "fed-frank-wolfe", "secure-sum", "secure-linear", "secure-lingam"),
    *("secure-additive", "fed-bfci"),
    *("dp-fed-sparse", "dp-covariance", "fdbnl", "pfdbnl", "dynotears", "var", "notears", "notears-mlp-admm"),
    *("notears-mlp", "fed-pc", "pc", "rfcd", "fed-ges", "secure-boss", "boss", "ges-union", "fed-hawkes"),
)
"""one for each class of settings"""

NOISY = {"epsilon": 50.0}
FREE = {"error_variances": "free"}
PRIVATE_TESTS = {"epsilon": 10.0, "depth": 1, "orientation": "sepset"}
CHANGES: dict[str, Change | dict[str, Change]] = {
    # Consensus ADMM.
    "rho1": {"dp-fed-sparse": Change(3.0, {"acyclicity": "notears"}), "": Change(3.7)},
    "rho1_growth": {"dp-fed-sparse": Change(3.0, {"acyclicity": "notears"}), "": Change(2.9)},
    "rho2": {"dp-fed-sparse": Change(3.0, {"acyclicity": "notears"}), "": Change(2.3)},
    "rho2_growth": Change(2.0, {"fix_order": False}),
    "l1": {"secure-sum": Change(0.2, {"learner": "notears"}), "": Change(0.4)},
    "l2": Change(0.3),
    "rounds": {
        "": Change(2),
        "fed-pc": Change(1),
        "pc": Change(1),
        "rfcd": Change(1),
        "pfdbnl": Change(1),
        "fed-ges": Change(1, {"rounds": 40}, "continuous", hard=True),
    },
    "tolerance": {
        "": Change(100.0, {"h_tolerance": 100.0, "rounds": 20}),
        "pfdbnl": Change(100.0, {"h_tolerance": 100.0, "rounds": 4}),
        "notears-mlp": Change(10.0),
    },
    "h_tolerance": {
        "": Change(100.0, {"tolerance": 0.1, "rounds": 40, "fix_order": False}, hard=True),
        "pfdbnl": Change(100.0, {"tolerance": 100.0, "rounds": 4}),
        "fed-frank-wolfe": Change(100.0, {"tolerance": 100.0, "rounds": 20}),
        "notears-mlp-admm": Change(100.0, {"tolerance": 100.0, "rounds": 5}),
    },
    "threshold": {
        "": Change(0.9),
        "secure-lingam": Change(0.5),
        "secure-linear": Change(9.0),
        "secure-sum": Change(9.0),
    },
    "repair": Change("cycles", {"threshold": 0.0, "fix_order": False, "rounds": 3}),
    "center": {"": Change(False), "var": Change(True)},
    "scaled": {
        "": Change(False),
        "dp-fed-sparse": Change(False, {"acyclicity": "notears"}),
        "fed-frank-wolfe": Change(True),
    },
    "fix_order": {"": Change(False), "fed-frank-wolfe": Change(True, {"rounds": 30})},
    "order_searches": {
        "": Change(0, {"rounds": 100}),
        "fed-frank-wolfe": Change(0, {"fix_order": True, "rounds": 100}),
    },
    "send_threshold": Change(0.2),
    "gamma": Change(0.4),
    "local_steps": Change(1),
    "loops": Change(True),
    "mean_loss": Change(True),
    "radius": Change(0.2),
    "closed_form": Change(True),
    "lagged_price": Change(7.0),
    # Of networks of neurons.
    "units": Change(2),
    "steps": {"dp-fed-sparse": Change(3), "": Change(2)},
    "init_seed": Change(3),
    # Of time series.
    "lags": {
        "": Change(2, kind="time-series"),
        **dict.fromkeys(("secure-boss", "fed-pc"), Change(2, {"lags": 1}, "time-series")),
    },
    "max_lags": Change(1, {"lags": "auto"}, "time-series"),
    "center_series": {
        "fed-pc": Change(False, {"lags": 1}, "time-series"),
        "": Change(False, kind="time-series"),
    },
    "ridge": Change(500.0),
    "hubs": Change(True),
    "mu": Change(2.0),
    "participants": Change(2),
    "participant_seed": Change(3, {"participants": 2}),
    "refine": Change(True),
    "target_rows": Change("left-out", kind="experiments", hard=True),
    "collect": Change(False),
    # Of event sequences.
    "delay": Change(30.0),
    "acyclic": Change(False, {"rounds": 60, "penalty": 0.0}),
    "penalty": Change(0.0, {"rounds": 60}),
    "batch": Change(1.0, {"rounds": 60, "penalty": 0.0}),
    "hops": Change(1, {"rounds": 60}, kind="linked events"),
    "hop_weight": Change(0.7, {"hops": 1}, kind="linked events"),
    "trials": Change(2),
    # Of learners from moments.
    "learner": Change("fed-sparse"),
    "price": {"": Change(9.0, {"learner": "equal-variance"}), "dp-fed-sparse": Change(90.0)},
    "max_parents": Change(1, {"learner": "equal-variance"}, hard=True),
    "alpha": {
        "": Change(0.4),
        "secure-sum": Change(0.4, {"learner": "pc"}),
        "dp-covariance": Change(0.4, {"learner": "pc", "epsilon": 5000.0}),
    },
    "starts": Change(1, {"exact": 0, "starts": 8}, hard=True),
    "seed": {
        "": Change(3, {"exact": 0, "starts": 2}, hard=True),
        "secure-linear": Change(1, FREE | {"starts": 2, "agreeing_starts": 1}, hard=True),
    },
    "error_variances": Change("free"),
    "min_share": {"": Change(0.3), "secure-linear": Change(0.3, FREE)},
    "independent_share": Change(0.02, FREE),
    "non_gaussian": Change(False, FREE),
    "min_log_likelihood_ratio": Change(0.01, FREE),
    # Of private runs.
    "epsilon": {"fed-pc": Change(10.0, {"depth": 1, "orientation": "sepset"}), "": Change(90.0)},
    "delta": {"fed-pc": Change(1e-2, PRIVATE_TESTS), "": Change(1e-3, NOISY)},
    "insecure_seed": {"fed-pc": Change(2, PRIVATE_TESTS), "": Change(2, NOISY)},
    "colluders": {"fed-pc": Change(0, PRIVATE_TESTS), "": Change(0, NOISY)},
    "clip": {"dp-fed-sparse": Change("average"), "": Change(1.5, NOISY)},
    "scale_share": Change(0.4, NOISY),
    "known_scale": Change(0.4, NOISY),
    "accounting": Change("papers", {"epsilon": 500.0}),
    "protect": Change("row", NOISY, "time-series"),
    "noise": Change("none", NOISY),
    "acyclicity": Change("notears"),
    "mechanism": Change("mangold"),
    "clip_values": Change(0.2),
    "clip_residuals": Change(0.2),
    "clip_total": Change(0.5, {"clip": "product"}),
    "smoothness": Change("known", {"known_smoothness": 2.0}),
    "second_moment_bound": Change(20.0, {"second_moment_bound": 5.0, "smoothness": "private"}),
    "known_smoothness": Change(20.0, {"known_smoothness": 2.0, "smoothness": "known"}),
    "smoothness_share": Change(0.4),
    "spread_share": Change(0.4),
    "share": Change(0.2),
    # Of independence tests.
    "statistic": Change("g2"),
    "orientation": Change("sepset", {"alpha": 0.4}, hard=True),
    "depth": Change(0),
    "max_sets": Change(1, {"alpha": 0.4}, hard=True),
    "rows_per_cell": Change(60.0),
    "cells": {"": Change(30), "secure-boss": Change(100, {"most_cells": 100}, hard=True)},
    "mode": Change("projection"),
    "projections": Change(10, {"mode": "projection"}),
    "projection_seed": Change(10, {"mode": "projection"}),
    # Of searches.
    "score": Change("bic", hard=True),
    "ess": Change(40.0, hard=True),
    "expected_parents": Change(4.0, hard=True),
    "mixed_score": Change("conditional-gaussian", kind="mixed"),
    "most_cells": Change(8),
    "exact": Change(0, hard=True),
    "lookahead": Change(0),
    "candidates": Change(1, hard=True),
    "weights": Change("own", kind="continuous"),
    "segments": Change(2, {"weights": "own", "lags": 1}, "time-series"),
    "quota": Change(0.9, {"rounds": 40, "client": "replace"}, "continuous", hard=True),
    "client": Change("replace", {"rounds": 40}, "continuous", hard=True),
    "limit": Change(1, kind="continuous", hard=True),
    "convergence": Change("unchanged", {"rounds": 40, "client": "replace"}, "continuous", hard=True),
}
"""another value of each setting: of all learners ("") or of some by name"""
HARD_TO_FIND = {"starts", "exact", "seed", "refine", "mixed_score"}
NOT_SEEN: dict[str, set[str]] = {
    "fed-sparse": {"relax"},
    "notears-admm": {"relax"},
    "fed-frank-wolfe": {"relax", "l1"},
    "fdbnl": {"relax"},
    "dynotears": {"relax"},
    "notears": {"relax"},
    "secure-sum": {"max_parents"},
    "dp-covariance": {"center", "center_series"},
    "secure-linear": {"patience", "starts", "agreeing_starts"},
    "fed-bfci": {"patience", "starts", "agreeing_starts"},
    "secure-additive": {
        "patience",
        "starts",
        "agreeing_starts",
        "seed",
        "min_share",
        "min_log_likelihood_ratio",
    },  # few linear rows
    "notears-mlp-admm": {"center"},
    "rfcd": HARD_TO_FIND,
    "boss": HARD_TO_FIND - {"mixed_score"},
    "secure-boss": {"refine", "candidates"},
    "fed-ges": {"client_quota", "insertion", "drift", "last_drift"},
    "ges-union": {"insertion"},
}
"""settings of a learner that make no difference to runs as small as these"""


def change_of(name: str, setting: str) -> Change | None:
    found = None if setting in NOT_SEEN.get(name, ()) else CHANGES.get(setting)
    return found.get(name, found.get("")) if isinstance(found, dict) else found


def federation(kind: str, hard: bool) -> InProcessFederation:
    """Three silos with different rows and means; `hard` ones have nine variables with much noise."""
    rng = np.random.default_rng(0)
    drawn = homogeneous(9, 3, 60, 11).tables if hard else homogeneous(5, 3, 90, 5).tables
    given = {
        silo: (table + 1.5 * hard * rng.normal(size=table.shape) * table.std(axis=0) + 2.0 * n)[: len(table) - 15 * n]
        for n, (silo, table) in enumerate(drawn.items())
    }
    names = NAMES[: 9 if hard else 5]
    if kind == "time-series":
        return in_stretches(given, variables=names)
    if kind == "events":
        return as_events(given, variables=names)
    if kind == "linked events":
        data = linked_events(4, 3, 600, 4, 1, 1.0)
        return InProcessFederation(data.schema, data.tables)
    if kind == "experiments":
        rows = {silo: len(table) for silo, table in given.items()}
        targets = {silo: (names[4 * n : 4 * n + 4],) for n, silo in enumerate(sorted(given)[:2])}
        for n, silo in enumerate(targets):
            given[silo][:, 4 * n : 4 * n + 4] *= 0.1  # they still depend on their causes
        return InProcessFederation(Schema(names, rows, targets=targets), given)
    rows, labelled = (
        {silo: len(table) for silo, table in given.items()},
        names[: {"mixed": 2, "discrete": 9}.get(kind, 0)],
    )
    for table in given.values():
        for v in range(len(labelled)):
            table[:, v] = np.digitize(table[:, v] - table[:, v].mean(), (-0.6, 0.6))
    return InProcessFederation(Schema(names, rows, kind, dict.fromkeys(labelled, LEVELS)), given)


def outcome(name: str, params: dict[str, Any], kind: str, hard: bool) -> tuple[Any, ...]:
    """Return the outcome of a run: its rounds with their traffic, the structure, and the server's state."""
    known = registry.parameter_names(name)
    searches = registry.entry(name).kinds[0] == "discrete"  # a search takes as many rounds as it needs
    limits = {"insecure_seed": 1} if searches else SHORT
    short = {key: value for key, value in limits.items() if key in known}
    given = {key: str(value) for key, value in (short | SMALL.get(name, {}) | params).items() if key in known}
    try:
        algorithm = registry.build(registry.specify(name, given))
    except BadInput as refused:
        return (str(refused),)
    done = list(rounds(algorithm, federation(kind, hard)))
    weights, strengths = unstacked(algorithm.structure(done[-1].server))
    return (
        len(done),
        [repr(one.traffic) for one in done],
        weights.tobytes(),
        strengths.tobytes(),
        wire.encode(done[-1].server),
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_every_setting_changes_the_run(name: str) -> None:
    whole, quiet = {}, set()
    for setting in (one.name for one in fields(registry.entry(name).config)):
        change = change_of(name, setting)
        if change is None:
            continue
        kind = change.kind or registry.entry(name).kinds[0]
        key = repr((change.beside, kind, change.hard))
        if key not in whole:
            whole[key] = outcome(name, change.beside, kind, change.hard)
        if outcome(name, change.beside | {setting: change.value}, kind, change.hard) == whole[key]:
            quiet.add(setting)
    assert quiet == set()


@pytest.mark.parametrize("name", registry.ALGORITHMS)
def test_every_setting_has_another_value(name: str) -> None:
    config = registry.entry(name).config
    same = [one for one in LEARNERS if registry.entry(one).config is config]
    learner = next(iter([*same, *(one for one in LEARNERS if issubclass(registry.entry(one).config, config))]))
    settings = {one.name for one in fields(registry.entry(name).config)}
    assert {one for one in settings if change_of(learner, one) is None} == NOT_SEEN.get(learner, set())
