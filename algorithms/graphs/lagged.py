"""Names of variables at earlier times."""


def lagged_name(name: str, lag: int) -> str:
    """Return what variable `name` is called `lag` steps before t: with lag 0 as it is, with lag 1 "name[t-1]"."""
    return f"{name}[t-{lag}]" if lag else name
