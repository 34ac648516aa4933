"""Doubly robust effects over silos against pooled rows, and against references that share no code."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import rounds, silo_generator
from fedbnsl.algorithms.core.release import FIXED_SUMS, statistic_of
from fedbnsl.algorithms.effects import STEPS
from fedbnsl.algorithms.effects.adjusted_regressions import Question
from fedbnsl.algorithms.effects.doubly_robust import DoublyRobust, Silo, answers, build, compared, start
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.effects.test_adjusted_regressions import NAMES, L, T, X, Y, Z, schema_of, tables_of
from tests.algorithms.losing import Losing, last_of

QUESTION = Question(X, (Z, L), (0.0, 1.0))
LARGE = {"clinic": 4000, "hospital": 12_000, "practice": 8000}


def asked(tables, outcome, questions=(QUESTION,), federation=None, by=-1):
    schema = schema_of(tables)
    federation = federation or InProcessFederation(schema, tables)
    masked = not isinstance(federation, Losing)
    last = last_of(build(DoublyRobust(masked)), federation, start(schema, outcome, questions, by))
    return answers(last.server), last


def folds_of(tables, outcome, question=QUESTION):
    """The folds that the silos draw, one after another."""
    schema, request = schema_of(tables), start(schema_of(tables), outcome, [question]).request
    silos = [
        Silo(table, schema, int(silo_generator(0, name).integers(2**62))) for name, table in sorted(tables.items())
    ]
    return np.concatenate([compared(silo, request, 0).folds for silo in silos])


def pooled(tables, values=(0.0, 1.0), treatment=X, covariates=("z", "l")):
    """The design with an indicator for each silo, the treatment, and all rows, of the silos in order of names."""
    tables = dict(sorted(tables.items()))
    silos = np.repeat(np.eye(len(tables)), [len(table) for table in tables.values()], axis=0)
    rows = np.vstack(list(tables.values()))
    z = np.zeros(len(rows))
    for silo in silos.T:  # about the silos' means: the same regression, but better conditioned
        z += silo * (rows[:, Z] - rows[silo > 0, Z].mean()) / 40
    columns = {"z": [z], "l": [rows[:, L] == 1, rows[:, L] == 2]}
    design = np.column_stack([*(column for name in covariates for column in columns[name]), silos])
    return design, rows[:, treatment] == values[1], rows


def model(design, y, *, labels):
    """A function from a design to the predictions of a regression without penalty."""
    if not labels:
        return LinearRegression(fit_intercept=False).fit(design, y).predict
    settings = {"C": np.inf, "fit_intercept": False, "tol": 1e-12, "max_iter": 500}
    fitted = LogisticRegression(solver="newton-cholesky", **settings).fit(design, y)
    return lambda other: fitted.predict_proba(other)[:, 1]


def reference(design, treated, y, folds, *, labels):
    """AIPW on pooled rows: the estimate, its standard error, and the share of clipped rows."""
    phi, clipped = contributions(design, treated, y, folds, labels=labels)
    return phi.mean(), phi.std() / np.sqrt(len(phi) - 1), clipped / len(phi)


def contributions(design, treated, y, folds, *, labels):
    """The contribution of each row to AIPW, and the number of clipped rows."""
    phi, clipped = np.empty(len(y)), 0
    for fold in np.unique(folds):
        own = folds == fold
        other = ~own if len(np.unique(folds)) > 1 else own
        e = model(design[other], treated[other], labels=True)(design[own])
        m0, m1 = (
            model(design[other & (treated == a)], y[other & (treated == a)], labels=labels)(design[own]) for a in (0, 1)
        )
        a, weight = treated[own], np.clip(e, 0.01, 0.99)
        clipped += (weight != e).sum()
        phi[own] = m1 - m0 + a * (y[own] - m1) / weight - (1 - a) * (y[own] - m0) / (1 - weight)
    return phi, clipped


@pytest.mark.parametrize(("outcome", "labels"), [(Y, True), (T, False)], ids=["labels", "numbers"])
class TestEstimate:
    """Of both kinds of outcomes."""

    def test_is_that_of_pooled_rows_with_the_same_folds(self, outcome, labels):
        tables = tables_of()
        design, treated, rows = pooled(tables)
        value, error, clipped = reference(design, treated, rows[:, outcome], folds_of(tables, outcome), labels=labels)
        (found,), _ = asked(tables, outcome)
        assert found.value == pytest.approx(value, abs=1e-6 * (1 if labels else 100))
        assert found.standard_error == pytest.approx(error, rel=1e-5)
        assert found.interval == pytest.approx((value - 1.9612 * error, value + 1.9612 * error), rel=1e-4)
        assert (found.overlap.silos, found.overlap.clipped) == (3, "under 1 %")
        assert clipped < 0.01

    def test_agrees_with_aipw_without_folds_and_with_other_folds(self, outcome, labels):
        """The folds matter by much less than the standard error."""
        tables = tables_of(LARGE)
        design, treated, rows = pooled(tables)
        (found,), _ = asked(tables, outcome)
        for folds in (np.zeros(len(rows), int), np.random.default_rng(8).integers(0, 5, len(rows))):
            value, error, _ = reference(design, treated, rows[:, outcome], folds, labels=labels)
            assert abs(found.value - value) < 0.05 * error
            assert found.standard_error == pytest.approx(error, rel=0.01)

    def test_by_level_it_is_the_mean_over_these_rows(self, outcome, labels):
        tables = tables_of()
        design, treated, rows = pooled(tables)
        phi, _ = contributions(design, treated, rows[:, outcome], folds_of(tables, outcome), labels=labels)
        (found,), _ = asked(tables, outcome, by=L)
        assert [level for level, _ in found.groups] == ["l = a", "l = b", "l = c"]
        for code, (_, own) in enumerate(found.groups):
            within = phi[rows[:, L] == code]
            assert own.value == pytest.approx(within.mean(), abs=1e-6 * (1 if labels else 100))
            assert own.standard_error == pytest.approx(within.std() / np.sqrt(len(within) - 1), rel=1e-5)
        assert found.value == pytest.approx(phi.mean(), abs=1e-6 * (1 if labels else 100))

    def test_only_rows_with_one_of_two_named_labels_count(self, outcome, labels):
        tables = tables_of()
        kept = {silo: table[table[:, L] != 1] for silo, table in tables.items()}
        question = Question(L, (Z,), (2.0, 0.0))
        design, treated, rows = pooled(kept, (2.0, 0.0), L, ("z",))
        folds = folds_of(tables, outcome, question)
        value, _, _ = reference(design, treated, rows[:, outcome], folds, labels=labels)
        (found, other), _ = asked(tables, outcome, [question, replace(question, values=(0.0, 2.0))])
        assert found.value == pytest.approx(value, abs=1e-6 * (1 if labels else 100))
        assert other.value == pytest.approx(-value, abs=1e-6 * (1 if labels else 100))


def curved(seed, wrong, n=12_000):
    """Three silos in which one model is wrong: the log odds of x depend on z², or t on exp(.7 z). The effect is 100."""
    rng, tables = np.random.default_rng(seed), {}
    for number, silo in enumerate(("a", "b", "c")):
        z = rng.normal(size=n // 3)
        bent = z**2 - 1
        odds = 0.5 * z + 0.3 * number - 0.3 + (0.8 * bent if wrong == "treatment" else 0.3 * z)
        x = rng.random(len(z)) < 1 / (1 + np.exp(-odds))
        t = x + (np.exp(0.7 * z) if wrong == "outcome" else z) + number + rng.normal(size=len(z))
        tables[silo] = np.column_stack([x, z > 0, 40 * z, 0 * z, 100 * t]).astype(float)
    return tables


@pytest.mark.parametrize("wrong", ["treatment", "outcome"])
def test_one_model_may_be_wrong(wrong):
    for seed in range(3):
        (found,), _ = asked(curved(seed, wrong), T, [Question(X, (Z,), (0.0, 1.0))])
        assert abs(found.value - 100) < 3.5 * found.standard_error < 20


def test_two_wrong_models_are_not_mended():
    """The test above could fail: without the covariate, both models are wrong."""
    (found,), _ = asked(curved(0, "outcome"), T, [Question(X, (), (0.0, 1.0))])
    assert abs(found.value - 100) > 10 * found.standard_error


def test_little_overlap_is_a_class():
    tables = tables_of(LARGE)
    for table in tables.values():
        rng, z = np.random.default_rng(3), table[:, Z]
        table[:, X] = rng.random(len(z)) < 1 / (1 + np.exp(-4.5 * (z - z.mean()) / 40))
    design, treated, rows = pooled(tables)
    value, _, share = reference(design, treated, rows[:, Y], folds_of(tables, Y), labels=True)
    (found,), _ = asked(tables, Y)
    assert found.value == pytest.approx(value, abs=1e-6)
    assert share > 0.2
    assert found.overlap.clipped == "over 20 %"


class TestRows:
    """Which rows take part."""

    def test_a_silo_with_one_value_only_is_left_out(self):
        tables = tables_of()
        two = {silo: tables[silo] for silo in ("hospital", "practice")}
        expected, _ = asked(two, Y)
        for treated in (np.zeros(90), np.arange(90) < 9):
            alone = tables["clinic"].copy()
            alone[:, X] = treated
            (found,), _ = asked({**tables, "clinic": alone}, Y)
            assert found.value == pytest.approx(expected[0].value, abs=1e-6)
            assert found.standard_error == pytest.approx(expected[0].standard_error, rel=1e-5)
            assert found.overlap.silos == 2

    def test_empty_cells_leave_their_rows_out(self):
        tables = tables_of()
        expected, _ = asked({**tables, "hospital": tables["hospital"][60:]}, Y)
        tables["hospital"][:20, Z] = np.nan
        tables["hospital"][20:40, L] = -1
        tables["hospital"][40:50, Y] = np.nan
        tables["hospital"][50:60, X] = -1
        tables["hospital"][60:, T] = np.nan
        found, _ = asked(tables, Y)
        assert found[0].value == pytest.approx(expected[0].value, abs=1e-7)

    def test_no_silo_with_both_values_is_said_in_words(self):
        tables = tables_of()
        for table in tables.values():
            table[:, X] = 0
        (found,), _ = asked(tables, Y)
        assert "no silo has 5 rows of either value" in found

    def test_levels_of_few_rows_have_no_effect_of_their_own(self):
        tables = tables_of()
        for table in tables.values():
            table[:, L] = np.where(np.arange(len(table)) < 6, 2, np.arange(len(table)) % 2)
        (found,), _ = asked(tables, T, by=L)
        assert [level for level, _ in found.groups] == ["l = a", "l = b"]
        assert found.interval is not None

    def test_perfect_prediction_is_said_in_words(self):
        for changed, predicted in ((X, "treatment"), (Y, "outcome")):
            tables = tables_of()
            for table in tables.values():
                table[:, changed] = table[:, Z] > table[:, Z].mean()
            (found,), _ = asked(tables, Y)
            assert f"the covariates predict the {predicted}" in found


class TestExchange:
    """What all learners promise."""

    def test_one_exchange_answers_many_questions(self):
        questions = [QUESTION, Question(L, (X, Z), (0.0, 2.0)), Question(X, (), (0.0, 1.0))]
        found, _ = asked(tables_of(), Y, questions)
        alone = [asked(tables_of(), Y, [one])[0][0] for one in questions]
        assert [one.value for one in found] == pytest.approx([one.value for one in alone], abs=1e-7)

    def test_a_lost_silo_leaves_the_effect_of_the_others(self):
        tables = tables_of()
        _, whole = asked(tables, Y)
        rest = {silo: tables[silo] for silo in ("clinic", "hospital")}
        expected, _ = asked(rest, Y)
        for number in range(1, whole.number):
            (found,), _ = asked(tables, Y, federation=Losing(schema_of(tables), tables, {"practice": number}))
            assert found.value == pytest.approx(expected[0].value, abs=1e-6), number

    def test_a_checkpoint_and_the_order_of_silos_change_nothing(self):
        tables = tables_of()
        expected, last = asked(tables, Y)
        schema, algorithm = schema_of(tables), build(DoublyRobust())
        turned = dict(reversed(tables.items()))
        federation, server = InProcessFederation(schema_of(turned), turned), start(schema, Y, [QUESTION])
        for number in range(last.number):
            (step, *_) = rounds(algorithm, federation, (number, server))
            server = wire.decode(algorithm.server_type, wire.encode(step.server))
        assert answers(server)[0].value == pytest.approx(expected[0].value, abs=1e-9)

    def test_what_is_released_follows_from_the_broadcast(self):
        """Neither kind is a fixed function of the rows, so level `sums` refuses both."""
        _, last = asked(tables_of(), Y)
        entry, request = STEPS["doubly-robust"], last.server.request
        kinds = [statistic_of(entry.releases, replace(request, fitted=one)) for one in (False, True)]
        assert kinds == ["Newton terms", "contrasts"]
        assert entry.at_sums is None
        assert not FIXED_SUMS & set(kinds)

    def test_the_last_sum_has_five_numbers_for_each_question(self):
        """No number in it belongs to a single row, fold or silo."""
        _, last = asked(tables_of(), Y, [QUESTION] * 2)
        assert last.server.effects.shape == (10,)
        assert len(NAMES) == last.server.request.covariates.shape[1]
