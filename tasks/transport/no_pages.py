"""Dask's processes without the second, unencrypted port on which each of them would serve pages."""

from typing import Any

from distributed.http.routing import RoutingApplication
from tornado.httpserver import HTTPServer


class NoPages:
    """What a Dask scheduler or worker inherits first, so that it listens at its one TLS port and nowhere else."""

    def start_http_server(
        self, routes: Any, dashboard_address: Any, default_port: Any = 0, ssl_options: Any = None
    ) -> None:
        """Make the server of pages that Dask expects, but let it listen nowhere."""
        self.http_application = RoutingApplication([])
        self.http_server = HTTPServer(self.http_application)
