"""Effects on survival outcomes of a finished run, as hazard ratios; risks up to a time.

Without data, a hazard ratio comes from the run's node of the outcome, which holds the other parents fixed. With data,
the node is fitted again to the rows, with the treatment and an adjustment set as parents, by masked sums.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedbnsl.algorithms.effects.answer import Effect, EffectReport, FromSurvival, Values, effect_of
from fedbnsl.algorithms.effects.identification import EffectKind, identify
from fedbnsl.algorithms.effects.units import DataUnits
from fedbnsl.algorithms.errors import BadInput, choices_text, quoted
from fedbnsl.algorithms.parameters.inference import Event, NetworkAnswer, NetworkQuery
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.parameters.survival_node import SurvivalNode
from fedbnsl.tracking.result import RunResult

from ..job.survival import SPEC, fitted_node, survival_job
from .run_data import read_run_data


def survival_effects(
    result: RunResult,
    treatments: Sequence[str],
    outcome: str,
    kind: EffectKind,
    values: Values | None,
    data: Path | None,
    options: Mapping[str, object],
) -> EffectReport:
    """The effects of `treatments` on the survival `outcome`; the arguments are those of `effects`.

    `options` are those of other effects; `BadInput` is raised if one is set.
    """
    for name, value in options.items():
        if value:
            raise BadInput(f"{outcome} is a survival outcome, whose hazard ratios have no {name}: omit it")
    node = survival_node(result, outcome)
    units = DataUnits.of(result.schema, result.parameters.network)
    if len(treatments) == 1:
        values = units.on_model_scale(treatments[0], values)
    fitted = _fitted(result, treatments, outcome, kind, data) if data is not None else {}
    estimator = FromSurvival(result.schema.levels, node, fitted)
    found = [
        units.with_original(one, estimator.levels(x))
        for x in treatments
        for one in effect_of(result.structure, estimator, x, outcome, kind, values)
    ]
    return EffectReport(tuple(found), _rests_on(result, node, found, data))


def survival_node(result: RunResult, outcome: str) -> SurvivalNode:
    """The node of a survival outcome; raises `BadInput` with the reason if it has none, and for another name."""
    one = next((one for one in result.survival if one.name == outcome), None)
    if one is None:
        raise BadInput(
            f"{quoted(outcome)} is no survival outcome: {choices_text(outcome, list(result.schema.survival))}"
        )
    if one.node is None:
        raise BadInput(one.reason)
    return one.node


def _fitted(
    result: RunResult, treatments: Sequence[str], outcome: str, kind: EffectKind, data: Path
) -> dict[tuple[str, tuple[str, ...]], SurvivalNode | str]:
    """The nodes with each treatment and each of its adjustment sets as parents, from exchanges over the rows."""
    structure, rows = result.structure, read_run_data(result, data)
    place = {name: number for number, name in enumerate(structure.variables)}
    keys = [
        (x, tuple(structure.variables[v] for v in one.covariates))
        for x in treatments
        for one in identify(structure, place[x], place[outcome], kind).sets
        if one.causal
    ]
    with rows.session(SPEC) as (job, session):
        own = survival_job(job)
        return {
            (x, covariates): fitted_node(own, session, f"survival-{k}", outcome, (x, *covariates), None)[0]
            for k, (x, covariates) in enumerate(dict.fromkeys(keys), start=1)
        }


def _rests_on(result: RunResult, node: SurvivalNode, found: Sequence[Effect], data: Path | None) -> tuple[str, ...]:
    """The assumptions behind the effects, in one sentence each."""
    source = (
        "fitted to the rows with the treatment and the covariates as parents, by masked sums"
        if data is not None
        else f"of the run, in {node.rows:,} rows; the graph was selected from the same rows"
    )
    return (
        f"Graph: the graph that {result.algorithm} learned is taken as true; intervals do not include the uncertainty "
        "of learning it from the same rows.",
        *result.basis,
        "No unmeasured confounding: no variable outside the graph affects both a treatment and the outcome. "
        "The data cannot confirm this.",
        f"Source: the piecewise-exponential model {source}, with hazards of their own in each silo and in "
        f"{len(node.limits)} intervals; 95 % intervals of the normal distribution. Hazard ratios hold the covariates "
        "fixed, and are not those of averages over the rows.",
    )


def risk_question(query: NetworkQuery, outcomes: Mapping[str, object]) -> Event | None:
    """The question of a query about a survival outcome, such as death within 365; None if it is about no outcome.

    Raises `BadInput` for a query that names an outcome in another way, or another variable in this way.
    """
    within = [event for event in query.events if event.comparison == "within"]
    for event in within:
        if event.name not in outcomes:
            named = ", ".join(outcomes) or "none"
            raise BadInput(f"{event.name} within {event.value}: not a survival outcome of the run, which has {named}")
    others = [event.name for event in query.events if event.comparison != "within"]
    for name in (*query.targets, *others, *query.given, *query.do):
        if name in outcomes:
            raise BadInput(f"{name} is a survival outcome: ask for P({name} within TIME | ...)")
    if within and len(query.events) > 1:
        raise BadInput(
            f"{within[0].name} within {within[0].value}: ask for one probability of a survival outcome at a time"
        )
    return within[0] if within else None


def risk(
    result: RunResult,
    event: Event,
    query: NetworkQuery,
    network: Network | None,
    rng: np.random.Generator,
    samples: int,
) -> tuple[NetworkAnswer, tuple[float, float]]:
    """The probability of a survival outcome within a time, averaged over its parents, and its 95 % interval.

    `query` is on the scale of the model. `network`, from which the parents are drawn, is needed unless the query sets
    all of them. Raises `BadInput` for a time after the end of follow-up, unknown names and impossible evidence.
    """
    node = survival_node(result, event.name)
    try:
        until = float(event.value)
    except ValueError:
        raise BadInput(f"{event.name} within {event.value}: the time is not a number") from None
    if network is None:
        fixed = {name: np.full(1, _code(result, name, query.do[name])) for name in node.parents}
        value, interval = node.risk(until, fixed)
        return NetworkAnswer({(): value}), interval
    table, weights = network.intervened(query.do).sample(samples, rng, query.given)
    if not weights.sum() > 0:
        raise BadInput(
            f"the evidence {', '.join(f'{k}={v}' for k, v in query.given.items())} is impossible in the model"
        )
    columns = {name: table[:, network.index(name)] for name in node.parents}
    value, interval = node.risk(until, columns or {"": np.zeros(len(table))}, weights)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    return NetworkAnswer({(): value}, exact=not columns, samples=effective), interval


def _code(result: RunResult, name: str, value: float | str) -> float:
    """The entry of a table for the value of a variable; raises `BadInput` for a value that it does not have."""
    levels = result.schema.levels.get(name)
    try:
        return float(levels.index(str(value))) if levels else float(value)
    except ValueError:
        raise BadInput(f"{name}: there is no value '{value}': available: {', '.join(levels or ('numbers',))}") from None
