"""How a run is called in MLflow, and what it is found, sorted and compared by there."""

from dataclasses import asdict
from typing import Any

from ..job.job import Job

FAMILIES = {
    "admm": "consensus ADMM",
    "mlp": "consensus ADMM",
    "dp_fed_sparse": "consensus ADMM",
    "constraint": "independence tests",
    "score": "score search",
    "moments": "summed moments",
    "dynamic": "time series",
    "baselines": "baseline",
}
"""what the folders of `algorithms/` that hold learners have in common"""
PROMISES = ("epsilon", "delta", "budget")
"""settings that are a promise only above zero"""


def name_told(job: Job) -> str:
    """Return the name of the run with what differs first, as tables cut it off: algorithm, seed, time, data set.

    A name that the user has given stays as it is.
    """
    generated = f"{job.asked}-{job.dataset[:100]}-seed{job.seed}-"
    if not job.name.startswith(generated):
        return job.name
    day, _, clock = job.name.removeprefix(generated).partition("-")
    return f"{job.spec.name} s{job.seed} {clock[:2]}:{clock[2:4]}:{clock[4:]} {day} {job.dataset}"


def params_told(job: Job) -> dict[str, Any]:
    """Return the parameters of the run: those that all algorithms have, then the algorithm's own settings.

    Budgets that nothing was promised for are left out: ε = 0 would read as perfect privacy.
    """
    settings = asdict(job.spec.settings)
    own = {name: value for name, value in settings.items() if name not in PROMISES or (value or 0) > 0}
    common = {
        "algorithm": job.spec.name,
        "family": family(job),
        "dataset": job.dataset,
        "engine": job.engine,
        "secure": job.secure,
        "seed": job.seed,
    }
    return own | common


def family(job: Job) -> str:
    """Return what kind of learner the run uses, from the folder that its settings are defined in."""
    folder = type(job.spec.settings).__module__.split(".")[2]
    return FAMILIES.get(folder, folder)
