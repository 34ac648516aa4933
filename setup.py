"""The top-level folders in `ROOMS` install as parts of one package: `flows/` is installed as `fedbnsl.flows`."""

from setuptools import find_packages, setup

ROOMS = ("algorithms", "data", "flows", "tasks", "tracking")

setup(
    packages=["fedbnsl", *(f"fedbnsl.{name}" for name in find_packages() if name.split(".")[0] in ROOMS)],
    package_dir={"fedbnsl": "fedbnsl"} | {f"fedbnsl.{room}": room for room in ROOMS},
    # Only what is listed is packaged: setuptools-scm would add every tracked file, but only in a Git checkout.
    include_package_data=False,
    package_data={
        "fedbnsl": ["py.typed"],
        "fedbnsl.data.folder": ["*.toml"],
        "fedbnsl.tracking.report": ["scripts/*.js", "templates/*"],
    },
)
