"""Learning that ends before anything is sent: each silo learns by itself, and what it learned is sent once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..graphs.structure import Structure
from .protocol import FederatedAlgorithm, Replies
from .schema import Schema

Server = TypeVar("Server")
Message = TypeVar("Message")


@dataclass(frozen=True)
class Broadcast:
    """The only broadcast: each silo is to send what it learned."""


def once(
    open_silo: Callable[[Any, Schema, str, np.random.Generator], Message],
    open_server: Callable[[Schema], Server],
    aggregate: Callable[[Server, Replies[Message]], Server],
    structure: Callable[[Server], Structure],
    server_type: type[Server],
    message_type: type[Message],
) -> FederatedAlgorithm[Server, Message, Broadcast, Message]:
    """Return the algorithm of one exchange in which a silo sends its state, which is what `open_silo` learned."""
    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: Broadcast(),
        local_solve=lambda silo, request: (silo, silo),
        aggregate=aggregate,
        dual_update=lambda server: server,
        converged=lambda server: True,
        structure=structure,
        server_type=server_type,
        silo_type=message_type,
        broadcast_type=Broadcast,
        reply_type=message_type,
        max_rounds=1,
    )
