"""Silos on the files of a folder, without Dask and Prefect."""

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.silo.policy import UNRESTRICTED
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService


class Owners:
    """The owners of the silos of a folder: each has one service at a time over the files of its silo."""

    def __init__(self, folder):
        self.data, self.files = read_folder(folder), silo_files(folder)
        self.services = {silo: SiloService(silo, path) for silo, path in self.files.items()}

    def restart(self, silos=None, policy=UNRESTRICTED):
        """Replace the services of `silos` (default: all), as if their machines had crashed: their memory is lost."""
        for silo in silos or self.files:
            self.services[silo].close()
            self.services[silo] = SiloService(silo, self.files[silo], policy)

    def close(self):
        for service in self.services.values():
            service.close()

    def terms(self, algorithm, params=None, seed=0, run="run"):
        return RunTerms(run, registry.pack(registry.specify(algorithm, params)), self.data.schema, seed)


@pytest.fixture
def host():
    """A function that hosts the silos of a folder."""
    hosted = []

    def host(folder):
        hosted.append(Owners(folder))
        return hosted[-1]

    yield host
    for owners in hosted:
        owners.close()


@pytest.fixture
def hosted(host, tmp_path):
    """A function that generates a folder of linear data and hosts its silos."""

    def generate(silos=3, rows=100, seed=1, name="data"):
        write_folder(tmp_path / name, homogeneous(variables=5, silos=silos, rows=rows, seed=seed))
        return host(tmp_path / name)

    return generate
