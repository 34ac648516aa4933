"""The law of publication: what is written about a run does not depend on whether 0, 1 or 2 rows are in a small cell.

Twins are folders that differ in 0, 1 and 2 rows (or events) of one small cell. Everything that a run writes is
compared: every file of its folder, both streams of the terminal, `--json`, its MLflow run and its Prefect artifacts.
Times and paths are removed. Tables of labels must be equal byte for byte. Statistics of numbers are means over all
rows, so they may differ, but only in numbers that are declared here, and those that no model needs have few digits.
A file that no rule covers fails the test.
"""

import csv
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.sorting import ArtifactSort

from fedbnsl.flows.cli.main import main
from fedbnsl.flows.engines.retention import RECORD
from fedbnsl.tracking.mlflow.store import open_client
from fedbnsl.tracking.outputs import SIGNATURES

SILOS, ROWS = 3, 300
FILES = {
    *("structure.csv", "averaged.csv", "rounds.csv", "metrics.json", "config.json", "report.html", "model.bif"),
    *("disclosure.json", "model.json", "intensities.csv", "structure.png", "matrices.png", "delays.png"),
}
"""the files that the rules below cover; pictures are drawn from the same values"""
SEARCH_COST = ("bytes", "rounds", "families", "megabytes", "times")
"""figures of the traffic, which depends on how many steps the optimisation of a model of numbers takes"""


def labels(small):
    """`small` of 300 patients are carriers, and nothing else differs."""
    rng = np.random.default_rng(4)
    rows = [["no", *row] for row in zip(rng.choice(["no", "yes"], ROWS), rng.choice([*"abc"], ROWS), strict=True)]
    for k in range(small):
        rows[31 * k][0] = "yes"
    levels = {"carrier": ["no", "yes"], "ill": ["no", "yes"], "ward": [*"abc"]}
    return ["carrier", "ill", "ward"], dealt(rows), {"levels": levels}


def mixed(small):
    """`small` patients are at a rare centre, which is a cause of a number and of a label."""
    rng = np.random.default_rng(7)
    centre, dose = rng.choice(["a", "b"], ROWS).astype(object), rng.normal(5, 2, ROWS).round(3)
    event = np.where(rng.random(ROWS) < 1 / (1 + np.exp(5 - dose)), "yes", "no")
    centre[: SILOS * small : SILOS] = "rare"
    about = {
        "kind": "mixed",
        "levels": {"centre": ["a", "b", "rare"], "event": ["no", "yes"]},
        "columns": {"dose": "continuous"},
    }
    return ["centre", "dose", "event"], dealt(zip(centre, dose, event, strict=True)), about


