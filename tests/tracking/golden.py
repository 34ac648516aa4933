"""Finished runs in which all figures differ, so that a test notices if two of them are swapped.

Everything is asymmetric: weights have both signs, edges occur in both orders of their variables, matrices differ from
their transposes, and silos differ from each other. There is one run for each kind of output; `RUNS` has them all by
name.
"""

from dataclasses import replace

import numpy as np

from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis.findings import Finding
from fedbnsl.algorithms.diagnosis.implied import BicGains, FisherC, Fit, Independence
from fedbnsl.algorithms.graphs.changes import structure_changes
from fedbnsl.algorithms.graphs.edges import EdgeFigures
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.distributions import Linear, Logistic, Tabular
from fedbnsl.algorithms.parameters.drift import Drift
from fedbnsl.algorithms.parameters.forecast_errors import Forecasts
from fedbnsl.algorithms.parameters.networks import Network, linear_network
from fedbnsl.tracking.comparison import Comparison
from fedbnsl.tracking.result import Confidence, Diagnosed, Parameters, PrivacySpent, RunResult
from tests.algorithms.parameters.networks import numbered

NAMES = ("age", "dose", "pain", "sleep", "fever", "blood")


def matrix(names, entries):
    """The matrix `[d, d]` with these `{(row, column): value}`, by names."""
    found = np.zeros((len(names), len(names)))
    for (row, column), value in entries.items():
        found[names.index(row), names.index(column)] = value
    return found


# Learned: four right edges, two reversed, three extra; one true edge is missing. No order of NAMES is topological.
LEARNED = {
    ("dose", "pain"): 1.37,
    ("pain", "age"): -0.82,
    ("sleep", "age"): 0.41,
    ("blood", "dose"): -2.63,
    ("dose", "sleep"): 0.59,
    ("fever", "age"): -0.23,
    ("pain", "fever"): 0.74,
    ("blood", "sleep"): -0.36,
    ("blood", "fever"): 1.05,
}
TRUE = {
    ("dose", "pain"): 1.21,
    ("pain", "age"): -0.91,
    ("sleep", "age"): 0.47,
    ("blood", "dose"): -2.42,
    ("sleep", "dose"): 0.53,
    ("age", "fever"): -0.29,
    ("pain", "sleep"): 0.67,
}
EARLIER = {
    ("dose", "pain"): 1.58,
    ("age", "pain"): -0.64,
    ("sleep", "age"): -0.11,
    ("blood", "dose"): -2.59,
    ("fever", "age"): -0.31,
    ("dose", "fever"): 0.88,
    ("age", "blood"): 0.17,
}

ROUNDS = tuple(
    {
        "round": k,
        "h": 0.9 / 7**k,
        "primal_residual": 0.51 / k,
        "dual_residual": 0.083 * k,
        "rho": 3.0 * 4**k,
        "edges": 12.0 - k,
        "bytes_up": 61_000 * k,
        "bytes_down": 27_000 + 900 * k,
        "formula_bytes": 45_000 + 1_300 * k,
    }
    for k in (1, 2, 3)
)


