"""The Python API: `from fedbnsl import learn, load, prepare`."""

from .learned import Learned
from .learning import learn, prepare
from .loading import load

__all__ = ["Learned", "learn", "load", "prepare"]
