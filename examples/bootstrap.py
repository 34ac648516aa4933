"""Confidence in edges: learn again from random halves of each silo's rows, and count."""

# %% Few rows, so that sampling variation is large.
from fedbnsl import learn, prepare

data = prepare("homogeneous", variables=8, silos=3, rows=20, seed=8)

# %% 50 resamples, all in the same few exchanges with the silos.
found = learn(data, bootstrap=50)
print(found)
confidence = found.result.confidence
for source, target in found.graph.edges():
    i, j = (confidence.strengths.variables.index(name) for name in (source, target))
    print(
        f"{source} -> {target}: in {confidence.strengths.strength[i, j]:.0%} of the resamples, with this direction in "
        f"{confidence.strengths.direction[i, j]:.0%} of those"
    )

# %% The averaged network has the edges above a threshold, which depends on the strengths.
edges = int((confidence.averaged.weights != 0).sum())
print(f"above {confidence.threshold:.2f}: {edges} edges, SHD {found.metrics['averaged_shd']}")
found.plot()

# %% Background knowledge: required and forbidden arcs, causal order, and variables without parents.
first, *others = data.schema.variables
constrained = learn(data, no_parents=first, bootstrap=50)
print(constrained)
assert not constrained.weights[first].any()
print(constrained.result.knowledge.forbidden)
