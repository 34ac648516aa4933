"""Telecom alarms: which types set off which others, at operators that share no log of their devices."""

# %% Data: one row for each alarm. The recorded ones of the PCIC 2021 competition, if FEDBNSL_DATA names their folder.
import os
from pathlib import Path

import networkx as nx
import pandas as pd

from fedbnsl import learn, prepare

recorded = Path(os.environ.get("FEDBNSL_DATA", ".")) / "telecom_alarm/18V_55N_Wireless_alarms.csv.gz"
about = None
if recorded.exists():
    log = pd.read_csv(recorded).rename(columns={"start_timestamp": "time", "device_id": "device"})
    log["event"] = "A" + log["alarm_id"].astype(str)
    logs = {f"operator {1 + k}": rows for k, rows in log[["time", "event", "device"]].groupby(log["device"] % 4)}
    edges = pd.read_json(recorded.with_name("18V_55N_Wireless_truth.json"), typ="series")["edges"]
    truth = nx.DiGraph(edges)
    about = {"kind": "events", "window": [int(log["time"].min()), int(log["time"].max())]}  # quiet times count, too
    print(log[["time", "event", "device"]].head(3))
else:
    logs = prepare("events", variables=8, silos=4, events=8000, seed=3)
    truth = None
    print("FEDBNSL_DATA names no folder with telecom_alarm: the alarms are drawn")

# %% Learning: types of alarms excite each other (a Hawkes process). The operators send masked sums of derivatives.
found = learn(logs, about=about, truth=truth, secure=True)
print(found, *found.result.basis, sep="\n")
print({name: round(found.metrics[name], 2) for name in ("f1", "tpr", "fdr")})

# %% The strongest edges: how many alarms of the effect one alarm of the cause adds.
process = found.result.parameters.intensities
strongest = found.weights.stack().nlargest(5)
print(strongest.round(2))

# %% Alarms that no alarm excites, as a share, and alarms that repeat: further ones of the same type.
shares = {"events": process.events, "not excited": process.background, "repeated": process.excitation.diagonal()}
types = pd.DataFrame(shares, index=process.variables)
print(types.nlargest(5, "events").round(2))

# %% The graph says after which alarms others become more frequent on the same device, and how soon.
# It does not say why: a power cut that sets off two types looks like an edge from the faster to the slower one, and
# alarms that pass from device to device are not in the model. Of the experts' edges among the recorded alarms, it
# misses four in ten, and one in five of its own is not among theirs.
found.plot()
