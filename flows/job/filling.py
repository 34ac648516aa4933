"""Before a run on data with empty cells: what all silos find out together, by which each reckons with its own."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.filling import Filling
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters import tables
from fedbnsl.algorithms.parameters.extension import extension
from fedbnsl.algorithms.score.secure_search import SecureSearch
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.statistics.em import ExpectationMaximisation

from .job import Job
from .session import Session
from .step import Stepped, step

SEARCH = "secure-ges"
MOST = 6
"""networks by which the empty cells of labels are filled, at most"""


def with_filling(job: Job, session: Session) -> Job:
    """Return `job` with what silos are to know of their empty cells, if there are any and its algorithm needs that.

    Of numbers it is a covariance, by EM; of labels a network, by a stochastic EM: a search, and then in turn the tables
    of its graph, empty cells drawn from them, and another search, until a graph comes again. The exchanges run over the
    same silos, masked if the run is, under the run ids `<run id>-em` and `<run id>-filling-<n>`. Raises `BadInput` if
    too many silos are lost.
    """
    schema, entry = session.schema, registry.entry(job.spec.name)
    if not schema.gaps:
        return job
    hidden = masked.applies(registry.build(job.spec), schema, asked=job.secure)
    if schema.kind != "discrete":
        settings = ExpectationMaximisation(masked=hidden)
        found = _answered(step(job, session, AlgorithmSpec("em", settings), "em"))
        return replace(job, filling=found.last.server.filling, filled=found.traffic)
    return _stochastic_em(job, session, masked=hidden) if entry.fills else job


def _stochastic_em(job: Job, session: Session, *, masked: bool) -> Job:
    """Return `job` with the network that the last search gave: its graph, and tables of the silos' filled rows."""
    search = AlgorithmSpec(SEARCH, SecureSearch(score="bic", seed=job.seed))
    graphs: list[NDArray[np.bool_]] = []
    for number in range(1, MOST + 1):
        found = _answered(step(job, session, search, f"filling-{number}-search"))
        graph = registry.build(search).structure(found.last.server)
        dag = extension(graph).dag
        assert dag is not None
        if any((graph.adjacency == before).all() for before in graphs):
            break
        graphs.append(graph.adjacency)
        counts = _answered(_tables(job, session, dag, f"filling-{number}-tables", masked=masked))
        filling = Filling(dag=dag, tables=_flat(counts, session.schema), rows=session.schema.pairs_together)
        job = replace(job, filling=filling, filled=job.filled + found.traffic + counts.traffic)
    return job


def _tables(job: Job, session: Session, dag: NDArray[np.bool_], name: str, *, masked: bool) -> Stepped:
    spec = AlgorithmSpec("family-tables", tables.FamilyTables(job.smoothing, masked=masked))
    return step(job, session, spec, name, tables.start(session.schema, dag))


def _flat(counts: Stepped, schema: Schema) -> NDArray[np.float64]:
    network = tables.network(counts.last.server, 1.0)
    return np.concatenate([network.tables[name].ravel() for name in schema.variables])


def _answered(found: Stepped) -> Stepped:
    if found.lost:
        raise BadInput(f"{', '.join(found.last.lost)} did not answer when asked what is known of the empty cells")
    return found
