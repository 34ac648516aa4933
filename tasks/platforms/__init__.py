"""Adapters to platforms of federated learning, each of which moves bytes between a run and the nodes of its owners.

A platform is a transport: algorithms, silo and gate are those of any other run. `door.py` is the silo's end, which the
platform's node reaches on the owner's machine; `bridge.py` is the run's end, in the process that the platform starts
for a run. An adapter fills in `Platform`: which nodes there are, and how bytes go to a node and come back.
"""
