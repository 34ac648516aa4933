"""The protocol of federated algorithms: the interface, the loop of rounds, specifications, schema and messages."""
