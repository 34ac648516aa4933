"""Synthetic event sequences: multivariate Hawkes processes on random DAGs over the event types.

A Hawkes process is a cluster process (Hawkes & Oakes 1974): immigrants arrive at base rates, and every event of type
i causes a Poisson number of events of type j with the mean α_ij, each after an exponential delay. Drawing generation
by generation is exact, except that causes before the window are missing. The graph is acyclic, and every type also
excites itself.
"""

from typing import Any

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from ..defaults import EVENT_DEGREE
from ..federated import FederatedData, silo_names
from ..federated import events as schema_of
from .random_graphs import variable_names
from .sampling import numbered_stream

EXCITATION, SELF_EXCITATION = (0.2, 0.5), (0.1, 0.3)
"""ranges from which the mean number of events that an event causes is drawn uniformly: along an edge, and of its own
type"""
BASE = (0.5, 1.5)
"""range from which base rates are drawn uniformly, before they are scaled to `SPACING`"""
DELAY = 1.0
"""mean delay between cause and effect, the unit of time"""
MAX_WEIGHT = 2.0
"""maximum `weight` of `linked_events`: with 2.3 or more, an event of a type could cause more than one event of this
type on average, so that the process could explode"""
SPACING = 20.0
"""mean time between two immigrants of a device"""


def events(
    variables: int, silos: int, events: int, devices: int, seed: int, degree: float = EVENT_DEGREE
) -> FederatedData:
    """Draw about `events` events of `variables` types; the silos have `devices` in the proportions 1 : 2 : ... : P.

    `degree` is the mean number of other types that excite a type. The truth has the weights α. Raises `BadInput` for an
    invalid value, and if a silo would have fewer than two events.
    """
    _check(variables, silos, events, devices, seed, degree)
    rng, d = numbered_stream(seed, 0), variables
    order = rng.permutation(d)
    lower = np.zeros((d, d), bool)
    lower[np.ix_(order, order)] = np.triu(rng.random((d, d)) < 2 * degree / (d - 1), 1)
    excitation = np.where(lower, rng.uniform(*EXCITATION, (d, d)), 0.0)
    own = rng.uniform(*SELF_EXCITATION, d)
    base = _base_rates(d, rng)
    total = np.linalg.solve(np.eye(d) - (excitation + np.diag(own)).T, base).sum()
    window = events / devices / total
    drawn = [_device(base, excitation + np.diag(own), window, numbered_stream(seed, 1, k)) for k in range(devices)]
    names, shares = silo_names(silos), np.arange(1, silos + 1) / np.arange(1, silos + 1).sum()
    ends = np.maximum(np.rint(np.cumsum(shares) * devices).astype(int), np.arange(1, silos + 1))
    tables = {}
    for name, begin, end in zip(names, [0, *ends[:-1]], ends, strict=True):
        rows = [np.column_stack([np.full(len(one), k), one]) for k, one in enumerate(drawn[begin:end]) if len(one)]
        if sum(map(len, rows)) < 2:
            raise BadInput(f"events: silo {name} has fewer than two: draw more")
        table = np.concatenate(rows)
        table[:, 0] = np.unique(table[:, 0], return_inverse=True)[1]
        tables[name] = np.hstack([table, np.tile([0.0, window], (len(table), 1))])
    columns = variable_names(d)
    parameters: dict[str, Any] = {
        "variables": d,
        "silos": silos,
        "events": events,
        "devices": devices,
        "degree": degree,
    }
    about = {"kind": "events", "generator": "events", "source": "Hawkes 1971", "window": [0.0, window]}
    truth = Structure(columns, excitation)
    return FederatedData(
        schema_of(tables, columns), tables, truth, {}, about | {"parameters": parameters, "seed": seed}
    )


