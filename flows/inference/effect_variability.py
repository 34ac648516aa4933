"""Variability of effects: over graphs that are learned from resamples of the run's rows, and between silos.

What leaves a silo with resamples: for each resample, the replies of the learner, and the second moments of all pairs
as masked sums over the silos. What leaves a silo for effects by silo: the means and variances of all columns, and the
second moments of treatment, covariates and outcome. Their sum is over this silo alone, so masks hide nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.effects.answer import Effect, Estimator, FromTables, Values, effect_of
from fedbnsl.algorithms.effects.identification import EffectKind
from fedbnsl.algorithms.effects.linear import Estimate, WithinMoments
from fedbnsl.algorithms.effects.variability import Resampled, between_silos, over_graphs, over_resamples
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import regressions
from fedbnsl.algorithms.posterior.sampling import Posterior
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap, SamplingScheme, Server, resampled_schema, structures
from fedbnsl.tracking.result import RunResult

from ..job.follow_up import resample_spec
from ..job.preparation import with_knowledge
from .run_data import MOMENTS, RunData, moments_of, within_moments


def with_resamples(data: RunData, effects: Sequence[Effect], resamples: int) -> list[Effect]:
    """The `effects` with their distribution over this number of resamples of the rows."""
    graphs, moments = _learned_anew(data, resamples)
    place = {name: number for number, name in enumerate(data.rows.schema.variables)}
    return [
        replace(
            one,
            resampled=over_resamples(graphs, moments, place[one.treatment], place[one.outcome], one.kind).scaled(
                one.change
            ),
        )
        for one in effects
    ]


def _learned_anew(data: RunData, resamples: int) -> tuple[list[Structure], list[WithinMoments]]:
    """The graph and the second moments of each resample.

    Both exchanges draw the same rows, because a silo derives the resamples from the run's seed and its own name.
    """
    result, schema = data.result, data.rows.schema
    learner = resample_spec(registry.specify(result.algorithm, result.params), result.structure.lags, resamples)
    settings = Bootstrap(resamples)
    resampled = resampled_schema(schema, SamplingScheme())
    d = len(schema.variables)
    first = wire.encode(regressions.start(resampled, np.triu(np.ones((d, d), np.bool_), 1)))
    learned, summed = data.exchanges(
        [
            ("bootstrap", learner.wrapped("bootstrap", settings), None),
            (
                "bootstrap-moments",
                MOMENTS.wrapped("bootstrap", settings),
                Server((first,) * resamples, tuple(range(resamples))),
            ),
        ]
    )
    algorithm = with_knowledge(
        registry.build(learner), replace(schema, knowledge=result.schema.knowledge.among(schema.variables))
    )
    silos = len(schema.silos)
    moments = [moments_of(wire.decode(regressions.Server, one), silos) for one in summed.last.server.states]
    return structures(algorithm, learned.last.server), moments


def over_posterior(result: RunResult, estimator: Estimator, effects: Sequence[Effect]) -> list[Effect]:
    """The `effects` with their distribution over the graphs that the run has sampled from their posterior.

    Numbers have total effects from the weights that were drawn for each graph. Labels have the g-formula over the
    tables of the `estimator`, with the adjustment set of each graph, and a Gaussian error of the standard error.
    """
    posterior = result.graph_posterior.posterior
    assert posterior is not None
    if posterior.weighted:
        return [replace(one, averaged=_linear_effect(posterior, one)) for one in effects]
    if not isinstance(estimator, FromTables):
        return list(effects)
    known, generator = _KnownTables(estimator.network, estimator.rows), np.random.default_rng(result.seed)
    in_graphs = [Structure(posterior.variables, weights) for weights in posterior.weights]
    found = []
    for one in effects:
        drawn = [_drawn_effect(graph, known, one, generator) for graph in in_graphs]
        values, causal = np.array([value for value, _ in drawn]), np.array([cause for _, cause in drawn])
        found.append(replace(one, averaged=over_graphs(values, causal)))
    return found


def _linear_effect(posterior: Posterior, one: Effect) -> Resampled:
    """The effect like `one` over the graphs of a posterior with weights."""
    at = (slice(None), posterior.variables.index(one.treatment), posterior.variables.index(one.outcome))
    if one.kind == "total":
        return over_graphs(one.change * posterior.effects[at], posterior.is_path[at])
    return over_graphs(one.change * posterior.weights[at], posterior.weights[at] != 0)


class _KnownTables(FromTables):
    """Effects between labels that are computed once for each adjustment set."""

    @cache  # noqa: B019  (the estimator lives as long as one report)
    def estimates(
        self, x: str, y: str, covariates: Sequence[str], kind: EffectKind, values: Values
    ) -> dict[str, tuple[Estimate, bool]]:
        """The change of the probability of each level of `y`."""
        return super().estimates(x, y, covariates, kind, values)


def _drawn_effect(
    graph: Structure, tables: FromTables, one: Effect, generator: np.random.Generator
) -> tuple[float, bool]:
    """The effect like `one` in a DAG, drawn from the Gaussian of its estimate, and whether the treatment is a cause."""
    in_graph = next(
        effect
        for effect in effect_of(graph, tables, one.treatment, one.outcome, one.kind, one.values)
        if effect.measure == one.measure
    )
    if in_graph.value is None or in_graph.status == "zero":
        return 0.0, False
    error = in_graph.candidates[0].estimate.standard_error or 0.0
    return in_graph.value + error * float(generator.standard_normal()), True


def with_silos(data: RunData, effects: Sequence[Effect]) -> list[Effect]:
    """The `effects`; those that the graph identifies, and that are not zero by the graph, also get each silo's effect.

    With a single silo, the `effects` are unchanged.
    """
    variables = data.rows.schema.variables
    place = {name: number for number, name in enumerate(variables)}
    identified = [one for one in effects if one.status == "identified"]
    if not identified or len(data.rows.schema.silos) < 2:
        return list(effects)
    names = {name for one in identified for name in (one.treatment, one.outcome, *one.candidates[0].covariates)}
    needed = [name in names for name in variables]
    own = {silo: within_moments(data.restricted(silo), needed) for silo in data.rows.schema.silos}
    found = []
    for one in effects:
        if one not in identified:
            found.append(one)
            continue
        covariates = [place[name] for name in one.candidates[0].covariates]
        between = between_silos(own, place[one.treatment], place[one.outcome], covariates)
        found.append(replace(one, silos=between.scaled(one.change) if between else None))
    return found
