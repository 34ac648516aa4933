"""Numbers and labels in one table, with missing values, which are kept and modelled."""

# %% Data: 7 variables in 3 silos. A tenth of the cells is missing, depending on other columns (missing at random).
from tempfile import TemporaryDirectory

from fedbnsl import learn, prepare

with TemporaryDirectory() as scratch:
    whole = prepare("mixed", f"{scratch}/whole", variables=7, silos=3, rows=500, seed=2)
    incomplete = prepare("amputate", source=f"{scratch}/whole", mechanism="mar", share=0.1, seed=1)
numbers = [name for name in whole.schema.variables if name not in whole.schema.levels]
print(f"labels: {', '.join(whole.schema.levels)}; numbers: {', '.join(numbers)}")

# %% Without missing values.
full = learn(whole)
print(full)

# %% With missing values. Before the rounds, EM estimates the maximum-likelihood covariance of all silos.
found = learn(incomplete)
print(found)
for line in (*found.result.basis, *(one.message for one in found.result.diagnosed.findings)):
    print(line)

# %% The model: numbers are linear in their parents, labels have tables or logistic regressions. It can be queried.
label, levels = next(iter(whole.schema.levels.items()))
print(found.query(f"P({numbers[0]} | {label}={levels[0]})"))
