"""BIF files against pgmpy's reader and the repository's own counts, and invalid files."""

import gzip
import time

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.networks.published import DISCRETE, FOLDER, carried_file, discrete_network, read_bif

COUNTS = {  # nodes, edges, free parameters: bnlearn Bayesian Network Repository
    "child": (20, 25, 230),
    "insurance": (27, 52, 1008),
    "water": (32, 66, 10083),
    "mildew": (35, 46, 540150),
    "alarm": (37, 46, 509),
    "barley": (48, 84, 114005),
    "hailfinder": (56, 66, 2656),
    "hepar2": (70, 123, 1453),
    "win95pts": (76, 112, 574),
    "pathfinder": (109, 195, 72079),
    "andes": (223, 338, 1157),
    "diabetes": (413, 602, 429409),
    "pigs": (441, 592, 5618),
    "link": (724, 1125, 14211),
    "munin": (1041, 1397, 80592),
    "asia": (8, 8, 18),
    "cancer": (5, 4, 10),
    "earthquake": (5, 4, 10),
    "survey": (6, 6, 21),
    "sachs": (11, 17, 178),
}


@pytest.mark.parametrize("name", COUNTS)
def test_sizes_are_those_of_the_repository_and_reading_takes_less_than_two_seconds(name):
    before = time.process_time()
    network = discrete_network(name)
    assert time.process_time() - before < 2
    found = (len(network.variables), int(network.structure.adjacency.sum()), network.free_parameters)
    assert found == COUNTS[name]
    assert network.structure.acyclic
    assert all(np.allclose(table.sum(axis=-1), 1, atol=1e-6) for table in network.tables.values())


def test_every_discrete_network_of_the_wheel_is_in_the_catalogue():
    folder = carried_file("pgmpy", f"{FOLDER}/asia.bif.gz", "").parent
    assert {path.name.removesuffix(".bif.gz") for path in folder.glob("*.bif.gz")} == set(DISCRETE)


@pytest.mark.parametrize(
    "name", ["child", *(pytest.param(name, marks=pytest.mark.slow) for name in ("alarm", "insurance"))]
)
def test_the_tables_are_those_pgmpy_reads(name):
    from pgmpy.readwrite import BIFReader

    path = carried_file("pgmpy", f"{FOLDER}/{name}.bif.gz", "")
    theirs = BIFReader(string=gzip.decompress(path.read_bytes()).decode()).get_model()
    ours = read_bif(path)
    assert set(ours.variables) == set(theirs.nodes)
    for cpd in theirs.get_cpds():
        v, parents = cpd.variable, cpd.variables[1:]
        assert tuple(parents) == ours.parents[v]
        for parent in (v, *parents):
            assert tuple(cpd.state_names[parent]) == ours.levels[parent]
        assert np.array_equal(np.moveaxis(cpd.values, 0, -1), ours.tables[v])


def test_labels_that_are_no_words():
    network = discrete_network("child")
    assert network.levels["LowerBodyO2"] == ("<5", "5-12", "12+")
    assert network.levels["XrayReport"] == ("Normal", "Oligaemic", "Plethoric", "Grd_Glass", "Asy/Patchy")
    assert network.levels["CardiacMixing"] == ("None", "Mild", "Complete", "Transp.")


def test_a_table_read_off_by_hand():
    asia = discrete_network("asia")
    assert asia.parents["dysp"] == ("bronc", "either")
    assert asia.tables["dysp"].tolist() == [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]]


def test_a_fault_names_the_file(tmp_path):
    (tmp_path / "n.bif").write_text("hello")
    with pytest.raises(BadInput) as caught:
        read_bif(tmp_path / "n.bif")
    assert str(caught.value) == f"{tmp_path / 'n.bif'}: line 1: neither a variable nor probabilities: 'hello'"


def test_a_file_that_cannot_be_read(tmp_path):
    for content, name, message in (
        (None, "n.bif", "no such file"),
        (b"no gzip", "n.bif.gz", "cannot be read: Not a gzipped file"),
        (gzip.compress(b"variable" * 99)[:20], "n.bif.gz", "cannot be read: "),
        (b"variable \xe9", "n.bif", "byte 9: not UTF-8 text"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput) as caught:
            read_bif(tmp_path / name)
        assert message in str(caught.value)
        (tmp_path / name).unlink(missing_ok=True)


def test_the_order_of_the_parents_matters():
    """A reader in which the first parent varies fastest would read a different table."""
    network = discrete_network("asia")
    dysp = network.tables["dysp"]
    assert not np.array_equal(dysp, np.swapaxes(dysp, 0, 1))
