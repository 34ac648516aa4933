"""What every participant may know of the data: the columns, their levels, the silos and their numbers of rows."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Kind = Literal["continuous", "discrete", "time-series"]


@dataclass(frozen=True)
class Schema:
    """What every participant may know: the columns, and each silo's name and number of rows n_p.

    The numbers of rows are public, as in Fassy El Fehri et al., §5.
    `levels` gives the values of each discrete column, in the order of their codes; empty for continuous data.
    """

    variables: tuple[str, ...]
    rows: dict[str, int]
    kind: Kind = "continuous"
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def silos(self) -> tuple[str, ...]:
        """The names of the silos, sorted: the order in which anything is ever added up."""
        return tuple(sorted(self.rows))
