"""Inputs that are accepted have an effect, or a message says that they have none; files that cannot be read are refused at once."""

import json
import os
import re

import pytest
import yaml
from conftest import ROOT, execute

HOSTS = {"hosts": {"a": {"network_node_id": 0, "processes": [{"path": "/bin/true"}]}}, "network": {"graph": {"type": "1_gbit_switch"}}}
ALONE = {"general": {"stop_time": "4 s"}, "hosts": {"a": {"processes": [{"path": "/bin/true"}]}}}
LINKED = {"hosts": {name: {"processes": [{"path": "/bin/true"}]} for name in ("a", "b")}}


def with_file(key, value):
    text = {"general": {"stop_time": "4 s"}, **HOSTS}
    if key == "graph":
        text["network"] = {"graph": {"type": "gml", "file": {"path": value}}}
    elif key == "p4":
        text = ALONE | {"switches": {"s": {"p4": value}}, "links": [{"between": ["a", "s:p1"]}]}
    elif key == "commands":
        text = ALONE | {"links": [{"between": ["a", "s:p1"]}],
                        "switches": {"s": {"p4": str(ROOT / "examples/p4/basic/basic.p4"), "commands": value}}}
    elif key == "ns2":
        text = ALONE | {"radios": {"air": {"stations": ["a"], "mobility": {"ns2": value}}}}
    elif key == "root":
        text["hosts"] = {"a": {"network_node_id": 0, "root": value, "processes": [{"path": "/bin/true"}]}}
    return text


@pytest.fixture
def endless(workdir):
    fifo = workdir / "fifo"
    os.mkfifo(fifo)
    return [("/dev/zero", "a device"), (str(fifo), "a FIFO")]


@pytest.mark.parametrize("key", ["graph", "p4", "commands", "ns2", "root"])
def test_files_of_an_experiment_without_end_are_refused_at_once(belljar, workdir, endless, key):
    file = workdir / "test.yaml"
    for path, kind in endless:
        file.write_text(yaml.safe_dump(with_file(key, path)))
        done = execute([belljar, "validate", file], timeout=20)
        said = "it is neither a directory nor a file" if key == "root" else f"it is {kind}, not a regular file"
        assert done.status == 2 and path in done.err and said in done.err, done


@pytest.mark.parametrize("format", ["kathara", "containerlab", "netlab", "graphml", "gml", "as-relationships", "p4-tutorial", "p4app", "compose"])
def test_imported_files_without_end_are_refused_at_once(belljar, workdir, endless, format):
    known = execute([belljar, "import", "--help"]).out
    assert format in known, known
    for path, kind in endless:
        done = execute([belljar, "import", "--format", format, path, "-o", workdir / "out.yaml"], timeout=20)
        assert done.status == 2 and path in done.err and f"it is {kind}, not a regular file" in done.err, done


def test_a_file_beside_an_imported_one(belljar, workdir):
    (workdir / "lab.conf").write_text('a[0]="A"\nb[0]="A"\n')
    os.mkfifo(workdir / "a.startup")
    done = execute([belljar, "import", workdir / "lab.conf", "-o", workdir / "out.yaml"], timeout=20)
    assert done.status == 2 and "'a.startup' cannot be read: it is a FIFO, not a regular file" in done.err, done


@pytest.mark.parametrize("command", ["run --choices", "check", "sweep", "p4 build", "p4 run"])
def test_files_of_commands_without_end_are_refused_at_once(belljar, workdir, endless, command):
    good = workdir / "good.yaml"
    good.write_text(yaml.safe_dump({"general": {"stop_time": "4 s"}, **HOSTS}))
    for path, _ in endless:
        words = {"run --choices": ["run", good, "-o", workdir / "data", "--choices", path], "check": ["check", "--model", "register", path],
                 "sweep": ["sweep", path, "--seeds", "2", "-o", workdir / "sweep"], "p4 build": ["p4", "build", path],
                 "p4 run": ["p4", "run", path]}[command]
        done = execute([belljar, *words], timeout=60)
        assert done.status not in (0, 101) and path in done.err and "not a regular file" in done.err, done


def test_an_included_file_without_end(belljar, workdir):
    os.mkfifo(workdir / "part.p4")
    (workdir / "main.p4").write_text('#include "part.p4"\n')
    done = execute([belljar, "p4", "build", workdir / "main.p4"], timeout=20)
    assert done.status != 0 and "it is a FIFO, not a regular file" in done.err and "main.p4:1" in done.err, done


