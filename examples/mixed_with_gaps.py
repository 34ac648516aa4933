"""Numbers and labels in one table, and cells that are empty: both are kept and reckoned with."""

# %% Data: 7 variables in 3 silos. A tenth of the cells is emptied, by what other columns say (missing at random).
from tempfile import TemporaryDirectory

from fedbnsl import learn, prepare

with TemporaryDirectory() as scratch:
    whole = prepare("mixed", f"{scratch}/whole", variables=7, silos=3, rows=500, seed=2)
    holed = prepare("amputate", source=f"{scratch}/whole", mechanism="mar", share=0.1, seed=1)
numbers = [name for name in whole.schema.variables if name not in whole.schema.levels]
print(f"labels: {', '.join(whole.schema.levels)}; numbers: {', '.join(numbers)}")

# %% Without gaps.
full = learn(whole)
print(full)

# %% With gaps. Before the rounds the silos find means and covariances of maximum likelihood together, by EM.
found = learn(holed)
print(found)
for line in (*found.result.basis, *(one.said for one in found.result.diagnosed.findings)):
    print(line)

# %% The model: a number is linear in its parents, a label has a table or a logistic regression. It answers questions.
import numpy as np  # noqa: E402 - a cell imports what it needs

label, levels = next(iter(whole.schema.levels.items()))
print(found.model.query(numbers[0], {label: levels[0]}, np.random.default_rng(0)))
