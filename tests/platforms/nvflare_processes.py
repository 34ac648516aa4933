"""NVFlare's own processes on this machine: a proof of concept, whose server and clients use mutual TLS."""

import json
import os
import subprocess

from fedbnsl.flows.servers.federation_demo import SILOS
from fedbnsl.flows.servers.processes import free_port
from fedbnsl.tasks.platforms.launch import NVFLARE_CLASSES

from .processes import PLATFORMS


def environment_of(study):
    """The environment of NVFlare's commands and clients."""
    home = study.with_name("home")
    home.mkdir(exist_ok=True)
    path = f"{PLATFORMS / 'nvflare' / 'bin'}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "FEDBNSL_SILO": f"{study}/{{client}}.sock"}


def start_poc(study, processes):
    """Start a proof of concept among `processes`; returns the folder of its startup kits."""
    poc = processes.folder / "poc"

    def nvflare(*words):
        subprocess.run(["nvflare", *words], env=processes.environment, check=True, capture_output=True)

    nvflare("config", "-pw", poc)
    nvflare("poc", "prepare", "-c", *SILOS, "--force")
    project = study.with_name("project.yml")
    project.write_text((poc / "project.yml").read_text().replace("8002", str(free_port(0))))
    nvflare("poc", "prepare", "-i", project, "--force")
    kits = poc / "example_project" / "prod_00"
    for site in ("server", *SILOS):
        local = kits / site / "local"
        own, default = local / "resources.json", local / "resources.json.default"
        resources = json.loads((own if own.exists() else default).read_text())
        allowed = {"class_allow_list": [*resources.get("class_allow_list", []), *NVFLARE_CLASSES]}
        own.write_text(json.dumps(resources | allowed))
        processes.start(site, "bash", kits / site / "startup" / "sub_start.sh")
        if site == "server":
            processes.wait_for("server", "Server started")
    for silo in SILOS:
        processes.wait_for(silo, "Successfully registered client")
    return kits
