"""A structure learner in the manner of scikit-learn: `fit`, `score`, `get_params`, clones, pipelines and searches."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.data.federated import LEAST_ROWS
from fedbnsl.tracking.model import network_of

from .learning import learn, numbered_names

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ALL = "all"
"""the only silo where `groups` do not tell several apart"""


class StructureLearner(BaseEstimator):  # type: ignore[misc]
    """Learn a Bayesian network from rows whose silos are known, in this process.

    `algorithm` and `params` are those of `fedbnsl.learn`, or settings such as `FedSparse(rounds=60)`; `options` are
    further options of it, such as {"epsilon": 2, "forbidden_arcs": "a->b"}; `random_state` is its seed. Columns of an
    array are numbers; those of a DataFrame are read as those of a folder are, labels among them.

    After `fit` there are: `learned_`, all that was learned; `adjacency_` and `weights_`, `[n_features, n_features]`,
    where row i and column j are the edge i → j (an undirected edge stands in both directions, and in a PAG every edge
    does); `n_features_in_`, and `feature_names_in_` of a DataFrame.
    """

    def __init__(
        self,
        algorithm: "str | DataclassInstance" = "auto",
        *,
        params: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        """Keep the parameters as they are: they are checked when rows are there."""
        self.algorithm = algorithm
        self.params = params
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> "StructureLearner":
        """Learn from the rows of `X` `[n_rows, n_features]`; `groups` `[n_rows]` name the silo of each.

        Without `groups` all rows are one silo's. `y` is not used. Raises `BadInput` (a ValueError) for what cannot be
        learned from.
        """
        arrays = not isinstance(X, pd.DataFrame)
        frame = _frame(self, X, reset=True)
        about = {"kind": "continuous"} if arrays else None
        asked: dict[str, Any] = {"about": about, **(self.options or {}), **(self.params or {})}
        self.learned_ = learn(_silos(frame, groups), self.algorithm, seed=self.random_state, **asked)
        structure = self.learned_.result.structure
        places = [list(frame.columns).index(name) for name in structure.variables]
        self.weights_: FloatArray = np.zeros((frame.shape[1],) * 2)
        self.weights_[np.ix_(places, places)] = structure.weights
        self.adjacency_: NDArray[np.bool_] = self.weights_ != 0
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """The log likelihood of each row of `X` under the learned network, `[n_rows]`.

        Raises `ValueError` if the network has no parameters, and `BadInput` for a label that it does not know.
        """
        check_is_fitted(self)
        frame = _frame(self, X, reset=False)
        network, schema = network_of(self.learned_.result), self.learned_.result.schema
        columns = [_codes(frame[name], schema.levels.get(name), name) for name in schema.variables]
        return network.log_likelihood(np.column_stack(columns))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log likelihood of the rows of `X` under the learned network: the higher, the better."""
        return float(self.score_samples(X).mean())

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn may expect: empty cells and words are welcome, and there is no target."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags


def _frame(estimator: StructureLearner, X: Any, *, reset: bool) -> pd.DataFrame:
    """`X` as a DataFrame with names of text, its form checked as scikit-learn does."""
    if isinstance(X, pd.DataFrame):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X.rename(columns=str)
    least = LEAST_ROWS if reset else 1
    checked = validate_data(
        estimator, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=least
    )
    return pd.DataFrame(checked, columns=numbered_names("x", checked.shape[1]))


def _silos(frame: pd.DataFrame, groups: Any) -> dict[str, pd.DataFrame]:
    """The rows of each silo; raises `BadInput` for a row that has none."""
    if groups is None:
        return {ALL: frame}
    check_consistent_length(frame, groups)
    named = pd.Series(np.asarray(groups, dtype=object).ravel(), index=frame.index)
    empty = np.flatnonzero(named.isna())
    if len(empty):
        raise BadInput(f"groups: row {empty[0] + 1} names no silo")
    return {str(silo): rows for silo, rows in frame.groupby(named.map(str).to_numpy(), sort=False)}


def _codes(column: "pd.Series[Any]", levels: tuple[str, ...] | None, name: str) -> FloatArray:
    """The numbers of a column, or the codes of its labels, written as a folder's tables are read."""
    if levels is None:
        return column.to_numpy(np.float64)
    labels = [str(int(one)) if isinstance(one, float) and one.is_integer() else str(one).strip() for one in column]
    place = {label: float(code) for code, label in enumerate(levels)}
    for row, label in enumerate(labels, start=1):
        if label not in place:
            raise BadInput(f"X: row {row}, column {shown(name)}: {shown(label)} is none of {', '.join(levels)}")
    return np.array([place[label] for label in labels])
