"""`fedbnsl prepare`: make a federated data set and write it as a folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedbnsl.data.networks import catalogue

DISCRETE = ", ".join(sorted(catalogue.DISCRETE))
GAUSSIAN = ", ".join(sorted(catalogue.GAUSSIAN))

prepare_app = typer.Typer(help="Make a federated data set: a folder with one file a silo.", no_args_is_help=True)

Out = Annotated[Path, typer.Argument(help="Folder to write; it must not exist, or be empty.")]
Variables = Annotated[int, typer.Option(help="How many variables.")]
Silos = Annotated[int, typer.Option(help="How many silos.")]
Rows = Annotated[int, typer.Option(help="Rows of each silo.")]
Seed = Annotated[int, typer.Option(help="Same seed, same data, bit for bit.")]
Edges = Annotated[int | None, typer.Option(help="Expected edges of the graph; default: as many as variables.")]
Graph = Annotated[str, typer.Option(help="ER (Erdős–Rényi) or SF (scale-free).")]
Noise = Annotated[str, typer.Option(help="gaussian, exponential or gumbel.")]
Degree = Annotated[float, typer.Option(help="Mean number of neighbours in the random graph.")]
Levels = Annotated[str, typer.Option(help="Of each variable: a number, as 3, or a range, as 2-5.")]
Concentration = Annotated[
    float | None, typer.Option(help="Of the Dirichlet tables; default: drawn from 0.1 to 1 row by row.")
]
Latent = Annotated[int, typer.Option(help="Variables to hide, common causes first; the truth is then a PAG.")]


@prepare_app.command()
def homogeneous(
    out: Out,
    variables: Variables = 20,
    silos: Silos = 8,
    rows: Rows = 5000,
    seed: Seed = 0,
    edges: Edges = None,
    graph: Graph = "ER",
    noise: Noise = "gaussian",
) -> None:
    """One linear model on a random graph for all silos."""
    options = {"variables": variables, "silos": silos, "rows": rows, "seed": seed}
    _make("homogeneous", out, options | {"edges": edges, "graph": graph, "noise": noise})


@prepare_app.command()
def heterogeneous(
    out: Out,
    variables: Variables = 20,
    silos: Silos = 20,
    rows: Rows = 50,
    seed: Seed = 0,
    edges: Edges = None,
    graph: Graph = "ER",
    noise: Noise = "gaussian",
    weight_variance: Annotated[float, typer.Option(help="Of each weight, between the silos.")] = 0.1,
) -> None:
    """One random graph for all silos, weights of its own for each."""
    options = {"variables": variables, "silos": silos, "rows": rows, "seed": seed, "edges": edges}
    _make("heterogeneous", out, options | {"graph": graph, "noise": noise, "weight_variance": weight_variance})


@prepare_app.command()
def discrete(
    out: Out,
    variables: Variables = 20,
    silos: Silos = 10,
    rows: Rows = 1000,
    seed: Seed = 0,
    degree: Degree = 2.0,
    levels: Levels = "2-5",
    concentration: Concentration = None,
    latent: Latent = 0,
) -> None:
    """One random network over discrete variables for all silos."""
    options: dict[str, Any] = {"variables": variables, "silos": silos, "rows": rows, "seed": seed}
    options |= {"degree": degree, "levels": levels, "concentration": concentration}
    _make("discrete", out, options | {"latent": latent})


@prepare_app.command()
def surrogate(
    out: Out,
    silos: Silos = 4,
    rows: Annotated[int, typer.Option(help="Rows of each silo on average.")] = 2500,
    parents: Annotated[
        int, typer.Option(help="How many variables the hidden one depends on; 0: all silos are alike.")
    ] = 5,
    network: Annotated[
        str | None, typer.Option(help="Rows of this network (as in `prepare network`) instead of a random one.")
    ] = None,
    variables: Variables = 20,
    seed: Seed = 0,
    degree: Degree = 2.0,
    levels: Levels = "2-5",
    concentration: Concentration = None,
    latent: Latent = 0,
) -> None:
    """Discrete rows that a hidden variable deals to the silos, each of which is then biased."""
    options: dict[str, Any] = {"silos": silos, "rows": rows, "parents": parents, "network": network}
    options |= {"variables": variables, "seed": seed, "degree": degree, "levels": levels}
    _make("surrogate", out, options | {"concentration": concentration, "latent": latent})


@prepare_app.command()
def sachs(
    out: Out,
    silos: Silos = 3,
    by_condition: Annotated[bool, typer.Option("--by-condition", help="The nine conditions as nine silos.")] = False,
    truth: Annotated[
        str, typer.Option(help="Which graph counts as true: 20, 18 (has a cycle), 17, 17-fedc2sl.")
    ] = "20",
    transform: Annotated[str, typer.Option(help="none or log.")] = "none",
    center: Annotated[bool, typer.Option("--center", help="Subtract the mean over all cells.")] = False,
    discrete: Annotated[
        bool, typer.Option("--discrete", help="Rows of three levels from the published network; its 17 edges are true.")
    ] = False,
    rows: Annotated[int | None, typer.Option(help="With --discrete: rows in all; default: 853.")] = None,
    seed: Seed = 0,
) -> None:
    """Flow cytometry of 11 proteins in 7466 cells (Sachs et al. 2005)."""
    options = {"silos": silos, "by_condition": by_condition, "truth": truth, "discrete": discrete, "rows": rows}
    _make("sachs", out, options | {"transform": transform, "center": center, "seed": seed})


@prepare_app.command(help=f"Rows drawn from a published network.\n\nDiscrete: {DISCRETE}.\n\nGaussian: {GAUSSIAN}.")
def network(
    out: Out,
    network: Annotated[str, typer.Option(help="One of those above, or a file .bif or .bif.gz of yours.")],
    silos: Silos = 5,
    rows: Rows = 1000,
    seed: Seed = 0,
    latent: Latent = 0,
) -> None:
    """Rows drawn from a published network."""
    _make("network", out, {"network": network, "silos": silos, "rows": rows, "seed": seed, "latent": latent})


@prepare_app.command()
def lucas(
    out: Out,
    version: Annotated[str, typer.Option(help="0: as observed; 1, 2: four, six variables set by an agent.")] = "0",
    silos: Silos = 4,
    rows: Rows = 500,
    seed: Seed = 0,
) -> None:
    """A made-up study of lung cancer in 12 variables, for causal feature selection (Guyon et al. 2008)."""
    _make("lucas", out, {"version": version, "silos": silos, "rows": rows, "seed": seed})


@prepare_app.command()
def split(
    out: Out,
    table: Annotated[Path, typer.Option(help="A .csv or .parquet file with a header.")],
    silos: Annotated[int | None, typer.Option(help="Deal the rows to this many silos.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Rows of each silo, as 100,200,50.")] = None,
    concentration: Annotated[
        float | None, typer.Option(help="With --silos: Dirichlet-skewed sizes; the smaller, the more uneven.")
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="COLUMN", help="A silo for every value of this column.")] = None,
    skew: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --silos, discrete data: spread each level of it unevenly."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="continuous or discrete; default: what the table looks like, columns of words are discrete."),
    ] = None,
    truth: Annotated[Path | None, typer.Option(help="A file source,target of the true graph.")] = None,
    seed: Seed = 0,
) -> None:
    """A table of yours, dealt to silos."""
    options = {"table": str(table), "silos": silos, "sizes": sizes.split(",") if sizes else None, "data_kind": kind}
    options |= {"truth": str(truth) if truth else None, "skew": skew}
    _make("split", out, options | {"concentration": concentration, "by": by, "seed": seed})


def _make(kind: str, out: Path, options: dict[str, Any]) -> None:
    from fedbnsl.algorithms.graphs.edges import edge_count
    from fedbnsl.data.folder.folder import write_folder

    from ..options.prepare import recipe

    data = recipe(kind, **options).make()
    write_folder(out, data)
    rows = sum(data.schema.rows.values())
    true = "no truth" if data.truth is None else f"{edge_count(data.truth)} true edges"
    print(f"{out}: {len(data.tables)} silos, {rows} rows, {len(data.schema.variables)} variables, {true}")
