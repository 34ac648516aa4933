"""Open a file in the Bayesian Interchange Format: `.bif`, or packed as `.bif.gz`."""

import gzip
import zlib
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.bif import parse_bif
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork


def read_bif(path: Path) -> DiscreteNetwork:
    """Read `path` (.bif or .bif.gz). Raises `BadInput` naming file, line and what is wrong there."""
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
