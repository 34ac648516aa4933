"""The mixed model that MLflow saves with a run, as code (models-from-code); it can be loaded without fedbnsl.

MLflow copies this file into the model, beside `network.json`: levels, parents and regressions or tables by variable.
Nothing is pickled.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class MixedGivenParents(PythonModel):
    """Predicts every variable of a row from its parents: a number by its mean, and a label by the likeliest label.

    Parents are in the same row; in a model over time, they are also in the rows before.
    """

    def load_context(self, context: Any) -> None:
        """Read the network."""
        with open(context.artifacts["network"], encoding="utf-8") as file:
            network = json.load(file)
        self.variables: list[str] = network.get("variables", network["nodes"])
        self.lags: int = network.get("lags", 0)
        self.levels: dict[str, list[str]] = network["levels"]
        self.parents: dict[str, list[str]] = network["parents"]
        self.families: dict[str, Any] = network["families"]

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """The mean or likeliest label of each variable given its parents, by row.

        If labels are equally likely, the first is predicted. Other columns are ignored. In a model over time, the rows
        follow each other, and the latest is last; the model predicts the rows that have enough rows before them. Raises
        `ValueError` for a missing column, for too few rows, and for a cell that is not a label of its variable.
        """
        missing = [name for name in self.variables if name not in model_input.columns]
        if missing:
            raise ValueError(f"the table lacks the columns {', '.join(missing)}")
        if len(model_input) < self.lags:
            raise ValueError(f"{len(model_input)} rows, but the model looks back over {self.lags}")
        own = model_input[self.variables]
        earlier = [own.shift(lag).add_suffix(f"[t-{lag}]") for lag in range(1, self.lags + 1)]
        rows = pd.concat([own, *earlier], axis=1).iloc[self.lags :]
        found = {name: self._predicted(name, rows) for name in self.variables}
        return pd.DataFrame(found, index=rows.index)

    def _predicted(self, name: str, rows: pd.DataFrame) -> Any:
        family = self.families[name]
        if family["kind"] == "linear":
            return family["intercept"] + self._terms(family["coefficients"], rows)
        labels = np.array(self.levels[name], dtype=object)
        if family["kind"] == "table":
            best = np.argmax(np.array(family["table"]), axis=-1)
            given = tuple(self._codes(rows[parent], parent) for parent in self.parents[name])
            return labels[best[given] if given else np.full(len(rows), best)]
        scores = [family["intercepts"][label] + self._terms(family["coefficients"][label], rows) for label in labels]
        return labels[np.argmax(np.column_stack(scores), axis=1)]

    def _terms(self, coefficients: dict[str, Any], rows: pd.DataFrame) -> Any:
        total = np.zeros(len(rows))
        for parent, weight in coefficients.items():
            if isinstance(weight, dict):
                of_level = np.array([weight[label] for label in self.levels[parent]])
                total += of_level[self._codes(rows[parent], parent)]
            else:
                total += weight * rows[parent].to_numpy(dtype=float)
        return total

    def _codes(self, column: "pd.Series[Any]", name: str) -> Any:
        place = {label: code for code, label in enumerate(self.levels[name])}
        labels = column.astype(str)
        unknown = sorted(set(labels) - set(place))
        if unknown:
            raise ValueError(f"column {name}: '{unknown[0]}' is not one of its labels {', '.join(self.levels[name])}")
        return labels.map(place).to_numpy(dtype=int)


set_model(MixedGivenParents())
