"""Configuration files of owner and coordinator: files of `federation init` are read, and errors name the fault."""

import shutil

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.silo.policy import Policy
from fedbnsl.tasks.silo.readers import ClusterReaders, Readers
from fedbnsl.tasks.transport.configuration import Endpoint, endpoint, read_federation_file, read_silo_file


@pytest.fixture
def folder(issued, tmp_path):
    """A copy of the federation's folder that a test may change."""
    return shutil.copytree(issued, tmp_path / "made")


def test_what_init_writes_is_read_as_it_was_meant(issued):
    silo = read_silo_file(issued / "clinic" / "silo.toml")
    assert (silo.name, silo.data) == ("clinic", issued / "clinic" / "rows.csv")
    assert silo.coordinator == Endpoint("10.0.0.5", 8786)
    assert silo.policy == Policy(masked=True, silos=3, rows=50, level="sums")
    federation = read_federation_file(issued / "coordinator" / "federation.toml")
    assert federation.silos == ("clinic", "lab")
    assert federation.address == federation.listen == silo.coordinator


def test_an_owner_sets_the_number_of_readers(folder):
    file = folder / "clinic" / "silo.toml"
    assert read_silo_file(file).workers == 1
    text = file.read_text()
    file.write_text(text.replace("# workers = 8", "workers = 8"))
    assert read_silo_file(file).workers == 8
    assert type(read_silo_file(file).readers(print)) is Readers
    file.write_text(text.replace("# cluster = ", "cluster = "))
    assert read_silo_file(file).cluster == "tls://scheduler.example:8786"
    readers = read_silo_file(file).readers(print)
    assert (type(readers), readers.silo, readers.address) == (ClusterReaders, "clinic", "tls://scheduler.example:8786")


def test_rows_and_name_may_be_given_in_place_of_the_files(issued):
    other = issued / "lab" / "rows.csv"
    assert read_silo_file(issued / "clinic" / "silo.toml", "clinic", other).data == other
    with pytest.raises(BadInput, match="name is 'lab', but the certificate belongs to 'clinic'"):
        read_silo_file(issued / "clinic" / "silo.toml", "lab")


SILO = {
    "a misspelt limit": ("rows = 50", "row = 50", r"silo\.toml: policy: unknown key 'row'; available: algorithms, "),
    "a misspelt key": (
        "coordinator =",
        "coordinates =",
        r"silo\.toml: unknown key 'coordinates'; available: name, data, ",
    ),
    "a misspelt file": ("trusted =", "trust =", r"silo\.toml: unknown key 'trust'; available: certificate, key"),
    "another's name": ('name = "clinic"', 'name = "lab"', "name is 'lab', but the certificate belongs to 'clinic'"),
    "no rows": ("rows.csv", "missing.csv", r"data: .*missing\.csv: no such file"),
    "no data": ('data = "rows.csv"', "", "data is missing: it must be a string"),
    "a number for a name": ('name = "clinic"', "name = 3", "name is 3: it must be a string"),
    "no port": ("10.0.0.5:8786", "10.0.0.5", "coordinator is '10.0.0.5': must be HOST:PORT"),
    "a limit of the wrong kind": ("rows = 50", 'rows = "50"', "policy: rows is '50': it must be a whole number"),
    "no reader": ('rows.csv"', 'rows.csv"\nworkers = 0', "workers is 0: it must be a whole number from 1 to 1024"),
    "a number of readers in quotes": ('rows.csv"', 'rows.csv"\nworkers = "8"', "workers is '8': it must be a whole"),
    "readers given twice": (
        'rows.csv"',
        'rows.csv"\nworkers = 2\ncluster = "tls://a:1"',
        "workers and cluster are two ways to read the rows: keep one",
    ),
    "a cluster in the clear": (
        'rows.csv"',
        'rows.csv"\ncluster = "tcp://10.0.0.9:8786"',
        r"cluster is 'tcp://10\.0\.0\.9:8786': it must be tls://HOST:PORT, or tcp:// on this machine",
    ),
    "half a reader": ('rows.csv"', 'rows.csv"\nworkers = 1.5', "workers is 1.5: it must be a whole number"),
    "no table": ("[policy]", "[policies]", "unknown key 'policies'"),
    "not TOML": ("silos = 3", "silos 3", "cannot be read"),
    "no certificate": ("clinic.pem", "cli.pem", r"cli\.pem: no such file; create certificates"),
}
FEDERATION = {
    "a misspelt key": ("silos =", "silo =", "unknown key 'silo'; available: address, listen, silos, tls"),
    "a name for a list": ('["clinic", "lab"]', '"clinic"', "silos is 'clinic': it must be a list of names"),
    "a port too large": ('listen = "10.0.0.5:8786"', 'listen = "10.0.0.5:99999"', "listen is '10.0.0.5:99999'"),
    "no address": ('address = "10.0.0.5:8786"', "", "address is missing"),
}


def refused(read, path, old, new, reason):
    """Have `read` refuse the file at `path`, in one line, once `old` in it is `new`."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(BadInput, match=reason) as refusal:
        read(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("old", "new", "reason"), SILO.values(), ids=SILO)
def test_an_owners_file_that_is_miswritten_is_refused(folder, old, new, reason):
    refused(read_silo_file, folder / "clinic" / "silo.toml", old, new, reason)


@pytest.mark.parametrize(("old", "new", "reason"), FEDERATION.values(), ids=FEDERATION)
def test_a_coordinators_file_that_is_miswritten_is_refused(folder, old, new, reason):
    refused(read_federation_file, folder / "coordinator" / "federation.toml", old, new, reason)


@pytest.mark.parametrize(("text", "port"), [("clinic:1", 1), ("tls://[::1]:8786", 8786), ("10.0.0.5:65535", 65535)])
def test_an_endpoint_has_a_host_and_a_port(text, port):
    assert endpoint(text, "listen").port == port
    assert endpoint(text, "listen").tls == f"tls://{text.removeprefix('tls://')}"


@pytest.mark.parametrize("text", ["clinic", ":8786", "clinic:", "clinic:65536", "clinic:-1", "http://clinic:8786/"])
def test_another_endpoint_is_refused(text):
    with pytest.raises(BadInput, match=f"listen is '{text}': must be HOST:PORT"):
        endpoint(text, "listen")


def test_a_silos_certificate_makes_no_coordinator(folder):
    for name in ("pem", "key"):
        shutil.copy(folder / "clinic" / f"clinic.{name}", folder / "coordinator" / f"coordinator.{name}")
    with pytest.raises(BadInput, match="the certificate of 'clinic', not of a coordinator"):
        read_federation_file(folder / "coordinator" / "federation.toml")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"silo\.toml: cannot be read"):
        read_silo_file(tmp_path / "silo.toml")
