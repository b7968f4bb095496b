"""Verdicts on properties, and the times that they rest on: the same for any workers, placement, cells and ranks."""

import shutil

import pytest
from conftest import EXAMPLES, contents_of, execute
from sameness import assert_same

from . import test_ranks
from .test_ranks import folder, needs_namespaces  # noqa: F401 (folder is a fixture)

FORGETFUL = ("--set", "hosts.server.processes.0.args=serve --forgetful")


@pytest.mark.parametrize("version", [(), FORGETFUL], ids=["right", "wrong"])
def test_verdicts_do_not_depend_on_how_the_run_is_computed(belljar, workdir, version):
    ways = [("--parallelism", "1"), ("--parallelism", "2"), ("--parallelism", "3"), ("--cells", "2"), ("--cells", "3")]
    assert_same(belljar, workdir, EXAMPLES / "properties.yaml", *((*options, *version) for options in ways))


def test_verdicts_do_not_depend_on_placement(belljar, workdir):
    found = {}
    for placement in ("near", "far"):
        done = execute([belljar, "run", EXAMPLES / "properties.yaml", "-o", workdir / "data", "--no-progress", "--placement", placement, *FORGETFUL])
        assert done.status == 1 and "1 of 6 properties do not hold" in done.out, done
        every = contents_of(workdir / "data")
        found[placement] = {name: every[name] for name in every if str(name).startswith(("times", "properties", "sim-stats"))}
        shutil.rmtree(workdir / "data")
    assert len(found["near"]) == 6 and found["near"] == found["far"], found["near"].keys()


@pytest.mark.parametrize("version", [(), ("--set", "hosts.client.processes.0.args=client --direct")], ids=["right", "wrong"])
def test_verdicts_on_packets_do_not_depend_on_how_the_run_is_computed(belljar, workdir, version):
    ways = [("--parallelism", "1"), ("--parallelism", "2"), ("--cells", "2"), ("--cells", "3")]
    assert_same(belljar, workdir, EXAMPLES / "packets.yaml", *((*options, *version) for options in ways))


def test_properties_of_packets_leave_the_run_as_it_is(belljar, workdir):
    """Files, times of system calls and captures of the hosts are those of a run without properties, near and far; so are the packets that are judged."""
    text = (EXAMPLES / "packets.yaml").read_text().replace("programs/", f"{EXAMPLES}/programs/")
    without, section = text.split("properties:\n")
    seen = {}
    for placement in ("near", "far"):
        for name, content in (("with", text), ("without", without)):
            (workdir / f"{name}.yaml").write_text(content)
            done = execute([belljar, "run", f"{name}.yaml", "-o", "data", "--no-progress", "--strace", "--pcap", "--placement", placement], cwd=workdir)
            assert done.status == 0 and ("all 5 properties hold" in done.out) == (name == "with"), done
            seen[placement, name] = contents_of(workdir / "data")
            shutil.rmtree(workdir / "data")
    for placement in ("near", "far"):
        judged, plain = ({str(file): data for file, data in seen[placement, name].items()} for name in ("with", "without"))
        of_hosts = {file for file in plain if file.startswith("hosts/")}
        assert len(of_hosts) >= 12 and of_hosts == {file for file in judged if file.startswith("hosts/")}
        assert not [file for file in of_hosts if judged[file] != plain[file]]
        assert not [file for file in plain if file.startswith("packets")]
        assert {file for file in judged if file.startswith("packets")} == {f"packets/{host}/eth0.pcap" for host in ("client", "service", "database")}
    near, far = ({str(file): data for file, data in seen[placement, "with"].items()} for placement in ("near", "far"))
    assert all(near[file] == far[file] for file in near if file.startswith(("packets", "times")))


@needs_namespaces
def test_verdicts_do_not_depend_on_ranks(belljar, folder):  # noqa: F811
    """Rank 2 is on another machine: the files of its hosts, and their times, come to rank 0 before they are judged."""
    apart = {"before": {2: test_ranks.on_another_machine(folder)}}
    test_ranks.assert_same(belljar, folder, EXAMPLES / "properties.yaml", [(2, (), {}), (3, (), apart)], *FORGETFUL)


@needs_namespaces
def test_packets_of_another_machine_are_judged(belljar, folder):  # noqa: F811
    apart = {"before": {2: test_ranks.on_another_machine(folder)}}
    test_ranks.assert_same(belljar, folder, EXAMPLES / "packets.yaml", [(3, (), apart)])
