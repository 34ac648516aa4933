"""The keys of one run on this machine, for mutual TLS between Dask's scheduler, nannies, workers and client.

Every account of a machine can connect to a port on 127.0.0.1, and whoever reaches a Dask scheduler can run code. So
each run has its own certificate authority, in memory. The authority issues one certificate to the coordinator and one
to the workers, and is then deleted. Keys stay in this process, which sends them to workers through the pipes that start
the workers, even when a nanny restarts a worker. So no key remains after a crash.

Dask's second port, for web pages, needs no certificate; `TlsScheduler` and `TlsWorker` do not open it.
"""

import os
import ssl
import tempfile
from typing import Any

from distributed import Scheduler, Security, Worker
from distributed.http.routing import RoutingApplication
from tornado.httpserver import HTTPServer

WORKER = "worker"
"""the holder of the certificate of all workers of a run"""


class RunSecurity(Security):
    """A `Security` whose certificates and keys are texts in PEM; it requires certificates on both sides."""

    def __init__(self, **settings: str) -> None:
        """Keep `settings`: the certificate and the key of each role, and the authority's certificate."""
        Security.__init__(self, require_encryption=True, **settings)

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """The settings with which `role` connects to another process of the run."""
        return {**self._settings(role, ssl.PROTOCOL_TLS_CLIENT), "extra_conn_args": {}}

    def get_listen_args(self, role: str) -> dict[str, Any]:
        """The settings with which `role` accepts connections."""
        return self._settings(role, ssl.PROTOCOL_TLS_SERVER)

    def _settings(self, role: str, protocol: int) -> dict[str, Any]:
        config = Security.get_tls_config_for_role(self, role)
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the authority serves this run alone, and every address is 127.0.0.1
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=config["ca_file"])
        load_chain(context, (config["key"] + config["cert"]).encode())
        return {"ssl_context": context, "require_encryption": True}


def load_chain(context: ssl.SSLContext, chain: bytes) -> None:
    """Load a key with its certificate into `context`.

    Python can read a key and a certificate only from a file. On Linux, this function writes them to a file in memory,
    and on other systems to a temporary file that only this user can read.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(chain)
            file.flush()
            context.load_cert_chain(file.name)
        return
    descriptor = os.memfd_create("fedbnsl")
    try:
        os.write(descriptor, chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def create_run_security() -> RunSecurity:
    """New keys for one run."""
    from .certificates import COORDINATOR, new_authority, new_certificate, pem

    authority = new_authority("fedbnsl run")
    coordinator, worker = (
        [content.decode() for content in new_certificate(authority, holder)] for holder in (COORDINATOR, WORKER)
    )
    parts = {"scheduler": coordinator, "client": coordinator, "worker": worker}
    keys = {f"tls_{role}_key": key for role, (key, _) in parts.items()}
    certificates = {f"tls_{role}_cert": certificate for role, (_, certificate) in parts.items()}
    return RunSecurity(tls_ca_file=pem(authority.certificate).decode(), **keys, **certificates)


class WithoutHttpServer:
    """A mixin, to inherit first, with which a Dask scheduler or worker listens only at its TLS port."""

    def start_http_server(
        self, routes: Any, dashboard_address: Any, default_port: Any = 0, ssl_options: Any = None
    ) -> None:
        """Create the web server that Dask expects, without a port."""
        self.http_application = RoutingApplication([])
        self.http_server = HTTPServer(self.http_application)


class TlsScheduler(WithoutHttpServer, Scheduler):
    """A scheduler with one port."""


class TlsWorker(WithoutHttpServer, Worker):
    """A worker with one port."""
