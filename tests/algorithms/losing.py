"""Federations that lose silos, and the results they are compared with."""

from fedbnsl.algorithms.core.protocol import gather, rounds, traffic_of
from fedbnsl.tasks.transport.in_process import InProcessFederation


class Losing(InProcessFederation):
    """A federation in which each silo in `lost` stops answering from the given round on."""

    def __init__(self, schema, tables, lost):
        super().__init__(schema, tables)
        self.lost = lost

    def exchange(self, algorithm, number, broadcast, sparse=None):
        silos = [silo for silo in self.schema.silos if number < self.lost.get(silo, number + 1)]
        replies = {silo: self.reply(algorithm, number, silo, broadcast) for silo in silos}
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)


def last_of(algorithm, federation, start=None):
    """The last round."""
    *_, last = rounds(algorithm, federation, None if start is None else (0, start))
    return last
