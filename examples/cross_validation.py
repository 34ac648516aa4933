"""Cross-validation with scikit-learn: hold out one silo after the other, and score its rows."""

# %% Rows of all silos in one table, and the silo of each row.
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut

from fedbnsl import prepare
from fedbnsl.sklearn import StructureLearner

made = prepare("homogeneous", variables=6, silos=4, rows=100, seed=4)
rows = pd.DataFrame(np.concatenate(list(made.tables.values())), columns=made.schema.variables)
silos = np.repeat(list(made.tables), 100)

# %% `score` is the mean log likelihood of rows under the learned network, by which a search can choose parameters.
# The network has the means and variances of the training silos: a silo unlike these has a low score.
learner = StructureLearner("secure-sum", options={"diagnose": False})
grid = {"params": [{"threshold": threshold} for threshold in (0.1, 0.3, 1.0)]}
search = GridSearchCV(learner, grid, cv=LeaveOneGroupOut()).fit(rows, groups=silos)
print(pd.DataFrame(search.cv_results_)[["params", "mean_test_score"]])

# %% The best setting, learned from all silos.
best = search.best_estimator_.fit(rows, groups=silos)
print(best.learned_)
print(pd.DataFrame(best.adjacency_, index=best.feature_names_in_, columns=best.feature_names_in_).astype(int))
