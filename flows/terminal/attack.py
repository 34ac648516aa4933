"""`fedbnsl attack reconstruct`: how close the attacker comes, as a table."""

from pathlib import Path
from statistics import median

from rich.table import Table

from fedbnsl.data.folder.folder import read_folder

from ..attack import attack
from .listing import console


def show_attack(folder: Path, epsilon: float) -> None:
    """Print how close the attacker comes to each silo's second moments, under each protection."""
    found = attack(read_folder(folder), epsilon)
    out = console()
    out.print(
        "Relative error of the second moments that a curious coordinator reconstructs for a silo, median over the "
        "silos; beside it, the error of the mean of all silos, which any result reveals."
    )
    table = Table("what the coordinator sees", "reconstruction", "mean of all silos", "the attack")
    for one in found:
        error, public = median(one.error.values()), median(one.public.values())
        succeeds = error < public / 2
        table.add_row(one.protection, f"{error:.3g}", f"{public:.3g}", "succeeds" if succeeds else "fails")
    out.print(table)
