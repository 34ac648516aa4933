"""The dynamic model that MLflow saves with a run, as code (models-from-code); it can be loaded without fedbnsl.

MLflow copies this file into the model, and runs it when the model is loaded. Beside it is `network.json`, a linear
Gaussian network over the times t − lags, ..., t in pgmpy's format. Nothing is pickled.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class ForecastsOneStepAhead(PythonModel):
    """Forecasts the next row of a time series from the last rows."""

    def load_context(self, context: Any) -> None:
        """Read the network and solve it for the present: x_t = (c + Σ_k x_{t−k} A_k)(I − W)⁻¹."""
        with open(context.artifacts["network"], encoding="utf-8") as file:
            network = json.load(file)
        self.variables: list[str] = network["variables"]
        self.lags: int = network["lags"]
        d, cpds = len(self.variables), [network["cpds"][name] for name in network["variables"]]
        place = {name: number for number, name in enumerate(network["nodes"])}
        weights = np.zeros((len(place), d))
        for j, cpd in enumerate(cpds):
            for parent in cpd["parents"]:
                weights[place[parent], j] = cpd["coefficients"][parent][0]
        now = np.linalg.inv(np.eye(d) - weights[:d])
        self.intercepts = np.array([cpd["coefficients"]["(Intercept)"][0] for cpd in cpds]) @ now
        self.weights = weights[d:] @ now

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """For each row that has enough rows before it, the forecast of the next row, with the index of that row.

        The rows follow each other in time, and the latest is last. `lags` rows give one forecast, and each further row
        gives one more. Columns that are not variables are ignored. Raises `ValueError` if a variable has no column, or
        if there are fewer rows than lags.
        """
        missing = [name for name in self.variables if name not in model_input.columns]
        if missing:
            raise ValueError(f"the table lacks the columns {', '.join(missing)}")
        rows = len(model_input)
        if rows < self.lags:
            raise ValueError(f"{rows} rows, but the model looks back over {self.lags}")
        values = model_input[self.variables].to_numpy(dtype=float)
        past = np.hstack([values[self.lags - 1 - back : rows - back] for back in range(self.lags)])
        index = model_input.index[self.lags - 1 :]
        return pd.DataFrame(past @ self.weights + self.intercepts, columns=self.variables, index=index)


set_model(ForecastsOneStepAhead())
