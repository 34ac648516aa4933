"""Labels in several silos: a search scored by masked sums of counts finds what it would on all rows in one place."""

# %% Data: a random network of 8 variables with 2 to 4 levels, its rows dealt to 3 silos.
from fedbnsl import learn, prepare

data = prepare("discrete", variables=8, levels="2-4", silos=3, rows=800, seed=2)
print(data.schema.levels)

# %% BOSS over the sums of counts. Labels tell a class of graphs: an edge without a direction may point either way.
found = learn(data)
print(found)
print(sorted(found.to_networkx().edges()))

# %% The same sums serve GES. It sends less, which counts for many variables.
other = learn(data, "secure-ges")
print(other)
print(f"{found.metrics['bytes_up']:,} bytes by BOSS, {other.metrics['bytes_up']:,} by GES")

# %% The model is a pgmpy network: sample it, or ask it.
model = found.to_pgmpy()
print(model.simulate(3, seed=1, show_progress=False))

from pgmpy.inference import VariableElimination  # noqa: E402 - a cell imports what it needs

first, second = found.result.structure.variables[:2]
print(VariableElimination(model).query([first], evidence={second: data.schema.levels[second][0]}, show_progress=False))
