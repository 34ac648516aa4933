"""How the coordinator reaches the silos: over Dask."""