def linked_events(
    variables: int, silos: int, events: int, devices: int, seed: int, weight: float, degree: float = EVENT_DEGREE
) -> FederatedData:
    """Draw about `events` events; in each silo, `devices` devices form a ring, and events excite neighbouring devices.

    An event causes α_ij events on its device on average, and `weight` times as many on both neighbours together. The
    truth has α, and the parameters in `about` have this weight. Raises `BadInput` for an invalid value, and if a silo
    would have fewer than two events.
    """
    _check(variables, silos, events, devices * silos, seed, degree)
    if devices < 3:
        raise BadInput(f"devices: {devices} are not a ring; the minimum is 3")
    if not 0 <= weight <= MAX_WEIGHT:
        raise BadInput(f"weight: {weight} is not from 0 to {MAX_WEIGHT:g}")
    rng, d = np.random.default_rng(seed), variables
    order = rng.permutation(d)
    edges = np.zeros((d, d), bool)
    edges[np.ix_(order, order)] = np.triu(rng.random((d, d)) < 2 * degree / (d - 1), 1)
    excitation = np.where(edges, rng.uniform(*EXCITATION, (d, d)), 0.0)
    own, base = np.diag(rng.uniform(*SELF_EXCITATION, d)), _base_rates(d, rng)
    total = np.linalg.solve(np.eye(d) - (1 + weight) * (excitation + own).T, base).sum()
    window = events / (devices * silos) / total
    tables = {name: _ring(base, excitation + own, window, devices, weight, rng) for name in silo_names(silos)}
    for name, table in tables.items():
        if len(table) < 2:
            raise BadInput(f"events: silo {name} has fewer than two: draw more")
    names = variable_names(d)
    about: dict[str, Any] = {"kind": "events", "generator": "linked_events", "source": "Cai et al. 2022"}
    about["window"] = [0.0, float(window)]
    parameters = {"variables": d, "silos": silos, "events": events, "devices": devices, "degree": degree}
    about |= {"parameters": parameters | {"hops": 1, "hop_weight": weight}, "seed": seed}
    return FederatedData(schema_of(tables, names), tables, Structure(names, excitation), {}, about)


def _ring(
    base: FloatArray, excitation: FloatArray, window: float, devices: int, weight: float, rng: np.random.Generator
) -> FloatArray:
    """The events `[n, 7]` of a ring of `devices` in a `window`; the last two columns are the device's neighbours."""
    d = len(base)
    counts = rng.poisson(base * window, (devices, d))
    owners, types = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    times = rng.uniform(0, window, len(types))
    found = [np.column_stack([owners, times, types])]
    while len(types):
        children = rng.poisson((1 + weight) * excitation[types])
        parents, types = np.nonzero(children)
        repeats = children[parents, types]
        parents, types = np.repeat(parents, repeats), np.repeat(types, repeats)
        steps = np.where(rng.random(len(parents)) * (1 + weight) < 1, 0, rng.choice((-1, 1), len(parents)))
        owners = (owners[parents] + steps) % devices
        times = times[parents] + rng.exponential(DELAY, len(parents))
        inside = times < window
        owners, times, types = owners[inside], times[inside], types[inside]
        found.append(np.column_stack([owners, times, types]))
    whole = np.concatenate(found)
    whole = whole[np.lexsort((whole[:, 1], whole[:, 0]))]
    ends = np.tile([0.0, window], (len(whole), 1))
    return np.hstack([whole, ends, (whole[:, :1] + [-1, 1]) % devices])


def _base_rates(types: int, rng: np.random.Generator) -> FloatArray:
    """The base rates of the types, whose sum is one immigrant in the time `SPACING`."""
    base = rng.uniform(*BASE, types)
    return np.asarray(base / (base.sum() * SPACING))


def _check(variables: int, silos: int, events: int, devices: int, seed: int, degree: float) -> None:
    """Raise `BadInput` for an invalid value."""
    for name, value, least in (("variables", variables, 2), ("silos", silos, 1), ("seed", seed, 0)):
        if value < least:
            raise BadInput(f"{name}: {value} is less than {least}")
    if devices < silos:
        raise BadInput(f"devices: {devices} are fewer than the {silos} silos")
    if events < 2 * devices:
        raise BadInput(f"events: {events} are fewer than two for each of the {devices} devices")
    if not 0 <= degree <= (variables - 1) / 2:
        raise BadInput(f"degree: {degree} is not from 0 to {(variables - 1) / 2:g}, half the number of other types")


def _device(base: FloatArray, excitation: FloatArray, window: float, rng: np.random.Generator) -> FloatArray:
    """Times and types `[n, 2]` of the events of one device in a `window`, in the order of the times."""
    d = len(base)
    types = np.repeat(np.arange(d), rng.poisson(base * window))
    times = rng.uniform(0, window, len(types))
    found = [np.column_stack([times, types])]
    while len(types):
        children = rng.poisson(excitation[types])
        parents, types = np.nonzero(children)
        repeats = children[parents, types]
        times, types = np.repeat(times[parents], repeats), np.repeat(types, repeats)
        times = times + rng.exponential(DELAY, len(times))
        inside = times < window
        times, types = times[inside], types[inside]
        found.append(np.column_stack([times, types]))
    whole = np.concatenate(found)
    return whole[np.argsort(whole[:, 0], kind="stable")]
