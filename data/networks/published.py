"""Rows sampled from published networks, Gaussian and discrete, and from the user's own BIF files.

The networks are files of the pgmpy wheel, from the bnlearn repository (M. Scutari, Bayesian Network Repository, CC
BY-SA 3.0); `data/defaults.py` has their names and authors. `carried_file` locates a data file of an installed package
without importing the package, and `read_bif` reads `.bif` and `.bif.gz` files.
"""

import gzip
import json
import zlib
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.bif import parse_bif
from fedbnsl.algorithms.parameters.network_json import network_from_json
from fedbnsl.algorithms.parameters.networks import Network

from ..defaults import DISCRETE, GAUSSIAN
from ..federated import FederatedData, continuous, silo_names
from ..generators.hidden_variables import hide
from ..generators.sampling import check_counts, draw_discrete_silos, linear_sem, numbered_stream, stream


def read_bif(path: Path) -> Network:
    """Read `path` (.bif or .bif.gz). Raises `BadInput` naming file, line and fault."""
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix.lower() == ".gz" else content).decode("utf-8-sig")
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start}: not UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return parse_bif(text, str(path))


def carried_file(package: str, inside: str, remedy: str) -> Path:
    """The path of the file `inside` the installed `package`. Raises `BadInput` with the `remedy` if it is missing."""
    try:
        entries = [entry for entry in files(package) or () if entry.as_posix() == inside]
    except PackageNotFoundError:
        entries = []
    path = Path(str(entries[0].locate())) if entries else None
    if path is None or not path.is_file():
        raise BadInput(f"{inside} of the package {package} is not installed: {remedy}")
    return path


FOLDER = "pgmpy/utils/example_models"
REMEDY = "pip install 'pgmpy>=1.1,<1.3'"
REPOSITORY = "bnlearn repository (CC BY-SA 3.0), file of the pgmpy wheel"


def gaussian_network(name: str) -> Network:
    """The Gaussian network `name` with its published coefficients. Raises `BadInput` for an unknown name."""
    if name not in GAUSSIAN:
        raise BadInput(f"network: {name!r} is not one of {', '.join(GAUSSIAN)}")
    path = carried_file("pgmpy", f"{FOLDER}/{name}.json", REMEDY)
    return network_from_json(json.loads(path.read_text(encoding="utf-8")), str(path))


def discrete_network(name: str) -> Network:
    """The discrete network `name` with its published tables, or the network in a file (.bif or .bif.gz).

    Raises `BadInput` for an unknown name, and as `read_bif` does.
    """
    if name in DISCRETE:
        return read_bif(carried_file("pgmpy", f"{FOLDER}/{name}.bif.gz", REMEDY))
    if not _is_bif(name):
        raise BadInput(f"network: {name!r} is not one of {', '.join(DISCRETE)}, nor a .bif file")
    return read_bif(Path(name))


def network(name: str, silos: int, rows: int, seed: int, latent: int = 0) -> FederatedData:
    """Draw silos of `rows` rows each from the network `name`, Gaussian or discrete, or from the BIF file `name`.

    Rows of a Gaussian network have its intercepts and variances, without scaling; each silo has its own random stream,
    and the truth has the coefficients as weights. `draw_discrete_silos` draws the rows of a discrete network. `latent`
    is the number of variables to hide (`hide`). Raises `BadInput` for an unknown network, silos < 1, rows < 2 or seed
    < 0.
    """
    check_counts(silos, rows, seed)
    published = GAUSSIAN | DISCRETE
    if name not in published and not _is_bif(name):
        raise BadInput(f"network: {name!r} is not one of {', '.join(sorted(published))}, nor a .bif file")
    about = {
        "generator": "network",
        "source": f"{published[name]}; {REPOSITORY}" if name in published else "a BIF file",
        "parameters": {"network": Path(name).name, "silos": silos, "rows": rows},
        "seed": seed,
    }
    if name in GAUSSIAN:
        whole = _draw_gaussian(gaussian_network(name), silos, rows, seed, {"kind": "continuous", **about})
    else:
        whole = draw_discrete_silos(discrete_network(name), silos, rows, seed, about)
    return hide(whole, latent, stream(seed, "latent"))


def _draw_gaussian(model: Network, silos: int, rows: int, seed: int, about: dict[str, Any]) -> FederatedData:
    tables = {}
    truth, deviations = model.structure, np.sqrt(model.variances)
    for number, silo in enumerate(silo_names(silos)):
        rng = numbered_stream(seed, 1, number)
        tables[silo] = linear_sem(
            model.structure.weights, rows, rng, intercepts=model.intercepts, deviations=deviations
        )
    return FederatedData(continuous(tables, truth.variables), tables, truth, {}, about)


def _is_bif(name: str) -> bool:
    return name.lower().endswith((".bif", ".bif.gz"))
