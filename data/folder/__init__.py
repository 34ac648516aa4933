"""A federated data set as a folder: read, written and checked."""

from .folder import read_folder, write_folder

__all__ = ["read_folder", "write_folder"]
