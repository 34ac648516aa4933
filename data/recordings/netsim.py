"""The simulated fMRI recordings of NetSim (Smith et al. 2011): a MATLAB file with the series and the true networks.

`ts` [n_subjects · n_times, n_nodes] has one subject's times after another's, `net` [n_subjects, n_nodes, n_nodes] each
one's network, i → j at [s, i, j]; on its diagonal stands how fast activity decays.
"""

from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from ..folder.recording import Keys, Recording
from ..generators.linear import variable_names


def read_netsim(path: Path) -> tuple[Recording, Structure | None]:
    """Return the subjects' series, and the mean of their networks as the truth if they are there: which drives which.

    That truth says nothing of lags, and may have cycles. Raises `BadInput` naming file and array: no such file, no
    MATLAB file up to version 7, an array missing or of another shape.
    """
    held = _load(path)
    ts = _array(path, held, "ts", 2)
    subjects, times = _count(path, held, "Nsubjects"), _count(path, held, "Ntimepoints")
    if len(ts) != subjects * times:
        raise BadInput(f"{path}: array 'ts': {len(ts)} rows, not {subjects} subjects of {times} times")
    if np.isinf(ts).any():
        row, column = np.argwhere(np.isinf(ts))[0]
        raise BadInput(f"{path}: array 'ts': row {row + 1}, column {column + 1}: {ts[row, column]} is not finite")
    names = variable_names(ts.shape[1])
    clock = np.tile(np.arange(times, dtype=np.float64), subjects)
    recording = Recording(
        path,
        Keys(),
        names,
        ts,
        tuple(str(number) for number in range(1, subjects + 1)),
        ("",) * subjects,
        np.repeat(np.arange(subjects), times),
        clock,
        clock.astype(object),
        np.arange(len(ts)),
    )
    if "net" not in held:
        return recording, None
    net = _array(path, held, "net", 3)
    d = len(names)
    if net.shape != (subjects, d, d) or not np.isfinite(net).all():
        raise BadInput(f"{path}: array 'net': {net.shape} numbers, not {(subjects, d, d)} that are finite")
    return recording, Structure(names, np.where(np.eye(d, dtype=bool), 0.0, net.mean(axis=0)))


def _load(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    if not path.exists():
        raise BadInput(f"{path}: no such file")
    try:
        held: dict[str, Any] = loadmat(path)
    except NotImplementedError:
        raise BadInput(f"{path}: a MATLAB file of version 7.3; save it with -v7") from None
    except Exception as error:  # what scipy raises for a broken file depends on where it is broken
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path}: not a readable MATLAB file: {reason}") from error
    return held


def _array(path: Path, held: dict[str, Any], name: str, dimensions: int) -> Any:
    if name not in held:
        raise BadInput(f"{path}: array {name!r} is missing; there are {', '.join(k for k in held if k[0] != '_')}")
    found = np.asarray(held[name])
    if found.ndim != dimensions or not np.issubdtype(found.dtype, np.number) or np.iscomplexobj(found):
        raise BadInput(f"{path}: array {name!r}: {found.dtype} of shape {found.shape}, not {dimensions}-D real numbers")
    return found.astype(np.float64)


def _count(path: Path, held: dict[str, Any], name: str) -> int:
    found = _array(path, held, name, 2)
    if found.size != 1 or found.item() < 1 or not found.item().is_integer():
        raise BadInput(f"{path}: array {name!r}: not one whole number from 1 on")
    return int(found.item())
