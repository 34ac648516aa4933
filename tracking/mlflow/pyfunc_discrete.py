"""The discrete model that MLflow saves with a run, as code (models-from-code); it can be loaded without fedbnsl.

MLflow copies this file into the model, beside `network.json`: levels, parents and probability tables by variable.
Nothing is pickled.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class LikeliestGivenParents(PythonModel):
    """Predicts every variable of a row from the labels of its parents in that row."""

    def load_context(self, context: Any) -> None:
        """Read the network: for each variable, the likeliest level in every state of its parents."""
        with open(context.artifacts["network"], encoding="utf-8") as file:
            network = json.load(file)
        self.variables: list[str] = network["nodes"]
        self.levels: dict[str, list[str]] = network["levels"]
        self.parents: dict[str, list[str]] = network["parents"]
        self.likeliest = {name: np.argmax(np.array(table), axis=-1) for name, table in network["tables"].items()}

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """The likeliest label of each variable given its parents' labels, by row.

        If labels are equally likely, the first is predicted. A variable without parents gets its most frequent label.
        Other columns are ignored. Raises `ValueError` for a missing column, and for a cell that is not a label of its
        variable.
        """
        missing = [name for name in self.variables if name not in model_input.columns]
        if missing:
            raise ValueError(f"the table lacks the columns {', '.join(missing)}")
        codes = {name: self._codes(model_input[name], name) for name in self.variables}
        found = {}
        for name in self.variables:
            given = tuple(codes[parent] for parent in self.parents[name])
            best = self.likeliest[name][given] if given else np.full(len(model_input), self.likeliest[name])
            found[name] = np.array(self.levels[name], dtype=object)[best]
        return pd.DataFrame(found, index=model_input.index)

    def _codes(self, column: "pd.Series[Any]", name: str) -> Any:
        place = {label: code for code, label in enumerate(self.levels[name])}
        labels = column.astype(str)
        unknown = sorted(set(labels) - set(place))
        if unknown:
            raise ValueError(f"column {name}: '{unknown[0]}' is not one of its labels {', '.join(self.levels[name])}")
        return labels.map(place).to_numpy(dtype=int)


set_model(LikeliestGivenParents())
