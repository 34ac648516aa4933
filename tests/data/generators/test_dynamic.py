"""Time series drawn from a known W and A: regressions on the true parents, and what silos have in common."""

import networkx as nx
import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.lagged import windows
from fedbnsl.algorithms.statistics.moments import spectral_radius
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.dynamic import BURN_IN, dynamic, svar


def slices(data, silo=None):
    """The W and A of a silo as [lags + 1, d, d]."""
    shared = np.concatenate([data.truth.weights[None], data.truth.lagged])
    return data.silo_weights.get(silo, shared)


def regressed(data, silo):
    """The least squares weights of every variable on its true parents, and the residuals' covariance."""
    true = slices(data, silo)
    lags, d, _ = true.shape
    rows = windows(data.tables[silo], data.schema.stretches[silo], lags - 1)
    found, residuals = np.zeros((lags * d, d)), np.zeros((len(rows), d))
    for j in range(d):
        parents = np.flatnonzero(true.reshape(-1, d)[:, j])
        found[parents, j] = np.linalg.lstsq(rows[:, parents], rows[:, j])[0]
        residuals[:, j] = rows[:, j] - rows[:, parents] @ found[parents, j]
    return found.reshape(true.shape), np.cov(residuals.T)


@pytest.mark.parametrize(
    "options",
    [{}, {"lags": 3}, {"heterogeneity": 0.1}, {"own_structures": True, "lags": 2}, {"series": 50}, {"noise": "gumbel"}],
    ids=str,
)
def test_regressions_on_the_true_parents_find_the_weights(options):
    data = dynamic(6, 2, 40_000, 3, **options)
    variance = np.pi**2 / 6 if options.get("noise") == "gumbel" else 1.0
    for silo in data.schema.silos:
        found, noise = regressed(data, silo)
        np.testing.assert_allclose(found, slices(data, silo), atol=0.04)
        np.testing.assert_allclose(noise, variance * np.eye(6), atol=0.06)


def test_a_variable_that_is_no_parent_adds_nothing():
    data = dynamic(4, 1, 60_000, 1, degree=1)
    rows = windows(data.tables["silo-1"], data.schema.stretches["silo-1"], 1)
    for j in range(4):
        after = nx.descendants(nx.from_numpy_array(slices(data)[0], create_using=nx.DiGraph), j)
        parents = [v for v in range(8) if v != j and v not in after]
        found = np.zeros(8)
        found[parents] = np.linalg.lstsq(rows[:, parents], rows[:, j])[0]
        np.testing.assert_allclose(found, slices(data).reshape(8, 4)[:, j], atol=0.03)


def test_rows_are_windows():
    data = dynamic(5, 3, 40, 0, lags=2)
    assert set(data.schema.stretches.values()) == {(42,)}
    assert data.schema.windows(2) == {f"silo-{k}": 40 for k in (1, 2, 3)}
    data = dynamic(5, 1, 40, 0, lags=2, series=3)
    assert data.schema.stretches == {"silo-1": (16, 15, 15)}
    assert data.schema.windows(2) == {"silo-1": 40}


def test_every_model_is_stable_and_acyclic_within_a_time_with_weights_as_the_paper_has_them():
    for seed in range(10):
        data = dynamic(8, 2, 5, seed, lags=3, own_structures=True)
        for silo in data.schema.silos:
            own = slices(data, silo)
            assert nx.is_directed_acyclic_graph(nx.from_numpy_array(own[0], create_using=nx.DiGraph))
            assert spectral_radius(own[0], own[1:]) < 0.95
            for lag, weights in enumerate(own):
                sizes = abs(weights[weights != 0]) * 1.5 ** max(lag - 1, 0)
                assert ((sizes >= 0.3) & (sizes <= 0.5)).all()
            assert own[3].any()


def test_the_mean_degrees_are_those_asked_for():
    drawn = [slices(dynamic(20, 1, 2, seed, lags=2)) != 0 for seed in range(60)]
    counts = np.array([model.sum(axis=(1, 2)) for model in drawn])
    assert abs(counts[:, 0].mean() - 40) < 4 * np.sqrt(40 / 60), "a mean degree of 4, so two edges a variable"
    assert abs(counts[:, 1:].mean() - 20) < 4 * np.sqrt(20 / 120)
    signs = np.concatenate([slices(dynamic(20, 1, 2, seed))[0].ravel() for seed in range(20)])
    assert abs((signs[signs != 0] > 0).mean() - 0.5) < 0.1
    later = np.sum([model[0] for model in drawn], axis=0)
    assert abs(np.triu(later).sum() / later.sum() - 0.5) < 0.06, "columns are in no causal order"
    assert any(np.diag(model[1]).any() for model in drawn), "a variable may depend on its own past"


def test_five_variables_of_degree_4_are_all_joined():
    assert (slices(dynamic(5, 1, 2, 0))[0] != 0).sum() == 10
    assert (slices(dynamic(4, 1, 2, 0))[0] != 0).sum() == 6


