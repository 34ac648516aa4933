"""A scikit-learn estimator that learns structures: `fit`, `score`, `get_params`, clones, pipelines and searches."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.data.federated import MIN_SILO_ROWS
from fedbnsl.tracking.model import network_of

from .learning import learn
from .tables import numbered_names

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ALL = "all"
"""the name of the only silo if `fit` gets no `groups`"""


class StructureLearner(BaseEstimator):  # type: ignore[misc]
    """Learn a Bayesian network from rows with known silos, in this process.

    `algorithm` is a name, as in `fedbnsl.learn`, with the settings `params`, or a settings object such as
    `FedSparse(rounds=60)`. `options` are other options of `fedbnsl.learn`, such as {"epsilon": 2, "forbidden_arcs":
    "a->b"}, and `random_state` is the seed. Columns of an array are numbers; columns of a DataFrame follow the rules
    for folders and may have labels.

    After `fit`, the attribute `learned_` is the complete result. `adjacency_` and `weights_`, `[n_features,
    n_features]`, have the edge i → j in row i and column j; undirected edges, and all edges of a PAG, are in both
    directions. `n_features_in_` is the number of columns, and `feature_names_in_` has the names of a DataFrame's
    columns.
    """

    def __init__(
        self,
        algorithm: "str | DataclassInstance" = "auto",
        *,
        params: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        """Store the parameters; `fit` checks them."""
        self.algorithm = algorithm
        self.params = params
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> "StructureLearner":
        """Learn from the rows of `X` `[n_rows, n_features]`; `groups` `[n_rows]` has the silo of each row.

        Without `groups` all rows belong to one silo. `y` is ignored. Raises `BadInput` (a `ValueError`) for unusable
        data.
        """
        arrays = not isinstance(X, pd.DataFrame)
        frame = _frame(self, X, reset=True)
        about = {"kind": "continuous"} if arrays else None
        keywords: dict[str, Any] = {"about": about, **(self.options or {}), **(self.params or {})}
        self.learned_ = learn(_silos(frame, groups), self.algorithm, seed=self.random_state, **keywords)
        structure = self.learned_.result.structure
        places = [list(frame.columns).index(name) for name in structure.variables]
        self.weights_: FloatArray = np.zeros((frame.shape[1],) * 2)
        self.weights_[np.ix_(places, places)] = structure.weights
        self.adjacency_: NDArray[np.bool_] = self.weights_ != 0
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """The log-likelihood of each row of `X` under the learned network, `[n_rows]`.

        Raises `ValueError` if the network has no parameters, and `BadInput` for an unknown label.
        """
        check_is_fitted(self)
        frame = _frame(self, X, reset=False)
        network, schema = network_of(self.learned_.result), self.learned_.result.schema
        columns = [_codes(frame[name], schema.levels.get(name), name) for name in schema.variables]
        return network.log_likelihood(np.column_stack(columns))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of the rows of `X` under the learned network; higher is better."""
        return float(self.score_samples(X).mean())

    def __sklearn_tags__(self) -> Any:
        """The tags for scikit-learn: empty cells and strings are allowed, and there is no target."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags


def _frame(estimator: StructureLearner, X: Any, *, reset: bool) -> pd.DataFrame:
    """`X` as a DataFrame with text as column names, after scikit-learn's checks."""
    if isinstance(X, pd.DataFrame):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X.rename(columns=str)
    least = MIN_SILO_ROWS if reset else 1
    checked = validate_data(
        estimator, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=least
    )
    return pd.DataFrame(checked, columns=numbered_names("x", checked.shape[1]))


def _silos(frame: pd.DataFrame, groups: Any) -> dict[str, pd.DataFrame]:
    """The rows of each silo; raises `BadInput` for a row without a silo."""
    if groups is None:
        return {ALL: frame}
    check_consistent_length(frame, groups)
    named = pd.Series(np.asarray(groups, dtype=object).ravel(), index=frame.index)
    empty = np.flatnonzero(named.isna())
    if len(empty):
        raise BadInput(f"groups: row {empty[0] + 1} has no silo")
    return {str(silo): rows for silo, rows in frame.groupby(named.map(str).to_numpy(), sort=False)}


def _codes(column: "pd.Series[Any]", levels: tuple[str, ...] | None, name: str) -> FloatArray:
    """The numbers of a column without `levels`, or the codes of its labels. Raises `BadInput` for an unknown label."""
    if levels is None:
        return column.to_numpy(np.float64)
    labels = [str(int(one)) if isinstance(one, float) and one.is_integer() else str(one).strip() for one in column]
    place = {label: float(code) for code, label in enumerate(levels)}
    for row, label in enumerate(labels, start=1):
        if label not in place:
            raise BadInput(f"X: row {row}, column {quoted(name)}: {quoted(label)} is not one of {', '.join(levels)}")
    return np.array([place[label] for label in labels])
