"""Adjusted regressions over silos against statsmodels on pooled rows: masked, with a lost silo, and placebos."""

import numpy as np
import pytest
from scipy.optimize import brentq

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.effects.adjusted_regressions import (
    AdjustedRegressions,
    Question,
    answers,
    build,
    start,
)
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.losing import Losing, last_of

X, Y, Z, L, T = range(5)
NAMES = ("x", "y", "z", "l", "t")
LEVELS = {"x": ("no", "yes"), "y": ("ill", "well"), "l": ("a", "b", "c")}
ROWS = {"clinic": 90, "hospital": 1300, "practice": 400}


def tables_of(rows=ROWS, seed=5):
    """z, l → x → y ← z, l and t ← x, z; the silos differ in rows, means and units, and in how often y occurs."""
    rng = np.random.default_rng(seed)
    tables = {}
    for number, (silo, n) in enumerate(rows.items()):
        z, label = rng.normal(size=n), rng.integers(0, 3, n)
        x = rng.random(n) < 1 / (1 + np.exp(-0.8 * z - 0.5 * label + 0.5))
        y = rng.random(n) < 1 / (1 + np.exp(-0.7 * x - 1.1 * z + 0.6 * label + number - 1))
        t = 300 * x + 200 * z + 100 * rng.normal(size=n) + 5000 * number
        tables[silo] = np.column_stack([x, y, 40 * z + 900 * number, label, t]).astype(np.float64)
    return tables


def schema_of(tables):
    rows = {silo: len(table) for silo, table in tables.items()}
    return Schema(NAMES, rows, kind="mixed", levels=LEVELS, units=(1.0, 1.0, 64.0, 1.0, 256.0))


def asked(tables, outcome, questions, federation=None):
    schema = schema_of(tables)
    federation = federation or InProcessFederation(schema, tables)
    masked = not isinstance(federation, Losing)
    last = last_of(build(AdjustedRegressions(masked)), federation, start(schema, outcome, questions))
    return answers(last.server, questions), last


def odds(risk):
    return risk / (1 - risk)


def design_of(tables, placed, changed=None):
    """The pooled design: the columns x, z, the indicators of l, and one of each silo."""
    silos = np.repeat(np.eye(len(tables)), [len(table) for table in tables.values()], axis=0)
    rows = np.vstack(list(tables.values()))
    x = rows[:, X] if changed is None else np.full(len(rows), changed)
    columns = {"x": x, "z": (rows[:, Z] - rows[:, Z].mean()) / 100}
    coded = [columns[one] if one in columns else rows[:, L] == int(one) for one in placed]
    return np.column_stack([*coded, silos]), rows