def test_the_fifo_of_a_program_blocks_no_judge(run_experiment, belljar):
    """A property over a host's file that is a FIFO."""
    text = {"general": {"stop_time": "4 s"}, **HOSTS, "properties": [{"never": "x", "files": "out", "name": "p"}]}
    text["hosts"] = {"a": {"network_node_id": 0, "processes": [{"path": "/bin/sh", "args": "-c 'mkfifo out'"}]}}
    ran = run_experiment(text, status=1, timeout=60)
    assert not json.loads((ran.path / "sim-stats.json").read_text())["properties"][0]["holds"]
    execute([belljar, "diff", ran.path, ran.path], timeout=20)
    execute([belljar, "report", ran.path], timeout=60)


EARLY = {
    "general": {"stop_time": "40 s", "bootstrap_end_time": "5 s"}, "belljar": {"metrics": {"interval": "9 s"}}, **LINKED,
    "links": [{"between": ["a", "b"], "name": "l"}],
    "events": [{"at": "20 s", "link_down": "l"}, {"every": "7 s", "probability": 1.0, "link_change": "l", "latency": "9 ms", "for": "1 s"}],
}


def test_events_after_the_end_of_the_run_are_named(belljar, workdir):
    (workdir / "test.yaml").write_text(yaml.safe_dump(EARLY))
    done = execute([belljar, "run", workdir / "test.yaml", "-o", workdir / "data"])
    note = re.search(r"note: 4 effects were not reached, since the run ended at .* s: (.*)", done.out)
    assert done.status == 0 and note, done
    for what in ("bootstrap_end_time", "link_change: { link: [l] }", "the first sample of the metrics", "event { link_down: { link: [l] } } at 20 s"):
        assert what in note[1], done
    assert note[0] in execute([belljar, "inspect", workdir / "data"]).out
    unreached = json.loads((workdir / "data" / "sim-stats.json").read_text())["unreached"]
    assert [one["time"] for one in unreached] == [5, 7, 9, 20]


def test_runs_that_reach_all_events_have_no_such_note(belljar, workdir):
    text = {**EARLY, "general": {"stop_time": "10 s"}, "belljar": {}, "events": [{"at": "1 ms", "link_down": "l"}]}
    text["hosts"] = {"a": {"processes": [{"path": "/bin/sleep", "args": "2"}]}, "b": {"processes": []}}
    (workdir / "test.yaml").write_text(yaml.safe_dump(text))
    done = execute([belljar, "run", workdir / "test.yaml", "-o", workdir / "data"])
    assert done.status == 0 and "not reached" not in done.out, done
    assert "unreached" not in json.loads((workdir / "data" / "sim-stats.json").read_text())


LATE = {"path": "/bin/true", "start_time": "50 s"}


@pytest.mark.parametrize("state, status, said", [
    ({}, 0, "all 1 processes ended as expected, 1 of them never started"),
    ({"expected_final_state": {"exited": 0}}, 1, "expected: exited 0; it starts at 50 s, and the run ended at 4 s"),
    ({"expected_final_state": "running"}, 1, "1 of 1 processes did not end as expected"),
    ({"expected_final_state": "any"}, 0, "1 of them never started"),
])
def test_a_process_that_never_starts(belljar, workdir, state, status, said):
    text = {"general": {"stop_time": "4 s"}, **HOSTS, "hosts": {"a": {"network_node_id": 0, "processes": [{**LATE, **state}]}}}
    (workdir / "test.yaml").write_text(yaml.safe_dump(text))
    done = execute([belljar, "run", workdir / "test.yaml", "-o", workdir / "data"])
    assert done.status == status and said in done.out and "'/bin/true' never starts" in done.err, done
    # The experiment as written by the run has the same end.
    again = execute([belljar, "run", workdir / "data" / "processed-config.yaml", "-o", workdir / "again"])
    assert again.status == status, again


def test_a_model_that_never_starts_and_one_that_fails(belljar, workdir):
    models = [{"model": {"type": "bulk", "to": "a:7", "size": "1 KB"}}, {"model": {"type": "http", "to": "a:80", "name": "late"}, "start_time": "9 s"}]
    text = {"general": {"stop_time": "4 s"}, **HOSTS, "hosts": {"a": {"network_node_id": 0, "processes": [], }, "b": {"network_node_id": 0, "processes": models}}}
    (workdir / "test.yaml").write_text(yaml.safe_dump(text))
    done = execute([belljar, "run", workdir / "test.yaml", "-o", workdir / "data"])
    assert "note: host 'b': 'model late' never starts, since the simulation stops at 4 s" in done.err, done
    assert re.search(r"warning: 1 of 1 flows of model 'bulk' failed: \w+ 1x", done.out), done


