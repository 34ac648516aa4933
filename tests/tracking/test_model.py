import json

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.bif import format_bif, parse_bif, unescape_name
from fedbnsl.algorithms.parameters.network_json import network_as_json
from fedbnsl.algorithms.parameters.networks import linear_network
from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.data.generators.random_network import random_network
from fedbnsl.tracking.model import as_pgmpy, model_file, pgmpy_model
from tests.tracking.labelled import discrete, of

ODD = ("<5", "12+", "Asy/Patch", "two words", "é", "-1", "[x]")


def test_the_network_has_weights_intercepts_and_noise(chain):
    model = pgmpy_model(chain)
    assert model.check_model()
    assert set(model.edges()) == {("a", "b"), ("b", "c")}
    cpd = model.get_cpds("b")
    assert (list(cpd.beta), cpd.std, cpd.evidence) == ([0.0, 2.0], 0.5, ["a"])
    assert list(model.get_cpds("c").beta) == [3.0, -0.5]


def test_the_network_is_in_pgmpys_format(chain, tmp_path):
    pgmpy_model(chain).save(str(tmp_path / "network.json"))
    assert json.loads((tmp_path / "network.json").read_text()) == network_as_json(chain.parameters.network)


def test_the_joint_distribution_is_right(chain):
    mean, covariance = pgmpy_model(chain).to_joint_gaussian()
    inverse = np.linalg.inv(np.eye(3) - chain.structure.weights)
    np.testing.assert_allclose(covariance, inverse.T @ np.diag([1.0, 0.25, 4.0]) @ inverse, atol=1e-3)
    np.testing.assert_allclose(mean, [0, 0, 3])


def test_no_edge_is_a_model_too(chain):
    empty = Structure(("a", "b", "c"), np.zeros((3, 3)))
    model = pgmpy_model(of(chain, linear_network(empty, np.zeros(3), np.ones(3))))
    assert sorted(model.nodes()) == ["a", "b", "c"]


def test_what_is_no_network_says_why(cyclic):
    assert model_file(cyclic) == {}
    with pytest.raises(ValueError, match="a cycle is left: a → b → c → a"):
        pgmpy_model(cyclic)


def test_a_bif_file_is_read_back_bit_for_bit_by_pgmpy_whatever_the_labels():
    from pgmpy.readwrite import BIFReader

    network = discrete(ODD)
    model, ours = BIFReader(string=format_bif(network)).get_model(), as_pgmpy(network_as_json(network))
    assert model.check_model()
    assert model.nodes() == ours.nodes()
    assert set(model.edges()) == set(ours.edges())
    for name in network.variables:
        assert np.array_equal(model.get_cpds(name).values, ours.get_cpds(name).values)
        assert model.get_cpds(name).state_names == {
            one: list(network.levels[one]) for one in (name, *network.parents[name])
        }


def test_a_pgmpy_network_has_its_axes_in_order(chain):
    network = discrete(("no", "yes", "maybe"), 3)
    model = pgmpy_model(of(chain, network))
    assert model.check_model()
    cpd = model.get_cpds("c-3")
    value = cpd.get_value(**{"c-3": "maybe", "smoke": "no", "lung cancer": "yes"})
    assert value == network.tables["c-3"][0, 1, 0]


def test_a_pgmpy_network_can_be_sampled_and_asked(chain):
    from pgmpy.inference import VariableElimination

    network = discrete(("no", "yes"))
    model = pgmpy_model(of(chain, network))
    assert set(model.simulate(20, seed=1, show_progress=False).columns) == set(network.variables)
    found = VariableElimination(model).query(["smoke"], {"c-3": "yes"}, show_progress=False)
    smoke, cancer, last = (network.tables[name] for name in network.variables)
    joint = (smoke[:, None] * cancer * last[..., 0]).sum(axis=1)
    np.testing.assert_allclose(found.values, joint / joint.sum())


@pytest.mark.parametrize("kind", ["bif", "xmlbif"])
def test_pgmpy_saves_it(chain, tmp_path, kind):
    from pgmpy.models import DiscreteBayesianNetwork

    model = pgmpy_model(of(chain, random_small()))
    model.save(str(tmp_path / "model"), filetype=kind)
    back = DiscreteBayesianNetwork.load(str(tmp_path / "model"), filetype=kind)
    assert set(back.edges()) == set(model.edges())
    for cpd in model.get_cpds():
        other, parents = back.get_cpds(cpd.variable), cpd.variables[1:]
        values = other.reorder_parents(parents, inplace=False) if len(parents) > 1 else other.get_values()
        np.testing.assert_allclose(values, cpd.get_values())


def random_small():
    rng = np.random.default_rng(1)
    return random_network(random_dag(5, 6, rng), tuple("abcde"), (2, 3), None, rng)


@pytest.mark.parametrize("word", ["a,b", "(x)", "x;", "{", 'say "x"', "a//b", "p|q"])
def test_labels_that_bif_cannot_say_are_in_the_file_of_the_model_all_the_same(chain, word):
    from pgmpy.readwrite import BIFReader

    network = discrete(("no", word))
    text = model_file(of(chain, network))["model.bif"]
    assert parse_bif(text).levels["smoke"] == ("no", word)
    theirs = BIFReader(string=text).get_model().get_cpds("smoke")
    assert [unescape_name(label) for label in theirs.state_names["smoke"]] == ["no", word]
