"""The Python API: `from fedbnsl import learn, load, prepare`."""

from .evaluation import compare, evaluate
from .learned import Learned
from .learning import learn, prepare
from .loading import load

__all__ = ["Learned", "compare", "evaluate", "learn", "load", "prepare"]
