"""A lying peer of a federation in a process of its own: it has a silo's certificate and prints the replies.

python rogue.py FOLDER NAME ADDRESS ATTACK [VICTIM]
"""

import asyncio
import sys
from pathlib import Path

from distributed import Scheduler
from distributed.comm.core import connect

from fedbnsl.tasks.transport.identity import Identity
from fedbnsl.tasks.transport.unpickling import restrict_unpickling

HEARTBEAT = {"op": "heartbeat_worker", "metrics": {}, "now": 0.0, "reply": True}


def identity(folder, name):
    return Identity(folder / f"{name}.pem", folder / f"{name}.key", folder / "trusted.pem")


async def send(mine, address, message):
    """Send one message on a new connection; return the answer, or how the connection ended."""
    comm = await connect(address, **mine.security().get_connection_args("worker"))
    try:
        await comm.write(message)
        return await asyncio.wait_for(comm.read(), 10)
    except (OSError, EOFError, TimeoutError) as error:
        return f"closed: {type(error).__name__}"
    finally:
        comm.abort()


async def scheduler(mine):
    """Be a scheduler with the certificate of a silo, until killed."""
    options = {"security": mine.security(), "protocol": "tls", "host": "127.0.0.1", "port": 0, "dashboard": False}
    async with Scheduler(**options, extensions={}) as rogue:
        print(rogue.address, flush=True)
        await asyncio.Event().wait()


def main(folder, name, address, attack, victim=""):
    restrict_unpickling()
    mine = identity(Path(folder), name)
    if attack == "scheduler":
        asyncio.run(scheduler(mine))
        return
    messages = {
        "heartbeat": {
            "op": "heartbeat_worker",
            "address": "tls://127.0.0.1:1",
            "metrics": {},
            "now": 0.0,
            "reply": True,
        }
        | {"resources": {f"silo:{victim}": 1}},
        "heartbeat of another": {"op": "heartbeat_worker", "address": victim, "metrics": {}, "now": 0.0, "reply": True},
        "unregister": {"op": "unregister", "address": victim, "reply": True, "safe": False},
        "client": {"op": "register-client", "client": "rogue", "versions": {}, "reply": True},
    }
    print(asyncio.run(send(mine, address, messages[attack])), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
