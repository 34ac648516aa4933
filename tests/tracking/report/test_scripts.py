"""The text output of the page's scripts, run by Node if available; the views are tested in a browser."""

import json
import shutil
import subprocess
from importlib.resources import files

import pytest

from fedbnsl.tracking.report.explore import OWN_SCRIPTS, graph_data, script

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no Node to run the page's scripts")


def answer(data, expression):
    """Return the value of `expression`, given the texts of the page and `data`."""
    code = f"globalThis.window = globalThis; {script('words.js')}; const data = {json.dumps(data)};"
    code += f"console.log(JSON.stringify({expression}));"
    done = subprocess.run([NODE, "-e", code], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", OWN_SCRIPTS)
def test_every_script_is_one(name):
    path = files("fedbnsl.tracking.report").joinpath("scripts", name)
    subprocess.run([NODE, "--check", str(path)], check=True, capture_output=True, timeout=60)


def test_a_variable_is_told_with_its_parents_before_and_its_children_after(over_time):
    data = graph_data(over_time)
    first, second = answer(data, "[fedbnsl.nodeWords(0, data), fedbnsl.nodeWords(1, data)]")
    assert first.splitlines() == ["a", "1 parent: a[t-1] (+0.5)", "2 children: b (+2), c[t+2] (-0.25)"]
    assert second.splitlines()[1:] == ["2 parents: a (+2), b[t-1] (+0.5)", "0 children"]


def test_an_edge_is_told_in_words(chain):
    data = graph_data(chain)
    data["edges"][0] |= {"strength": 0.75, "direction": 1.0, "required": True}
    said = answer(data, "fedbnsl.edgeWords(data.edges[0], true)").splitlines()
    assert said[:4] == ["a → b", "correct", "weight +2", "true weight +2"]
    assert [line.split(":")[0] for line in said[4:]] == [
        "strength 0.75",
        "direction 1",
        "required by background knowledge",
    ]


def test_what_the_slider_and_the_lags_leave_visible(over_time):
    data = graph_data(over_time)
    shown = "data.edges.filter((edge) => fedbnsl.visible(edge, {state})).map((edge) => edge.text)"
    assert answer(data, shown.format(state="{lag: 0, least: 0}")) == ["a → b", "b → c"]
    assert answer(data, shown.format(state="{lag: 2, least: 0}")) == ["a[t-2] → c"]
    # Missing edges have no weight, so they are shown at every position of the slider.
    assert answer(data, shown.format(state="{lag: null, least: 1}")) == ["a → b", "b → c"]
