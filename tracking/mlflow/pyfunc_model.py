"""The model that MLflow saves with a run, as code (models-from-code); it can be loaded without fedbnsl.

MLflow copies this file into the model, and runs it when the model is loaded. Beside it is `network.json`, a network in
the format of `model.json`: the parents of each variable with coefficients or a table. Nothing is pickled.
"""

import json
from graphlib import TopologicalSorter
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class ParentsPredict(PythonModel):
    """Predicts every variable of a row from its parents: a number by its mean, and a label by the likeliest label.

    Parents are in the same row; in a model over time, they are also in the rows before. A model of time series of
    numbers forecasts the next row instead, from the last rows alone.
    """

    def load_context(self, context: Any) -> None:
        """Read the network."""
        with open(context.artifacts["network"], encoding="utf-8") as file:
            network = json.load(file)
        self.cpds: dict[str, Any] = network["cpds"]
        self.levels: dict[str, list[str]] = network.get("levels", {})
        self.variables: list[str] = network.get("variables", network["nodes"])
        self.lags: int = network.get("lags", 0)
        self.forecasts = self.lags > 0 and not self.levels

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """The mean or likeliest label of each variable given its parents, by row.

        A variable without parents gets its mean or its most frequent label. If labels are equally likely, the first is
        predicted. Other columns are ignored. In a model over time, the rows follow each other, and the latest is last.
        The model predicts each row that has `lags` rows before it. A model of numbers alone predicts the row after each
        row that has `lags` − 1 rows before it, with the index of that row, also after the latest row.

        Raises `ValueError` for a missing column, for too few rows, and for a parent's cell that is not one of its
        labels.
        """
        missing = [name for name in self.variables if name not in model_input.columns]
        if missing:
            raise ValueError(f"the table lacks the columns {', '.join(missing)}")
        if len(model_input) < self.lags:
            raise ValueError(f"{len(model_input)} rows, but the model looks back over {self.lags}")
        own = model_input[self.variables]
        # Labels become text before rows are shifted: a shift makes whole numbers floats, whose text is "1.0", not "1".
        own = own.assign(**{name: own[name].map(str) for name in self.variables if name in self.levels})
        first = self.lags - self.forecasts
        known: dict[Any, Any] = {} if self.forecasts else dict(own.iloc[first:].items())
        for lag in range(1, self.lags + 1):
            known |= own.shift(lag - self.forecasts).iloc[first:].add_suffix(f"[t-{lag}]").items()
        found = {}
        for name in TopologicalSorter({name: self.cpds[name]["parents"] for name in self.variables}).static_order():
            if name in self.variables:
                found[name] = self._predicted(name, known, len(own) - first)
                known.setdefault(name, found[name])
        return pd.DataFrame({name: found[name] for name in self.variables}, index=own.index[first:])

    def _predicted(self, name: str, known: dict[str, Any], rows: int) -> Any:
        """The prediction of one variable in all rows from the `known` columns, which include its parents."""
        cpd, parents = self.cpds[name], self.cpds[name]["parents"]
        if name not in self.levels:
            return self._regression(cpd["coefficients"], parents, known, rows)
        if "table" in cpd:
            best = np.argmax(np.array(cpd["table"]), axis=-1)
            codes = np.broadcast_to(best[tuple(self._codes(known[parent], parent) for parent in parents)], (rows,))
        else:
            each = [self._regression(cpd["coefficients"][label], parents, known, rows) for label in self.levels[name]]
            codes = np.argmax(np.column_stack(each), axis=1)
        return np.array(self.levels[name], dtype=object)[codes]

    def _regression(self, coefficients: dict[str, Any], parents: list[str], known: dict[str, Any], rows: int) -> Any:
        total = np.full(rows, coefficients["(Intercept)"][0], dtype=float)
        for parent in parents:
            weights = coefficients[parent]
            if parent in self.levels:
                total += np.array([weights[label] for label in self.levels[parent]])[self._codes(known[parent], parent)]
            else:
                total += weights[0] * np.asarray(known[parent], dtype=float)
        return total

    def _codes(self, column: "pd.Series[Any]", name: str) -> Any:
        place = {label: code for code, label in enumerate(self.levels[name])}
        unknown = sorted(set(column) - set(place))
        if unknown:
            raise ValueError(f"column {name}: '{unknown[0]}' is not one of its labels {', '.join(self.levels[name])}")
        return column.map(place).to_numpy(dtype=int)


set_model(ParentsPredict())
