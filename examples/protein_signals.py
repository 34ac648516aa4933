"""Protein signals under drugs: silos that are experiments, and what they add to what is only seen."""

# %% Data: a table for each drug, and what it acts on. Cells of Sachs et al. 2005, if FEDBNSL_DATA names their folder.
import json
import os
from pathlib import Path

import networkx as nx
import pandas as pd

from fedbnsl import learn, prepare

sachs = Path(os.environ.get("FEDBNSL_DATA", ".")) / "sachs"
if sachs.exists():
    cells = pd.read_csv(sachs / "sachs_continuous_7466.csv.gz")
    tables = {drug: rows.drop(columns="condition") for drug, rows in cells.groupby("condition")}
    targets = {"aktinhib": "Akt", "g0076": "PKC", "psitect": "PIP2", "u0126": "Mek", "ly": "PIP3"}
    targets = {f"cd3cd28_{drug}": [protein] for drug, protein in targets.items()} | {"pma": ["PKC"], "b2camp": ["PKA"]}
    truth = nx.DiGraph(json.loads((sachs / "truth_17_bnlearn.json").read_text())["edges"])
    transform = "log"
else:
    print("FEDBNSL_DATA names no folder with sachs: the experiments are drawn")
    drawn = prepare("interventions", variables=8, silos=6, rows=500, targeted_silos=4, seed=2)
    tables = {silo: pd.DataFrame(rows, columns=drawn.schema.variables) for silo, rows in drawn.tables.items()}
    targets = {silo: list(*conditions) for silo, conditions in drawn.schema.targets.items()}
    truth, transform = None, "none"

# %% Seen only: the drugs count as conditions in which the same mechanisms act. Many directions stay open.
seen = learn(tables, transform=transform, truth=truth, secure=True)
print(seen)

# %% With the targets: rows in which a protein was set say nothing of its causes, and much of its effects.
found = learn(tables, about={"targets": targets}, transform=transform, truth=truth, secure=True)
print(found, *found.result.basis, sep="\n")
rests = found.result.experimental
print({f"{source} -> {target}": why for (source, target), why in rests.items()})

# %% The strongest effect: a range where the graph is only seen, a number where experiments direct it.
cause, target = found.weights.abs().stack().idxmax()
print(seen.effect(cause, target).effects[0].bounds)
effect = found.effect(cause, target)
print(effect)

# %% How far to trust it: with the literature's graph at hand, count the directions that are the other way round.
if truth is not None:
    wrong = [arc for arc in rests if truth.has_edge(*arc[::-1])]
    print(f"{len(wrong)} of {len(rests)} directions from experiments are reversed in the literature: {wrong}")
# A drug that acts on more than its target, or that changes it little, directs edges the wrong way. An experiment is
# evidence about a mechanism only as far as its target is known.
found.plot()
