"""The model of a run: complete, from all rows, equal on both engines and with masks, and absent where it must be."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl import learn as learn_api
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import SiloLost, gather, silo_generator, traffic_of
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.data.networks.published import network, read_bif
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.job.job import Session
from fedbnsl.flows.job.run import run
from fedbnsl.flows.learn import learn
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.transport.in_process import InProcessFederation


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """A folder of three silos with labels that BIF readers stumble over; one silo never sees a level."""
    folder = tmp_path_factory.mktemp("data") / "labels"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for silo, ages in (("a", ("<5", "12+")), ("b", ("<5", "12+", "5-12")), ("c", ("<5", "12+", "5-12"))):
        age = rng.choice(ages, 400)
        flips = rng.random((2, 400)) < 0.15
        kind = np.where((age == "12+") ^ flips[0], "Asy/Patch", "well")
        seen = np.where((kind == "well") ^ flips[1], "no", "yes")
        rows = [("age", "kind", "seen"), *zip(age, kind, seen, strict=True)]
        with (folder / f"{silo}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    return folder


def inline(folder, **given):
    data = read_folder(folder)
    return run_inline(job_inline(LearnSettings(data=str(folder), **given), "inline", data), data)


def test_the_model_is_the_pooled_estimate_with_the_folders_labels(labels):
    from pgmpy.inference import VariableElimination

    result = inline(labels, algorithm="fed-pc", small_cells="keep")
    data = read_folder(labels)
    codes = np.vstack(list(data.tables.values()))
    network = result.parameters.network
    assert network.levels["age"] == ("12+", "5-12", "<5")
    assert "1,200 rows" in result.parameters.how
    for name in network.variables:
        v = network.variables.index(name)
        parents = [network.variables.index(one) for one in network.parents[name]]
        for state in np.ndindex(*network.tables[name].shape[:-1]):
            among = codes[(codes[:, parents] == state).all(axis=1), v]
            cells, levels = network.tables[name].size, network.tables[name].shape[-1]
            counts = np.bincount(among, minlength=levels)
            np.testing.assert_allclose(
                network.tables[name][state], (counts + 1 / cells) / (len(among) + levels / cells)
            )
    model = learn_api(labels, "fed-pc").model
    assert model.check_model()
    found = VariableElimination(model).query(["kind"], {"age": "12+"}, show_progress=False)
    assert found.state_names["kind"] == ["Asy/Patch", "well"]
    assert found.values[0] == pytest.approx(0.85, abs=0.05)


@pytest.fixture(scope="module")
def masked_over_dask(server, labels, mlflow_uri, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
        return learn(LearnSettings(data=str(labels), algorithm="fed-pc", secure=True, name="masked", out=str(out)))


def test_masked_over_dask_it_is_the_same_bit_for_bit(masked_over_dask, labels):
    plain, hidden = inline(labels, algorithm="fed-pc").parameters.network, masked_over_dask.result.parameters.network
    for name in plain.variables:
        assert np.array_equal(plain.tables[name], hidden.tables[name])
    read = read_bif(masked_over_dask.files["model.bif"])
    assert all(np.array_equal(read.tables[name], plain.tables[name]) for name in plain.variables)


def test_mlflow_has_the_file_and_a_model_that_predicts(masked_over_dask):
    import pandas as pd
    from mlflow.artifacts import download_artifacts

    from fedbnsl.tracking.mlflow.saved_model import load_pgmpy
    from fedbnsl.tracking.mlflow.store import open_client, tracking_uri

    client = open_client(tracking_uri())
    tracked = client.get_run(masked_over_dask.tracking_url.partition("?")[0].rpartition("/")[2])
    assert "model.bif" in {
        file.path.rpartition("/")[2] for file in client.list_artifacts(tracked.info.run_id, "outputs")
    }
    assert tracked.data.tags["parameters"].startswith("counts in 1,200 rows")
    assert load_pgmpy(tracked.data.tags["model"]).check_model()
    import mlflow.pyfunc

    where = client.get_logged_model(tracked.data.tags["model"].removeprefix("models:/")).artifact_location
    model = mlflow.pyfunc.load_model(download_artifacts(artifact_uri=where))
    row = pd.DataFrame({"age": ["12+"], "kind": ["well"], "seen": ["no"]})
    assert model.predict(row)["seen"][0] == "no"


def test_the_report_says_where_the_parameters_come_from(masked_over_dask):
    report = (masked_over_dask.folder / "report.html").read_text()
    said = ("counts in 1,200 rows", "model.bif", "Independence tests", "Exchanges in the rounds", "is a CPDAG")
    for one in said:
        assert one in report
    config = json.loads((masked_over_dask.folder / "config.json").read_text())
    assert config["parameters"]["learned"]
    assert json.loads((masked_over_dask.folder / "metrics.json").read_text())["tests"] > 0


def test_a_gaussian_network_gets_back_its_published_coefficients():
    from fedbnsl.data.networks.published import gaussian_network

    data, true = network("ecoli70", 4, 5000, 1), gaussian_network("ecoli70")
    job = job_inline(LearnSettings(data="ecoli", algorithm="fed-sparse", params={"rounds": 1}), "run", data)
    maker = replace(registry.entry("fed-sparse").maker(), build=lambda config: given(true.structure, config))
    known = replace(registry.entry("fed-sparse"), maker=lambda: maker)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.ALGORITHMS, "fed-sparse", known)
        found = run_inline(job, data).parameters.network
    np.testing.assert_allclose(found.structure.weights, true.structure.weights, atol=0.08)
    np.testing.assert_allclose(found.intercepts, true.intercepts, atol=0.2)
    np.testing.assert_allclose(found.variances, true.variances, rtol=0.06)


def given(structure, config):
    """Fed-sparse, but it always finds `structure`."""
    from fedbnsl.algorithms.admm import fed_sparse

    return replace(fed_sparse.build(config), structure=lambda server: structure)


def test_more_smoothing_is_nearer_to_uniform(labels):
    little, much = (inline(labels, algorithm="fed-pc", smoothing=ess).parameters.network for ess in (1.0, 1e6))
    for name in little.variables:
        np.testing.assert_allclose(much.tables[name], 1 / len(much.levels[name]), atol=0.01)
        assert abs(little.tables[name] - 1 / len(little.levels[name])).max() > 0.03


NONE = {
    "not requested": ({"algorithm": "fed-pc", "parameters": False}, "not requested", ["fit-tables"]),
    "a PAG": ({"algorithm": "fed-fci"}, "a PAG leaves causes", []),
}


@pytest.mark.parametrize(("given", "why", "sums"), NONE.values(), ids=NONE)
def test_where_there_is_none_the_silos_are_not_asked(labels, given, why, sums):
    asked = []
    data = read_folder(labels)

    def connect(job, spec, run_id):
        asked.append(spec.name)
        return InProcessFederation(data.schema, data.tables)

    job = job_inline(LearnSettings(data=str(labels), **given), "run", data)
    result = run(job, Session(data.schema, connect))
    assert result.parameters.network is None
    assert why in result.parameters.how
    assert asked == [given["algorithm"], *sums, "diagnosis-tables"]


def test_a_private_run_asks_nothing_that_nobody_paid_for(example):
    paid = {"algorithm": "dp-fed-sparse", "epsilon": 50.0, "params": {"insecure_seed": 1}}
    result = inline(example, **paid)
    assert result.parameters.network is None
    assert "one more release" in result.parameters.how
    by_product = inline(example, algorithm="secure-sum", epsilon=50.0, params={"insecure_seed": 1}).parameters
    assert by_product.network.linear
    assert by_product.bytes_sent == 0


def losing(data, gone, parts=("-fit", "-parameters")):
    """A session whose silos `gone` answer, but not in these `parts` of the run; they may be all silos."""

    class Losing:
        schema = data.schema

        def exchange(self, algorithm, number, broadcast, sparse=None):
            present = [silo for silo in data.schema.silos if silo not in gone]
            if not present:
                raise SiloLost(tuple(gone), "gone")
            states = {
                silo: algorithm.open_silo(data.tables[silo], self.schema, silo, silo_generator(0, silo))
                for silo in present
            }
            replies = {silo: algorithm.local_solve(state, broadcast)[1] for silo, state in states.items()}
            return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)

    def connect(job, spec, run_id):
        whole = InProcessFederation(data.schema, data.tables, run_id=run_id)
        return Losing() if run_id.endswith(parts) else whole

    return Session(data.schema, connect)


def test_a_silo_lost_at_the_end_costs_its_counts():
    data = lucas("0", 4, 500, 2)
    job = job_inline(LearnSettings(data="lucas", algorithm="fed-pc"), "run", data)
    result = run(job, losing(data, ("silo-2",)))
    assert "1,500 rows" in result.parameters.how
    assert result.parameters.how.endswith("without silo-2")
    nobody = run(job, losing(data, data.schema.silos))
    assert nobody.parameters.network is None
    assert "too few silos" in nobody.parameters.how
    assert nobody.outcome == "converged"
    assert nobody.structure.weights.tobytes() == result.structure.weights.tobytes()


def test_a_silo_lost_in_the_diagnosis_is_not_in_the_model_of_its_sums():
    data = homogeneous(6, 4, 300, 1)
    job = job_inline(LearnSettings(data="linear", algorithm="secure-boss", bootstrap=0), "run", data)
    found, whole = (run(job, losing(data, gone, ("-diagnosis",))).parameters for gone in (("silo-2",), ()))
    assert found.how.endswith("without silo-2")
    assert "over 900 rows" in found.how
    assert "over 1,200 rows" in whole.how
    assert found.bytes_sent == whole.bytes_sent == 0
    rows = np.vstack([table for silo, table in data.tables.items() if silo != "silo-2"])
    weights = found.network.structure.weights
    np.testing.assert_allclose(found.network.intercepts, rows.mean(axis=0) @ (np.eye(6) - weights), atol=1e-9)


def test_on_the_command_line_it_can_be_switched_off(capsys, labels, tmp_path):
    words = ["learn", str(labels), "-a", "fed-pc", "--engine", "inline", "--verbose"]
    for more, there in (["--smoothing", "5"], True), (["--no-parameters"], False):
        with pytest.raises(SystemExit) as leaving:
            main([*words, "--out", str(tmp_path / f"out{there}"), *more])
        assert leaving.value.code == 0
        assert (tmp_path / f"out{there}" / "model.bif").exists() is there
        said = capsys.readouterr().out
        assert ("prior of 5 rows" if there else "No parameters: parameters were not requested.") in " ".join(
            said.split()
        )
    with pytest.raises(SystemExit) as leaving:
        main([*words, "--out", str(tmp_path / "none"), "--smoothing", "0"])
    assert leaving.value.code == 2
    assert "smoothing is '0.0'" in capsys.readouterr().err


def test_a_whole_network_goes_through_a_file_and_back(tmp_path):
    """What is learned from samples of a network can itself be sampled by `prepare network`."""
    write_folder(tmp_path / "asia", network("asia", 2, 300, 4))
    found = learn_api(tmp_path / "asia", "fed-pc", out=tmp_path / "run")
    again = network(str(tmp_path / "run" / "model.bif"), 2, 50, 1)
    assert set(again.schema.variables) == set(found.model.nodes())
