"""How the coordinator reaches the silos: an interface, over Dask or within one process, and the federation on top."""
