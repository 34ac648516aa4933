"""How far back a learner of time series looks, and whether a federation has series long enough for that."""

from typing import Literal

from ..errors import BadInput, require_number
from .schema import Schema

Lags = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"


def require_lags(lags: Lags) -> None:
    """Raise `BadInput` for a lag order that is neither 1 or more nor auto."""
    require_number(lags == AUTO or lags >= 1, "parameter lags", lags, "1 or more, or auto")


def check_lags(schema: Schema, lags: int) -> None:
    """Raise `BadInput`, naming the silo, unless each has a stretch of `lags` + 2 rows, so of two windows, at least."""
    for silo in schema.silos:
        longest = max(schema.stretches[silo], default=0)
        if longest < lags + 2:
            raise BadInput(
                f"silo {silo}: fewer rows than lags + 2: its longest unbroken series has {longest} rows, "
                f"lags = {lags} need at least {lags + 2}"
            )


def longest_reach(schema: Schema, most: int) -> int:
    """Return how many lags, up to `most`, every silo's series bear. Raises `BadInput` for a silo that bears none."""
    check_lags(schema, 1)
    return min(most, *(max(schema.stretches[silo]) - 2 for silo in schema.silos))


def reach(schema: Schema, lags: Lags, most: int) -> int:
    """Return how many lags are summed: `lags`, or, where they are yet to be chosen, as many as `longest_reach` says.

    Raises `BadInput` naming a silo whose series are too short.
    """
    if lags == AUTO:
        return longest_reach(schema, most)
    check_lags(schema, lags)
    return lags


def fixed(lags: Lags) -> int:
    """Return a lag order that is a number. Raises `BadInput` for one that has yet to be chosen."""
    if lags == AUTO:
        raise BadInput("parameter lags is auto: it is chosen before the rounds, and there was no such exchange")
    return lags
