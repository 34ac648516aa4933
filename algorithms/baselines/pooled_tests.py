"""PC and FCI on all rows in one place: the searches of FedPC and FedFCI, for one silo that has them all."""

from ..constraint.evidence import exact
from ..constraint.federated import Server, federated_search
from ..constraint.procedures import FCI, PC
from ..constraint.settings import ConstraintSettings
from ..core.protocol import FederatedAlgorithm
from ..statistics.rows import Numbers, Query, Rows


def pc(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Rows, Query, Numbers]:
    """Return PC."""
    return federated_search(settings, PC, lambda kind: exact(settings, kind))


def fci(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Rows, Query, Numbers]:
    """Return FCI."""
    return federated_search(settings, FCI, lambda kind: exact(settings, kind))