SCORED = {
    **{"shd": 41, "shd_cpdag": 44, "shd_skeleton": 47, "shd_lenient": 50, "mse_consensus": 0.1671},
    **{"mse_personal": 0.1808, "smhd": 0.1945, "tpr": 0.2082, "fdr": 0.2219, "precision": 0.2356, "f1": 0.2493},
    **{"auroc": 0.263, "aupr": 0.2767, "edges": 80, "true_edges": 83, "correct": 86, "reversed": 89, "extra": 92},
    **{"missing": 95, "half_directed": 98, "correct_skeleton": 101, "v_structures": 104, "v_structures_true": 107},
    "v_structures_correct": 110,
}
"""scores and counts of a comparison, all different and by name: a further metric changes no golden run"""
SCORED_OVER_TIME = {
    **{"lagged_shd": 180, "lagged_tpr": 0.3041, "lagged_fdr": 0.3178, "lagged_precision": 0.3315, "lagged_f1": 0.3452},
    **{"lagged_auroc": 0.3589, "lagged_aupr": 0.3726, "lagged_edges": 134, "lagged_true_edges": 137},
    **{"lagged_correct": 140, "lagged_extra": 143, "lagged_missing": 146},
}
MEASURED = {
    "rounds": 3,
    "converged": True,
    "acyclic": True,
    "seconds": 7.25,
    "bytes_up": 366_017,
    "bytes_down": 86_423,
    "formula_megabytes": 0.1428,
    "parameter_bytes": 9631,
    "diagnosis_bytes": 5077,
}
FINDINGS = (
    Finding(
        "odd-units",
        "The columns dose and pain of silo south are in other units than at the other silos.",
        "Rescale both of them.",
        ("south",),
    ),
    Finding("far-silo", "The silo north disagrees with the others.", "Look at its rows first.", ("north",)),
)


FIT = Fit(
    implied=19,
    tested=17,
    failing=2,
    worst=(
        Independence(NAMES[0], NAMES[3], (NAMES[1], NAMES[2]), 0.3137, 0.00071, 0.01207),
        Independence(NAMES[4], NAMES[1], (), 0.2719, 0.0023, 0.01955),
    ),
    fisher=FisherC(61.37, 34, 0.0427),
    bic=BicGains(487.7, -14.5),
    notes=("2 of 19 missing edges are not tested (few rows, or collinear columns)",),
    bytes_sent=733,
)


def weighted_run():
    """A run that learned a weighted DAG, with a truth, findings, knowledge, and an earlier run."""
    structure, truth = Structure(NAMES, matrix(NAMES, LEARNED)), Structure(NAMES, matrix(NAMES, TRUE))
    network = linear_network(
        structure,
        np.array([0.13, -1.9, 2.7, 0.031, -4.4, 5.6]),
        np.array([0.21, 1.7, 0.93, 3.9, 0.077, 2.2]),
    )
    drift = Drift({"age": 0.0171, "dose": 0.0432, "pain": -0.0029, "sleep": 0.0611, "fever": 0.0083, "blood": 0.0254})
    changes = Comparison(
        "last-week", structure_changes(Structure(NAMES, matrix(NAMES, EARLIER)), structure), True, drift
    )
    return RunResult(
        name="golden-weighted",
        algorithm="fed-sparse",
        params={"rho1": 1009.0, "l1": 0.19, "rounds": 97, "preset": None, "center": False},
        seed=1723,
        engine="inline",
        dataset="ward",
        about={"kind": "continuous", "truth": "drawn by hand", "checksums": {"north.csv": "ab" * 32}},
        schema=Schema(
            NAMES,
            {"south": 1409, "north": 311, "east": 83},
            knowledge=Knowledge(required=(("dose", "pain"), ("pain", "sleep")), forbidden=(("age", "dose"),)),
        ),
        structure=structure,
        truth=truth,
        outcome="converged",
        lost=(),
        rounds=ROUNDS,
        metrics=SCORED | MEASURED | {"edges": 9} | changes.metrics | FIT.metrics,
        fit=FIT,
        refit={
            "north": {"consensus": 0.3119, "refitted": 0.2537},
            "south": {"consensus": 0.4201, "refitted": 0.3571},
            "east": {"consensus": 0.6143, "refitted": 0.1867},
        },
        parameters=Parameters(network, "each variable regressed on its parents over 1,803 rows", 9631),
        diagnosed=Diagnosed(FINDINGS, 5077),
        basis=("The data decided on this learner.", "Directions rest on equal error variances."),
        asked="auto",
        notes=("south.csv: 2 rows without any number were left out", "east.csv: read as latin-1"),
        changes=changes,
    )


