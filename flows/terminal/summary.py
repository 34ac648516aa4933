"""The summary that `learn` prints: structure, scores, how the run ended, and the paths of its results."""

from fedbnsl.tracking.mlflow.store import comparison_of
from fedbnsl.tracking.outputs import MODELS, flat_metrics, json_text
from fedbnsl.tracking.report.report import knowledge_line
from fedbnsl.tracking.result import CompletedRun, PrivacySpent, RunResult, series_warnings, strengths_in
from fedbnsl.tracking.silo_edges import silo_edges

from ..job.run import format_bytes, outcome_text
from .tables import console, show_scores, show_structure

SHOWN = (
    *("shd", "shd_lenient", "shd_skeleton", "shd_cpdag", "tpr", "fdr", "f1", "edges", "true_edges", "acyclic"),
    *("lags", "lagged_shd", "lagged_tpr", "lagged_fdr", "lagged_f1", "lagged_edges", "lagged_true_edges"),
)


def as_document(finished: CompletedRun) -> str:
    """Return what a program wants to know of a run as one JSON document: metrics, folder, files, and the ε spent.

    `privacy` is null where nothing was promised, and its `epsilon` where the promise was broken.
    """
    result = finished.result
    spent = result.privacy
    promised = None if spent is None else {"epsilon": spent.spent, "delta": spent.delta, "all_runs": spent.spent_ever}
    return json_text(
        {
            "name": result.name,
            "algorithm": result.algorithm,
            "dataset": result.dataset,
            "outcome": result.outcome,
            "folder": finished.folder.absolute(),
            "files": {name: path.absolute() for name, path in finished.files.items()},
            "mlflow": finished.tracking_url,
            "privacy": promised,
            "metrics": flat_metrics(result),
        }
    )


def show_result(finished: CompletedRun) -> None:
    """Print the result of a run."""
    result, metrics = finished.result, finished.result.metrics
    show_structure(result.structure, strengths=strengths_in(result))
    out = console()
    out.print()
    if result.averaged:
        out.print("scores, means over the silos:")
    show_scores({key: metrics.get(key) for key in SHOWN})
    out.print()
    sent = format_bytes(float(metrics["bytes_up"] or 0) + float(metrics["bytes_down"] or 0))
    formula = float(metrics["formula_megabytes"] or 0)
    out.print(f"{outcome_text(result)}, {metrics['seconds']} s, {sent} sent ({formula:.3g} MB by the papers' formula)")
    if result.asked not in ("", result.algorithm):
        out.print(f"{result.asked}: chose {result.algorithm} for {result.schema.kind} data")
    if metrics.get("tests") is not None:
        out.print(f"{metrics['tests']:,} independence tests, {metrics['tests_left_out']:,} left out")
    if metrics.get("not_compared"):
        out.print(f"not compared with the truth: {metrics['not_compared']}", soft_wrap=True)
    if result.parameters.network is None:
        out.print(f"no parameters: {result.parameters.how}", soft_wrap=True)
    else:
        out.print(f"parameters: {result.parameters.how}", soft_wrap=True)
    lines = (*knowledge_line(result), *confidence_lines(result), *agreement_lines(result), *forecast_lines(result))
    for line in (*lines, *result.basis, *finding_lines(result)):
        out.print(line, soft_wrap=True)
    if result.privacy is not None:
        out.print(privacy_line(result.privacy), soft_wrap=True)
    if result.secure:
        exact = "" if result.privacy is not None else "; no ε is guaranteed for these sums"
        out.print(f"replies were masked: the coordinator saw only their sums{exact}")
    if result.truth is None:
        out.print("no truth.csv, so there are no scores")
    if "report.html" in finished.files:
        out.print(f"report: {finished.files['report.html']}", soft_wrap=True)
    for name in MODELS:
        if name in finished.files:
            out.print(f"model: {finished.files[name]}", soft_wrap=True)
    out.print(f"folder: {finished.folder}", soft_wrap=True)
    if finished.tracking_url:
        out.print(f"MLflow: {finished.tracking_url} (once `fedbnsl ui` runs)", soft_wrap=True)
        out.print(f"all runs compared: {comparison_of(finished.tracking_url)}", soft_wrap=True)


def finding_lines(result: RunResult) -> list[str]:
    """Return what a reader must know of the data, and what to do about it."""
    return [f"! {one.said} {one.advice}" for one in result.diagnosed.findings]


def confidence_lines(result: RunResult) -> list[str]:
    """Return what the resamples say in one line, if any were asked for."""
    found = result.confidence
    if not result.bootstrap:
        return []
    if found is None:
        return ["the confidence in the edges is unknown: a silo was lost before the resamples ended"]
    sent = format_bytes(found.bytes_sent)
    return [
        f"bootstrap: {found.strengths.structures} resamples in {found.exchanges} more exchanges, {sent}; "
        f"averaged network of strengths above {found.threshold:.2f}: {result.metrics['averaged_edges']} edges"
    ]


def agreement_lines(result: RunResult) -> list[str]:
    """Return how far the silos' own structures agree, if there are such."""
    silos, edges = len(result.local_structures), silo_edges(result.local_structures)
    most = sum(2 * len(one.weights) > silos for one in edges)
    return (
        [f"the silos' own structures: {most} edges shared by most silos, {len(edges) - most} others"] if silos else []
    )


def forecast_lines(result: RunResult) -> list[str]:
    """Return what the model of time series says of the future, and what must be known before trusting it."""
    model, same = result.metrics.get("forecast_mse"), result.metrics.get("persistence_mse")
    lines = series_warnings(result)
    if model is not None and same is not None:
        lines.append(
            f"forecast of the next row: mean squared error {model:.4g}, {same:.4g} for a persistence forecast, "
            "on the training data"
        )
    return lines


def privacy_line(privacy: PrivacySpent) -> str:
    """Return the spent privacy budget in one line, which begins with NOT PRIVATE if the promise is broken."""
    if privacy.broken:
        return f"NOT PRIVATE: {privacy.broken}"
    tight = "" if privacy.tight is None else f", at most {privacy.tight:.4g} by tight accounting,"
    return (
        f"privacy: ε = {privacy.spent:.4g}{tight} of {privacy.epsilon:g} spent at δ = {privacy.delta:.3g} "
        f"({privacy.adjacency}, per record; {privacy.protects}); all runs on these rows: ε = {privacy.spent_ever:.4g}"
    )
