"""How sure is an edge? Learn again from random halves of each silo's rows, and count."""

# %% Few rows, so that chance has its say.
from fedbnsl import learn, prepare

data = prepare("homogeneous", variables=8, silos=3, rows=20, seed=8)

# %% 50 resamples, all in the same few exchanges with the silos.
found = learn(data, bootstrap=50)
print(found)
sure = found.result.confidence
for source, target in found.graph.edges():
    i, j = (sure.strengths.variables.index(name) for name in (source, target))
    print(
        f"{source} -> {target}: in {sure.strengths.strength[i, j]:.0%} of the resamples, this way round in "
        f"{sure.strengths.direction[i, j]:.0%} of those"
    )

# %% The averaged network has the edges above a threshold that the strengths themselves suggest.
print(
    f"above {sure.threshold:.2f}: {int((sure.averaged.weights != 0).sum())} edges, SHD {found.metrics['averaged_shd']}"
)
found.plot()

# %% What you know, the data need not tell: arcs that are there or cannot be, and what comes before what.
first, *others = data.schema.variables
known = learn(data, no_parents=first, bootstrap=50)
print(known)
assert not known.weights[first].any()
print(known.result.knowledge.forbidden)