RESAMPLES = 40
# The number of the 40 resamples with an edge in this direction; lines count those with an undirected edge.
ARROWS = {
    ("dose", "pain"): 31,
    ("pain", "dose"): 2,
    ("pain", "age"): 17,
    ("age", "pain"): 6,
    ("sleep", "age"): 27,
    ("blood", "fever"): 3,
    ("fever", "blood"): 8,
    ("fever", "sleep"): 1,
    ("sleep", "blood"): 9,
}
LINES = {("dose", "pain"): 5, ("pain", "age"): 12, ("blood", "dose"): 22}


def resampled():
    """Strengths that differ for every pair of variables."""
    arrows, lines = matrix(NAMES, ARROWS), matrix(NAMES, LINES)
    return Strengths(NAMES, RESAMPLES, arrows, lines + lines.T, np.zeros((0, 6, 6)), dags=False)


def undirected(names, lines):
    return {edge: 1.0 for one in lines for edge in (one, one[::-1])}


def edge_figures(gains):
    """Figures of edges by their contribution to the log-likelihood; all numbers differ."""
    return {
        key: EdgeFigures(gain, gain - 3.25, float(f"{gain / 997:.3g}"), gain - 1.75, float(f"{gain / 887:.3g}"))
        for key, gain in gains.items()
    }


def cpdag_run():
    """A run that learned a CPDAG of labels, with tables, resamples, and masks."""
    structure = Structure(
        NAMES,
        matrix(
            NAMES,
            {("dose", "pain"): 1.0, ("sleep", "pain"): 1.0, ("fever", "age"): 1.0}
            | undirected(NAMES, [("blood", "dose"), ("sleep", "age")]),
        ),
        "cpdag",
    )
    truth = Structure(
        NAMES,
        matrix(
            NAMES,
            {("dose", "pain"): 1.0, ("pain", "sleep"): 1.0, ("blood", "dose"): 1.0, ("blood", "fever"): 1.0}
            | undirected(NAMES, [("sleep", "age")]),
        ),
        "cpdag",
    )
    averaged = Structure(
        NAMES,
        matrix(
            NAMES,
            {("dose", "pain"): 1.0, ("sleep", "age"): 1.0, ("blood", "fever"): 1.0}
            | undirected(NAMES, [("pain", "age"), ("blood", "dose")]),
        ),
        "cpdag",
    )
    return replace(
        weighted_run(),
        name="golden-cpdag",
        algorithm="fed-pc",
        params={"alpha": 0.0173, "max_conditioning": 4},
        schema=Schema(NAMES, {"south": 1409, "north": 311}, "discrete", levels=dict(tables().levels)),
        structure=structure,
        edge_figures=edge_figures({("dose", "pain", 0): 31.9, ("pain", "sleep", 0): 12.7, ("age", "fever", 0): 4.31}),
        truth=truth,
        metrics=SCORED
        | MEASURED
        | FIT.metrics
        | {"edges": 5, "tests": 1931, "tests_left_out": 47, "bootstrap": RESAMPLES, "averaged_edges": 59},
        refit={},
        parameters=Parameters(tables(), "counted over 1,720 rows", 9631),
        asked="fed-pc",
        secure=True,
        bootstrap=RESAMPLES,
        confidence=Confidence(resampled(), 0.4625, averaged, 19, 734_000),
        notes=(),
        changes=None,
    )


def tables():
    """A discrete network in which every probability differs."""
    levels = {
        "age": ("young", "old"),
        "dose": ("none", "low", "high"),
        "pain": ("no", "yes"),
        "sleep": ("bad", "fair", "good"),
        "fever": ("off", "on"),
        "blood": ("A", "B", "AB", "O"),
    }
    parents = {
        "age": ("fever", "sleep"),
        "dose": ("blood",),
        "pain": ("dose", "sleep"),
        "sleep": (),
        "fever": (),
        "blood": (),
    }
    rng = np.random.default_rng(5)
    drawn = {
        name: rng.dirichlet(np.full(len(levels[name]), 3.0), tuple(len(levels[one]) for one in parents[name]))
        for name in NAMES
    }
    return Network(NAMES, levels, parents, drawn)


