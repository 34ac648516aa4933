"""PC and FCI with tests over all silos: an edge goes if some other variables make its ends independent."""

# %% Data: a network of 8 discrete variables, of which 2 common causes are hidden from everybody.
from fedbnsl import learn, prepare

whole = prepare("discrete", variables=8, silos=3, rows=800, seed=2)
hidden = prepare("discrete", variables=8, silos=3, rows=800, seed=2, latent=2)
print(whole.schema.variables, hidden.schema.variables)

# %% FedPC takes for granted that every common cause was measured. Its answer is a CPDAG.
pc = learn(whole, "fed-pc", alpha=0.01)
print(pc)
print(pc.rounds[["round", "tests", "edges"]])

# %% FedFCI does not. Its answer is a PAG: in x o-> y a circle says that the data do not tell what is at this end.
fci = learn(hidden, "fed-fci", alpha=0.01)
print(fci)
fci.plot()

# %% What predicts a variable: its parents, children and spouses, if the graph tells them apart.
target = whole.schema.variables[1]
blanket = pc.features(target)
print(f"{target}: parents {blanket.parents}, children {blanket.children}, undirected {blanket.neighbours}")

# %% A PAG does not, and says so in one line.
try:
    fci.features(hidden.schema.variables[0])
except ValueError as error:
    print(error)
