"""A finished run: its result, its folder with the files, and where it is tracked."""

from dataclasses import dataclass, field
from pathlib import Path

from fedbnsl.tracking.result import RunResult


@dataclass(frozen=True)
class Finished:
    """One finished run."""

    result: RunResult
    folder: Path
    files: dict[str, Path] = field(default_factory=dict)
    tracking_url: str | None = None