class TestLabels:
    """A logistic regression for an outcome of two labels."""

    QUESTION = Question(X, (Z, L), (0.0, 1.0))

    def test_is_that_of_statsmodels_on_pooled_rows(self):
        api, tables = pytest.importorskip("statsmodels.api"), tables_of()
        design, rows = design_of(tables, ("x", "z", "1", "2"))
        fitted = api.Logit(rows[:, Y], design).fit(disp=0, tol=1e-12)
        risks = [fitted.predict(design_of(tables, ("x", "z", "1", "2"), value)[0]) for value in (0, 1)]
        (found,), last = asked(tables, Y, [self.QUESTION])
        assert last.server.request.slopes * [1, 100, 1, 1] == pytest.approx(fitted.params[:4], abs=1e-6)
        assert found.value == pytest.approx(np.mean(risks[1] - risks[0]), abs=1e-6)
        assert found.odds_ratio.value == pytest.approx(odds(risks[1].mean()) / odds(risks[0].mean()), abs=1e-6)

    def test_the_error_is_that_of_the_delta_method(self):
        """The covariance of all coefficients, intercepts included, and the rows of each silo as a sample."""
        api, tables = pytest.importorskip("statsmodels.api"), tables_of()
        design, rows = design_of(tables, ("x", "z", "1", "2"))
        fitted = api.Logit(rows[:, Y], design).fit(disp=0, tol=1e-12)
        each, gradients = [], []
        for value in (0, 1):
            changed, _ = design_of(tables, ("x", "z", "1", "2"), value)
            risk = fitted.predict(changed)
            each.append(risk)
            gradients.append((risk * (1 - risk)) @ changed / len(risk))
        ends = np.cumsum([len(table) for table in tables.values()])[:-1]
        covariance = np.array(gradients) @ fitted.cov_params() @ np.array(gradients).T
        covariance += (
            sum(len(part) * np.cov(part.T, bias=True) for part in np.split(np.array(each).T, ends)) / len(rows) ** 2
        )
        (found,), _ = asked(tables, Y, [self.QUESTION])
        error = np.sqrt([-1, 1] @ covariance @ [-1, 1])
        assert found.standard_error == pytest.approx(error, rel=1e-5)
        assert found.interval == pytest.approx(found.value + np.array([-1.959964, 1.959964]) * error, rel=1e-5)
        slope = np.array([-1, 1]) / [one.mean() * (1 - one.mean()) for one in each]
        half = 1.959964 * np.sqrt(slope @ covariance @ slope)
        expected = found.odds_ratio.value * np.exp([-half, half])
        assert found.odds_ratio.interval == pytest.approx(expected, rel=1e-5)

    def test_silos_with_one_label_only_tell_nothing_about_slopes(self):
        tables = tables_of()
        alone = tables["clinic"].copy()
        alone[:, Y] = 1
        (of_all,), whole = asked({**tables, "clinic": alone}, Y, [self.QUESTION])
        (of_two,), part = asked({name: tables[name] for name in ("hospital", "practice")}, Y, [self.QUESTION])
        assert whole.server.request.slopes == pytest.approx(part.server.request.slopes, abs=1e-6)
        assert of_all.value == pytest.approx(of_two.value * 1700 / 1790, abs=1e-6)
        d, ratio = of_two.value, of_two.odds_ratio.value
        low = brentq(lambda low: odds(low + d) / odds(low) - ratio, 1e-3, (1 - d) / 2)
        possible = []
        for one in (low, 1 - low - d):  # the same difference and ratio
            before, after = ((1700 * risk + 90) / 1790 for risk in (one, one + d))
            possible.append(odds(after) / odds(before))
        assert min(abs(of_all.odds_ratio.value - one) for one in possible) < 1e-5

    def test_perfect_prediction_is_said_in_words(self):
        tables = tables_of()
        for table in tables.values():
            table[:, X] = table[:, Y]
        (found,), _ = asked(tables, Y, [self.QUESTION])
        assert "without error" in found

    def test_a_placebo_has_no_effect_and_is_repeatable(self):
        questions = [Question(X, (Z, L), (0.0, 1.0), permutation) for permutation in (0, 1, 2, 3)]
        (own, *placebos), _ = asked(tables_of(), Y, questions)
        assert asked(tables_of(), Y, questions)[0][1:] == placebos
        assert len({one.value for one in placebos}) == 3
        assert own.interval[0] > 0
        assert max(abs(one.value) for one in placebos) < 4 * placebos[0].standard_error < own.value

    def test_empty_cells_leave_their_rows_out(self):
        tables = tables_of()
        expected, _ = asked({**tables, "hospital": tables["hospital"][50:]}, Y, [self.QUESTION])
        tables["hospital"][:20, Z] = np.nan
        tables["hospital"][20:40, L] = -1
        tables["hospital"][40:50, Y] = np.nan
        tables["hospital"][60:, T] = np.nan
        found, _ = asked(tables, Y, [self.QUESTION])
        assert found[0].value == pytest.approx(expected[0].value, abs=1e-8)
        assert found[0].standard_error == pytest.approx(expected[0].standard_error, rel=1e-5)


