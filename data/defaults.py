"""The words in which data are asked for, and what is meant where nothing is said.

Nothing is imported here, so that the command line can show the words and the defaults without loading numpy.
"""

from typing import Literal

Graph = Literal["ER", "SF"]
"""Erdős–Rényi or scale-free (Barabási–Albert)"""
Noise = Literal["gaussian", "exponential", "gumbel"]
"""the distributions of a linear model's errors (Fassy El Fehri et al., B.1.1)"""
Effects = Literal["additive", "slopes", "configurations"]
"""how the parents of a mixed variable act together: each by itself; with slopes that differ by level; with another
intercept, too, for every configuration of the discrete ones"""
Version = Literal["0", "1", "2"]
"""of LUCAS: as observed, with four or with six variables set"""
Truth = Literal["20", "18", "17", "17-fedc2sl"]
"""the graphs that people compare with on the Sachs data"""
Transform = Literal["none", "log"]
"""of the Sachs data"""
Mechanism = Literal["mcar", "mar", "mnar"]
"""what tells where cells are empty (Rubin 1976): nothing, other cells, or what stood there"""
MECHANISMS: tuple[Mechanism, ...] = ("mcar", "mar", "mnar")

GRAPH: Graph = "ER"
NOISE: Noise = "gaussian"
DEGREE = 2.0
"""mean number of neighbours in the graph of a random discrete network"""
EFFECTS: Effects = "additive"
MIXED_LEVELS = (2, 4)
"""fewest and most levels of a discrete variable of mixed data"""
SITE_MEANS = 1.0
"""standard deviation of the silos' means of mixed data, in standard deviations of a column"""
LEVELS = (2, 5)
"""fewest and most levels of a variable of a random discrete network"""
TRUTH: Truth = "20"
TRANSFORM: Transform = "none"
INTRA_DEGREE = 4.0
"""mean number of neighbours within a time in dynamic data (Chen, Ma & Yue 2025, §7.2), as the next two"""
LAGGED_DEGREE = 1.0
"""mean number of children at each lag"""
DECAY = 1.5
"""how many times smaller the weights are at the next lag"""
