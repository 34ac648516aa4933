"""`fedbnsl prepare`: make a federated data set and write it as a folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

prepare_app = typer.Typer(help="Make a federated data set: a folder with one file a silo.", no_args_is_help=True)

Out = Annotated[Path, typer.Argument(help="Folder to write; it must not exist, or be empty.")]
Variables = Annotated[int, typer.Option(help="How many variables.")]
Silos = Annotated[int, typer.Option(help="How many silos.")]
Rows = Annotated[int, typer.Option(help="Rows of each silo.")]
Seed = Annotated[int, typer.Option(help="Same seed, same data, bit for bit.")]
Edges = Annotated[int | None, typer.Option(help="Expected edges of the graph; default: as many as variables.")]
Graph = Annotated[str, typer.Option(help="ER (Erdős–Rényi) or SF (scale-free).")]
Noise = Annotated[str, typer.Option(help="gaussian, exponential or gumbel.")]


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
def sachs(
    out: Out,
    silos: Silos = 3,
    by_condition: Annotated[bool, typer.Option("--by-condition", help="The nine conditions as nine silos.")] = False,
    truth: Annotated[
        str, typer.Option(help="Which graph counts as true: 20, 18 (has a cycle), 17, 17-fedc2sl.")
    ] = "20",
    transform: Annotated[str, typer.Option(help="none or log.")] = "none",
    center: Annotated[bool, typer.Option("--center", help="Subtract the mean over all cells.")] = False,
    seed: Seed = 0,
) -> None:
    """Flow cytometry of 11 proteins in 7466 cells (Sachs et al. 2005)."""
    options = {"silos": silos, "by_condition": by_condition, "truth": truth}
    _make("sachs", out, options | {"transform": transform, "center": center, "seed": seed})


@prepare_app.command()
def network(
    out: Out,
    network: Annotated[str, typer.Option(help="arth150, ecoli70, magic-irri or magic-niab.")],
    silos: Silos = 5,
    rows: Rows = 1000,
    seed: Seed = 0,
) -> None:
    """Rows drawn from a published Gaussian network."""
    _make("network", out, {"network": network, "silos": silos, "rows": rows, "seed": seed})


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
    seed: Seed = 0,
) -> None:
    """A table of yours, dealt to silos."""
    options = {"table": str(table), "silos": silos, "sizes": sizes.split(",") if sizes else None}
    _make("split", out, options | {"concentration": concentration, "by": by, "seed": seed})


def _make(kind: str, out: Path, options: dict[str, Any]) -> None:
    from fedbnsl.data.folder import write_folder

    from .recipes import recipe

    data = recipe(kind, **options).make()
    write_folder(out, data)
    rows = sum(data.schema.rows.values())
    true = "no truth" if data.truth is None else f"{int(data.truth.adjacency.sum())} true edges"
    print(f"{out}: {len(data.tables)} silos, {rows} rows, {len(data.schema.variables)} variables, {true}")
