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
    """Raise `BadInput` that names the silo whose longest unbroken stretch has fewer than `lags` + 2 rows.

    Such a silo has at most one window, of which nothing can be learned.
    """
    for silo in schema.silos:
        longest = max(schema.stretches[silo], default=0)
        if longest < lags + 2:
            steps = f"{lags} lag{'s' * (lags > 1)} need"
            raise BadInput(
                f"silo {silo}: its longest unbroken stretch has {longest} rows: {steps} {lags + 2} rows or more"
            )


def longest_reach(schema: Schema, most: int) -> int:
    """Return how many lags, up to `most`, every silo's series bear. Raises `BadInput` for a silo that bears none."""
    check_lags(schema, 1)
    return min(most, *(max(schema.stretches[silo]) - 2 for silo in schema.silos))


def fixed(lags: Lags) -> int:
    """Return a lag order that is a number. Raises `BadInput` for one that has yet to be chosen."""
    if lags == AUTO:
        raise BadInput("parameter lags is auto: it is chosen before the rounds, and there was no such exchange")
    return lags
