"""The one abstraction and the one loop: a federated algorithm, its specification, its messages."""
