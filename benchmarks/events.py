"""Event sequences: `python benchmarks/events.py [DATA]`, or with the argument `linked` for linked devices only.

Graphs of random Hawkes processes (`prepare events`, about 20,000 events on 60 devices, dealt to five unequal silos) for
seeds from 1000 on. With DATA, a folder with the 18-variable alarms of telecom devices (`18V_55N_Wireless_alarms.csv.gz`
and `18V_55N_Wireless_truth.json` of the PCIC 2021 competition): its devices are assigned at random to five unequal
silos and observed during the whole recording; the result is compared with the same rows in one silo. This data set has
no links between devices.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from measure import show

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, events, pool
from fedbnsl.data.generators import events as generator
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEEDS = range(1000, 1005)
SIZES = (10, 20, 40)
SILOS = 5
LINKED_SEEDS, LINKED_EVENTS = range(1000, 1010), 5000
WEIGHTS = (0.0, 0.5, 1.0, 1.5)
"""effects on both neighbours together, relative to those on the device itself, in `linked`"""


def telecom(folder: Path, seed: int) -> FederatedData:
    """The alarms of the devices in `folder`, dealt to silos in proportions 1 to 5."""
    alarms = pd.read_csv(folder / "18V_55N_Wireless_alarms.csv.gz").sort_values(["device_id", "start_timestamp"])
    edges = json.loads((folder / "18V_55N_Wireless_truth.json").read_text())
    names = tuple(edges["nodes"])
    truth = np.zeros((len(names), len(names)))
    for source, target in edges["edges"]:
        truth[names.index(source), names.index(target)] = 1.0
    devices = alarms["device_id"].unique()
    owners = np.random.default_rng(seed).choice(SILOS, len(devices), p=np.arange(1, SILOS + 1) / 15)
    window = alarms["start_timestamp"].min(), alarms["start_timestamp"].max()
    tables = {}
    for silo in range(SILOS):
        own = alarms[alarms["device_id"].isin(devices[owners == silo])]
        numbers = np.unique(own["device_id"], return_inverse=True)[1]
        columns = (numbers, own["start_timestamp"], own["alarm_id"], *(np.full(len(own), end) for end in window))
        tables[f"silo-{silo + 1}"] = np.column_stack(columns).astype(np.float64)
    return FederatedData(events(tables, names), tables, Structure(names, truth))


def measured(data: FederatedData, hops: int = 0) -> tuple[dict[str, float], Structure]:
    """The scores, the exchanges and the CPU seconds of a run on `data`, and its structure."""
    algorithm = registry.build(registry.specify("fed-hawkes", {"hops": hops}))
    begin = time.process_time()
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
    seconds = time.process_time() - begin
    structure = algorithm.structure(last.server)
    assert data.truth is not None
    scores = compare(structure, data.truth)
    return {"f1": scores["f1"] or 0.0, "exchanges": last.number, "seconds": seconds}, structure


def linked() -> None:
    """Devices in rings, whose events excite their neighbours: the graph with links and without."""
    rows = []
    for weight in WEIGHTS:
        drawn = [generator.linked_events(10, SILOS, LINKED_EVENTS, 12, seed, weight) for seed in LINKED_SEEDS]
        for hops in (0, 1):
            runs = [measured(data, hops)[0] for data in drawn]
            row = {"effect on neighbours": weight, "run": f"hops = {hops}", "runs": len(runs)}
            rows.append(row | summary(runs))
    show("events-linked", rows, {})


def main(folder: str = "") -> None:
    """Run all and print the tables; only that of linked devices for the word linked."""
    linked()
    if folder == "linked":
        return
    rows = []
    for d in SIZES:
        runs = [measured(generator.events(d, SILOS, 20_000, 60, seed))[0] for seed in SEEDS]
        rows.append({"data": f"Hawkes, {d} types", "runs": len(runs), **summary(runs), "asked": "F1 ≥ .9"})
    if folder:
        found = []
        for seed in SEEDS:
            data = telecom(Path(folder), seed)
            run, learned = measured(data)
            same = bool((learned.adjacency == measured(pool(data))[1].adjacency).all())
            found.append(run | {"equal to pooled": same})
        equal = f"; {sum(bool(run['equal to pooled']) for run in found)} of {len(found)} equal to pooled"
        rows.append(
            {"data": "telecom alarms, 18 types" + equal, "runs": len(found), **summary(found)}
            | {"asked": "F1 ≥ .66, exchanges ≤ 60"}
        )
    show("events", rows, {})


def summary(runs: list[dict[str, float]]) -> dict[str, object]:
    """Mean and minimum of F1, maximum of the exchanges, mean CPU seconds."""
    f1 = [run["f1"] for run in runs]
    return {
        "F1": round(float(np.mean(f1)), 3),
        "least F1": round(min(f1), 3),
        "exchanges, at most": max(int(run["exchanges"]) for run in runs),
        "CPU s": round(float(np.mean([run["seconds"] for run in runs])), 1),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