def pag_run():
    """A run that learned a PAG with every kind of mark, ended at the limit of rounds, and has no comparison."""
    ends = {
        ("age", "dose"): (1, 2),  # age → dose
        ("pain", "age"): (1, 2),  # pain → age
        ("dose", "sleep"): (3, 2),  # dose o→ sleep
        ("fever", "pain"): (3, 2),  # fever o→ pain
        ("sleep", "fever"): (2, 2),  # sleep ↔ fever
        ("blood", "fever"): (3, 3),  # blood o—o fever
        ("blood", "dose"): (1, 3),  # blood —o dose
    }
    entries = {}
    for (source, target), (at_source, at_target) in ends.items():
        entries |= {(source, target): float(at_target), (target, source): float(at_source)}
    return replace(
        cpdag_run(),
        name="golden-pag",
        algorithm="fed-fci",
        edge_figures={("age", "dose", 0): EdgeFigures(largest_p_value=0.0123)},
        structure=Structure(NAMES, matrix(NAMES, entries), "pag"),
        truth=None,
        outcome="out of rounds",
        metrics=MEASURED
        | FIT.metrics
        | {
            "parameter_bytes": 0,
            "diagnosis_bytes": 0,
            "edges": 7,
            "not_compared": "the truth has a cycle",
            "tests": 883,
            "tests_left_out": 12,
        },
        parameters=Parameters(None, "a PAG is no Bayesian network"),
        diagnosed=Diagnosed(),
        basis=("An edge of a PAG says what all graphs with the same independences share.",),
        secure=False,
        confidence=None,
        unresampled="a silo was lost before the resamples ended",
    )


SERIES = ("air", "water", "soil")
WITHIN, TRUE_WITHIN = {("soil", "air"): -0.63, ("air", "water"): 0.29}, {("soil", "air"): -0.57, ("water", "air"): 0.34}
LAGGED = (
    {("air", "air"): 0.71, ("water", "soil"): -0.38, ("soil", "water"): 0.16, ("water", "water"): -0.22},
    {("air", "soil"): 0.47, ("soil", "soil"): 0.053},
)
TRUE_LAGGED = (
    {("air", "air"): 0.66, ("water", "soil"): -0.42, ("soil", "air"): 0.19},
    {("air", "soil"): 0.51},
)


def dynamic(within, lagged):
    """The structure over SERIES with these weights."""
    A = np.stack([matrix(SERIES, one) for one in lagged])
    return Structure(SERIES, matrix(SERIES, within), lagged=A)


def dynamic_confidence():
    """How often each edge is in the resamples of the run on time series, and the averaged network."""
    lagged = np.stack(
        [
            matrix(SERIES, {("air", "air"): 38, ("water", "soil"): 29, ("soil", "water"): 11, ("water", "water"): 7}),
            matrix(SERIES, {("air", "soil"): 33, ("soil", "soil"): 5, ("soil", "water"): 19}),
        ]
    )
    strengths = Strengths(
        SERIES,
        RESAMPLES,
        matrix(SERIES, {("soil", "air"): 25, ("air", "soil"): 3, ("air", "water"): 14, ("water", "air"): 9}),
        np.zeros((3, 3)),
        lagged,
        dags=True,
    )
    averaged = dynamic({("soil", "air"): 1.0}, ({("air", "air"): 1.0}, {("soil", "water"): 1.0}))
    return Confidence(strengths, 0.4375, averaged, 23, 81_900)


def dynamic_network(structure):
    """The coefficients, means and variances of the run on time series."""
    return linear_network(
        structure,
        np.array([0.12, -0.34, 0.56]),
        np.array([0.91, 1.43, 0.27]),
        np.array([0.37, -0.58, 0.79]),
        np.array([2.3, 3.1, 1.9]),
    )


