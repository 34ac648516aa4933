"""Exchanges before the rounds: the units of masked sums, the imputation model of empty cells, and the lag order.

Background knowledge: from the options to the silos, and imposed on the learned structures.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Arc, Knowledge, no_parent_arcs, tier_arcs
from fedbnsl.algorithms.core.schema import AUTO, ImputationModel, Schema, pluralize
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.dynamic.lag_order import LagOrder, chosen
from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.cpdag import impose_knowledge, known_truth
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import tables
from fedbnsl.algorithms.parameters.tables import dag_extension
from fedbnsl.algorithms.score.secure_search import SecureSearch
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.statistics.em import ExpectationMaximisation
from fedbnsl.algorithms.statistics.moments import Units, units_of
from fedbnsl.data.folder.truth import read_knowledge

from ..options.learn import LearnOptions
from .job import ExchangeResult, ImputationCost, Job, Session, extra_exchange

FIRST, THEN = "secure-boss", "secure-ges"
"""searches: before anything is filled in, scores are of other rows for each family, and differ between graphs of one
class, so that GES, which moves between classes, may go in circles; a search over orders cannot. Then GES sends less."""
MOST = 6
"""networks by which the empty cells of labels are filled, at most"""


def with_imputation_model(job: Job, session: Session) -> Job:
    """`job` with what silos are to know of their empty cells, if there are any and its algorithm needs that.

    Of numbers it is a covariance, by EM; of labels a network, by a stochastic EM: a search, and then in turn the tables
    of its graph, empty cells drawn from them, and another search, until a graph comes again. The exchanges run over the
    same silos, masked if the run is, under the run ids `<run id>-em` and `<run id>-filling-<n>`. Raises `BadInput` if
    too many silos are lost.
    """
    schema, entry = session.schema, registry.entry(job.spec.name)
    if not schema.gaps:
        return job
    hidden = masked.is_masked(registry.build(job.spec), schema, asked=job.settings.secure)
    if schema.kind != "discrete":
        settings = ExpectationMaximisation(masked=hidden)
        found = _answered(extra_exchange(job, session, AlgorithmSpec("em", settings), "em"))
        filling, exchanges = found.last.server.imputation_model, found.last.number
        said = f"second moments are estimated by EM in {pluralize(exchanges, 'exchange')}"
        return replace(
            job, imputation_model=filling, filled=ImputationCost(_said(schema, said), exchanges, found.bytes_sent)
        )
    if entry.fills:
        return _stochastic_em(job, session, masked=hidden)
    return replace(
        job, filled=ImputationCost(_said(schema, "each test uses the rows that are complete in its variables"))
    )


def _said(schema: Schema, how: str) -> str:
    """How many cells are empty and what was done about it, as a sentence."""
    empty = sum(sum(counts) for counts in schema.empty.values())
    share = empty / (sum(schema.rows.values()) * len(schema.variables))
    return f"{100 * share:.2g} % of the cells are empty: {how}. This is valid if values are missing at random (MAR)."


def _stochastic_em(job: Job, session: Session, *, masked: bool) -> Job:
    """`job` with the network that the last search gave: its graph, and tables of the silos' filled rows."""
    how = SecureSearch(score="bic", seed=job.settings.seed)
    schema, graphs, exchanges, sent = session.schema, list[NDArray[np.bool_]](), 0, 0
    for number in range(1, MOST + 1):
        search = AlgorithmSpec(FIRST if number == 1 else THEN, how)
        found = _answered(extra_exchange(job, session, search, f"filling-{number}-search"))
        exchanges, sent = exchanges + found.last.number, sent + found.bytes_sent
        graph = registry.build(search).structure(found.last.server)
        if any((graph.adjacency == before).all() for before in graphs):
            break
        graphs.append(graph.adjacency)
        dag = dag_extension(graph).dag
        assert dag is not None
        counts = _answered(_tables(job, session, dag, f"filling-{number}-tables", masked=masked))
        exchanges, sent = exchanges + 1, sent + counts.bytes_sent
        job = replace(
            job, imputation_model=ImputationModel(dag=dag, tables=_flat(counts, schema), rows=schema.pairs_together)
        )
    often = f"{pluralize(len(graphs), 'time')}, in {pluralize(exchanges, 'exchange')}"
    said = f"they are imputed from a network that was learned {often}"
    return replace(job, filled=ImputationCost(_said(schema, said), exchanges, sent))


def _tables(job: Job, session: Session, dag: NDArray[np.bool_], name: str, *, masked: bool) -> ExchangeResult:
    spec = AlgorithmSpec("family-tables", tables.FamilyTables(job.settings.smoothing, masked=masked))
    return extra_exchange(job, session, spec, name, tables.start(session.schema, dag))


