"""fedbnsl for scikit-learn: `from fedbnsl.sklearn import StructureLearner`."""

from fedbnsl.flows.api.estimator import StructureLearner

__all__ = ["StructureLearner"]