def test_what_silos_share():
    data = dynamic(6, 3, 30, 5)
    assert data.silo_weights == {}
    assert not np.array_equal(data.tables["silo-1"], data.tables["silo-2"])
    near = dynamic(6, 300, 30, 5, heterogeneity=0.1)
    assert np.array_equal(slices(near), slices(data))
    changes = np.array([(own - slices(data))[slices(data) != 0] for own in near.silo_weights.values()])
    assert abs(changes.std() - 0.1) < 0.01
    assert all(np.array_equal(own != 0, slices(data) != 0) for own in near.silo_weights.values())
    apart = dynamic(6, 6, 30, 5, own_structures=True)
    graphs = {tuple((own != 0).ravel()) for own in apart.silo_weights.values()}
    assert len(graphs) == 6
    np.testing.assert_allclose(slices(apart), np.mean(list(apart.silo_weights.values()), axis=0))
    assert not apart.truth.acyclic


def test_more_rows_or_silos_leave_the_rest_as_it_was():
    few, more = dynamic(5, 2, 20, 7), dynamic(5, 3, 35, 7)
    assert np.array_equal(few.tables["silo-2"], more.tables["silo-2"][:21])
    assert np.array_equal(dynamic(5, 2, 20, 7).tables["silo-1"], few.tables["silo-1"])
    assert not np.array_equal(dynamic(5, 2, 20, 8).tables["silo-1"], few.tables["silo-1"])


def test_a_series_begins_where_it_has_forgotten_its_beginning():
    """The variance of x_t = 0.9 x_{t−1} + u is 1 / (1 − 0.81) from the start."""
    model = np.array([[[0.0]], [[0.9]]])
    first = np.array([svar(model, 1, np.random.default_rng(seed))[0, 0] for seed in range(1500)])
    assert first.var() == pytest.approx(1 / 0.19, rel=0.1)
    assert 0.95**BURN_IN < 1e-6


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    "options", [{"series": 3}, {"heterogeneity": 0.2, "lags": 2}, {"own_structures": True}], ids=str
)
def test_a_folder_holds_all_of_it(tmp_path, form, options):
    data = dynamic(5, 3, 30, 2, **options)
    write_folder(tmp_path / "set", data, form)
    back = read_folder(tmp_path / "set")
    assert back.schema == data.schema
    assert all(np.array_equal(back.tables[silo], data.tables[silo]) for silo in data.tables)
    assert np.array_equal(slices(back), slices(data))
    assert back.silo_weights.keys() == data.silo_weights.keys()
    assert all(np.array_equal(back.silo_weights[silo], own) for silo, own in data.silo_weights.items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lags": 0}, "lags is 0: it must be 1 or more"),
        ({"series": 31}, "series: 31 is more than the 30 rows of a silo"),
        ({"degree": -1}, "degree is -1: it must be 0 or more"),
        ({"lagged_degree": 0}, "lagged_degree is 0: it must be above 0"),
        ({"lagged_degree": 6}, "lagged_degree: 6 is more than the 5 variables"),
        ({"decay": 0.5}, "decay is 0.5: it must be 1 or more"),
        ({"heterogeneity": -0.1}, "heterogeneity is -0.1: it must be 0 or more"),
        (
            {"heterogeneity": 0.1, "own_structures": True},
            "heterogeneity: must be 0 with own structures, because silos then share no weights",
        ),
        ({"noise": "pink"}, "noise is 'pink': it must be one of"),
        ({"lagged_degree": 5, "lags": 9, "decay": 1}, "dynamic: none of 1000 random models is stable: use fewer"),
        ({"heterogeneity": 90.0}, "dynamic: none of 1000 random models is stable: use a smaller heterogeneity"),
    ],
)
def test_what_cannot_be_drawn_is_said(options, message):
    with pytest.raises(BadInput) as caught:
        dynamic(5, 2, 30, 0, **options)
    assert str(caught.value).startswith(message)


def test_states_have_levels_and_follow_the_weights_of_their_causes():
    data = dynamic(6, 2, 4000, 7, degree=2.0, labels=6)
    assert data.truth is not None
    widths = {name: len(levels) for name, levels in data.schema.levels.items()}
    assert sorted(widths.values()) == [2, 2, 2, 3, 3, 3]
    table = data.tables["silo-1"]
    assert all(
        set(column) == set(range(widths[name])) for name, column in zip(data.schema.variables, table.T, strict=True)
    )
    for i, j in np.argwhere(data.truth.weights != 0):
        others = [k for k in np.flatnonzero(data.truth.weights[:, j]) if k != i]
        design = np.column_stack([table[1:, [i, *others]], table[:-1], np.ones(len(table) - 1)])
        weight = np.linalg.lstsq(design, table[1:, j])[0][0]
        assert np.sign(weight) == np.sign(data.truth.weights[i, j])


def test_numbers_do_not_depend_on_whether_there_could_be_states():
    with pytest.raises(BadInput, match="labels: 7 is more than the 6 variables"):
        dynamic(6, 2, 50, 1, labels=7)
    assert not dynamic(6, 2, 50, 1).schema.levels
    assert 0 < len(dynamic(6, 2, 50, 1, labels=2).schema.levels) < 6