def numbers(small):
    """A column of 0 and 1 has `small` ones; it is declared as numbers, so that its mean is published."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=ROWS)
    y, flag = 0.8 * x + rng.normal(size=ROWS), np.zeros(ROWS, int)
    flag[: SILOS * small : SILOS] = 1
    return ["x", "y", "flag"], dealt(zip(x.round(4), y.round(4), flag, strict=True)), {"kind": "continuous"}


def series(small):
    """The state of a machine is `small` times a fault."""
    rng, x = np.random.default_rng(9), np.zeros(ROWS)
    for t in range(1, ROWS):
        x[t] = 0.6 * x[t - 1] + rng.normal()
    state = np.where(np.append(0, x[:-1]) > 0, "on", "off").astype(object)
    state[50 : 50 + small] = "fault"
    about = {"kind": "time-series", "levels": {"state": ["off", "on", "fault"]}}
    return ["x", "state"], dealt(zip(x.round(4), state, strict=True)), about


def events(small):
    """`small` alarms are of a rare type instead of the most frequent one."""
    rng, rows = np.random.default_rng(10), []
    for device in range(9):
        t = 0.0
        for _ in range(60):
            t += rng.exponential(10)
            rows.append([device, round(t, 4), "A"])
            rows += [[device, round(t + rng.exponential(2), 4), "B"]] * bool(rng.random() < 0.6)
            rows += [[device, round(t + rng.exponential(20), 4), "C"]] * bool(rng.random() < 0.2)
    rows.sort()
    usual = [row for row in rows if row[2] == "A"]
    for k in range(small):
        usual[SILOS * 40 * k + 30][2] = "rare"
    parts = [[[t, name, device] for device, t, name in rows if device % SILOS == k] for k in range(SILOS)]
    return ["time", "event", "device"], parts, {"kind": "events", "window": [0, 900]}


def dealt(rows):
    """The rows of each silo: every third row."""
    rows = list(rows)
    return [rows[k::SILOS] for k in range(SILOS)]


def write(folder, header, parts, about):
    folder.mkdir(parents=True)
    for k, rows in enumerate(parts):
        with (folder / f"s{k}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    (folder / "about.json").write_text(json.dumps(about))


OPTIONS = {
    labels: ("-a", "fed-pc", "--required", "carrier->ill,ward->ill"),
    mixed: ("--required", "centre->dose,centre->event,dose->event"),
    numbers: ("--bootstrap", "0"),
    series: ("--bootstrap", "0"),
    events: ("--secure",),
}
TWINS = {labels: (0, 1, 2), mixed: (0, 1, 2), numbers: (1, 2), series: (0, 1, 2), events: (1, 2)}
"""a column without ones is constant, and a type without events is not in the data; their names are public"""


def published(kind, small, place, capsys, *options):
    """All that a run on a twin writes, by name, without times and paths; and the folder of its files."""
    folder, out = place / str(small) / "study", place / str(small) / f"twin-{small}"
    if not folder.exists():
        write(folder, *kind(small))
    words = ["learn", str(folder), "--seed", "1", "--name", "study", *OPTIONS[kind], *options]
    texts = {}
    for name, more in {"terminal": ("--out", str(out)), "json": ("--out", f"{out}-json", "--json")}.items():
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*words, *more])
        printed = capsys.readouterr()
        assert ended.value.code == 0, printed.err
        texts |= {name: printed.out, f"{name}, errors": printed.err}
    names = {path.name for path in out.iterdir()} - {
        RECORD,
        SIGNATURES,
    }  # which have only ids, an address, and hashes of the other files
    assert names <= FILES, "the rules of this test do not cover these files"
    texts |= {name: (out / name).read_text("utf-8") for name in names if not name.endswith(".png")}
    return {name: comparable(text, place) for name, text in texts.items()}, out


def comparable(text, place):
    """`text` without paths, addresses, ids, times, bytes of traffic and the notice of a first run."""
    text = re.sub(r'"ended": "[^"]*"|"bytes": \d+', "", text)
    text = re.sub(r"compiling numerical code.*\n+|(?m:^[ \t\r]*\n)", "", text)
    text = re.sub(
        rf"{re.escape(str(place))}\S*|https?://\S+|\btwin-\d|\b[0-9a-f]{{8}}-?[0-9a-f-]{{24,27}}\b", "PLACE", text
    )
    text = re.sub(r'("?\bseconds\b"?\D{0,40}?)\d[\d.e-]*|\b[\d.]+ s\b', r"\1", text)
    return re.sub(r"(>)[\d.e-]+(</(?:td|dd|strong|span|b|div)>\s*<[^>]*>\s*seconds)", r"\1\2", text)


NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?")
MODEL = ("model.json", "structure.csv", "averaged.csv", "report.html")
"""the files with weights and parameters of a model of numbers, which are published as they were fitted"""


def digits(number):
    """The number of significant digits of a printed number."""
    mantissa = re.sub(r"e.*", "", number).lstrip("+-0.,").replace(",", "")
    return len(re.sub(r"\D", "", mantissa))


def differing_numbers(one, other):
    """The pairs of numbers that differ between two texts, which are equal but for their numbers."""
    assert NUMBER.sub("#", one) == NUMBER.sub("#", other)
    return [pair for pair in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True) if pair[0] != pair[1]]


def without_cost(name, text):
    """`text` without the figures of the traffic."""
    cost = "|".join(SEARCH_COST)
    if name == "rounds.csv":
        header, *rows = csv.reader(text.splitlines())
        kept = [k for k, column in enumerate(header) if not any(one in column for one in SEARCH_COST)]
        return "\n".join(",".join(row[k] for k in kept if k < len(row)) for row in (header, rows[-1]))
    text = re.sub(rf'"\w*(?:{cost})\w*": [^,\n]*', "", text)
    text = re.sub(r"(\w*(?:bytes|megabytes)\b[^<]*</td><td[^>]*>)[^<]*", r"\1", text)
    return re.sub(r"\w+ after \d+ rounds?,.*|\bround \d+ of .*|bytes in .*|\d+ exchanges?.*", "", text)


@pytest.fixture
def learned(tmp_path, capsys):
    """A function that runs all twins of a kind and returns what each run writes."""

    def run(kind):
        return [published(kind, small, tmp_path, capsys, "--engine", "inline")[0] for small in TWINS[kind]]

    return run


def test_tables_of_labels_are_published_alike_byte_for_byte(learned):
    for one, other in pairwise(learned(labels)):
        assert one.keys() == other.keys() >= {"model.bif", "report.html", "terminal", "json", "terminal, errors"}
        assert [name for name in one if one[name] != other[name]] == []


@pytest.mark.parametrize("kind", [mixed, numbers, series], ids=lambda kind: kind.__name__)
def test_of_numbers_only_statistics_of_few_digits_differ_beside_the_model(kind, learned):
    for one, other in pairwise(learned(kind)):
        assert one.keys() == other.keys()
        for name in one:
            pairs = differing_numbers(without_cost(name, one[name]), without_cost(name, other[name]))
            if name not in MODEL:
                assert [pair for pair in pairs if max(map(digits, pair)) > 4] == [], name


def test_of_events_no_count_and_no_rate_shows_a_rare_type(learned):
    one, other = learned(events)
    assert one.keys() == other.keys() >= {"intensities.csv", "report.html", "terminal", "json"}
    for name in one:
        pairs = differing_numbers(without_cost(name, one[name]), without_cost(name, other[name]))
        assert [pair for pair in pairs if max(map(digits, pair)) > 4] == [], name
    tables = [list(csv.DictReader(texts["intensities.csv"].splitlines())) for texts in (one, other)]
    assert [row["event"] for row in tables[0]] == ["A", "B", "C", "rare"]
    assert [row["events"] for row in tables[0]] == [row["events"] for row in tables[1]]
    for table in tables:
        assert [value for name, value in table[3].items() if name not in ("event", "mean_delay")] == [""] * 4
    assert "fewer than 3" in one["report.html"]


@pytest.mark.slow(120)
def test_mlflow_and_prefect_have_no_more(server, mlflow_uri, tmp_path, capsys):
    """Metrics of all rounds, parameters, tags, artifacts and the model in MLflow, and the artifacts in Prefect."""
    stored = []
    for small in (1, 2):
        known = {one.id for one in artifacts()}
        texts, out = published(labels, small, tmp_path, capsys)
        stored.append({**texts, **in_mlflow(mlflow_uri, out, tmp_path / f"mlflow-{small}", tmp_path)})
        stored[-1] |= {
            f"Prefect: {one.key}": comparable(json.dumps(one.data, default=str), tmp_path)
            for one in artifacts()
            if one.id not in known and one.key in PUBLISHED_ARTIFACTS
        }
    one, other = stored
    assert one.keys() == other.keys() >= {"MLflow", *(f"Prefect: {key}" for key in PUBLISHED_ARTIFACTS)}
    assert any(name.startswith("MLflow: outputs/model.bif") for name in one)
    assert [name for name in one if one[name] != other[name]] == []


PUBLISHED_ARTIFACTS = ("scores", "structure", "fit", "silos")


def artifacts():
    """The newest artifacts of the Prefect server, which sends at most 200 and by default any of them."""
    with get_client(sync_client=True) as client:
        return client.read_artifacts(limit=200, sort=ArtifactSort.CREATED_DESC)


def in_mlflow(uri, out, copy, place):
    """What MLflow has of the run whose files are in `out`, by name, without ids and times."""
    client = open_client(uri)
    experiments = [one.experiment_id for one in client.search_experiments()]
    run, *_ = client.search_runs(experiments, f"tags.folder = '{out.name}'", order_by=["attributes.start_time DESC"])
    timings = ("seconds", "megabytes")
    history = {
        name: [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
        if name not in timings
    }
    tags = {name: value for name, value in run.data.tags.items() if not value.startswith(("models:", "["))}
    found = {"MLflow": comparable(json.dumps([run.data.params, tags, sorted(history.items())]), place)}
    copy.mkdir()
    folder = Path(client.download_artifacts(run.info.run_id, "", str(copy)))
    texts = [path for path in folder.rglob("*") if path.suffix in (".json", ".csv", ".bif", ".html", ".txt")]
    return found | {
        f"MLflow: {path.relative_to(folder)}": comparable(path.read_text("utf-8"), place) for path in sorted(texts)
    }
