"""How far a run is, in a few words: the measures of a round and the bytes until then."""

from .run import Progress

LEVEL = "conditioning_set_size"
"""what the rounds of a search by independence tests measure besides"""
OPEN_ENDED = 1000
"""a limit of so many rounds or more is no forecast: such a search ends when there is nothing left to test"""


def figures(heard: Progress) -> str:
    """Return the measures of a round and the bytes until then, in short."""
    if LEVEL in heard.row:
        return searched(heard)
    apart = ("round", "bytes_up", "bytes_down", "formula_bytes")
    measures = [f"{key} {value:.3g}" for key, value in heard.row.items() if key not in apart]
    return "  ".join([*measures, readable(sent(heard))])


def searched(heard: Progress) -> str:
    """Return how far a search by independence tests is after this exchange."""
    row = heard.row
    left_out = f" ({row['tests_left_out']:,.0f} left out)" if row["tests_left_out"] else ""
    size = "search over" if heard.round.outcome else f"next, conditioning sets of {row[LEVEL]:.0f}"
    return f"{row['tests']:,.0f} tests{left_out}, {row['edges']:.0f} edges left, {readable(sent(heard))}; {size}"


def sent(heard: Progress) -> float:
    """Return the bytes sent until now, both ways."""
    return sum(row["bytes_up"] + row["bytes_down"] for row in heard.rows)


def readable(count: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