def dynamic_run():
    """A run on time series: lagged edges, structures of the silos, forecasts, resamples, and a silo lost."""
    structure = dynamic(WITHIN, LAGGED)
    own = {
        "hill": dynamic({("soil", "air"): -0.55, ("air", "water"): 0.21}, LAGGED),
        "lake": dynamic({("water", "air"): 0.87}, ({("air", "air"): 0.78, ("soil", "water"): 0.33}, {})),
        "dune": dynamic({("soil", "air"): -0.45}, ({("air", "air"): 0.81}, {("air", "soil"): 0.39})),
    }
    names = ("shd", "tpr", "fdr", "auroc", "lagged_shd", "lagged_tpr", "lagged_fdr", "lagged_auroc")
    return replace(
        weighted_run(),
        name="golden-dynamic",
        algorithm="pfdbnl",
        params={"lags": 2, "l1": 0.0193},
        dataset="meadow",
        schema=Schema(
            SERIES,
            {"hill": 211, "lake": 347, "dune": 139},
            "time-series",
            stretches={"hill": (211,), "lake": (200, 147), "dune": (139,)},
        ),
        structure=structure,
        truth=dynamic(TRUE_WITHIN, TRUE_LAGGED),
        lost=("dune",),
        metrics=SCORED
        | SCORED_OVER_TIME
        | MEASURED
        | FIT.metrics
        | {"edges": 2, "lags": 2, "spectral_radius": 0.8317, "forecast_mse": 1.137, "persistence_mse": 1.961}
        | {"bootstrap": RESAMPLES, "averaged_edges": 61},
        local_structures=own,
        silo_scores={
            silo: {name: round(0.0131 * (k + 2) + 0.2 * n, 4) for k, name in enumerate(names)}
            for n, silo in enumerate(own, 1)
        },
        averaged=True,
        refit={},
        parameters=Parameters(
            dynamic_network(structure),
            "each variable regressed over 697 rows",
            9631,
            Forecasts(np.array([0.613, 1.229, 1.569]), np.array([1.187, 2.441, 2.255])),
        ),
        asked="pfdbnl",
        bootstrap=RESAMPLES,
        confidence=dynamic_confidence(),
        notes=(),
        changes=None,
    )


def private_run():
    """A private run of two silos whose ledgers differ, and of which one was lost for good."""
    spent = PrivacySpent(
        epsilon=2.9,
        delta=3.7e-6,
        adjacency="replace-one",
        protects="one patient's row",
        broken="",
        run={"south": 2.61, "north": 1.43},
        ever={"south": 5.87, "north": 7.19},
        releases=(("counts of buckets", 3, 0.0417), ("second moments", 1, 0.0953)),
        tight=2.17,
        by_round=((1, 1.87), (2, 2.61)),
    )
    run = weighted_run()
    return replace(
        run,
        name="golden-private",
        algorithm="secure-sum",
        schema=replace(run.schema, rows={"south": 1409, "north": 311}, knowledge=Knowledge()),
        outcome="silo lost",
        lost=("north",),
        truth=None,
        metrics=MEASURED
        | FIT.metrics
        | {"edges": 9, "converged": False, "epsilon": 2.61, "epsilon_tight": 2.17, "delta": 3.7e-6},
        refit={},
        asked="secure-sum",
        privacy=spent,
        secure=True,
        notes=(),
        changes=None,
    )


def broken_run():
    """The same run, in which the guarantee of ε was broken."""
    run = private_run()
    assert run.privacy is not None
    return replace(
        run, name="golden-broken", privacy=replace(run.privacy, broken="the silo south was pooled", tight=None)
    )