def linked(**link):
    return {"general": {"stop_time": "4 s"}, **LINKED, "links": [{"between": ["a", "b"], "name": "l", **link}]}


FASTER = {"events": [{"at": "1 s", "link_change": "l", "rate": "10 Mbit"}]}
REFUSED = {
    "ecn_threshold": [
        linked(queue={"packets": 3, "ecn_threshold": 10}), linked(queue={"packets": 100, "ecn_threshold": 500}), linked(queue={"packets": 9, "ecn_threshold": 9}),
        linked(queue={"bytes": "9 KB", "ecn_threshold": {"bytes": "20 KB"}}), linked(reverse={"queue": {"packets": 3, "ecn_threshold": 10}}),
        linked(queue={"priority": {"bands": [{"packets": 3, "ecn_threshold": 10}, {"packets": 3}]}}), linked(queue={"bytes": "9 KB", "ecn_threshold": {"packets": 5000}}),
        linked(queue={"packets": 2, "ecn_threshold": {"bytes": "9 MB"}}),
        {**linked(), "events": [{"at": "1 s", "link_change": "l", "queue": {"packets": 3, "ecn_threshold": 10}}]},
    ],
    "token_bucket": [
        linked(rate="1 Mbit", token_bucket={"rate": "5 Mbit", "burst": "9 KB"}), linked(rate="1 Mbit", token_bucket={"rate": "1 Mbit", "burst": "9 KB"}),
        linked(rate="9 Mbit", token_bucket={"rate": "5 Mbit", "burst": "9 KB"}, reverse={"rate": "1 Mbit"}),
    ],
    "overhead": [linked(rate="unlimited", overhead="18 B"), linked(rate="unlimited", reverse={"overhead": "18 B"})],
}
ACCEPTED = [
    linked(queue={"packets": 10, "ecn_threshold": 9}), linked(queue={"packets": 2, "ecn_threshold": {"bytes": "9 KB"}}), linked(queue={"bytes": "9 KB", "ecn_threshold": {"packets": 9}}),
    linked(rate="5 Mbit", token_bucket={"rate": "1 Mbit", "burst": "9 KB"}), {**linked(rate="1 Mbit", token_bucket={"rate": "5 Mbit", "burst": "9 KB"}), **FASTER},
    linked(rate="unlimited", overhead="18 B", reverse={"rate": "1 Mbit"}), {**linked(rate="unlimited", overhead="18 B"), **FASTER},
    linked(rate="unlimited", overhead="18 B", token_bucket={"rate": "1 Mbit", "burst": "9 KB"}),
]


@pytest.mark.parametrize("key", REFUSED)
def test_keys_of_links_without_effect_are_refused(belljar, workdir, key):
    for number, text in enumerate(REFUSED[key]):
        file = workdir / f"{number}.yaml"
        file.write_text(yaml.safe_dump(text))
        done = execute([belljar, "validate", file])
        assert done.status == 2 and f"'{key}' has no effect" in done.err and "= help:" in done.err, (text, done)
        assert re.search(rf"{number}\.yaml:\d+:\d+", done.err), done


def test_keys_of_links_that_act_are_accepted(belljar, workdir):
    for number, text in enumerate(ACCEPTED):
        file = workdir / f"{number}.yaml"
        file.write_text(yaml.safe_dump(text))
        done = execute([belljar, "validate", file])
        assert done.status == 0 and "no effect" not in done.out, (text, done)
    # With a shorter run, the event that gives a key its effect is dropped, and the file loads.
    file.write_text(yaml.safe_dump(ACCEPTED[4]))
    done = execute([belljar, "run", file, "-o", workdir / "short", "--set", "general.stop_time=0.5 s"])
    assert done.status == 0, done
    done = execute([belljar, "validate", workdir / "short" / "processed-config.yaml"])
    assert done.status == 0, done


