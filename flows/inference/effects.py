"""Effects in the graph of a finished run: from its model, or from one more masked sum over the silos' rows.

Without `data` nothing leaves a silo, because the model of the run suffices. With `data`, the folder of the run's silos,
effects come from the rows. If the rows are numbers without empty cells, the silos send masked sums. First they send the
units of the columns. Then they send the means and variances of all columns, and second moments about each silo's own
means: for the pairs among treatments, covariates and outcome, or for all pairs with joint interventions. For other
rows, the silos send the sums of adjusted regressions
(`effect_regressions.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.effects.answer import (
    Effect,
    EffectReport,
    Estimator,
    FromMixed,
    FromMoments,
    FromRegressions,
    FromTables,
    Values,
    WithoutModel,
    effect_of,
    joint_effect_of,
    model_estimator,
    value_text,
)
from fedbnsl.algorithms.effects.identification import EffectKind, identify
from fedbnsl.algorithms.effects.linear import LEVEL
from fedbnsl.algorithms.effects.units import DataUnits
from fedbnsl.algorithms.errors import BadInput, choices_text, pluralize, quoted
from fedbnsl.data.folder.about import cluster_column
from fedbnsl.tracking.result import RunResult

from .effect_regressions import regression_estimator, with_placebos
from .effect_variability import over_posterior, with_resamples, with_silos
from .run_data import RunData, has_moments, read_run_data, within_moments
from .survival_effects import survival_effects


def effects(
    result: RunResult,
    treatments: Sequence[str],
    outcome: str,
    *,
    kind: EffectKind = "total",
    values: Values | None = None,
    joint: bool = False,
    data: Path | None = None,
    bootstrap: int = 0,
    by_silo: bool = False,
    placebo: int = 0,
    doubly_robust: bool = False,
    by: str | None = None,
) -> EffectReport:
    """The effects of `treatments` on `outcome` in the learned graph, with their assumptions.

    Parameters
    ----------
    result
        A finished run.
    treatments, outcome
        The variables to change (one at a time, or all together if `joint`), and the variable of interest.
    kind
        "total", or "direct" for the effect with all other parents of the outcome held fixed.
    values
        The two values to compare; by default 0 and 1, or each further label with the first label.
    joint
        Whether all treatments are changed together. With `data`, this requires the second moments of all pairs.
    data
        The folder of the run's silos for further exchanges; None for effects from the run's model.
    bootstrap
        The number of resamples of the rows in `data`; the graph is learned again from each of them.
    by_silo, placebo
        Whether the effect is estimated at each silo, too; the number of permutations of the treatment within silos.
    doubly_robust, by
        Whether the treatment is modelled, too, so that one of the two models may be wrong; needs `data`. Such an effect
        is also estimated by level of the covariate `by`.

    Raises
    ------
    BadInput
        For unknown variables and values, unsuitable runs, other rows, and impossible combinations of options.
    """
    _check_question(result, treatments, outcome)
    if outcome in result.schema.survival:
        options = {"--bootstrap": bootstrap, "--by-silo": by_silo, "--placebo": placebo, "--by": by}
        options |= {"--doubly-robust": doubly_robust, "several --treatment": joint}
        return survival_effects(result, treatments, outcome, kind, values, data, options)
    result = replace(result, structure=result.structure.among(result.schema.variables), survival=())
    _check_doubly_robust(data, by, requested=doubly_robust, checks=bool(bootstrap or by_silo or placebo), joint=joint)
    _check_run(result, from_rows=data is not None, doubly_robust=doubly_robust)
    _check_variability(result, data, bootstrap, by_silo=by_silo, joint=joint)
    _check_placebo(data, placebo, joint=joint)
    rows = read_run_data(result, data) if data else None
    units = DataUnits.of(result.schema, result.parameters.network if not result.structure.lags else None)
    if len(treatments) == 1:
        values = units.on_model_scale(treatments[0], values)
    if rows and doubly_robust:
        estimator: Estimator = regression_estimator(rows, treatments, outcome, kind, values, robust=True, by=by)
    else:
        estimator = _from_rows(rows, treatments, outcome, kind, values, joint=joint) if rows else _from_model(result)
    found = _estimated(result, estimator, treatments, outcome, kind, values, joint=joint)
    if result.graph_posterior.posterior and not joint:
        found = over_posterior(result, estimator, found)
    if rows:
        found = _with_checks(rows, found, bootstrap, by_silo=by_silo, placebo=placebo)
    found = [units.with_original(one, estimator.levels(one.treatment)) for one in found]
    return EffectReport(tuple(found), _rests_on(result, estimator, found, data))


def _with_checks(rows: RunData, found: list[Effect], bootstrap: int, *, by_silo: bool, placebo: int) -> list[Effect]:
    """The effects with the results of the requested checks: resamples, effects by silo, placebos."""
    found = with_resamples(rows, found, bootstrap) if bootstrap else found
    found = with_silos(rows, found) if by_silo else found
    return with_placebos(rows, found, placebo) if placebo else found


def _estimated(
    result: RunResult,
    estimator: Estimator,
    treatments: Sequence[str],
    outcome: str,
    kind: EffectKind,
    values: Values | None,
    *,
    joint: bool,
) -> list[Effect]:
    """The effects of the treatments, one at a time or jointly."""
    if joint and kind == "direct":
        raise BadInput("the effects of a joint intervention are direct with respect to each other: omit --direct")
    if not joint:
        each = (effect_of(result.structure, estimator, x, outcome, kind, values) for x in treatments)
        return [one for found in each for one in found]
    if not isinstance(estimator, FromMoments):
        raise BadInput("joint interventions are for numbers: give one treatment at a time")
    return joint_effect_of(result.structure, estimator, treatments, outcome, values)


def _check_question(result: RunResult, treatments: Sequence[str], outcome: str) -> None:
    variables = result.structure.variables
    for role, name in (*(("treatment", one) for one in treatments), ("outcome", outcome)):
        if name not in variables:
            raise BadInput(f"the {role} {quoted(name)} is no variable of the run: {choices_text(name, variables)}")
    if outcome in treatments:
        raise BadInput(f"treatment and outcome are the same variable: {outcome}")
    sink = next((name for name in treatments if name in result.schema.survival), None)
    if sink:
        raise BadInput(f"{sink} is a survival outcome, which has no effect on other variables")
    repeated = next((name for name in treatments if list(treatments).count(name) > 1), None)
    if repeated:
        raise BadInput(f"the treatment {repeated} is named twice")


def _check_variability(result: RunResult, data: Path | None, bootstrap: int, *, by_silo: bool, joint: bool) -> None:
    """Raise `BadInput` if resamples or effects by silo are requested, but cannot be computed."""
    if not bootstrap and not by_silo:
        return
    option = "--bootstrap" if bootstrap else "--by-silo"
    if not has_moments(result):
        raise BadInput(f"{option} is for runs of numbers without empty cells")
    if data is None:
        raise BadInput(f"{option} needs the run's rows: give --data FOLDER")
    if joint:
        raise BadInput(f"{option} takes one treatment at a time")
    if bootstrap < 0 or bootstrap == 1:
        raise BadInput(f"--bootstrap is {bootstrap}: it must be 2 or more, or 0 for none")
    if bootstrap and registry.entry(result.algorithm).pooled:
        raise BadInput(f"--bootstrap learns from the silos, and {result.algorithm} pools their rows")


def _check_placebo(data: Path | None, placebo: int, *, joint: bool) -> None:
    """Raise `BadInput` if placebos are requested, but cannot be computed."""
    if placebo < 0:
        raise BadInput(f"--placebo is {placebo}: it must be 1 or more, or 0 for none")
    if placebo and data is None:
        raise BadInput("--placebo needs the run's rows: give --data FOLDER")
    if placebo and joint:
        raise BadInput("--placebo takes one treatment at a time")


def _check_doubly_robust(data: Path | None, by: str | None, *, requested: bool, checks: bool, joint: bool) -> None:
    """Raise `BadInput` if a doubly robust effect is `requested` but cannot be computed, or `by` is without one."""
    if not requested:
        if by is not None:
            raise BadInput("--by is for doubly robust effects: add --doubly-robust")
        return
    if data is None:
        raise BadInput("--doubly-robust needs the run's rows: give --data FOLDER")
    if joint:
        raise BadInput("--doubly-robust takes one treatment at a time")
    if checks:
        raise BadInput("--doubly-robust has no --bootstrap, --by-silo or --placebo: omit them")


def _check_run(result: RunResult, *, from_rows: bool, doubly_robust: bool) -> None:
    """Raise `BadInput` for a run whose graph or model does not give effects."""
    if result.privacy is not None:
        raise BadInput(
            f"{result.name}: the run has an ε: its rows were clipped, which biases effects by more than an interval "
            "for the noise covers, and an exchange over the rows would be a release that ε does not cover"
        )
    if result.structure.lags or result.schema.kind == "time-series":
        raise BadInput(f"{result.name}: a run of time series: effects are computed for independent rows")
    if from_rows and result.schema.kind == "discrete" and result.structure.kind == "pag":
        raise BadInput(f"--data is for tables with numbers, and a PAG has no tables: {ONLY_LABELS}")
    if from_rows and result.schema.kind == "discrete" and not doubly_robust:
        raise BadInput(
            "--data is for tables with numbers: for labels alone, the run's probability tables give the effect and "
            "assume no form; omit --data, or add --doubly-robust"
        )
    if from_rows and result.targets:
        raise BadInput(
            f"experiments changed {', '.join(result.targets)} in some rows, so sums over all rows mix mechanisms: omit "
            "--data to compute effects from the model"
        )
    if not from_rows and result.parameters.network is None and result.structure.kind != "pag":
        raise BadInput(f"{result.name}: the run has no model: {result.parameters.how}")


ONLY_LABELS = "effects between labels are computed from the tables of a DAG or CPDAG"


def _from_model(result: RunResult) -> Estimator:
    network, silos = result.parameters.network, [one for one in result.schema.silos if one not in result.lost]
    rows = round(sum(result.schema.rows[silo] for silo in silos) * result.independent_share)
    if network is None:  # a PAG has no model
        remedy = "give the run's rows with --data FOLDER" if result.schema.kind != "discrete" else ONLY_LABELS
        return WithoutModel(result.schema.levels, remedy)
    return model_estimator(network, rows, len(silos))


def _from_rows(
    data: RunData,
    treatments: Sequence[str],
    outcome: str,
    kind: EffectKind,
    values: Values | None,
    *,
    joint: bool,
) -> Estimator:
    """The estimator from one exchange over the rows.

    Raises `BadInput` for joint interventions, unless the data are numbers without empty cells.
    """
    clustered = cluster_column(data.result.schema.aside) is not None and not joint
    if has_moments(data.result) and not clustered:
        return _moments(data, treatments, outcome, kind, joint=joint)
    if joint:
        raise BadInput("joint interventions are for numbers without empty cells: give one treatment at a time")
    return regression_estimator(data, treatments, outcome, kind, values)


def _moments(data: RunData, treatments: Sequence[str], outcome: str, kind: EffectKind, *, joint: bool) -> FromMoments:
    """The second moments of the pairs among treatments, covariates and outcome, from one exchange over the rows."""
    structure = data.result.structure
    place = {name: number for number, name in enumerate(structure.variables)}
    needed = {place[name] for name in (*treatments, outcome)}
    if joint:
        needed = set(range(len(place)))
    for x in treatments:
        for one in identify(structure, place[x], place[outcome], kind).sets:
            needed |= set(one.covariates)
    variables = data.rows.schema.variables
    moments = within_moments(data, [place[name] in needed for name in variables])
    return FromMoments(variables, moments)


def _rests_on(result: RunResult, estimator: Estimator, found: Sequence[Effect], data: Path | None) -> tuple[str, ...]:
    """The assumptions behind the effects, in one sentence each."""
    kinds = {"dag": "DAG", "cpdag": "class of DAGs (CPDAG)", "pag": "PAG"}
    lines = [
        f"Graph: the {kinds[result.structure.kind]} that {result.algorithm} learned is taken as true; intervals do not "
        "include the uncertainty of learning it from the same rows"
        f"{', except those over resamples' if any(one.resampled for one in found) else ''}"
        f"{', except those averaged over the posterior' if any(one.averaged for one in found) else ''}.",
        *result.basis,
    ]
    estimated = [one for one in found if one.status in ("identified", "range")]
    if not estimated:
        return tuple(lines)
    if result.structure.kind == "pag":
        lines.append(
            "Unmeasured common causes are allowed for: the covariates are valid in every graph of the class that the "
            "PAG describes. The effect rests on faithfulness instead: the independences in the data are exactly those "
            "of one graph."
        )
    else:
        lines.append(
            "No unmeasured confounding: no variable outside the graph affects both a treatment and the outcome. "
            "The data cannot confirm this."
        )
    lines += _model_lines(result, estimator, estimated, data)
    strengths = [one.candidates[0].sensitivity for one in estimated if one.status == "identified"]
    if len(estimated) == 1 and strengths and strengths[0]:
        one = strengths[0]
        lines.append(
            f"Sensitivity: a common cause that explains {100 * one.robustness:.1f} % of the residual variance of both "
            f"treatment and outcome would reduce the estimate to zero. If it explains "
            f"{100 * one.robustness_interval:.1f} %, the interval includes zero. The treatment explains "
            f"{100 * one.partial_r2:.1f} % of the residual variance of the outcome."
        )
    if any(candidate.sparse for one in estimated for candidate in one.candidates):
        lines.append(
            "Little overlap: in some strata of the adjustment set, a value of the treatment is expected in fewer than "
            "5 rows, so that the effect rests on the smoothing of the tables."
        )
    return tuple(lines)


def _model_lines(result: RunResult, estimator: Estimator, found: Sequence[Effect], data: Path | None) -> list[str]:
    """The source of the numbers, and the assumed form of effects."""
    interval = f"{100 * LEVEL:g} % intervals"
    if isinstance(estimator, FromMixed):
        return [
            f"Source: simulation of the run's model ({result.parameters.how}), with the regressions of the model as "
            f"the form of effects. The {interval} of direct effects are those of the regressions in {estimator.rows:,} "
            "rows. Total effects have no intervals, because they can pass through several regressions."
        ]
    if isinstance(estimator, FromTables):
        return [
            f"Source: the g-formula over the run's tables ({result.parameters.how}); {interval} are those of adjusted "
            f"proportions in {estimator.rows:,} rows. No form of effects is assumed."
        ]
    if isinstance(estimator, FromRegressions):
        return _regression_lines(result, estimator, found)
    assert isinstance(estimator, FromMoments)
    moments = estimator.moments
    independent = "independent " * (result.independent_share < 1)
    sizes = f"{moments.rows:,} {independent}rows of {pluralize(moments.silos, 'silo')}"
    lines = ["Linearity: effects are linear, and the same in all silos and for all values of the covariates."]
    if data is not None:
        return [
            *lines,
            f"Source: second moments of {sizes} in one masked exchange: least squares with an intercept per silo; "
            f"{interval} of Student's t.",
        ]
    lines.append(
        f"Source: the second moments that the run's model implies ({result.parameters.how}); {interval} of Student's t "
        f"for {sizes}. --data FOLDER computes them from the rows instead."
    )
    if not result.params.get("center", True):
        lines.append("Silos' own means were not subtracted in the run: differences between silos enter the effects.")
    if result.metrics.get("filling_exchanges"):
        lines.append("Imputed cells count as observed, so the intervals are too narrow.")
    return lines


def _regression_lines(result: RunResult, estimator: FromRegressions, found: Sequence[Effect]) -> list[str]:
    """The assumptions behind effects from adjusted regressions."""
    silos = pluralize(len(result.schema.silos), "silo")
    if estimator.doubly_robust:
        lines = [
            "Form: one of two models is right: the log odds of the treatment are linear in the covariates, or, with "
            "either value of the treatment, the mean of the outcome is (of labels, the log odds). The effect is the "
            "average over all rows with one of the two compared labels.",
            *_overlap_lines(found, len(result.schema.silos)),
        ]
        method = "averages over half of the rows each, by models of the other half; 95 % intervals of Student's t"
    elif estimator.levels(estimator.outcome):
        lines = [
            "Form: the log odds of the outcome are linear in treatment and covariates, with an intercept per silo. The "
            "probability of the outcome is averaged over all rows, with the treatment set to each of the two values. "
            "The effect is the difference of the two averages, and the odds ratio is that of the two averages."
        ]
        method = "Newton steps, and averages over the rows; 95 % intervals by the delta method"
    else:
        lines = ["Linearity: effects are linear, and the same in all silos and for all values of the covariates."]
        method = "least squares; 95 % intervals of Student's t"
    if estimator.clustered:
        method = method.replace("95 % intervals", "95 % intervals of clusters (a sandwich of sums by cluster)")
    models = "six regressions" if estimator.doubly_robust else "a regression"
    lines.append(f"Source: {models} with an intercept per silo over the rows of {silos}, by masked sums: {method}.")
    if estimator.gaps:
        lines.append(
            "Rows with an empty cell in treatment, outcome or covariates are left out: valid if, given the covariates "
            "and the treatment, missingness does not depend on the outcome."
        )
    return lines


def _overlap_lines(found: Sequence[Effect], silos: int) -> list[str]:
    """For each effect, the share of rows with little overlap, and the silos that do not take part."""
    lines = []
    for one in found:
        overlaps = [own.estimate.overlap for own in one.candidates if own.estimate.overlap]
        for overlap in dict.fromkeys(overlaps):
            missing = silos - overlap.silos
            too_few = f"; {pluralize(missing, 'silo')} with too few rows of a value left out" if missing else ""
            lines.append(
                f"Overlap of {one.treatment}, {' → '.join(map(value_text, one.values))}: the probability of treatment "
                f"was clipped to between .01 and .99 in {overlap.clipped} of the rows{too_few}."
            )
    return lines
