"""Recordings whose levels and units say nothing, such as those of functional MRI: every series in its own units."""

from dataclasses import replace

import numpy as np
import pandas as pd

from ..folder.recording import Recording

CONSTANT = 1e-12
"""a standard deviation below this part of the greatest value is what rounding left of zero"""


def standardised(recording: Recording) -> Recording:
    """Return `recording` with every variable of every series at mean 0 and standard deviation 1.

    A variable that does not change in a series is 0 there; empty cells stay empty. Levels that tell series apart are
    lost, and so is which variable varies more than another.
    """
    values = pd.DataFrame(recording.values)
    of_series = values.groupby(recording.series)
    spread = of_series.transform("std", ddof=0)
    largest = values.abs().groupby(recording.series).transform("max")
    scaled = (values - of_series.transform("mean")) / spread.where(spread > CONSTANT * largest, np.inf)
    return replace(recording, values=scaled.to_numpy())
