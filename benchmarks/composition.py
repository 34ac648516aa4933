"""Privacy accounting of every private run: its releases with sensitivity, noise and cost, from the code's own plans.

`python benchmarks/composition.py` prints the tables of docs/privacy/composition.md for the example schemas below, first
charged releases, then uncharged ones; `--write` writes them to the page. Nothing is learned: the tables follow from
settings and public numbers. `tests/test_privacy_documents.py` compares it with everything that the silos of real runs
send.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.constraint.fed_pc import bounded_settings, max_exchanges, privacy_plan
from fedbnsl.algorithms.constraint.orientation import FCI, PC
from fedbnsl.algorithms.constraint.private_counts import sensitivity
from fedbnsl.algorithms.core.protocol import Algorithm
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.dp_fed_sparse.plan import plan
from fedbnsl.algorithms.dp_fed_sparse.settings import DpFedSparse
from fedbnsl.algorithms.dp_fed_sparse.step_noise import SLACK, GumbelGaussian, gumbel_scale, shares_sensitivity
from fedbnsl.algorithms.moments.secure_sum import SecureSum, dp_covariance_plan, secure_sum_plan
from fedbnsl.algorithms.moments.summed import SummedMoments
from fedbnsl.algorithms.privacy import gram, private_scales
from fedbnsl.algorithms.privacy.discrete_gaussian import noise_on_grid
from fedbnsl.algorithms.privacy.ledger import PrivateSettings

PAGE = Path(__file__).parents[1] / "docs/privacy/composition.md"
BEGIN, END = "<!-- begin of the tables of benchmarks/composition.py -->", "<!-- end of the tables -->"
NAMES, ROWS = ("x", "y", "z"), {"a": 400, "b": 400, "c": 400}
SCHEMAS = {
    "continuous": Schema(NAMES, ROWS),
    "discrete": Schema(NAMES, ROWS, "discrete", dict.fromkeys(NAMES, ("no", "yes"))),
    "mixed": Schema(NAMES, ROWS, "mixed", {"x": ("no", "yes")}),
    "time-series": Schema(NAMES, ROWS, "time-series", stretches=dict.fromkeys(ROWS, (400,))),
}
"""the example schemas, by kind of data"""
EPSILON = 8.0


@dataclass(frozen=True)
class Case:
    """A private learner with options, on data of one kind."""

    name: str
    kind: str
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The learner, its options and the kind of data."""
        options = "".join(f" `{name}={value}`" for name, value in self.params.items())
        return f"`{self.name}`{options}, {self.kind}"

    @property
    def schema(self) -> Schema:
        """The example schema of this kind."""
        return SCHEMAS[self.kind]

    @property
    def settings(self) -> Any:
        """The typed settings, with ε."""
        return registry.specify(self.name, {"epsilon": EPSILON, **self.params}).settings

    @property
    def algorithm(self) -> Algorithm:
        """The learner."""
        return registry.build(registry.specify(self.name, {"epsilon": EPSILON, **self.params}))


CASES = (
    Case("secure-sum", "continuous"),
    Case("secure-sum", "continuous", {"colluders": 0}),
    Case("secure-sum", "continuous", {"known_scale": 1.0}),
    Case("secure-sum", "mixed"),
    Case("secure-sum", "mixed", {"center": False}),
    Case("secure-sum", "time-series"),
    Case("secure-sum", "time-series", {"lags": 1}),
    Case("secure-sum", "time-series", {"lags": 1, "protect": "row"}),
    Case("dp-covariance", "continuous"),
    Case("fed-pc", "discrete"),
    Case("fed-fci", "discrete"),
    Case("dp-fed-sparse", "continuous", {"rounds": 4}),
    Case("dp-fed-sparse", "continuous", {"rounds": 4, "mechanism": "mangold"}),
    Case("dp-fed-sparse", "continuous", {"rounds": 4, "acyclicity": "notears"}),
    Case("dp-fed-sparse", "continuous", {"rounds": 4, "smoothness": "private", "second_moment_bound": 4.0}),
    Case("dp-fed-sparse", "continuous", {"rounds": 4, "smoothness": "known", "known_smoothness": 1.0}),
)
"""the options that change what is released"""


