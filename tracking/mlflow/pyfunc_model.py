"""The model that MLflow saves with a run, as code (models-from-code); it can be loaded without fedbnsl.

MLflow copies this file into the model, and runs it when the model is loaded. Beside it is `network.json`, a linear
Gaussian Bayesian network in pgmpy's format. Nothing is pickled.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class ParentsPredict(PythonModel):
    """Predicts every variable of a row from the values of its parents in that row."""

    def load_context(self, context: Any) -> None:
        """Read the network: `weights[i, j]` is the weight of i → j, `[n_variables, n_variables]`."""
        with open(context.artifacts["network"], encoding="utf-8") as file:
            network = json.load(file)
        self.variables: list[str] = network["nodes"]
        cpds = [network["cpds"][name] for name in self.variables]
        place = {name: number for number, name in enumerate(self.variables)}
        self.intercepts = np.array([cpd["coefficients"]["(Intercept)"][0] for cpd in cpds])
        self.weights = np.zeros((len(cpds), len(cpds)))
        for j, cpd in enumerate(cpds):
            for parent in cpd["parents"]:
                self.weights[place[parent], j] = cpd["coefficients"][parent][0]

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """The mean of each variable given its parents, by row: intercept + Σ weight · parent.

        A variable without parents gets its intercept, which is its mean. Other columns are ignored. Raises `ValueError`
        for a missing column.
        """
        missing = [name for name in self.variables if name not in model_input.columns]
        if missing:
            raise ValueError(f"the table lacks the columns {', '.join(missing)}")
        values = model_input[self.variables].to_numpy(dtype=float)
        return pd.DataFrame(values @ self.weights + self.intercepts, columns=self.variables, index=model_input.index)


set_model(ParentsPredict())
