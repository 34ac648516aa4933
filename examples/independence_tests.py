"""PC and FCI with tests over all silos: they remove an edge if its ends are independent given other variables."""

# %% Data: a network of 8 discrete variables; a second data set hides 2 common causes.
from fedbnsl import learn, prepare

whole = prepare("discrete", variables=8, silos=3, rows=800, seed=2)
hidden = prepare("discrete", variables=8, silos=3, rows=800, seed=2, latent=2)
print(whole.schema.variables, hidden.schema.variables)

# %% FedPC assumes that every common cause was measured. Its output is a CPDAG.
pc = learn(whole, "fed-pc", alpha=0.01)
print(pc)
print(pc.rounds[["round", "tests", "edges"]])

# %% FedFCI does not. Its output is a PAG: the circle in x o-> y means that the data do not determine this end.
fci = learn(hidden, "fed-fci", alpha=0.01)
print(fci)
fci.plot()

# %% The predictors of a variable are its parents, children and spouses, if the graph distinguishes them.
target = whole.schema.variables[1]
blanket = pc.features(target)
print(f"{target}: parents {blanket.parents}, children {blanket.children}, undirected {blanket.neighbours}")

# %% A PAG does not, and raises a one-line error.
try:
    fci.features(hidden.schema.variables[0])
except ValueError as error:
    print(error)
