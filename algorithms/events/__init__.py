"""Learners for event sequences: which types of events excite which others."""

from typing import Any

from ..core.spec import EVENTS, Entry, lazy_factory


def _message_size(settings: Any, d: int) -> int:
    """The maximum number of entries that a silo sends: families of each type, with each other type added or removed."""
    families, columns = d * (2 * d + 1), d + 1
    numbers: int = families * settings.trials * (1 + columns + columns * (columns + 1) // 2)
    return numbers


ALGORITHMS: dict[str, Entry] = {
    "fed-hawkes": Entry(
        releases="Newton terms",
        summary="a graph of event types by the likelihood of a Hawkes process: the result of pooled devices",
        source="Hawkes 1971; Ogata 1981; the search is ours, after Cai et al. 2022 (THP)",
        disclosure="once, numbers of events and length of observation; in each round, the silo's part of "
        "log-likelihoods of types given their causes, with first and second derivatives; masked with --secure",
        maker=lazy_factory("events.fed_hawkes:FedHawkes"),
        kinds=EVENTS,
        message_size=_message_size,
        varying_messages=True,
    ),
}
"""the learners of this family, by name"""
