"""Labels in several silos: a search on masked sums of counts gives the same graph as on the pooled rows."""

# %% Data: a random network of 8 variables with 2 to 4 levels, its rows dealt to 3 silos.
from fedbnsl import learn, prepare

data = prepare("discrete", variables=8, levels="2-4", silos=3, rows=800, seed=2)
print(data.schema.levels)

# %% BOSS over the sums of counts. Labels determine an equivalence class: an undirected edge may point either way.
found = learn(data)
print(found)
print(sorted(found.to_networkx().edges()))

# %% GES uses the same sums. It sends less, which matters for many variables.
other = learn(data, "secure-ges")
print(other)
print(f"{found.metrics['bytes_up']:,} bytes by BOSS, {other.metrics['bytes_up']:,} by GES")

# %% The model is a pgmpy network: sample or query it.
model = found.to_pgmpy()
print(model.simulate(3, seed=1, show_progress=False))

from pgmpy.inference import VariableElimination  # noqa: E402 - a cell imports what it needs

first, second = found.result.structure.variables[:2]
print(VariableElimination(model).query([first], evidence={second: data.schema.levels[second][0]}, show_progress=False))