NOTED = [
    ({"general": {"stop_time": "4 s", "bootstrap_end_time": "9 s"}, **HOSTS}, "no rate and no loss of the network applies: 'bootstrap_end_time' is 9 s"),
    ({"general": {"stop_time": "4 s"}, "belljar": {"metrics": {"interval": "9 s"}}, **HOSTS}, "no metrics are sampled: their 'interval' is 9 s"),
    ({"general": {"stop_time": "4 s"}, **HOSTS, "host_option_defaults": {"pcap_filter": "tcp"}}, "'pcap_filter' and 'pcap_capture_size' have no effect on host 'a'"),
    ({"general": {"stop_time": "4 s"}, **HOSTS, "host_option_defaults": {"pcap_capture_size": "96 B"}}, "'pcap_filter' and 'pcap_capture_size' have no effect on host 'a'"),
    ({**linked(), "network": HOSTS["network"]}, "section 'network' has no effect: no host is on the graph"),
    ({**linked(), "switches": {"s": {}}}, "switch 's' has no link: no packet reaches it"),
    ({**linked(), "routers": ["r"]}, "router 'r' has no link: no packet reaches it"),
]


@pytest.mark.parametrize("number", range(len(NOTED)))
def test_settings_without_effect_are_noted(belljar, workdir, number):
    text, said = NOTED[number]
    (workdir / "test.yaml").write_text(yaml.safe_dump(text))
    done = execute([belljar, "run", workdir / "test.yaml", "-o", workdir / "data"])
    assert done.status == 0 and f"note: {said}" in done.err, done
    assert f"note: {said}" in execute([belljar, "validate", workdir / "test.yaml"]).out


def test_the_command_line_gives_settings_their_effect(belljar, workdir):
    text = {"general": {"stop_time": "4 s"}, **HOSTS, "host_option_defaults": {"pcap_filter": "tcp"}}
    (workdir / "test.yaml").write_text(yaml.safe_dump(text))
    done = execute([belljar, "run", workdir / "test.yaml", "-o", workdir / "data", "--pcap"])
    assert done.status == 0 and "have no effect" not in done.err, done
    done = execute([belljar, "run", workdir / "test.yaml", "-o", workdir / "late", "--bootstrap-end-time", "7 s"])
    assert done.status == 0 and "no rate and no loss of the network applies" in done.err, done


@pytest.mark.needs("unshare")
def test_a_full_disk_of_the_machine_is_named(belljar, workdir):
    """What programs write goes to the disk of the results: if that is full, they see errors that the experiment does not have."""
    if execute(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", workdir]).status != 0:
        pytest.skip("mount namespaces are denied")
    text = {"general": {"stop_time": "4 s"}, **HOSTS}
    text["hosts"] = {"a": {"network_node_id": 0, "processes": [{"path": "/bin/sh", "args": "-c 'head -c 900000 /dev/zero > big; rm big'"}]}}
    (workdir / "test.yaml").write_text(yaml.safe_dump(text))
    full = workdir / "full"
    full.mkdir()
    done = execute(["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=400k tmpfs {full} && exec "$0" "$@"', belljar, "run", workdir / "test.yaml", "-o", full / "data"])
    assert done.status == 0 and "warning: the disk of this machine refuses writes of programs (ENOSPC): the results depend on it" in done.out, done


@pytest.mark.parametrize("command", ["validate", "run --show-config", "run"])
def test_standard_output_that_cannot_be_written(belljar, workdir, command):
    (workdir / "test.yaml").write_text(yaml.safe_dump({"general": {"stop_time": "4 s"}, **HOSTS}))
    done = execute(["sh", "-c", f'exec "$0" {command} test.yaml > /dev/full', belljar], cwd=workdir)
    assert (done.status, done.err.splitlines()[-1]) == (1, "error: stdout cannot be written: No space left on device (os error 28)"), done


def test_all_files_of_users_are_read_by_one_function():
    """Crates that read files which users name do so by `belljar_inputs`, which never blocks."""
    banned = re.compile(r"\b(fs::read(_to_string)?|File::open)\(")
    # Files of the system, and those that a run itself has written or holds open.
    allowed = {"config": {"load/mod.rs"}, "p4c": set(), "p4files": set(), "image": {"layer.rs"}}
    found = []
    for crate, files in allowed.items():
        for file in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
            name = str(file.relative_to(ROOT / "crates" / crate / "src"))
            text = re.split(r"#\[cfg\(test\)\]\s*mod tests \{", file.read_text())[0]
            if name in files or re.search(r"(^|/)tests?(_\w+)?(/|\.rs)", name):
                continue
            found += [f"{crate}/{name}: {match[0]}" for match in banned.finditer(text) if "/proc/" not in text[match.end():match.end() + 20]]
    assert not found, found
