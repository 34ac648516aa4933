import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.moments import secure_sum
from fedbnsl.algorithms.moments.summed import noise_level
from fedbnsl.algorithms.privacy.zcdp import forecast
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import federate


def weight_errors(d, epsilon, seed):
    """The errors of the true edges' weights, in standard deviations of the variables."""
    data = homogeneous(d, 8, 2000, seed)
    spec = registry.specify("secure-sum", {"insecure_seed": seed}, epsilon)
    *_, last = rounds(registry.build(spec), federate(data.tables, data.schema.variables))
    pooled = np.vstack(list(data.tables.values()))
    sizes, W = np.sqrt((pooled**2).mean(axis=0)), data.truth.weights
    for j in range(d):
        parents = np.flatnonzero(W[:, j])
        if len(parents):
            weights = np.linalg.solve(last.server.S[np.ix_(parents, parents)], last.server.S[parents, j])
            yield from (weights - W[parents, j]) * sizes[parents] / sizes[j]


@pytest.mark.parametrize(("d", "epsilon"), [(10, 1.0), (20, 1.0), (20, 5.0)])
def test_the_error_that_is_foretold_is_found_within_a_factor_of_two(d, epsilon):
    found = float(np.sqrt(np.mean([error**2 for seed in range(8) for error in weight_errors(d, epsilon, 200 + seed)])))
    schema = Schema(tuple(f"x{i}" for i in range(d)), {f"silo-{k}": 2000 for k in range(8)})
    settings = registry.specify("secure-sum", epsilon=epsilon).settings
    noise = noise_level(secure_sum.secure_sum_plan(settings, schema), d, 8, 16_000, settings.clipping)
    foretold = forecast("secure-sum", d, 16_000, noise).weight_error
    assert 0.5 < found / foretold < 2


def test_less_budget_and_more_variables_make_it_worse():
    errors = [forecast("x", d, 1000, noise).weight_error for d, noise in ((10, 0.001), (10, 0.01), (10, 0.1))]
    assert errors == sorted(errors)
    assert forecast("x", 100, 1000, 0.01).smallest > forecast("x", 10, 1000, 0.01).smallest


def test_the_errors_of_noise_and_of_the_sample_add_up_alike():
    """If noise is as large as the sampling error, it is half of the squared error for any number of rows."""
    for rows in (400, 2500):
        sampling, both = (forecast("x", 10, rows, noise).weight_error for noise in (0.0, rows**-0.5))
        clipping = 0.025
        assert sampling == pytest.approx(np.hypot(rows**-0.5 / 0.3, clipping))
        assert both**2 - clipping**2 == pytest.approx(2 * (sampling**2 - clipping**2))
