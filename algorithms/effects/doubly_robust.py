"""Doubly robust average effects of a treatment with two values, from masked sums over the rows (AIPW, cross-fitted).

Let A be 1 for rows with the second of two labels of the treatment, and 0 for rows with the first; rows with other
labels are left out. With the covariates x, e(x) = P(A = 1 | x) is logistic, and μ_a(x) = E(Y | A = a, x) is linear for
an outcome that is a number and logistic for one of two labels. The average of

    φ = μ₁ − μ₀ + A (Y − μ₁) / e − (1 − A) (Y − μ₀) / (1 − e)

over the rows is the average effect if e or both of μ₀ and μ₁ are right (Robins, Rotnitzky & Zhao 1994, "Estimation of
regression coefficients when some regressors are not always observed"). e is clipped to [.01, .99].

Each silo divides its rows into two folds at random, those with A = 0 and those with A = 1 alike. φ of a row comes from
models that are fitted to the other folds of all silos (cross-fitting; Chernozhukov et al. 2018, "Double/debiased
machine learning for treatment and structural parameters"). The generator of the run draws the folds, so that a
repetition gives the same effect. All six models have an intercept per silo, which the silo does not send
(`own_intercepts.py`): silos may differ in how often they treat, and in their outcomes. A silo with fewer than
`MIN_ROWS` rows of a value in a fold has too few rows for intercepts, and is left out.

With q coded covariates, a silo sends 3 + q + q(q + 1)/2 numbers for each of the six models in each of about eight
rounds for logistic models, and two for linear ones. In a last round, it sends the number of rows, Σ φ, Σ φ², and the
number of rows in which e was clipped; if effects by a label are requested, also for the rows with each of its levels.
The label is one of the covariates, so that the average of φ over these rows is the effect among them. The standard
error of the mean of φ over n rows is that of a sample mean.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..privacy.disclosure_control import share_class
from ..statistics.coding import Coding, coded_units, coding_of
from ..statistics.packing import Packing, packing
from .adjusted_regressions import Question
from .linear import Estimate, Overlap, quantile
from .own_intercepts import MAX_NEWTON_STEPS, Newton, OwnFit, Silo, newton_blocks, newton_units

CLIP = 0.01
"""smallest probability of either value of the treatment by which a row is weighted"""
MIN_ROWS = 5
"""smallest number of rows of either value of the treatment in a fold of a silo that takes part"""
MIN_GROUP = 4 * MIN_ROWS
"""smallest number of rows with a level of the modifier for an estimate; a silo that takes part has as many rows"""
MODELS = tuple(product(("treatment", "outcome without", "outcome with"), (0, 1)))
"""the models for each question: what is modelled, and the fold of the rows that it is fitted to"""


@dataclass(frozen=True)
class DoublyRobust(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Broadcast:
    """The outcome, the k questions, and the slopes of their models one after another, as in `MODELS`."""

    outcome: int
    treatments: NDArray[np.int64]
    """the treatment of each question, `[k]`"""
    values: FloatArray
    """the codes of the two compared labels of each treatment, `[k, 2]`"""
    covariates: NDArray[np.bool_]
    """the covariates of each question, `[k, d]`"""
    slopes: FloatArray
    modifier: int
    """the covariate by whose levels effects are requested, too; −1 for none"""
    fitted: bool
    """whether sums of φ are requested, instead of those of the models"""


@dataclass(frozen=True)
class Server:
    """The request, the state of Newton's method in 6 k models, the reasons for no fit, and the last sums."""

    schema: Schema
    request: Broadcast
    newton: Newton
    reasons: tuple[str, ...]
    """for each question, why its models cannot be fitted, or nothing"""
    effects: FloatArray
    """the sums of φ, divided by all rows; empty before they are known"""


def start(schema: Schema, outcome: int, questions: Sequence[Question], modifier: int = -1) -> Server:
    """The server's state before the exchange for `questions` on labels, about the variable `outcome` by number.

    Effects are also estimated by level of `modifier`, which has labels and is a covariate of all questions, or is −1.
    """
    covariates = np.zeros((len(questions), len(schema.variables)), np.bool_)
    for row, one in zip(covariates, questions, strict=True):
        row[list(one.covariates)] = True
    widths = np.array(coding_of(schema).widths, np.int64)
    slopes = np.zeros(len(MODELS) * int((covariates @ widths).sum()))
    request = Broadcast(
        outcome,
        np.array([one.treatment for one in questions], np.int64),
        np.array([one.values for one in questions], np.float64).reshape(-1, 2),
        covariates,
        slopes,
        modifier,
        fitted=False,
    )
    newton = Newton.begin(len(slopes), len(MODELS) * len(questions))
    return Server(schema, request, newton, ("",) * len(questions), np.empty(0))


