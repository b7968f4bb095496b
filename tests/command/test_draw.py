"""`belljar draw`: pictures, Graphviz and GraphML of an experiment's network, and what Python makes of them."""

import xml.etree.ElementTree

import pytest
import yaml
from conftest import EXAMPLES, execute

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("example", ["routers", "first", "nat"])
def test_pictures_have_all_nodes(belljar, workdir, example):
    picture = workdir / f"{example}.svg"
    done = execute([belljar, "draw", EXAMPLES / f"{example}.yaml", "-o", picture])
    assert done.status == 0, done
    tree = xml.etree.ElementTree.parse(picture).getroot()
    names = {text.text for text in tree.iter(f"{SVG}text")}
    hosts = {"routers": {"alice", "bob", "r1", "r2", "r3"}, "first": {"server", "berlin", "Tokyo"}, "nat": {"laptop", "box", "server"}}[example]
    assert hosts <= names, names
    _, _, width, height = map(float, tree.get("viewBox").split())
    assert all(0 <= float(circle.get("cx")) <= width and 0 <= float(circle.get("cy")) <= height for circle in tree.iter(f"{SVG}circle"))
    # The drawing depends on the experiment alone.
    assert execute([belljar, "draw", EXAMPLES / f"{example}.yaml"]).out == picture.read_text()


def test_labels_of_links(belljar):
    with_labels = execute([belljar, "draw", EXAMPLES / "routers.yaml"]).out
    without = execute([belljar, "draw", EXAMPLES / "routers.yaml", "--no-labels"]).out
    assert ">5 ms, 1 Gbit<" in with_labels and ">5 ms, 1 Gbit</text>" not in without


def test_no_link_strikes_through_a_label(belljar):
    tree = xml.etree.ElementTree.fromstring(execute([belljar, "draw", EXAMPLES / "routers.yaml"]).out)
    lines = [[float(line.get(key)) for key in ("x1", "y1", "x2", "y2")] for line in tree.iter(f"{SVG}line")]
    points = [(x1 + (x2 - x1) * k / 200, y1 + (y2 - y1) * k / 200) for x1, y1, x2, y2 in lines for k in range(201)]
    labels = [text for text in tree.iter(f"{SVG}text") if text.get("stroke")]
    assert len(labels) == 10
    for text in labels:
        width = len(text.text) * (4.5 if text.get("font-size") == "9" else 5.5)
        left = float(text.get("x")) - {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor")]
        below = float(text.get("y"))
        struck = [(x, y) for x, y in points if left < x < left + width and below - 6 < y < below]
        assert not struck, (text.text, struck)


def test_graphviz_and_graphml(belljar, workdir):
    dot = execute([belljar, "draw", EXAMPLES / "routers.yaml", "--format", "dot"]).out
    assert dot.startswith("graph experiment {") and '[label="5 ms, 1 Gbit"]' in dot
    assert execute([belljar, "draw", EXAMPLES / "routers.yaml", "-o", workdir / "x.graphml"]).status == 0
    # What is drawn can be imported again.
    again = execute([belljar, "import", workdir / "x.graphml", "-o", workdir / "again.yaml"])
    assert again.status == 0, again
    content = yaml.safe_load((workdir / "again.yaml").read_text())
    assert set(content["hosts"]) == {"alice", "bob"} and set(content["routers"]) == {"r1", "r2", "r3"}
    assert [link.get("latency") for link in content["links"]] == ["1 ms", "1 ms", "5 ms", "10 ms", "10 ms"]


def test_what_runs_may_be_missing(belljar, workdir):
    """Programs, roots, machines and models of properties are not drawn, so none of them is needed."""
    experiment = {
        "general": {"stop_time": "1 s"}, "switches": ["lan"],
        "hosts": {"a": {"processes": [{"path": "/no/such/program"}]}, "b": {"root": "no-such-image.tar", "processes": [{"args": ["serve"]}]},
                  "c": {"machine": {"type": "qemu", "kernel": "/no/such/kernel"}, "processes": [{"path": "/sbin/no-such-init"}]}},
        "links": [{"between": [name, "lan"]} for name in "abc"],
        "events": [{"at": "500 ms", "kill": {"host": "b", "process": "serve"}}], "properties": [{"name": "p", "history": "x", "model": "./no-such-model.py"}]}
    file = workdir / "missing.yaml"
    file.write_text(yaml.safe_dump(experiment))
    done = execute([belljar, "draw", file, "--format", "dot"])
    assert done.status == 0 and done.out.count(" -- ") == 3, done
    experiment["links"][0]["rate"] = "fast"
    file.write_text(yaml.safe_dump(experiment))
    done = execute([belljar, "draw", file])
    assert done.status == 2 and "'rate'" in done.err, "the network is checked"


def test_formats_that_are_none(belljar, workdir):
    done = execute([belljar, "draw", EXAMPLES / "first.yaml", "-o", workdir / "x.jpeg"])
    assert done.status == 2 and "end it in .svg, .png, .dot or .graphml" in done.err


def test_a_png_needs_a_program(belljar, workdir):
    command = [belljar, "draw", EXAMPLES / "first.yaml", "-o", workdir / "x.png"]
    done = execute(command, env={"PATH": "/nonexistent"})
    assert done.status == 2 and "rsvg-convert" in done.err, done
