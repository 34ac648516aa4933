"""Before a run on data with empty cells: what all silos find out together, by which each reckons with its own."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.counted import counted
from fedbnsl.algorithms.core.filling import Filling
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters import tables
from fedbnsl.algorithms.parameters.extension import extension
from fedbnsl.algorithms.score.secure_search import SecureSearch
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.statistics.em import ExpectationMaximisation

from .job import Filled, Job
from .session import Session
from .step import Stepped, step

FIRST, THEN = "secure-boss", "secure-ges"
"""searches: before anything is filled in, scores are of other rows for each family, and differ between graphs of one
class, so that GES, which moves between classes, may go in circles; a search over orders cannot. Then GES sends less."""
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
        filling, exchanges = found.last.server.filling, found.last.number
        said = f"second moments are those expected, by EM in {counted(exchanges, 'exchange')}"
        return replace(job, filling=filling, filled=Filled(_said(schema, said), exchanges, found.bytes_sent))
    if entry.fills:
        return _stochastic_em(job, session, masked=hidden)
    return replace(job, filled=Filled(_said(schema, "each test leaves out the rows without a cell that it needs")))


def _said(schema: Schema, how: str) -> str:
    """Return how many cells are empty and what was done about it, as a sentence."""
    empty = sum(sum(counts) for counts in schema.empty.values())
    share = empty / (sum(schema.rows.values()) * len(schema.variables))
    return f"{100 * share:.2g} % of the cells are empty: {how}. That is right if what is there tells which are empty."


def _stochastic_em(job: Job, session: Session, *, masked: bool) -> Job:
    """Return `job` with the network that the last search gave: its graph, and tables of the silos' filled rows."""
    how = SecureSearch(score="bic", seed=job.seed)
    schema, graphs, exchanges, sent = session.schema, list[NDArray[np.bool_]](), 0, 0
    for number in range(1, MOST + 1):
        search = AlgorithmSpec(FIRST if number == 1 else THEN, how)
        found = _answered(step(job, session, search, f"filling-{number}-search"))
        exchanges, sent = exchanges + found.last.number, sent + found.bytes_sent
        graph = registry.build(search).structure(found.last.server)
        if any((graph.adjacency == before).all() for before in graphs):
            break
        graphs.append(graph.adjacency)
        dag = extension(graph).dag
        assert dag is not None
        counts = _answered(_tables(job, session, dag, f"filling-{number}-tables", masked=masked))
        exchanges, sent = exchanges + 1, sent + counts.bytes_sent
        job = replace(job, filling=Filling(dag=dag, tables=_flat(counts, schema), rows=schema.pairs_together))
    often = f"{counted(len(graphs), 'time')}, in {counted(exchanges, 'exchange')}"
    said = f"they are drawn from a network that was learned {often}"
    return replace(job, filled=Filled(_said(schema, said), exchanges, sent))


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
