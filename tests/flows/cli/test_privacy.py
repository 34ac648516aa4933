"""The plan for a budget: what it says about labels is true, and a hopeless budget is not an error."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.constraint.fed_pc import FederatedSettings, privacy_plan
from fedbnsl.algorithms.constraint.noisy_table_tests import noisy_chi_square
from fedbnsl.algorithms.constraint.orientation import PC
from fedbnsl.algorithms.constraint.private_counts import add_noise
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.moments import secure_sum
from fedbnsl.algorithms.privacy import gram
from fedbnsl.algorithms.statistics.count_tables import TableReader, tables_for
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.privacy import forecast_of, noise_in_counts, weakest_dependence
from tests.flows.commands import run
from tests.tasks.silo.test_kept_files import charge


@pytest.mark.parametrize(("rows", "noise"), [(4000, 0.0), (4000, 15.0), (20_000, 60.0), (2000, 40.0)])
def test_the_weakest_dependence_is_found_nine_times_in_ten(rows, noise):
    rng, strength = np.random.default_rng(0), weakest_dependence(rows, noise)
    same = (1 + strength) / 2
    cells = rows * np.array([same, 1 - same, 1 - same, same]) / 2
    tests, two = np.array([[0, 1]], np.int16), np.array([2, 2])
    found = 0
    for _ in range(400):
        counts = rng.multinomial(rows, cells / cells.sum()) + rng.normal(0, noise, 4)
        found += noisy_chi_square(TableReader(tables_for(tests, 2), two, counts), tests, noise**2).p[0] < 0.05
    assert 0.84 < found / 400 < 0.96


def test_labels_have_a_plan(capsys, tmp_path):
    write_folder(tmp_path / "data", discrete(variables=6, silos=3, rows=2000, seed=4))
    said = {}
    for epsilon in ("0.01", "5"):
        code, said[epsilon], _ = run(capsys, "privacy", "plan", tmp_path / "data", "--epsilon", epsilon)
        assert code == 0
    assert "recommended: fedbnsl learn" in said["5"]
    assert "fed-fci" in said["5"]
    assert "It has 1.5 times the variance" in said["5"]
    assert "Too few rows for this budget" in said["0.01"]


def test_a_learner_that_would_refuse_the_budget_is_said_to(capsys, tmp_path):
    write_folder(tmp_path / "data", homogeneous(variables=5, silos=3, rows=40, seed=2))
    code, out, _ = run(capsys, "privacy", "plan", tmp_path / "data", "--epsilon", "0.1")
    assert code == 0
    assert out.count("refused: too few") == 3
    assert "Too few rows for this budget" in out


def test_the_noise_that_is_planned_is_that_of_all_silos(tmp_path):
    """The noise in the sum of eight silos' shares equals the noise in the plan."""
    silos, rows = 8, 500
    schema = Schema(("a", "b", "c"), {f"s{k}": rows for k in range(silos)})
    found = forecast_of("secure-sum", secure_sum.secure_sum_plan, schema, 1.0, 1e-5)
    settings = registry.specify("secure-sum", epsilon=1.0, delta=1e-5).settings
    shares = secure_sum.secure_sum_plan(settings, schema)
    rng = np.random.default_rng(0)
    noise = rng.normal(0, np.sqrt(float(shares.gram_variance / 2)), (4000, silos)).sum(axis=1)
    unit, R = gram.units(np.ones(3)), gram.radius(np.ones(3), settings.clipping)
    entries = np.zeros((4000, 6))
    entries[:, 1] = noise
    moments = [gram.covariance(one, unit, R, shares.bits, silos * rows)[0, 1] for one in entries]
    assert np.std(moments) == pytest.approx(found.noise, rel=0.05)


def test_the_noise_of_a_count_that_is_planned_is_that_of_all_silos():
    """It is measured in the sum of five silos' tables of all three pairs of labels, whose counts are 0."""
    schema = Schema(
        ("a", "b", "c"),
        dict.fromkeys("pqrst", 500),
        "discrete",
        {"a": tuple("xy"), "b": tuple("xyz"), "c": tuple("xy")},
    )
    planned = noise_in_counts(schema, PC, 2.0, 1e-5)
    plan, cells = privacy_plan(FederatedSettings(epsilon=2.0, delta=1e-5), PC, schema.rows), 2 * 3 + 2 * 2 + 3 * 2
    sums = [
        sum(add_noise(np.zeros(cells, np.uint64), 3, plan, bytes([draw, silo] * 16)) for silo in range(5))
        for draw in range(60)
    ]
    assert np.std(sums) == pytest.approx(planned, rel=0.1)


@pytest.mark.parametrize("plan", ["secure_sum_plan", "dp_covariance_plan"])
def test_the_plan_for_series_is_that_of_their_windows_however_they_are_cut(plan):
    """Two rows are one window; a thousand stretches of three rows have as many windows as one of 2001 rows."""

    def planned(*stretches):
        rows = dict.fromkeys("ab", sum(stretches))
        schema = Schema(("x", "y"), rows, "time-series", {}, dict.fromkeys("ab", stretches))
        name = plan.removesuffix("_plan").replace("_", "-")
        return forecast_of(name, getattr(secure_sum, plan), schema, 1.0, 1e-6)

    whole = planned(2001)
    assert planned(*(3,) * 1000) == planned(*(41,) * 50) == whole
    assert planned(1001).noise > whole.noise


@pytest.mark.parametrize("silos", [1, 3])
def test_the_most_accurate_learner_is_recommended_for_one_silo_and_secure_sums_for_several(capsys, tmp_path, silos):
    write_folder(tmp_path / "data", homogeneous(variables=5, silos=silos, rows=4000, seed=2))
    code, out, _ = run(capsys, "privacy", "plan", tmp_path / "data", "--epsilon", "5")
    assert code == 0
    rows = [[cell.strip() for cell in line.split("│")] for line in out.splitlines() if "│" in line]
    errors = {row[1]: float(row[4]) for row in rows if row[4].replace(".", "").replace("e-", "").isdigit()}
    assert set(errors) == {"secure-sum", "dp-covariance", "dp-fed-sparse"}
    best = "secure-sum" if silos > 1 else min(errors, key=errors.get)
    assert max(errors.values()) > errors[best]
    assert f"--algorithm {best} --epsilon 5" in " ".join(out.split())


def test_an_owner_sees_the_ledger_of_the_silo_beside_its_rows(capsys, tmp_path):
    """In a federation, the name of the silo is not that of the file, and keys are in the same folder."""
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y\n" + "".join(f"{k % 7 + 0.5},{k * k % 11}\n" for k in range(60)))
    (tmp_path / "clinic.key").write_text("no rows")
    assert run(capsys, "privacy", "ledger", rows) == (0, f"{rows}: no ε has been spent on these rows\n", "")
    charge(rows, "clinic")
    code, said, _ = run(capsys, "privacy", "ledger", rows)
    assert code == 0
    assert "clinic" in said
    assert "0.01" in said