def mixed_run():
    """A run on numbers and labels, with empty cells and columns set aside."""
    names, levels = ("age", "sex", "dose", "ward"), {"sex": ("f", "m", "x"), "ward": ("A", "B")}
    edges = {("sex", "age"): 1.0, ("dose", "age"): 1.0, ("dose", "ward"): 1.0, ("sex", "dose"): 1.0}
    schema = Schema(
        names,
        {"south": 1409, "north": 311},
        "mixed",
        levels=levels,
        empty={"south": (141, 0, 423, 7), "north": (0, 62, 93, 311)},
        aside={"id": "a different value in every row", "note": "free text", "code": "a different value in every row"},
    )
    network = numbered(
        names,
        levels,
        ((1, 2), (), (1,), (2,)),
        (
            Linear(0.97, np.array([1.13, -0.46, 2.21]), 0.83),
            Tabular(np.array([0.49, 0.32, 0.19])),
            Linear(-1.31, np.array([0.26, 3.47]), 1.71),
            Logistic(np.array([0.0, 0.62]), np.array([[0.0], [-1.84]])),
        ),
    )
    return replace(
        weighted_run(),
        name="golden-mixed",
        algorithm="secure-boss",
        schema=schema,
        structure=Structure(names, matrix(names, edges)),
        truth=None,
        metrics=MEASURED
        | FIT.metrics
        | {"edges": 4, "families": 613, "filling_exchanges": 11, "filling_bytes": 70_301},
        refit={},
        parameters=Parameters(network, "fitted over 1,720 rows", 9631),
        asked="auto",
        changes=None,
    )


def personal_run():
    """A run in which each silo has its own structure with some edges reversed, without lagged edges."""
    own = {
        "south": Structure(NAMES, matrix(NAMES, {("dose", "pain"): 1.49, ("pain", "age"): -0.77})),
        "north": Structure(
            NAMES, matrix(NAMES, {("dose", "pain"): 1.16, ("age", "pain"): -0.35, ("sleep", "age"): 0.28})
        ),
        "east": Structure(NAMES, matrix(NAMES, {("pain", "dose"): -0.94, ("sleep", "age"): 0.45})),
    }
    run = weighted_run()
    names = ("shd", "tpr", "fdr", "auroc")
    return replace(
        run,
        name="golden-personal",
        algorithm="notears-local",
        schema=replace(run.schema, knowledge=Knowledge()),
        local_structures=own,
        silo_scores={
            silo: {name: round(0.0131 * (k + 2) + 0.2 * n, 4) for k, name in enumerate(names)}
            for n, silo in enumerate(own, 1)
        },
        averaged=True,
        refit={},
        asked="",
        diagnosed=Diagnosed(),
        metrics=run.metrics | {"diagnosis_bytes": 0},
        notes=(),
        changes=None,
    )


WIDE = {("V07", "V31"): 1.9, ("V44", "V12"): -0.6, ("V03", "V50"): 0.8, ("V28", "V05"): -1.4, ("V51", "V40"): 0.3}
WIDE_TRUE = {("V07", "V31"): 1.7, ("V12", "V44"): -0.5, ("V20", "V09"): 0.9, ("V28", "V05"): -1.2}


def wide_run():
    """A run on more variables than a drawing shows: its structure is a matrix of marks."""
    names = tuple(f"V{number:02}" for number in range(53))
    run = weighted_run()
    return replace(
        run,
        name="golden-wide",
        schema=Schema(names, run.schema.rows),
        structure=Structure(names, matrix(names, WIDE)),
        truth=Structure(names, matrix(names, WIDE_TRUE)),
        refit={},
        metrics=run.metrics | {"parameter_bytes": 0},
        parameters=Parameters(None, "parameters were not requested"),
        changes=None,
    )


RUNS = {
    "weighted": weighted_run(),
    "cpdag": cpdag_run(),
    "pag": pag_run(),
    "dynamic": dynamic_run(),
    "private": private_run(),
    "broken": broken_run(),
    "mixed": mixed_run(),
    "personal": personal_run(),
    "wide": wide_run(),
}
