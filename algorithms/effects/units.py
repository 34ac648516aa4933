"""Effects in the units of the data, where silos transformed columns, by rows drawn from the model of the run.

A change on the scale of the model moves each row of the outcome; the change in the units of the data is the mean of
what these rows change by after the transform is undone. Normal scores cannot be undone, because each silo has its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..core.schema import FloatArray, Schema, Transform
from ..parameters.networks import Network
from ..statistics.transforms import SCORES, apply, inverse
from .answer import Effect, InUnits, Values, contrasts

SAMPLED_ROWS = 4000
"""number of rows that are drawn from a network"""


@dataclass(frozen=True)
class Scale:
    """The unit of a column, and the transform whose values are learned; numbers for people are in the unit."""

    unit: str = ""
    transform: Transform | None = None

    @classmethod
    def of(cls, schema: Schema, name: str) -> "Scale":
        """The scale of a column of `schema`."""
        return cls(schema.unit_of.get(name, ""), schema.transforms.get(name))

    @property
    def score(self) -> str:
        """The name of a value that cannot be computed back, such as a normal score; else empty."""
        return SCORES.get(self.transform, "") if self.transform else ""

    @property
    def is_transformed(self) -> bool:
        """Whether the values are transformed and can be computed back."""
        return self.transform is not None and not self.score

    @property
    def suffix(self) -> str:
        """The unit after a number, with a space before it."""
        return f" {self.unit}" if self.unit and not self.score else ""

    def model(self, values: FloatArray) -> FloatArray:
        """The transformed `values` of these numbers of the column."""
        return values if self.transform is None or self.score else apply(values, self.transform)

    def original(self, values: FloatArray) -> FloatArray:
        """The numbers of the column with these transformed `values`."""
        return values if self.transform is None or self.score else inverse(values, self.transform)

    def change(self, change: float, rows: FloatArray | None) -> float:
        """The mean change of the column if the transformed values of `rows` change by this `change`."""
        if not self.is_transformed or rows is None or not len(rows):
            return change
        return float((self.original(rows + change) - self.original(rows)).mean())

    def changes(self, ends: tuple[float, float] | None, rows: FloatArray | None) -> tuple[float, float] | None:
        """The changes at both `ends` of an interval; None without an interval."""
        return None if ends is None else (self.change(ends[0], rows), self.change(ends[1], rows))


@dataclass(frozen=True, eq=False)
class DataUnits:
    """The scales of a run's columns and, if some are transformed, rows of its model by variable."""

    scales: Mapping[str, Scale] = field(default_factory=dict)
    sample: Mapping[str, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Schema, network: Network | None, rows: FloatArray | None = None) -> "DataUnits":
        """The units of `schema`, with `rows` `[n, d]` of the `network` or, without them, rows that are drawn now."""
        scales = {name: Scale.of(schema, name) for name in schema.variables}
        if network is None or not any(scale.transform for scale in scales.values()):
            return cls(scales)
        if rows is None:
            rows, _ = network.sample(SAMPLED_ROWS, np.random.default_rng(0))
        return cls(scales, dict(zip(network.variables, rows.T, strict=True)))

    def scale(self, name: str) -> Scale:
        """The scale of a variable."""
        return self.scales.get(name, Scale())

    def on_model_scale(self, name: str, values: Values | None) -> Values | None:
        """The `values` of a column on the scale of the model; of a transformed column, by default mean and mean + 1.

        Raises `BadInput` if the column is transformed and a value is not a number.
        """
        scale, rows = self.scale(name), self.sample.get(name)
        if not scale.is_transformed:
            return values
        if values is None:
            return None if rows is None else (float(rows.mean()), float(rows.mean()) + 1.0)
        (numbers,) = contrasts(name, (), values)
        before, after = scale.model(np.array(numbers, dtype=float))
        return (float(before), float(after))

    def outcomes(self, one: Effect, before: object, levels: Sequence[str]) -> FloatArray | None:
        """The outcomes of rows of the model as if their treatment had the value `before`; None without rows.

        `levels` are those of the treatment, if it has labels.
        """
        if one.outcome not in self.sample or one.treatment not in self.sample:
            return None
        causes, outcomes = self.sample[one.treatment], self.sample[one.outcome]
        if levels:
            return np.asarray(outcomes[causes == levels.index(str(before))])
        slope = (one.bounds[0] if one.bounds else 0.0) / (one.change or 1.0)
        return outcomes - slope * (causes - float(str(before)))

    def with_original(self, one: Effect, levels: Sequence[str]) -> Effect:
        """The effect with its values, estimates and interval in the units of the data, if it is on another scale."""
        cause, outcome = self.scale(one.treatment), self.scale(one.outcome)
        values = one.values
        if cause.is_transformed:
            low, high = cause.original(np.array([float(values[0]), float(values[1])]))
            values = (float(low), float(high))
        if one.bounds is None or not outcome.is_transformed or one.measure.startswith("P("):
            return replace(one, original=InUnits(values)) if cause.is_transformed else one
        base = self.outcomes(one, one.values[0], levels)
        bounds, interval = outcome.changes(one.bounds, base), outcome.changes(one.interval, base)
        return replace(one, original=InUnits(values, bounds, interval, outcome.unit))
