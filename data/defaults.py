"""The choices and defaults of reading and generating data, and the catalogue of published networks.

The module imports no numpy, so that the command line can show choices and defaults at once.
"""

from typing import Literal

Missing = Literal["model", "complete-rows", "refuse"]
"""treatment of empty cells: keep them for the learner, leave out their rows, or refuse them"""
Outliers = Literal["keep", "set-aside"]
"""treatment of numbers far from their column: keep them, or treat them as empty cells"""
DifferentColumns = Literal["same", "union", "common"]
"""treatment of columns that only some silos have: refuse them, keep them, or leave them out"""
Dates = Literal["set-aside", "days"]
"""treatment of columns of dates: set them aside, or read them as days"""
SmallSilos = Literal["leave-out", "merge"]
"""treatment of rows whose silo has too few rows or no name: leave them out, or join them to one silo"""

Graph = Literal["ER", "SF"]
"""Erdős–Rényi or scale-free (Barabási–Albert)"""
Experiment = Literal["randomised", "soft", "inhibiting"]
"""the change of a target's mechanism: `data/generators/interventions.py`"""
Noise = Literal["gaussian", "exponential", "gumbel"]
"""the distributions of a linear model's errors (Fassy El Fehri et al., B.1.1)"""
Effects = Literal["additive", "slopes", "configurations"]
"""how the parents of a mixed variable act together: additively, with slopes that differ by configuration of the
discrete parents, or also with a separate intercept for every configuration"""
Version = Literal["0", "1", "2"]
"""the versions of LUCAS: observational, or with interventions on four or six variables"""
Truth = Literal["20", "18", "17", "17-fedc2sl"]
"""the reference graphs of the Sachs data"""
Transform = Literal["none", "log"]
"""the transforms of the Sachs data"""
Mechanism = Literal["mcar", "mar", "mnar"]
"""missingness mechanism (Rubin 1976): missingness depends on nothing, on other cells, or on the values themselves"""
MECHANISMS: tuple[Mechanism, ...] = ("mcar", "mar", "mnar")

GRAPH: Graph = "ER"
NOISE: Noise = "gaussian"
DEGREE = 2.0
"""mean number of neighbours in the graph of a random discrete network"""
EFFECTS: Effects = "additive"
MIXED_LEVELS = (2, 4)
"""minimum and maximum number of levels of a discrete variable of mixed data"""
SITE_MEANS = 1.0
"""standard deviation of the silos' means of mixed data, in standard deviations of a column"""
LEVELS = (2, 5)
"""minimum and maximum number of levels of a variable of a random discrete network"""
TRUTH: Truth = "20"
TRANSFORM: Transform = "none"
INTRA_DEGREE = 4.0
"""mean number of neighbours within a time step in dynamic data (like the next two: Chen, Ma & Yue 2025, §7.2)"""
LAGGED_DEGREE = 1.0
"""mean number of children at each lag"""
DECAY = 1.5
"""factor by which weights decrease from one lag to the next"""

OPGEN_RHEIN = "R. Opgen-Rhein, K. Strimmer, BMC Systems Biology 1(37), 2007"
KORB = "K. B. Korb, A. E. Nicholson, Bayesian Artificial Intelligence, CRC Press, 2010"
MUNIN = "S. Andreassen et al., in Computer-Aided Electromyography and Expert Systems, Elsevier, 1989"
UNSIGNED = "bnlearn Bayesian Network Repository"

GAUSSIAN = {
    "arth150": f"Arabidopsis thaliana gene expression, 107 variables; {OPGEN_RHEIN}",
    "ecoli70": f"Escherichia coli gene expression, 46 variables; {OPGEN_RHEIN}",
    "magic-irri": "rice traits and genes of a MAGIC population, 64 variables; M. Scutari, ICQG 2016",
    "magic-niab": "wheat traits and genes of a MAGIC population, 44 variables; M. Scutari et al., Genetics 198, 2014",
}
"""published Gaussian networks with their sources"""
DISCRETE = {
    "alarm": "patient monitoring, 37 variables; I. A. Beinlich et al., AIME 1989",
    "andes": "a physics tutor, 223 variables; C. Conati et al., User Modeling 1997",
    "asia": "lung diseases, 8 variables; S. Lauritzen, D. Spiegelhalter, JRSS B 50(2):157-224, 1988",
    "barley": "malting barley without pesticides, 48 variables; K. Kristensen, I. A. Rasmussen et al.",
    "cancer": f"lung cancer, 5 variables; {KORB}",
    "child": "birth asphyxia, 20 variables; D. J. Spiegelhalter, R. G. Cowell, Bayesian Statistics 4, 1992",
    "diabetes": "insulin adjustment, 413 variables; S. Andreassen et al., AIME 1991",
    "earthquake": f"a burglar alarm, 5 variables; {KORB}",
    "hailfinder": "severe weather, 56 variables; B. Abramson et al., International Journal of Forecasting 12, 1996",
    "hepar2": "liver disorders, 70 variables; A. Onisko, Ph.D. dissertation, Polish Academy of Science, 2003",
    "insurance": "car insurance, 27 variables; J. Binder et al., Machine Learning 29:213-244, 1997",
    "link": "a pedigree, 724 variables; C. S. Jensen, A. Kong, American Journal of Human Genetics 65, 1999",
    "mildew": "mildew in winter wheat, 35 variables; A. L. Jensen, F. V. Jensen, UAI 1996",
    "munin": f"electromyography, 1041 variables; {MUNIN}",
    "munin1": f"electromyography, part 1, 186 variables; {MUNIN}",
    "munin2": f"electromyography, part 2, 1003 variables; {MUNIN}",
    "munin3": f"electromyography, part 3, 1041 variables; {MUNIN}",
    "munin4": f"electromyography, part 4, 1038 variables; {MUNIN}",
    "pathfinder": "lymph nodes, 109 variables; D. Heckerman et al., Methods of Information in Medicine 31, 1992",
    "pigs": f"a pedigree of pigs, 441 variables; {UNSIGNED}",
    "sachs": "protein signalling, 11 variables; K. Sachs et al., Science 308:523-529, 2005",
    "survey": "transport survey, 6 variables; M. Scutari, J.-B. Denis, Bayesian Networks with Examples in R, 2021",
    "water": "waste water treatment, 32 variables; F. V. Jensen et al., Judex Datasystemer, 1989",
    "win95pts": f"printer trouble, 76 variables; {UNSIGNED}",
}
"""published discrete networks with their sources"""
EVENT_DEGREE = 1.5
"""mean number of other event types that excite an event type"""
