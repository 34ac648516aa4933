"""`fedbnsl attack`: attacks that recover second moments or single rows of a silo, and the defences."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedbnsl.data.federated import FederatedData

    from ..attack_results import Demonstration


def show_attack(folder: Path, epsilon: float) -> None:
    """Print how close the attacker comes to each silo's second moments, under each protection."""
    from statistics import median

    from rich.table import Table

    from fedbnsl.data.folder.folder import read_folder

    from ..attack import run_attack
    from ..terminal.console import console

    found = run_attack(read_folder(folder), epsilon)
    out = console()
    out.print(
        "A curious coordinator reconstructs the second moments of each silo. The columns have the relative errors "
        "(medians over the silos) of this reconstruction, and of the mean of all silos, which any result reveals. "
        "An attack is a success if the reconstruction has less than half of the error of the mean."
    )
    table = Table("view of the coordinator", "reconstruction", "mean of all silos", "the attack")
    for one in found:
        figures = [f"{median(by_silo.values()):.3g}" if by_silo else "–" for by_silo in (one.error, one.public)]
        outcome = "–" if one.refused else "succeeds" if one.succeeds else "fails"
        table.add_row(one.protection, *figures, outcome)
    out.print(table)
    for one in found:
        print(f"{one.protection}: {one.finding}")


def show_demonstrations(explanation: str, found: Iterable["Demonstration"]) -> None:
    """Print a description of the attack, and for each protection its success and its finding."""
    print(explanation)
    for one in found:
        print(f"{one.protection}: the attack {'succeeds' if one.succeeded else 'fails'}: {one.finding}")


def complete_rows(folder: Path) -> "FederatedData":
    """The rows of `folder` without empty cells."""
    from fedbnsl.data.folder.about import Reading
    from fedbnsl.data.folder.folder import read_folder

    return read_folder(folder, Reading(missing="complete-rows"))


app = typer.Typer(
    help="Demonstrate attacks on privacy by a coordinator or a reader of results, and the defences.",
    no_args_is_help=True,
    add_completion=False,
)

Folder = Annotated[Path, typer.Argument(help="Federated data set: a folder with one file per silo.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the random parts.")]


@app.callback()
def attack() -> None:
    """Demonstrate attacks on your own folder by a coordinator or a reader of results, and the defences.

    Every attack runs on this machine only: it spends no ε and writes nothing beside the rows.
    """


@app.command()
def reconstruct(
    folder: Folder,
    epsilon: Annotated[
        float, typer.Option(metavar="E", help="Privacy budget ε of the private run that is attacked as well.")
    ] = 1.0,
) -> None:
    """Reconstruct every silo's covariance from one unprotected round of notears-admm.

    The same attack then fails on a run with --secure, and on a run with a privacy budget.
    """
    show_attack(folder, epsilon)


@app.command("smallest-cell")
def smallest_cell(
    folder: Folder,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", metavar="NAME", help="Algorithm that learns the graph.")
    ] = "auto",
    seed: Seed = 0,
) -> None:
    """Find a person in a published model: undo the smoothing of its tables, and name the smallest count.

    The same attack then fails on tables whose small cells are hidden and whose counts are rounded.
    """
    from ..attack_results import smallest_cell as run

    show_demonstrations(
        "A reader of a model with labels converts its probabilities to counts of rows. A count of 1 is one person.",
        run(complete_rows(folder), algorithm, seed),
    )


@app.command()
def difference(
    folder: Folder,
    silo: Annotated[str | None, typer.Option(metavar="NAME", help="Silo of the row; default: the first.")] = None,
    row: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of the row among those without empty cells; default: the last."),
    ] = None,
) -> None:
    """Recover one row from two masked sums: of all rows, and of all rows but this one.

    The same attack then fails if a silo refuses a second sum after fewer than 10 rows changed.
    """
    from ..attack_results import difference as run

    show_demonstrations(
        "Two runs use masks; between them, a silo removed one row. The coordinator sees two sums over all silos, and "
        "subtracts them.",
        run(complete_rows(folder), silo, row),
    )


@app.command()
def membership(
    folder: Folder,
    epsilon: Annotated[
        float, typer.Option(metavar="E", help="Privacy budget ε of the private run that is attacked as well.")
    ] = 1.0,
    trials: Annotated[int, typer.Option(metavar="N", help="Number of random splits of the rows.")] = 10,
    seed: Seed = 0,
) -> None:
    """Guess whether a person's row was in the training data of a published model.

    The attacker's advantage is the true positive rate minus the false positive rate. An ε bounds it.
    """
    from ..attack_results import membership as run

    show_demonstrations(
        "The model is learned from one third of the rows, the members. The rows of the second third are not members. "
        "The attacker knows the last third, and takes a row for a member if the model gives it a higher likelihood "
        "than expected.",
        run(complete_rows(folder), epsilon, trials, seed),
    )