def _flat(counts: ExchangeResult, schema: Schema) -> NDArray[np.float64]:
    network = tables.network(counts.last.server, 1.0)
    return np.concatenate([network.tables[name].ravel() for name in schema.variables])


def _answered(found: ExchangeResult) -> ExchangeResult:
    if found.lost:
        raise BadInput(f"{', '.join(found.last.lost)} did not respond during the imputation of the empty cells")
    return found


def with_lags(job: Job, session: Session) -> Job:
    """`job` with its lag order chosen, if it is to be chosen before the rounds; else as it is.

    The exchange runs over the same silos, under the run id `<run id>-lags`, masked if the run is. Raises `BadInput` for
    series too short for a single lag, and if too many silos are lost.
    """
    settings = job.spec.settings
    if not registry.entry(job.spec.name).lags_before or settings.lags != AUTO:
        return job
    how = LagOrder()
    found = extra_exchange(job, session, AlgorithmSpec("lag-order", how), "lags")
    if found.lost:
        lost = ", ".join(found.last.lost)
        raise BadInput(f"parameter lags is auto: {lost} did not respond when the lags were chosen")
    lags, _ = chosen(found.last.server, how)
    return replace(job, spec=replace(job.spec, settings=replace(settings, lags=lags)))


def with_units(job: Job, session: Session) -> Job:
    """`job` with the units of its columns, if its replies travel masked and are sums of numbers; else as it is.

    The exchange runs over the same silos, masked, under the run id `<run id>-units`. Raises `BadInput` if too many
    silos are lost.
    """
    algorithm = registry.build(job.spec)
    hidden = masked.is_masked(algorithm, session.schema, asked=job.settings.secure)
    if not hidden or session.schema.kind == "discrete" or algorithm.private is not None:
        return job
    found = extra_exchange(job, session, AlgorithmSpec("units", Units()), "units")
    if found.lost:
        raise BadInput(f"{', '.join(found.last.lost)} did not respond when the units of the columns were computed")
    return replace(job, units=tuple(map(float, units_of(found.last.server))))


def knowledge_of(options: LearnOptions, variables: Sequence[str]) -> Knowledge:
    """The background knowledge of `options`: their file's and their own together.

    Raises `BadInput` for an arc or a tier that cannot be read, an unknown variable, and what contradicts itself.
    """
    file = read_knowledge(Path(options.knowledge), variables) if options.knowledge else Knowledge()
    tiers = [tier.split(",") for tier in options.tiers.split("<")] if options.tiers else []
    forbidden = (
        *_arcs("forbidden", options.forbidden_arcs),
        *tier_arcs([[name.strip() for name in tier] for tier in tiers]),
        *no_parent_arcs(_words(options.no_parents), variables),
    )
    known = Knowledge(
        tuple(dict.fromkeys((*file.required, *_arcs("required", options.required_arcs)))),
        tuple(dict.fromkeys((*file.forbidden, *forbidden))),
    )
    known.check(variables)
    return known


def _words(given: str | None) -> list[str]:
    return [word.strip() for word in given.split(",")] if given else []


def _arcs(option: str, given: str | None) -> list[Arc]:
    found = []
    for word in _words(given):
        source, arrow, target = (part.strip() for part in word.partition("->"))
        if not (source and arrow and target):
            raise BadInput(f"--{option} {shown(word)}: an arc is given as 'A->B'")
        found.append((source, target))
    return found


def with_knowledge(algorithm: Algorithm, schema: Schema) -> Algorithm:
    """`algorithm`, whose structures agree with what `schema` says is known, whether or not it looked at that."""
    known = schema.knowledge
    if not known:
        return algorithm
    needed, possible = known.needed(schema.variables), known.possible(schema.variables)

    def agreeing(structure: Structure) -> Structure:
        return impose_knowledge(structure, needed, possible)

    def each(server: Any) -> dict[str, Structure]:
        assert algorithm.local_structures is not None
        return {silo: agreeing(one) for silo, one in algorithm.local_structures(server).items()}

    return replace(
        algorithm,
        structure=lambda server: agreeing(algorithm.structure(server)),
        local_structures=each if algorithm.local_structures else None,
    )


def comparable_truth(job: Job, structure: Structure, schema: Schema) -> Job:
    """`job` with the truth that `structure` is compared with, what is known beforehand taken into account."""
    known = job.knowledge
    if job.truth is None or not known:
        return job
    truth = job.truth.reordered(schema.variables)
    needed, possible = known.needed(schema.variables), known.possible(schema.variables)
    return replace(job, truth=known_truth(truth, structure.kind, needed, possible))
