"""Every commented line of the files that `federation init` writes is uncommented, and a federation with it runs."""

import json
import re
from contextlib import ExitStack

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.cli.federation import FEDERATION, SILO, init_federation
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn_without_prefect
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tasks.transport.configuration import read_silo_file
from fedbnsl.tasks.transport.hosted_silo import HostedSilo
from tests.tasks.transport.relay_peers import QUICK, hub

SILOS = ("clinic", "lab", "ward")
KINDS = {
    "continuous": ("secure-sum", {"kind": "continuous"}),
    "discrete": ("fed-pc", {"kind": "discrete", "levels": {"x": ["no", "yes"], "z": ["u", "v"]}}),
    "mixed": (
        "secure-sum",
        {
            "kind": "mixed",
            "columns": {"x": "discrete", "y": "continuous", "z": "continuous"},
            "levels": {"x": ["no", "yes"]},
        },
    ),
}
"""by kind of data, a learner and the declaration of owners and coordinator"""


def optional_lines(template):
    """The commented settings of a template, by key."""
    return {line.split(" ")[0]: line for line in re.findall(r"^# (\w+ = .+)$", template, re.MULTILINE)}


LINES = optional_lines(SILO)


def make(place, kind):
    """The files of a federation whose owners have rows of this `kind`."""
    init_federation(place, SILOS, "127.0.0.1:1")
    for number, silo in enumerate(SILOS):
        rng = np.random.default_rng(number)
        y = rng.normal(size=2000) + number
        x = y + rng.normal(size=2000)
        columns = {
            "continuous": {"x": x, "y": y, "z": rng.normal(size=2000)},
            "discrete": {"x": np.where(x > 0, "yes", "no"), "z": np.where(y > 0, "u", "v")},
            "mixed": {"x": np.where(x > 0, "yes", "no"), "y": y, "z": rng.normal(size=2000)},
        }[kind]
        rows = "\n".join(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
        (place / silo / "rows.csv").write_text(f"{','.join(columns)}\n{rows}\n")
    for owner in (*SILOS, "coordinator"):
        (place / owner / "about.json").write_text(json.dumps(KINDS[kind][1]))


def uncomment(place, keys):
    for silo in SILOS:
        file = place / silo / "silo.toml"
        text = file.read_text()
        for key in keys:
            assert text.count(f"# {LINES[key]}\n") == 1
            text = text.replace(f"# {LINES[key]}\n", f"{LINES[key]}\n")
        file.write_text(text)


def learn(place, kind, keys):
    """The outcome of a run over real TLS, with an ε if the policies limit it."""
    log = []
    with hub(place, SILOS, limits=QUICK) as relay, ExitStack() as stack:
        file = place / "coordinator" / "federation.toml"
        file.write_text(file.read_text().replace("127.0.0.1:1", str(relay.where)))
        for silo in SILOS:
            own = read_silo_file(place / silo / "silo.toml")
            own.require_declared()
            readers = own.readers(log.append)
            stack.callback(readers.close)
            hosted = HostedSilo(own, readers, log.append)
            stack.callback(hosted.close)
            relay.silo(silo, hosted.answer)
        settings = LearnSettings(
            data=str(file.parent),
            federation=str(file),
            algorithm=KINDS[kind][0],
            epsilon=1.0 if "epsilon" in keys else None,
            delta=1e-8 if {"epsilon", "delta"} <= set(keys) else None,
            secure="epsilon" not in keys,
            out=str(place / "out"),
            silo_patience=30,
        )
        return learn_without_prefect(settings.named(), RunContext()).result


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    return tmp_path / "study"


def test_the_templates_have_optional_lines_of_the_owner_only():
    assert optional_lines(FEDERATION) == {}
    assert {"workers", "cluster", "steps", "algorithms", "epsilon", "cells"} <= set(LINES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", LINES)
def test_a_federation_with_one_more_line_runs(place, kind, key):
    make(place, kind)
    uncomment(place, [key])
    if (kind, key) == ("mixed", "cells"):  # as the line itself says
        assert "not for mixed data" in LINES["cells"]
        with pytest.raises(NotAllowed, match="sums of products of labels are counts, which may not be below 5"):
            learn(place, kind, [key])
    else:
        assert learn(place, kind, [key]).outcome == "converged"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("without", ["workers", "cluster"])
def test_a_federation_with_all_lines_runs(place, kind, without):
    make(place, kind)
    keys = [key for key in LINES if key != without]
    uncomment(place, keys)
    assert learn(place, kind, keys).outcome == "converged"


def test_workers_and_a_cluster_exclude_each_other(place):
    make(place, "continuous")
    uncomment(place, ["workers", "cluster"])
    with pytest.raises(BadInput, match="workers and cluster are two ways to read the rows: keep one"):
        read_silo_file(place / "clinic" / "silo.toml")