def build(settings: DoublyRobust) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The exchange, which begins in the state `start(...)`."""
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: Silo(table, schema, int(rng.integers(2**62))),
        open_server=lambda schema: start(schema, 0, ()),
        broadcast=lambda server: server.request,
        part=part,
        aggregate=aggregate,
        converged=lambda server: len(server.effects) > 0 or not len(server.request.treatments),
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=MAX_NEWTON_STEPS + 1,
        entry_units=_units,
        needs_secure_sum=settings.masked,
    )


def _effect_packing(schema: Schema, request: Broadcast) -> Packing:
    """The layout of the sums of φ of a question: over all rows, and over those with each level of the modifier."""
    levels = 0 if request.modifier < 0 else len(schema.levels[schema.variables[request.modifier]])
    return packing(rows=1 + levels, silos=(), sum=1 + levels, squares=1 + levels, clipped=())


def _models(coding: Coding, request: Broadcast) -> Iterator[tuple[int, str, int, slice, Packing]]:
    """Of each model: its question, what it models, its fold, and the position of its slopes and layout of its sums."""
    at = 0
    for k, covariates in enumerate(request.covariates):
        q = int(np.array(coding.widths)[covariates].sum())
        for what, fold in MODELS:
            yield k, what, fold, slice(at, at + q), Packing(newton_blocks(q))
            at += q


def _units(schema: Schema, request: Broadcast) -> FloatArray:
    """The units of a reply, from the units of the columns."""
    coding, columns = coding_of(schema), coded_units(schema)
    outcome = 1.0 if coding.discrete[request.outcome] else float(columns[coding.blocks[request.outcome][0]])
    if request.fitted:
        packed = _effect_packing(schema, request)
        each = np.ones(packed.blocks[0].shape)
        one = packed.pack(rows=each, silos=1.0, sum=outcome * each, squares=outcome**2 * each, clipped=1.0)
        return np.tile(one, len(request.treatments))
    parts = [np.empty(0)]
    for k, what, _, _, packed in _models(coding, request):
        own = columns[request.covariates[k][coding.owners]]
        parts.append(packed.pack(**newton_units(1.0 if what == "treatment" else outcome, own)))
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class ComparedRows:
    """A silo's rows with one of the two compared labels and no empty cell, for one question."""

    covariates: FloatArray
    """the coded covariates, `[n, q]`"""
    treated: NDArray[np.bool_]
    """whether a row has the second label, `[n]`"""
    outcomes: FloatArray
    folds: NDArray[np.int64]
    """the fold of each row, 0 or 1, `[n]`"""
    groups: NDArray[np.int64]
    """the level of the modifier in each row, `[n]`; 0 without one"""

    @property
    def usable(self) -> bool:
        """Whether each fold has enough rows of both values."""
        return all(((self.folds == f) & (self.treated == a)).sum() >= MIN_ROWS for f, a in product((0, 1), repeat=2))

    def fit(self, what: str, fold: int, slopes: FloatArray, *, labels: bool) -> OwnFit:
        """The model of `what` in the rows of a fold; `labels` is whether the outcome has labels."""
        rows = self.folds == fold
        if what == "treatment":
            return OwnFit.of(self.covariates[rows], self.treated[rows].astype(np.float64), slopes, labels=True)
        rows &= self.treated == (what == "outcome with")
        return OwnFit.of(self.covariates[rows], self.outcomes[rows], slopes, labels=labels)


def compared(silo: Silo, request: Broadcast, k: int) -> ComparedRows:
    """The rows of question `k`, with their folds: of each value, every other row of a random order."""
    treatment, coding = int(request.treatments[k]), coding_of(silo.schema)
    used = np.flatnonzero(request.covariates[k]).tolist()
    complete = silo.complete_rows([*used, treatment, request.outcome])
    rows = complete[np.isin(complete[:, -2], request.values[k])]
    treated = rows[:, -2] == request.values[k, 1]
    rng, folds = np.random.default_rng([silo.key, treatment]), np.zeros(len(rows), np.int64)
    for value in np.sort(request.values[k]):  # the folds are the same if the values are exchanged
        order = rng.permutation(np.flatnonzero(rows[:, -2] == value))
        folds[order] = np.arange(len(order)) % 2
    groups = rows[:, used.index(request.modifier)] if request.modifier >= 0 else np.zeros(len(rows))
    coded = coding.subset(used).rows(rows[:, :-2]) if used else np.empty((len(rows), 0))
    return ComparedRows(coded, treated, rows[:, -1], folds, groups.astype(np.int64))


