"""A finished run is loaded from its folder with the same classes and numbers, for every kind of data."""

import json

import numpy as np
import pytest

from fedbnsl import learn, load, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.tracking.report.files import flat_metrics, json_text

NUMBERS = prepare("homogeneous", variables=5, silos=3, rows=120, seed=1)


@pytest.fixture
def kept(tmp_path):
    """(data, options of `learn`) -> what it returned, and what comes back from the folder it was saved to."""

    def go(data, *given, **options):
        found = learn(data, *given, **options)
        return found, load(found.save(tmp_path / "saved"))

    return go


def check_same(found, again):
    """Check all that files hold, whatever the data are."""
    one, other = found.result, again.result
    assert again.weights.equals(found.weights)
    assert [lag.to_numpy().tolist() for lag in again.lagged] == [lag.to_numpy().tolist() for lag in found.lagged]
    assert other.structure.kind == one.structure.kind
    assert again.rounds.equals(found.rounds)
    assert again.metrics == json.loads(json_text(flat_metrics(one)))
    same = ("name", "algorithm", "asked", "seed", "engine", "dataset", "outcome", "lost", "basis", "notes", "secure")
    for name in (*same, "params", "bootstrap", "diagnosed", "privacy", "knowledge", "silo_scores"):
        assert getattr(other, name) == getattr(one, name), name
    for name in ("variables", "rows", "kind", "levels", "aside", "complete_rows"):
        assert getattr(other.schema, name) == getattr(one.schema, name), name
    assert (other.parameters.how, other.parameters.bytes_sent) == (one.parameters.how, one.parameters.bytes_sent)


def test_numbers_with_what_was_known_and_found_of_them(kept):
    found, again = kept(NUMBERS, "notears-admm", rounds=3, seed=4, forbidden_arcs="x1->x2", required_arcs="x1->x3")
    check_same(found, again)
    assert again.model == found.model
    assert again.result.diagnosed.findings
    assert again.result.truth is None
    assert again.folder is not None


def test_labels_with_their_tables(kept):
    data = prepare("discrete", variables=4, silos=2, rows=150, seed=2)
    found, again = kept(data, "secure-ges")
    check_same(found, again)
    assert again.model == found.model
    assert again.result.structure.kind == "cpdag"


def test_a_pag_without_edges_is_still_a_pag(kept):
    rng = np.random.default_rng(0)
    found, again = kept([rng.normal(size=(40, 3)), rng.normal(size=(30, 3))], "fed-fci", alpha=1e-9)
    check_same(found, again)
    assert not again.result.structure.adjacency.any()
    with pytest.raises(ValueError, match="no Bayesian network"):
        _ = again.model


def test_mixed_tables_with_their_regressions(kept):
    found, again = kept(prepare("mixed", variables=6, silos=2, rows=150, seed=3))
    check_same(found, again)
    assert isinstance(again.model, Network)
    rows, drawn = (one.model.sample(40, np.random.default_rng(0))[0] for one in (found, again))
    assert (rows == drawn).all()
    with pytest.raises(ValueError, match="pgmpy has no networks of mixed variables"):
        again.to_pgmpy()


def test_time_series_with_their_lags_and_the_silos_own_networks(kept):
    data = prepare("dynamic", variables=3, silos=2, rows=60, seed=1)
    found, again = kept(data, "pfdbnl", rounds=2, lags=2)
    check_same(found, again)
    assert again.result.structure.lags == 2
    assert set(again.result.local_structures) == set(data.schema.rows)
    for silo, own in found.result.local_structures.items():
        assert (again.result.local_structures[silo].weights == own.weights).all()
        assert (again.result.local_structures[silo].lagged == own.lagged).all()
    network, other = (one.result.parameters.network for one in (found, again))
    for name in ("intercepts", "variances", "means", "spreads", "lagged"):
        assert (getattr(other, name) == getattr(network, name)).all(), name


def test_a_private_run_with_what_it_spent(kept):
    found, again = kept(NUMBERS, "secure-sum", epsilon=20.0, insecure_seed=1, colluders=0)
    check_same(found, again)
    assert again.result.privacy.spent_ever == found.result.privacy.spent_ever


def test_how_sure_the_edges_are_and_nothing_of_pairs_that_no_file_names(kept):
    found, again = kept(NUMBERS, bootstrap=3)
    sure, read = found.result.confidence, again.result.confidence
    assert (read.threshold, read.exchanges, read.bytes_sent) == (sure.threshold, sure.exchanges, sure.bytes_sent)
    assert (read.averaged.weights == sure.averaged.weights).all()
    named = (found.result.structure.weights != 0) | (sure.averaged.weights != 0)
    assert np.allclose(read.strengths.strength[named], sure.strengths.strength[named])
    assert np.allclose(read.strengths.direction[named], sure.strengths.direction[named])
    assert np.isnan(read.strengths.strength[~(named | named.T)]).all()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return learn(NUMBERS, "notears-admm", rounds=2).save(tmp_path_factory.mktemp("runs") / "saved")


BROKEN = {
    "no folder": ("", None, "no such folder"),
    "no run": ("metrics.json", None, "no finished run, as it has no metrics.json"),
    "no settings": ("config.json", None, "config.json: cannot be read: No such file"),
    "no structure": ("structure.csv", None, "structure.csv: no such file"),
    "not JSON": ("config.json", "{", "config.json: not in the format of this version of fedbnsl: JSONDecodeError"),
    "a list": ("config.json", "[]", "config.json: not in the format of this version .* a list"),
    "another program's": ("config.json", '{"rows": {}}', "config.json: not in the format of this version .*is missing"),
    "half a model": ("model.json", '{"nodes": ["x1"]}', "model.json: not a network in the format of fedbnsl: KeyError"),
    "a graph of other data": ("structure.csv", "source,target\na,b\n", "structure.csv: line 2, .* is not a column"),
}


@pytest.mark.parametrize(("name", "content", "said"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_finished_run_is_said_in_one_line(saved, tmp_path, name, content, said):
    folder = tmp_path / "run"
    if name:
        folder.mkdir()
        for path in saved.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_text(content)
    with pytest.raises(BadInput, match=said) as raised:
        load(folder)
    assert "\n" not in str(raised.value)


def test_an_interrupted_run_is_to_be_resumed(tmp_path):
    (tmp_path / "started.json").write_text("{}")
    with pytest.raises(BadInput, match=rf"no finished run.*fedbnsl learn --resume {tmp_path}"):
        load(tmp_path)
