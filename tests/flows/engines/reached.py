"""The silos of a run as Prefect's engine connects them, without workers."""

from contextlib import nullcontext
from types import SimpleNamespace

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.data.folder.schema_inference import InferredSchema
from fedbnsl.flows.engines import dask
from fedbnsl.flows.engines.dask import connect_silos, job_of
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.rounds import Orchestration

SCHEMA = Schema(("a", "b"), {"clinic": 211, "lab": 89, "ward": 53})


def reach(monkeypatch, folder, resumed=None, silent=(), **options):
    """Connect the silos clinic, lab and ward of `folder` for a run with `options`; the ward never comes.

    The `silent` silos do not describe their rows.

    Return what was waited for at the start, and the federations of two exchanges of the run.
    """
    seen = {}

    def gathered(client, asked, patience, quorum):
        seen.update(asked=asked, patience=patience, quorum=quorum)
        return tuple(silo for silo in asked if silo != "ward")

    for silo in SCHEMA.rows:
        (folder / f"{silo}.csv").write_text("a,b\n1,2\n3,5\n")
    found = InferredSchema(SCHEMA, ("a note",))
    monkeypatch.setattr(dask, "embedded_cluster", lambda files: nullcontext(seen.update(files=files)))
    monkeypatch.setattr(dask, "wait_for_silos", gathered)
    monkeypatch.setattr(dask, "DaskTransport", lambda client: SimpleNamespace())

    def describe(roster, said, others):
        seen.update(said=said, described=roster)
        if lost := tuple(silo for silo in roster.silos if silo in silent):
            raise SiloLost(lost, "frozen")
        return found

    monkeypatch.setattr(dask, "schema_from_descriptions", describe)
    settings = LearnSettings(data=str(folder), **{"algorithm": "fed-sparse"} | options)
    with connect_silos(settings, Orchestration(), resumed) as silos:
        job = job_of(settings, "run 17", silos)
        federation = silos.session.connect(job, job.spec, "run 17")
        again = silos.session.connect(job, job.spec, "run 17, again")
    return SimpleNamespace(silos=silos, federation=federation, again=again, job=job, **seen)
