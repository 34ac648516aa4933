"""Effects from regressions over the rows of a finished run, in one exchange for all treatments and adjustment sets.

Regressions are needed if second moments do not suffice: for tables of numbers and labels, which can have an outcome
of two labels, and for tables with empty cells. Placebos also use such regressions. Doubly robust effects come from an
exchange of their own, which models the treatment, too.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.effects import doubly_robust
from fedbnsl.algorithms.effects.adjusted_regressions import AdjustedRegressions, Question, answers, start
from fedbnsl.algorithms.effects.answer import Effect, FromRegressions, Values, contrasts
from fedbnsl.algorithms.effects.identification import EffectKind, identify
from fedbnsl.algorithms.effects.linear import Estimate
from fedbnsl.algorithms.effects.variability import placebo_of
from fedbnsl.algorithms.errors import BadInput, choices_text, quoted
from fedbnsl.data.folder.about import cluster_column

from .run_data import RunData

REGRESSIONS = AlgorithmSpec("adjusted-regressions", AdjustedRegressions(masked=True))
DOUBLY_ROBUST = AlgorithmSpec("doubly-robust", doubly_robust.DoublyRobust(masked=True))


def regression_estimator(
    data: RunData,
    treatments: Sequence[str],
    outcome: str,
    kind: EffectKind,
    values: Values | None,
    *,
    robust: bool = False,
    by: str | None = None,
) -> FromRegressions:
    """The estimator of the effects of `treatments`, one at a time; doubly robust, also by level of `by`, if `robust`.

    Raises `BadInput` for an outcome with more than two labels, and for a doubly robust effect of a number.
    """
    schema, structure = data.rows.schema, data.result.structure
    levels = schema.levels.get(outcome, ())
    if len(levels) not in (0, 2):
        raise BadInput(
            f"--data is for an outcome of numbers or of two labels, and {outcome} has {len(levels)} labels: omit --data"
        )
    place = {name: number for number, name in enumerate(structure.variables)}
    keys = [
        (x, tuple(structure.variables[v] for v in one.covariates), contrast)
        for x in treatments
        for one in identify(structure, place[x], place[outcome], kind).sets
        if one.causal
        for contrast in contrasts(x, schema.levels.get(x, ()), values)
    ]
    questions = [question(schema, *key) for key in keys]
    found: list[Estimate | str] = []
    if questions:
        found = doubly_robust_estimates(data, outcome, questions, by) if robust else estimates(data, outcome, questions)
    by_key, clustered = dict(zip(keys, found, strict=True)), cluster_column(schema.aside) is not None
    return FromRegressions(schema.levels, outcome, by_key, schema.gaps, robust, clustered)


def question(schema: Schema, x: str, covariates: Sequence[str], values: Values) -> Question:
    """The question for the effect of `x` given the `covariates`, with numbers for variables and codes for labels."""
    place = {name: number for number, name in enumerate(schema.variables)}
    first, second = (float(schema.levels[x].index(str(one)) if x in schema.levels else one) for one in values)
    return Question(place[x], tuple(place[name] for name in covariates), (first, second))


def with_placebos(data: RunData, effects: Sequence[Effect], repeats: int) -> list[Effect]:
    """The `effects`, all on one outcome; identified effects get the estimates for `repeats` permuted treatments.

    Each silo permutes the treatment among its own rows and sends the sums of the same regressions.
    """
    schema = data.rows.schema
    identified = [one for one in effects if one.status == "identified"]
    if not identified:
        return list(effects)
    base = [question(schema, one.treatment, one.candidates[0].covariates, one.values) for one in identified]
    permuted = [replace(one, permutation=number) for one in base for number in range(1, repeats + 1)]
    found = iter(estimates(data, identified[0].outcome, permuted))
    each = {id(one): [next(found) for _ in range(repeats)] for one in identified}
    return [
        replace(one, placebo=placebo_of([own for own in each[id(one)] if isinstance(own, Estimate)]))
        if id(one) in each
        else one
        for one in effects
    ]


def estimates(data: RunData, outcome: str, questions: Sequence[Question]) -> list[Estimate | str]:
    """The answers to `questions` about `outcome` over the rows of the run: estimates, or reasons for no estimate."""
    schema = data.rows.schema
    clustered = cluster_column(schema.aside) is not None
    server = start(schema, schema.variables.index(outcome), questions, clustered=clustered)
    (found,) = data.exchanges([("adjusted-regressions", REGRESSIONS, server)])
    return answers(found.last.server, questions)


def doubly_robust_estimates(
    data: RunData, outcome: str, questions: Sequence[Question], by: str | None
) -> list[Estimate | str]:
    """The doubly robust answers to `questions` about `outcome`: estimates, or reasons for no estimate.

    Raises `BadInput` if all treatments have numbers, or if `by` has numbers or is not among the covariates.
    """
    schema = data.rows.schema
    asked = [one for one in questions if schema.variables[one.treatment] in schema.levels]
    if not asked:
        treatment = schema.variables[questions[0].treatment]
        raise BadInput(f"--doubly-robust compares two labels of the treatment, and {treatment} has numbers")
    if column := cluster_column(schema.aside):
        raise BadInput(f"--doubly-robust counts all rows of a cluster ({column}): omit it for intervals of clusters")
    modifier = -1 if by is None else _modifier(schema, asked, by)
    server = doubly_robust.start(schema, schema.variables.index(outcome), asked, modifier)
    (found,) = data.exchanges([("doubly-robust", DOUBLY_ROBUST, server)])
    answered = iter(doubly_robust.answers(found.last.server))
    return [next(answered) if one in asked else "a doubly robust effect compares two labels" for one in questions]


def _modifier(schema: Schema, questions: Sequence[Question], by: str) -> int:
    """The number of the variable `by`; raises `BadInput` unless it has labels and is a covariate of all questions."""
    if by not in schema.variables:
        raise BadInput(f"--by {quoted(by)} is no variable of the run: {choices_text(by, schema.variables)}")
    if by not in schema.levels:
        raise BadInput(f"--by needs a column of labels, and {by} has numbers")
    number = schema.variables.index(by)
    for one in questions:
        if number not in one.covariates:
            adjusted = ", ".join(schema.variables[v] for v in one.covariates) or "nothing"
            treatment = schema.variables[one.treatment]
            raise BadInput(
                f"--by {by}: the effect of {treatment} is adjusted for {adjusted}; give one of these columns"
            )
    return number
