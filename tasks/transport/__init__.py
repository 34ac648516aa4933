"""Connections from the coordinator to the silos: an interface, over Dask or in one process, and the federation."""
