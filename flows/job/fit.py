"""The fit of the learned graph without a truth: from sums of the diagnosis, or for labels from one more masked sum.

Numbers and mixed data need no further exchange: the diagnosis sums second moments about the silos' own means. Labels
take one sum of count tables, under the run id `<run id>-fit`, masked if the run was. A run with an ε has no fit: its
released moments contain noise, whose effect on the tests is not known, and a further sum would be a release that ε does
not cover.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.protocol import Round
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import SERIES, Algorithm, AlgorithmSpec
from fedbnsl.algorithms.diagnosis import exchange, implied, implied_tables
from fedbnsl.algorithms.diagnosis.implied import Fit
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.algorithms.graphs.structure import Structure, unrolled_names
from fedbnsl.algorithms.statistics.coding import coding_of

from .follow_up import has_own_weights, is_nonlinear
from .job import Job, Session, extra_exchange, unless_refused


def fit(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    last: Round[Any],
    structure: Structure,
    sums: exchange.Server | None,
) -> Fit:
    """The fit of `structure`, which a run of `job` learned that ended with `last`, or the reason for having none.

    `sums` are those of the diagnosis of numbers, None for labels and without a diagnosis.
    """
    schema = session.schema
    reason = _reason(job, schema, algorithm, last)
    if reason:
        return Fit(reason)
    chosen = dag_extension(structure)
    if chosen.dag is None:
        return Fit(f"not tested: {chosen.how}")
    if schema.kind == "discrete":
        dag = chosen.dag
        return unless_refused(lambda: _of_labels(job, session, algorithm, dag), Fit)
    if sums is None:
        return Fit("not tested: the diagnosis, whose sums it takes, did not end")
    return fit_of_sums(schema, structure, chosen.dag, sums)


def _reason(job: Job, schema: Schema, algorithm: Algorithm, last: Round[Any]) -> str:
    """The reason why the fit of a run cannot be computed, empty if it can."""
    reasons = {
        "not tested: the noise of an ε changes the tests by an amount that is not known": algorithm.private is not None,
        "not requested (--no-diagnose)": not job.settings.diagnose,
        "not tested: a silo was lost before the run ended": last.outcome == "silo lost",
        "not tested: events have no implied independences of rows": schema.kind == "events",
        "not tested: series with labels have no test": schema.kind in SERIES and bool(schema.levels),
        "not tested: with empty cells the distribution of the tests is not known": bool(
            schema.gaps or job.imputation_model.rows
        ),
        "not tested: effects are curved, and tests of second moments are linear": is_nonlinear(job, last),
        "not tested: weights differ between silos, and sums have common ones": has_own_weights(job),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def fit_of_sums(schema: Schema, structure: Structure, dag: NDArray[np.bool_], sums: exchange.Server) -> Fit:
    """The fit of `dag`, a DAG of `structure`, to the second moments `sums`; in time series with the lagged edges."""
    d, silos = len(dag), int(sums.counted.sum())
    if not structure.lags:
        coding = coding_of(schema)
        tested = ~np.array(coding.discrete, np.bool_)
        return implied.fit_of_moments(sums.within, sums.rows, silos, dag, schema.variables, coding.owners, tested)
    m = d * (structure.lags + 1)
    whole = np.zeros((m, m), np.bool_)
    whole[:d, :d] = dag
    if structure.lagged is not None:
        whole[d:, :d] = (structure.lagged != 0).reshape(-1, d)
    names = unrolled_names(structure.variables, structure.lags)
    lagged = range(d, m)
    return implied.fit_of_moments(
        sums.within, sums.rows, silos, whole, names, np.arange(m), np.ones(m, np.bool_), lagged
    )


def _of_labels(job: Job, session: Session, algorithm: Algorithm, dag: NDArray[np.bool_]) -> Fit:
    spec = AlgorithmSpec("fit-tables", implied_tables.FitTables(masked=algorithm.needs_secure_sum))
    found = extra_exchange(job, session, spec, "fit", implied_tables.start(session.schema, dag))
    if found.lost:
        return Fit("not tested: too few silos responded")
    return replace(implied_tables.fit_of_tables(found.last.server), bytes_sent=found.bytes_sent)