class TestNumbers:
    """Least squares for an outcome that is a number."""

    def test_is_that_of_statsmodels_on_pooled_rows(self):
        api, tables = pytest.importorskip("statsmodels.api"), tables_of()
        design, rows = design_of(tables, ("x", "z", "1", "2"))
        fitted = api.OLS(rows[:, T], design).fit()
        questions = [Question(X, (Z, L), (0.0, 1.0)), Question(L, (X, Z), (0.0, 2.0)), Question(L, (X, Z), (2.0, 1.0))]
        found, last = asked(tables, T, questions)
        assert last.number == 2
        assert [one.value for one in found[:2]] == pytest.approx(fitted.params[[0, 3]], rel=1e-6)
        assert found[0].interval == pytest.approx(fitted.conf_int()[0], rel=1e-6)
        assert found[2].value == pytest.approx(fitted.params[2] - fitted.params[3], rel=1e-6)
        assert found[0].degrees == fitted.df_resid

    def test_a_linear_combination_is_said_in_words(self):
        tables = tables_of()
        for table in tables.values():
            table[:, X] = table[:, L] == 1
        (found,), _ = asked(tables, T, [Question(X, (Z, L), (0.0, 1.0))])
        assert "a linear combination of the others" in found


class TestExchange:
    """What all learners promise."""

    QUESTIONS = (Question(X, (Z, L), (0.0, 1.0)), Question(Z, (), (900.0, 940.0)), Question(X, (Z,), (0.0, 1.0), 2))

    def test_a_lost_silo_leaves_the_regressions_of_the_others(self):
        tables = tables_of()
        _, whole = asked(tables, Y, self.QUESTIONS)
        for number in range(1, whole.number + 1):
            found, _ = asked(tables, Y, self.QUESTIONS, Losing(schema_of(tables), tables, {"practice": number}))
            rest = {silo: tables[silo] for silo in ("clinic", "hospital")}
            expected, _ = asked(rest, Y, self.QUESTIONS)
            for one, other in zip(found, expected, strict=True):
                assert one.value == pytest.approx(other.value, abs=1e-6), number
                assert one.standard_error == pytest.approx(other.standard_error, rel=1e-5)

    def test_the_order_of_silos_and_a_checkpoint_change_nothing(self):
        tables = tables_of()
        expected, last = asked(tables, Y, self.QUESTIONS[:2])
        schema, algorithm = schema_of(tables), build(AdjustedRegressions())
        turned = dict(reversed(tables.items()))
        federation = InProcessFederation(schema_of(turned), turned)
        server = start(schema, Y, self.QUESTIONS[:2])
        for number in range(last.number):
            (step, *_) = rounds(algorithm, federation, (number, server))
            server = wire.decode(algorithm.server_type, wire.encode(step.server))
        for one, other in zip(answers(server, self.QUESTIONS[:2]), expected, strict=True):
            assert one.value == pytest.approx(other.value, abs=1e-9)

    def test_one_exchange_answers_many_questions(self):
        """Questions that share a regression share its sums."""
        questions = [Question(L, (X, Z), (0.0, 1.0)), Question(X, (Z, L), (0.0, 1.0))]
        tables = tables_of()
        both, last = asked(tables, Y, questions)
        assert len(last.server.request.regressors) == 1
        for one, question in zip(both, questions, strict=True):
            assert asked(tables, Y, [question])[0][0].value == pytest.approx(one.value, abs=1e-9)

    def test_each_contrast_of_a_treatment_has_its_own_numbers(self):
        """Four contrasts share one regression: each is what it is alone, and both orders give opposite values."""
        contrasts = [(0.0, 1.0), (0.0, 2.0), (1.0, 2.0), (2.0, 0.0)]
        tables, questions = tables_of(), [Question(L, (X, Z), values) for values in contrasts]
        found, last = asked(tables, Y, questions)
        assert len(last.server.request.regressors) == 1
        alone = [asked(tables, Y, [one])[0][0] for one in questions]
        assert [one.value for one in found] == pytest.approx([one.value for one in alone], abs=1e-9)
        assert len({round(one.value, 6) for one in found}) == 4
        assert found[3].value == pytest.approx(-found[1].value)
