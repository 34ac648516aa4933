"""Names of variables at earlier times."""

from collections.abc import Sequence


def lagged_name(name: str, lag: int) -> str:
    """Return what variable `name` is called `lag` steps before t: with lag 0 as it is, with lag 1 "name[t-1]"."""
    return f"{name}[t-{lag}]" if lag else name


def unrolled_names(variables: Sequence[str], lags: int) -> tuple[str, ...]:
    """Return the names of the variables at t, t − 1, ..., t − lags, `[(lags + 1)·d]`."""
    return tuple(lagged_name(name, lag) for lag in range(lags + 1) for name in variables)
