"""Publication of a cell with one row: hidden by default, and the exact count at the owners' request."""

import csv
import json
import re
from contextlib import suppress

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.parameters.network_json import network_as_json, network_from_json
from fedbnsl.algorithms.privacy.disclosure_control import estimated_counts
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.networks.published import read_bif
from fedbnsl.flows.cli.main import main
from tests.flows.job.test_settings_after import result_of

SILOS, ROWS = 3, 1200
KNOWN = ("--required", "carrier->ill")


def write(folder, ill):
    """A folder of 1,200 patients: the first one is the only carrier, `ill` or not."""
    folder.mkdir()
    rng = np.random.default_rng(4)
    rows = [["no", *row] for row in zip(rng.choice(["no", "yes"], ROWS), rng.choice([*"abc"], ROWS), strict=True)]
    rows[0][:2] = ["yes", ill]
    for k in range(SILOS):
        with (folder / f"s{k}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["carrier", "ill", "ward"], *rows[k::SILOS]])
    return folder


def command(*words):
    with suppress(SystemExit):
        main([*words])


def without_fit(name, text):
    """`text` without the fit, which also uses tables of other variables, in which these rows are in a large cell."""

    def kept(found):
        return {key: kept(value) for key, value in found.items() if "fit" not in key} if type(found) is dict else found

    if name.endswith("json"):
        return json.dumps(kept(json.loads(text)), indent=1)
    return re.sub(r"Fit of the graph: [^<]*?(?=<|$|\n\S)|\bfit_\w+.*|(?i:>fit of the graph<).*", "", text)


def published(folder, capsys, *options):
    """All output of a run by name, without times and paths, and the folder of its files."""
    out = folder.parent / f"{folder.name}-results{''.join(options)}"
    words = ["learn", str(folder), "-a", "fed-pc", "--engine", "inline", "--seed", "1", "--name", "study", *KNOWN]
    capsys.readouterr()
    command(*words, "--out", str(out), *options)
    printed = capsys.readouterr().out
    command(*words, "--out", f"{out}-json", "--json", *options)
    texts = {path.name: path.read_text("utf-8") for path in out.iterdir() if path.suffix != ".png"}
    texts |= {"terminal": printed, "json": capsys.readouterr().out}
    own = re.compile(rf"{re.escape(str(folder.parent))}\S*|{folder.name}")
    times = re.compile(r"(seconds\D{0,40}|>)[\d.]+( s\b)?|[\d.]+ s\b")
    return {name: times.sub(r"\1", own.sub("", without_fit(name, text))) for name, text in texts.items()}, out


@pytest.fixture(scope="module")
def of_patients(tmp_path_factory):
    """A function that returns a run's publication, folder and data, for `options` and a carrier who is `ill` or not."""
    made, place = {}, tmp_path_factory.mktemp("patients")

    def run(capsys, ill, *options):
        folder = place / f"patients-{ill}"
        if not folder.exists():
            write(folder, ill)
        if (ill, options) not in made:
            made[ill, options] = *published(folder, capsys, *options), folder
        return made[ill, options]

    return run


def small_counts(folder):
    """The exact counts of the illness by carriers, `[carrier, ill]`."""
    counts = np.zeros((2, 2), int)
    for path in folder.glob("s*.csv"):
        for row in csv.DictReader(path.open()):
            counts[int(row["carrier"] == "yes"), int(row["ill"] == "yes")] += 1
    return counts


def test_undoing_the_smoothing_recovers_the_carrier_only_from_kept_counts(of_patients, capsys):
    found = {}
    for choice, options in {"keep": ("--small-cells", "keep"), "blank": ()}.items():
        _, out, folder = of_patients(capsys, "yes", *options)
        found[choice] = estimated_counts(read_bif(out / "model.bif").tables, 1.0, ROWS)
    exact = small_counts(folder)
    assert exact[1].tolist() == [0, 1]
    np.testing.assert_allclose(found["keep"]["ill"], exact, atol=1e-3)
    np.testing.assert_allclose(found["keep"]["carrier"], exact.sum(axis=1), atol=1e-3)
    assert found["blank"]["ill"][1].tolist() == pytest.approx([0, 0], abs=1e-3)
    assert found["blank"]["carrier"][1] == pytest.approx(0.5, abs=1e-3)


def test_whether_the_carrier_is_ill_changes_nothing_that_is_published(of_patients, capsys):
    """The carrier counts as one of 1,200 patients: the table of carriers is uniform, and rounding hides one patient."""
    ill, well = (of_patients(capsys, ill)[0] for ill in ("yes", "no"))
    assert set(ill) >= {"model.bif", "metrics.json", "report.html", "config.json", "rounds.csv", "terminal", "json"}
    other = {name for name in ill if ill[name] != well[name]}
    assert other - {"signatures.json"} == set()  # the hashes of the other files, some of which have times


def test_kept_counts_tell_and_say_so(of_patients, capsys):
    ill, well = (of_patients(capsys, ill, "--small-cells", "keep", "--verbose")[0] for ill in ("yes", "no"))
    assert ill["model.bif"] != well["model.bif"]
    assert json.loads(ill["config.json"])["small_cells"] == "keep"
    for text in (ill["report.html"], ill["terminal"]):
        assert "Small cells were kept" in text
        assert "--small-cells keep" in text


def test_the_default_is_said_and_recorded(of_patients, capsys):
    texts, *_ = of_patients(capsys, "yes", "--verbose")
    config = json.loads(texts["config.json"])
    assert config["small_cells"] == "blank"
    assert "cells of fewer than 3 rows count as half a row" in config["parameters"]["how"]
    for text in (texts["report.html"], texts["terminal"]):
        assert "cells of fewer than 3 rows count as half a row" in text
        assert "Small cells were kept" not in text
    assert "unless about.json declares them" in texts["report.html"]


def labels(seed=3, rows=400):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 3, rows))
    c = np.where(rng.random(rows) < 0.7, b, rng.integers(0, 3, rows))
    table = np.column_stack([a, b, c]).astype(np.int16)
    names = ("a", "b", "c")
    schema = Schema(names, {"s0": rows // 2, "s1": rows // 2}, "discrete", dict.fromkeys(names, ("x", "y", "z")))
    about = {"levels": {name: ["x", "y", "z"] for name in names}}
    return FederatedData(schema, {"s0": table[: rows // 2], "s1": table[rows // 2 :]}, None, {}, about)


@pytest.mark.parametrize("algorithm", ["fed-pc", "secure-ges"])
def test_the_structure_is_the_same_bit_for_bit(algorithm):
    blank, keep = (result_of(labels(), algorithm=algorithm, small_cells=choice) for choice in ("blank", "keep"))
    assert blank.structure.weights.tobytes() == keep.structure.weights.tobytes()
    assert blank.rounds == keep.rounds
    assert any(
        not np.array_equal(blank.parameters.network.tables[name], keep.parameters.network.tables[name])
        for name in "abc"
    )


def test_a_run_with_an_epsilon_is_as_before():
    private = {"algorithm": "fed-pc", "epsilon": 5.0, "params": {"insecure_seed": 1}}
    blank, keep = (result_of(labels(), small_cells=choice, **private) for choice in ("blank", "keep"))
    assert blank.small_cells is keep.small_cells is None
    assert blank.structure.weights.tobytes() == keep.structure.weights.tobytes()
    assert blank.parameters == keep.parameters
    assert "half a row" not in blank.parameters.how


LEVELS = {"centre": ("a", "b", "rare"), "event": ("no", "yes")}
NAMES = ("centre", "dose", "event")


def patients(dose, rare="rare"):
    """Mixed rows of two silos: one patient alone, the last, is at the `rare` centre, with this `dose` and an event."""
    rng = np.random.default_rng(7)
    codes = [level for level, name in enumerate(LEVELS["centre"]) if name != rare]
    centre = rng.choice(codes, 300)
    doses = rng.normal(5, 2, 300)
    event = (rng.random(300) < 1 / (1 + np.exp(5 - doses))).astype(float)
    rows = np.column_stack([centre, doses, event])
    rows[-1] = LEVELS["centre"].index(rare), dose, 1.0
    schema = Schema(NAMES, {"s0": 150, "s1": 150}, "mixed", LEVELS)
    return FederatedData(schema, {"s0": rows[:150], "s1": rows[150:]}, None, {})


ARCS = {"required_arcs": "centre->dose,centre->event,dose->event", "diagnose": False, "algorithm": "secure-boss"}


def predicted(network, rare):
    """The dose that the model predicts at the `rare` centre."""
    linear = network.local[NAMES.index("dose")]
    level = LEVELS["centre"].index(rare)
    return linear.intercept + (linear.weights[level - 1] if level else 0.0)


@pytest.mark.parametrize("rare", LEVELS["centre"])
def test_a_regression_does_not_predict_the_value_of_one_row(rare):
    data = patients(1000.0, rare)
    keep, blank = (result_of(data, small_cells=choice, **ARCS).parameters.network for choice in ("keep", "blank"))
    own = data.tables["s1"][:, 1].mean() - np.mean([table[:, 1].mean() for table in data.tables.values()])
    assert abs(predicted(keep, rare) + own) > 500
    assert predicted(blank, rare) < 50
    event = blank.local[NAMES.index("event")]
    weights = event.weights[1] - event.weights[0]
    indicator = {"a": 0.0, "b": weights[0], "rare": weights[1]}
    others = [indicator[name] for name in LEVELS["centre"] if name != rare]
    assert indicator[rare] in others
    network_from_json(json.loads(json.dumps(network_as_json(blank))), "written")
    assert "levels of fewer than 3 rows are merged" in result_of(data, **ARCS).parameters.how


@pytest.mark.parametrize("rare", LEVELS["centre"])
def test_the_fit_does_not_rest_on_the_value_of_one_row(rare):
    """An indicator of the rare centre would explain the one dose of 30 there, a gain of about 17 nats."""
    figures = result_of(patients(30.0, rare), small_cells="blank", **ARCS | {"diagnose": True}).edge_figures
    assert 0 <= figures["centre", "dose", 0].log_likelihood < 4


def test_a_rare_level_has_the_probability_of_half_a_row_whatever_its_parents():
    for rare in ("no", "yes"):
        data = patients(5.0)
        for silo, table in data.tables.items():
            table[:, 2] = 1 - LEVELS["event"].index(rare)
            table[0, 2] = LEVELS["event"].index(rare) if silo == "s0" else table[0, 2]
        network = result_of(data, small_cells="blank", **ARCS).parameters.network
        shares = network.given_parents(2, np.vstack(list(data.tables.values())))
        assert shares is not None
        event = network.local[2]
        rare_level = LEVELS["event"].index(rare)
        assert event.weights[rare_level].tolist() == [0.0] * event.weights.shape[1]
        assert event.intercepts[rare_level] - event.intercepts[1 - rare_level] == pytest.approx(np.log(0.5 / 300))


def test_inspect_names_rare_levels_that_nobody_declared(tmp_path, capsys):
    folder = write(tmp_path / "study", "yes")
    command("inspect", str(folder))
    assert "carrier: fewer than 3 rows in all have the level yes" in capsys.readouterr().out
    levels = {"carrier": ["no", "yes"], "ill": ["no", "yes"], "ward": ["a", "b", "c"]}
    (folder / "about.json").write_text(json.dumps({"levels": levels}))
    command("inspect", str(folder))
    assert "fewer than 3 rows" not in capsys.readouterr().out


def test_inspect_names_declared_levels_that_no_row_has(tmp_path, capsys):
    """Levels drafted before labels were recoded stay in the file."""
    folder = write(tmp_path / "study", "yes")
    (folder / "about.json").write_text(json.dumps({"levels": {"carrier": ["no", "yes", "Ja"], "ill": ["no", "yes"]}}))
    command("inspect", str(folder))
    out = capsys.readouterr().out
    assert "note: carrier: no row has the declared level 'Ja': delete it" in out
    assert "ill: no row" not in out
