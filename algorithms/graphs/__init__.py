"""Graphs: DAG, CPDAG, skeleton, moral graph, and how two graphs are compared."""
