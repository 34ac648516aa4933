"""Tables of numbers in several hospitals: learn one common graph without pooling the rows."""

# %% Data. Yours would be a folder, a dict of DataFrames, or one DataFrame with a column for the hospital.
from tempfile import TemporaryDirectory

import pandas as pd

from fedbnsl import learn, load, prepare
from fedbnsl.settings import FedSparse

made = prepare("homogeneous", variables=8, silos=4, rows=500, seed=3)
tables = {silo: pd.DataFrame(rows, columns=made.schema.variables) for silo, rows in made.tables.items()}
patients = pd.concat([table.assign(hospital=silo) for silo, table in tables.items()])
print(patients.groupby("hospital").size())

# %% Learn. Without an algorithm, `learn` chooses by the data: for numbers one masked sum of second moments.
found = learn(patients, by="hospital")
print(found)
print(found.weights.round(2))

# %% Before you trust a direction: the assumptions behind it, and what the data cannot support.
for line in found.result.basis:
    print(line)
for finding in found.result.diagnosed.findings:
    print(finding.message, finding.advice)

# %% A picture: a notebook displays it, a script saves it with `savefig`.
found.plot()

# %% The papers' consensus over many rounds: no second moments leave a hospital, only sparse weights.
# The settings are a class, so an editor can complete and explain them.
consensus = learn(made, FedSparse(rounds=80))
print(consensus)
print(consensus.rounds[["round", "h", "edges", "bytes_up"]].tail(3))

# %% Save the run with its report, and load it again.
with TemporaryDirectory() as folder:
    saved = consensus.save(f"{folder}/run")
    print(sorted(path.name for path in saved.iterdir()))
    loaded = load(saved)
assert loaded.weights.equals(consensus.weights)

# %% Conversion for other libraries: networkx for the graph, pgmpy for the model with its parameters.
print(sorted(found.to_networkx().edges()))
print(found.to_pgmpy().get_cpds(found.result.structure.variables[0]))