def part(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the sums."""
    coding, n = coding_of(silo.schema), sum(silo.schema.rows.values())
    labels = bool(coding.discrete[request.outcome])
    each = [compared(silo, request, k) for k in range(len(request.treatments))]
    fits: dict[tuple[int, str, int], OwnFit] = {}
    parts = [np.empty(0)]
    for k, what, fold, place, layout in _models(coding, request):
        if each[k].usable:
            fits[k, what, fold] = each[k].fit(what, fold, request.slopes[place], labels=labels)
        if not request.fitted:
            parts.append(layout.pack(**(fits[k, what, fold].sums if each[k].usable else {})) / n)
    if not request.fitted:
        return np.concatenate(parts)
    packed = _effect_packing(silo.schema, request)
    return np.concatenate([_effect_sums(one, k, fits, packed) for k, one in enumerate(each)]) / n


def _effect_sums(rows: ComparedRows, k: int, fits: dict[tuple[int, str, int], OwnFit], packed: Packing) -> FloatArray:
    """The sums of φ of question `k` over the `rows`, each with the models that are fitted to the other fold."""
    if not rows.usable:
        return packed.pack()
    phi, clipped = np.empty(len(rows.folds)), 0.0
    for fold in (0, 1):
        own = rows.folds == fold
        e, without, treated = (
            fits[k, what, 1 - fold].predicted(rows.covariates[own])
            for what in ("treatment", "outcome without", "outcome with")
        )
        weight = np.clip(e, CLIP, 1 - CLIP)
        clipped += float((weight != e).sum())
        a, y = rows.treated[own], rows.outcomes[own]
        phi[own] = treated - without + np.where(a, (y - treated) / weight, (without - y) / (1 - weight))
    levels = np.arange(packed.blocks[0].shape[0] - 1)
    within = np.vstack([np.ones(len(phi)), rows.groups == levels[:, None]])
    return packed.pack(rows=within.sum(axis=1), silos=1.0, sum=within @ phi, squares=within @ phi**2, clipped=clipped)


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state after a Newton step in each model; once all have converged, the request for the sums of φ."""
    if server.request.fitted:
        return replace(server, effects=replies.total)
    coding, parts, labels, at = coding_of(server.schema), [], [], 0
    models = list(_models(coding, server.request))
    for _, what, _, place, packed in models:
        parts.append((place, packed.unpack(replies.total[at : at + packed.length])))
        labels.append(what == "treatment" or bool(coding.discrete[server.request.outcome]))
        at += packed.length
    newton, slopes = server.newton.after(server.request.slopes, parts, labels)
    reasons = [""] * len(server.reasons)
    for r, ((k, what, *_), (place, sums)) in enumerate(zip(models, parts, strict=True)):
        if newton.unsolved(r, place, sums):
            predicted = "the treatment" if what == "treatment" else "the outcome"
            reasons[k] = (
                f"the covariates predict {predicted} of some rows without error, so that no finite slopes fit best"
            )
    fitted = bool(newton.finished.all())
    request = replace(server.request, slopes=slopes, fitted=fitted)
    return replace(server, request=request, newton=newton, reasons=tuple(reasons))


def answers(server: Server) -> list[Estimate | str]:
    """The estimate for each of the questions of `start`, or the reason why there is none.

    An estimate is the average change of the outcome, or of the probability of its second label, with its interval.
    """
    if not len(server.effects):
        return [reason or "the models of treatment and outcome did not converge" for reason in server.reasons]
    each, packed = np.split(server.effects, len(server.reasons)), _effect_packing(server.schema, server.request)
    return [reason or _answer(server, packed.unpack(one)) for reason, one in zip(server.reasons, each, strict=True)]


def _answer(server: Server, sums: dict[str, NDArray[np.float64]]) -> Estimate | str:
    """The estimate from the sums of φ, with those by level of the modifier that have enough rows."""
    schema, modifier = server.schema, server.request.modifier
    all_rows = sum(schema.rows.values())
    rows = np.rint(sums["rows"] * all_rows)
    if not rows[0]:
        return f"no silo has {MIN_ROWS} rows of either value in both halves of its rows"
    estimates = [
        _mean_of(one / share, square / share, int(n)) if n >= MIN_GROUP else None
        for one, square, share, n in zip(sums["sum"], sums["squares"], sums["rows"], rows, strict=True)
    ]
    levels = schema.levels[schema.variables[modifier]] if modifier >= 0 else ()
    rows_with = [f"{schema.variables[modifier]} = {level}" for level in levels]
    groups = tuple((which, one) for which, one in zip(rows_with, estimates[1:], strict=True) if one)
    overlap = Overlap(round(float(sums["silos"]) * all_rows), share_class(float(sums["clipped"] / sums["rows"][0])))
    assert estimates[0] is not None
    return replace(estimates[0], overlap=overlap, groups=groups)


def _mean_of(mean: float, square: float, rows: int) -> Estimate:
    """The estimate whose contributions in this number of `rows` have this `mean` and this mean `square`."""
    error = sqrt(max(float(square - mean**2), 0.0) / (rows - 1))
    half = quantile(rows - 1) * error
    return Estimate(float(mean), (float(mean) - half, float(mean) + half), error)
