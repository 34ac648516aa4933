"""The pages in a real browser without network access beyond this machine; `make ui-test` runs this.

Headless Chromium opens the report, the run page of Prefect, and the run table and the comparison of MLflow, of one run
that is learned for it. What the pages showed is kept as pictures in `.cache/ui/`.
"""

import os
import shutil
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName, FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.sorting import FlowRunSort
from prefect.settings import temporary_settings

from fedbnsl.flows.servers.environment import prepare_environment
from fedbnsl.flows.servers.processes import TOKEN, mlflow_server, prefect_server
from fedbnsl.flows.start import client_settings
from fedbnsl.tracking.mlflow.store import comparison_link, table_link
from fedbnsl.tracking.own_servers import own_token

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
KEPT = Path(__file__).parents[2] / ".cache" / "ui"
PATIENCE = 120_000
"""milliseconds until a page must show the expected text, on a busy machine"""

pytestmark = [
    pytest.mark.slow(240),
    pytest.mark.skipif(not os.environ.get("FEDBNSL_UI_TEST"), reason="`make ui-test` runs this"),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The folder of a run, and the addresses of the Prefect and the MLflow server that know of it."""
    home = tmp_path_factory.mktemp("ui")
    own = {"PREFECT_HOME": str(home / "prefect"), "MLFLOW_TRACKING_URI": f"sqlite:///{home / 'mlflow.db'}"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        patch.delenv("PREFECT_API_URL", raising=False)
        patch.chdir(home)
        prepare_environment()
        command(home, "prepare", "homogeneous", "study", "--variables", "8", "--silos", "3", "--rows", "500")
        with prefect_server(0) as api, temporary_settings(client_settings(api)):
            command(home, "learn", "study", "-a", "fed-sparse", "-p", "rounds=12", "--out", "out")
            with mlflow_server(0) as mlflow:
                yield home / "out", api.removesuffix("/api"), mlflow


def command(folder, *words):
    called = [sys.executable, "-m", "fedbnsl.flows.cli.main", *words]
    done = subprocess.run(called, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def page(shown):
    """A browser page that can reach only this machine, and the other addresses that it requested."""
    playwright = pytest.importorskip("playwright.sync_api")
    refused = []

    def gate(route):
        if urlsplit(route.request.url).hostname in ("127.0.0.1", None):
            route.continue_()
        else:
            refused.append(route.request.url)
            route.abort()

    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        user, _, password = own_token().partition(":")  # MLflow's pages ask for them
        context = browser.new_context(
            viewport={"width": 1600, "height": 1000},
            accept_downloads=False,
            http_credentials={"username": user, "password": password},
        )
        context.set_default_timeout(PATIENCE)
        context.route("**/*", gate)
        KEPT.mkdir(parents=True, exist_ok=True)
        yield context.new_page(), refused
        browser.close()


def seen(page, name, *texts):
    """Wait until the page shows all `texts`, keep a picture of it, and return whether anything was refused."""
    opened, refused = page
    for text in texts:
        opened.get_by_text(text).first.wait_for(state="attached")
    opened.wait_for_timeout(1500)
    opened.screenshot(path=KEPT / f"{name}.png", timeout=PATIENCE)
    assert refused == []


def test_the_report(shown, page):
    page[0].goto((shown[0] / "report.html").as_uri())
    seen(page, "report", "fed-sparse")
    assert page[0].evaluate("[...document.images].every(image => image.naturalWidth > 0)")


def test_the_pages_of_prefect_ask_who_it_is(shown, page):
    """Nobody sees a run without the token that the user is shown; with it, the browser remembers."""
    _, prefect, _ = shown
    opened = page[0]
    opened.goto(f"{prefect}/runs")
    opened.locator("input[type=password]").first.fill(os.environ[TOKEN])
    opened.keyboard.press("Enter")
    opened.locator("a[href*='/runs/flow-run/']").first.wait_for()


def test_a_page_of_another_origin_does_not_reach_the_api(shown, page):
    """A page on another site can send requests to this machine; none of them may be answered."""
    _, prefect, mlflow = shown
    addresses = (f"{prefect}/api/flow_runs/filter", f"{mlflow}/ajax-api/2.0/mlflow/experiments/create")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        other = page[0].context.new_page()
        server.RequestHandlerClass.do_GET = lambda handler: (handler.send_response(200), handler.end_headers())
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        other.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        how = "{method: 'POST', credentials: 'include', body: '{}'}"
        attempt = f"address => fetch(address, {how}).then(a => a.status).catch(e => 'refused')"
        for mode in ("application/json", "text/plain"):
            script = attempt.replace("body:", f"headers: {{'Content-Type': '{mode}'}}, body:")
            assert [other.evaluate(script, address) for address in addresses] == ["refused", "refused"]
        opaque = "address => fetch(address, {method: 'POST', mode: 'no-cors', body: '{}'}).then(a => a.type)"
        assert other.evaluate(opaque, addresses[0]) == "opaque"  # sent, but without a token: it has changed nothing
        other.close()
        server.shutdown()


def test_mlflow_refuses_pages_of_other_machines(shown):
    request = Request(f"{shown[2]}/api/2.0/mlflow/experiments/search", b"{}", {"Origin": "http://evil.example"})
    with pytest.raises(HTTPError) as refused:
        urlopen(request, timeout=10)
    assert refused.value.code == 403


def test_the_run_page_of_prefect_has_logs_and_artifacts(shown, page):
    _, prefect, _ = shown
    opened = page[0]
    opened.goto(f"{prefect}/runs")
    opened.locator("a[href*='/runs/flow-run/']").first.click()
    seen(page, "prefect-logs", "round 1 of at most 12:")
    assert "Finished in state" not in opened.locator("body").inner_text()
    opened.get_by_text("Artifacts", exact=True).first.click()
    seen(page, "prefect-artifacts", "picture", "scores")
    opened.get_by_text("picture", exact=True).first.click()
    opened.locator("img[src^='data:image/png']").first.wait_for()
    seen(page, "prefect-picture")
    assert opened.locator("img[src^='data:image/png']").first.evaluate("image => image.naturalWidth > 100")


def test_the_tasks_of_a_run_are_named_by_their_rounds_and_exchanges(shown, page):
    _, prefect, _ = shown
    opened = page[0]
    opened.goto(f"{prefect}/runs")
    opened.locator("a[href*='/runs/flow-run/']").first.click()
    opened.get_by_text("Task Runs", exact=True).first.click()
    seen(page, "prefect-tasks", "check_convergence refit 1", "local_solve silo-1 refit 1")


SWITCHES = """Object.fromEntries([...document.querySelectorAll('.schema-form-property input[type=checkbox]')].map(
    box => [box.closest('.schema-form-property').innerText.split(' (')[0], box.checked]))"""
"""a script that returns, for each switch of a form, whether it is on"""


def test_the_form_of_a_deployment_begins_with_few_fields(shown, page):
    """Switches show their defaults; a setting of the algorithm, which has no switch, is empty until it is set."""
    out, prefect, _ = shown
    opened = page[0]
    serve = [sys.executable, "-m", "fedbnsl.flows.cli.main", "serve", "study", "-a", "fed-sparse", "--name", "nightly"]
    serving = subprocess.Popen(serve, cwd=out.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert any("serving" in line for line in serving.stdout)
        opened.goto(f"{prefect}/deployments")
        link = opened.locator("a[href*='/deployments/deployment/']").first
        opened.goto(f"{prefect}{link.get_attribute('href')}/run")
        seen(page, "prefect-form", "Data set", "Settings of the algorithm")
        shown_text = opened.inner_text("body")
        titles = [
            "Data set",
            "Algorithm (Optional)",
            "ε (Optional)",
            "Secure aggregation",
            "Seed",
            "Ignore",
            "fix_order (O",
        ]
        places = [shown_text.index(title) for title in titles]
        assert places == sorted(places)
        switches = opened.evaluate(SWITCHES)
        assert switches["Secure aggregation"] is False
        assert switches["Diagnoses"] is True
    finally:
        serving.terminate()
        serving.wait(60)


def test_a_limit_of_concurrency_set_on_its_page_is_obeyed(shown, page):
    """At most one silo solves at a time, once the page has the limit."""
    out, prefect, _ = shown
    opened = page[0]
    opened.goto(f"{prefect}/concurrency-limits")
    opened.get_by_text("Task Run", exact=True).first.click()
    opened.get_by_role("button", name="Add Concurrency Limit").click()
    fields = opened.locator(".p-modal input, [role=dialog] input")
    for field, text in zip((fields.nth(0), fields.nth(1)), ("local_solve", "1"), strict=True):
        field.fill(text)
    opened.get_by_role("button", name="Add", exact=True).last.click()
    seen(page, "prefect-limit", "Concurrency limit added", "local_solve")
    command(out.parent, "learn", "study", "-a", "fed-sparse", "-p", "rounds=3", "--out", "limited", "--no-diagnose")
    with get_client(sync_client=True) as client:
        (run, *_) = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=1)
        of_run = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
        solves = [one for one in client.read_task_runs(flow_run_filter=of_run) if one.name.startswith("local_solve")]
        client.delete_concurrency_limit_by_tag("local_solve")
    solves.sort(key=lambda one: one.start_time)
    assert len(solves) >= 9
    assert all(one.end_time <= other.start_time for one, other in pairwise(solves))


ENDLESS = ("-a", "notears-admm", "-p", "preset=fed-bnsl", "-p", "rounds=1000000", "-p", "tolerance=1e-300")


def test_a_scheduled_run_is_shown_with_its_zone_and_is_cancelled_on_its_page(shown, page):
    """It ends within seconds, with what it has learned so far."""
    out, prefect, _ = shown
    opened = page[0]
    words = [sys.executable, "-m", "fedbnsl.flows.cli.main", "serve", "study", *ENDLESS, "--name", "zoned"]
    words += ["--cron", "0 3 * * *", "--timezone", "Europe/Vienna"]
    with subprocess.Popen(
        words, cwd=out.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as serving:
        try:
            lines = iter(serving.stdout.readline, "")
            assert any("next run: " in line and " 03:00 CE" in line for line in lines)
            Thread(target=serving.stdout.read, daemon=True).start()
            with get_client(sync_client=True) as client:
                named = DeploymentFilter(name=DeploymentFilterName(any_=["zoned"]))
                while not (found := client.read_deployments(deployment_filter=named)):
                    time.sleep(0.5)
                deployment = found[0].id
                run = client.create_flow_run_from_deployment(deployment).id
            opened.goto(f"{prefect}/deployments/deployment/{deployment}")
            opened.get_by_text("Description", exact=True).first.click()
            seen(page, "prefect-schedule", "At 03:00 AM", "cron 0 3 * * * in Europe/Vienna")
            opened.goto(f"{prefect}/runs/flow-run/{run}")
            seen(page, "prefect-running", "round 2 of at most")
            opened.get_by_role("button", name="Cancel").first.click()
            opened.get_by_role("button", name="Confirm").last.click()
            asked = time.monotonic()
            with get_client(sync_client=True) as client:
                while not (state := client.read_flow_run(run).state).is_final():
                    time.sleep(0.2)
            assert time.monotonic() - asked < 30.0
            opened.reload()
            seen(page, "prefect-cancelled", "Cancelled")
        finally:
            serving.terminate()
            serving.wait(60)
    assert state.is_cancelled()
    assert "what was learned is in" in state.message
    (folder,) = (out.parent / "runs").glob("notears-admm-study-*")
    assert (folder / "structure.csv").exists()


def test_the_run_table_of_mlflow_has_scores_and_readable_names(shown, page):
    page[0].goto(table_link(shown[2], "1"))
    seen(page, "mlflow-runs", "fed-sparse s0", "megabytes", "shd")


def test_the_comparison_of_mlflow_shows_our_charts(shown, page):
    page[0].goto("about:blank")
    page[0].goto(comparison_link(shown[2], "1"))
    seen(page, "mlflow-comparison", "Parallel Coordinates", "megabytes vs. shd")