@dataclass(frozen=True)
class Line:
    """One release: its name in the ledger, ℓ₂ sensitivity, noise of one silo, cost and largest number of rounds.

    `numbers` is how many numbers a silo sends a round, at most.
    """

    what: str
    numbers: int
    sensitivity: str
    noise: str
    rho: float
    rounds: int


def private_learners() -> list[str]:
    """The learners of the registry that can promise an ε."""
    return [n for n in registry.ALGORITHMS if isinstance(registry.specify(n).settings, PrivateSettings)]


def lines(case: Case) -> list[Line]:
    """The releases of a run, in the order of its ledger."""
    settings = case.settings
    if isinstance(settings, SummedMoments):
        return list(_summed(case, settings))
    if isinstance(settings, DpFedSparse):
        return list(_steps(case, settings))
    return list(_tables(case, settings))


def _summed(case: Case, settings: SummedMoments) -> Iterator[Line]:
    schema, group = case.schema, settings.group(case.schema)
    own = isinstance(settings, SecureSum)
    shares = secure_sum_plan(settings, schema) if isinstance(settings, SecureSum) else None
    shares = shares or dp_covariance_plan(settings, schema)  # type: ignore[arg-type]
    columns = len(settings.columns(schema).variables)
    counted = int((~schema.discrete).sum()) if schema.kind == "mixed" else columns
    by = f" by {shares.silos} of {len(schema.rows)} silos" if own else " by each silo"
    if not settings.known_scale:
        found, variance = group * private_scales.counts_sensitivity(counted), float(shares.count_variance)
        yield Line(
            "bucket counts",
            counted * private_scales.BUCKETS,
            f"{found:.5g}",
            f"σ² = {variance:.6g}{by}",
            shares.count_cost.rho,
            1,
        )
    found, variance = group * gram.gram_sensitivity(shares.bits), float(shares.gram_variance)
    noise = f"σ² = {variance:.6g} on the diagonal, {variance / 2:.6g} off it{by}"
    yield Line("second moments", columns * (columns + 1) // 2, f"{found:.6g}", noise, shares.gram_cost.rho, 1)


def _tables(case: Case, settings: Any) -> Iterator[Line]:
    method = PC if case.name == "fed-pc" else FCI
    chosen, d = privacy_plan(settings, method, case.schema.rows), len(case.schema.variables)
    pairs, cells = d * (d - 1) // 2, 4 * d * (d - 1) // 2
    variance = chosen.variance(pairs, cells)
    noise = f"σ² = {float(variance):.6g} by {chosen.certain_shares} of {len(case.schema.rows)} silos"
    exchanges = max_exchanges(bounded_settings(settings), method)
    rho = chosen.cost(pairs, cells, variance).rho
    yield Line(f"{pairs} count tables", cells, f"{sensitivity(pairs):.5g}", noise, rho, exchanges)


def _steps(case: Case, settings: DpFedSparse) -> Iterator[Line]:
    planned, d = plan(settings, case.schema), len(case.schema.variables)
    n = case.schema.rows["a"]
    if planned.scales.rho:
        counted = settings.smoothness == "histogram"
        numbers = d * private_scales.BUCKETS if counted else d
        found = (private_scales.counts_sensitivity(d) if counted else shares_sensitivity(d, n)) * SLACK
        step, variance = noise_on_grid(found, planned.scales.rho, numbers)
        noise = f"σ² = {step**2 * variance:.6g} by each silo"
        yield Line("sizes of the variables", numbers, f"{found:.5g}", noise, planned.scales.rho, 1)
    if planned.spread.rho:
        found = shares_sensitivity(d, n) * SLACK
        step, variance = noise_on_grid(found, planned.spread.rho, d)
        noise = f"σ² = {step**2 * variance:.4g} by each silo"
        yield Line("spread of residuals", d, f"{found:.4g}", noise, planned.spread.rho, settings.rounds)
    gumbel = isinstance(planned.noise, GumbelGaussian)
    beta = gumbel_scale(1.0, planned.noise.selection) if gumbel else 2 / planned.noise.selection.rho**0.5 / math.sqrt(2)
    law, second = ("Gumbel", "σ²") if gumbel else ("Laplace", "variance")
    each = f"{planned.steps} a round, Δ_S each"
    yield Line("choices of entries", 0, each, f"{law} of scale {beta:.4g}·Δ_S", planned.choices.rho, settings.rounds)
    noise = f"{second} = {planned.noise.deviation**2:.5g}·(2L/n)² by each silo"
    yield Line(
        "gradients", planned.steps, f"{planned.steps} a round, 2L/n each", noise, planned.gradients.rho, settings.rounds
    )


def table() -> str:
    """The table in Markdown."""
    rows = ["| learner | release | numbers | Δ | noise | ρ a round | rounds |", "| --- " * 7 + "|"]
    for case in CASES:
        for number, line in enumerate(lines(case)):
            first = case.label if number == 0 else ""
            rows.append(
                f"| {first} | {line.what} | {line.numbers} | {line.sensitivity} | {line.noise} | {line.rho:.6g} | "
                f"{line.rounds} |"
            )
    return "\n".join(rows)


@dataclass(frozen=True)
class Uncharged:
    """An uncharged message of a silo in a private run, and the reason that it does not depend on a record."""

    call: str
    content: str
    reason: str


UNCHARGED = (
    Uncharged("describe", "the names of the columns, and the number of rows", "both are public by the adjacency"),
    Uncharged("admit", "nothing, or a refusal", "the policy reads settings and public numbers only"),
    Uncharged("seal", "64 hexadecimal digits", "an HMAC of the rows under a secret of the silo"),
    Uncharged(
        "advertise",
        "a public key and two commitments, 96 bytes (above 32 silos one of 16 bytes, 48 bytes in all), and a signature",
        "drawn from fresh entropy",
    ),
    Uncharged(
        "share",
        "up to 32 silos: a sealed pair of shares for every other silo, and an escrow of mask keys, encrypted",
        "keys, and shares of keys, drawn from fresh entropy",
    ),
    Uncharged(
        "unmask",
        "for each silo of phase 2 one share, of its seed or of its escrow's key; above 32 silos its own seed",
        "the same",
    ),
    Uncharged(
        "charges", "run, round, name and ρ of every charge; no key and no binding", "from settings and broadcasts"
    ),
    Uncharged("releases", "a statement of what the silo has sent: kinds, silos, sizes and costs", "of the other lines"),
    Uncharged(
        "sign",
        "hashes of the policy and of that statement, and a signature of both and of the hashes of the result's files",
        "of the policy, and of what has left already",
    ),
    Uncharged("finish", "nothing", ""),
    Uncharged("solve: weight", "the rows of the silo over their mean, in replies of `dp-fed-sparse`", "public"),
    Uncharged(
        "solve: gap", "the squared distance of two earlier replies, in replies of `dp-fed-sparse`", "of releases"
    ),
)
"""all calls and phases, and the fields of replies, that carry no noise"""


def uncharged_table() -> str:
    """The table of uncharged messages, in Markdown."""
    lines = [f"| `{one.call}` | {one.content} | {one.reason} |" for one in UNCHARGED]
    return "\n".join(["| call | content | why no ε is charged |", "| --- | --- | --- |", *lines])


def with_table(page: str) -> str:
    """`page` with the tables between its marks replaced."""
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n{table()}\n\nCharged nothing:\n\n{uncharged_table()}\n{END}{after}"


def main() -> None:
    """Print the tables, or write them to the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write them to docs/privacy/composition.md")
    if parser.parse_args().write:
        PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
    else:
        print(f"{table()}\n\n{uncharged_table()}")


if __name__ == "__main__":
    main()
