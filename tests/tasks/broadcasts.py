"""What the coordinator sends first."""

from fedbnsl.algorithms.core import wire


def first_broadcast(terms):
    """The encoded broadcast of the first round under `terms`."""
    algorithm = terms.algorithm()
    return wire.encode(algorithm.broadcast(algorithm.open_server(terms.schema)))
