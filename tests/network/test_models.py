"""Traffic models: what they do among themselves and with real programs, and that runs with them are the same every time."""

import csv
import re
import time

import pytest
from conftest import EXAMPLES, execute, experiment, graph


def flows(results, model=None):
    with open(results.path / "flows.csv") as file:
        return [row for row in csv.DictReader(file) if model in (None, row["model"])]


def model(type, start="0 s", stop=None, **keys):
    process = {"model": {"type": type, **keys}, "start_time": start}
    return {**process, "shutdown_time": stop} if stop else process


LINE = graph((0, 1, "10 ms"), bandwidth="10 Mbit")


@pytest.mark.needs("curl")
def test_example(run_experiment):
    done = run_experiment(EXAMPLES / "models.yaml")
    assert done.text("curl").startswith("200 ")
    licences = flows(done, "licences")
    assert len(licences) == 15 and {row["outcome"] for row in licences} == {"done"}
    # what python says before it: the same head each time
    sizes = {int(row["bytes_in"]) - 35149 for row in licences}
    assert len(sizes) == 1 and 100 < sizes.pop() < 400
    names = {row["outcome"] for row in flows(done, "dns")}
    assert names == {"done", "no such name"}
    sent, received = flows(done, "calls")[0], flows(done, "calls received")[0]
    assert int(sent["datagrams"]) == int(received["datagrams"]) + int(received["lost"])
    assert 0.02 < float(received["mean_delay"]) < 0.1
    table = re.search(r"^bulk +1 +3 +0 +0 +6.0 MB ", done.out, re.M)
    assert table, done.out
    assert sorted(p.name for p in (done.path / "hosts").iterdir()) == ["curl", "python"], "folders of those who write"


def test_a_bulk_transfer_is_as_fast_as_its_link(run_experiment):
    hosts = {"a": (0, [model("bulk", "1 s", to="b:5001", size="5 MB", count=2)]), "b": (1, [model("sink", port=5001)])}
    done = run_experiment(experiment(hosts, LINE))
    transfers = flows(done, "bulk")
    assert [int(row["bytes_out"]) for row in transfers] == [5_000_000] * 2
    for row in transfers:
        took = float(row["ended"]) - float(row["started"])
        assert 5e6 * 8 / 10e6 < took < 5e6 * 8 / 10e6 * 1.25, row
        assert float(row["connected"]) - float(row["started"]) == pytest.approx(0.020, abs=0.001)
    assert float(transfers[1]["started"]) == float(transfers[0]["ended"]), "one after the other"
    # nothing is left to do: the simulation ends with the last transfer
    simulated = float(re.search(r"2 hosts \| ([\d.]+) s simulated", done.out)[1])
    assert 0 <= simulated - float(transfers[1]["ended"]) < 1, done.out


def test_downloads_and_streams(run_experiment):
    hosts = {
        "a": (0, [model("bulk", to=["b:9", "c:9"], direction="down", count=40),
                  model("constant_rate", to="b:5001", rate="1 Mbit", datagram_size="500 B", duration="4 s")]),
        "b": (1, [model("source", port=9, size="100 KB"), model("sink", port=5001, protocol="udp")]),
        "c": (1, [model("source", port=9, size={"uniform": ["1 KB", "2 KB"]})]),
    }
    done = run_experiment(experiment(hosts, graph((0, 1, "10 ms", 0.02), bandwidth="20 Mbit")))
    sizes = [int(row["bytes_in"]) for row in flows(done, "bulk")]
    assert len(sizes) == 40 and 5 < sizes.count(100_000) < 35
    assert all(size == 100_000 or 1000 <= size <= 2000 for size in sizes)
    sent, received = flows(done, "constant_rate")[0], flows(done, "sink")[0]
    assert int(sent["datagrams"]) == 1000 == int(received["datagrams"]) + int(received["lost"])
    assert 2 <= int(received["lost"]) <= 60 and float(sent["ended"]) == 4


def test_http_fails_as_browsers_do(run_experiment):
    hosts = {
        "a": (0, [model("http", name="refused", to="b:81"), model("http", name="late", to="b:82", timeout="3 s"),
                  model("http", name="posted", to="b:80", request_size="300 KB", keep_alive=False, count=3),
                  model("http", name="spoken to wrongly", to="b:9")]),
        "b": (1, [model("http_server"), model("sink", port=82), model("source", port=9, size="1 KB")]),
    }
    done = run_experiment(experiment(hosts, LINE))
    outcome = {row["model"]: row["outcome"] for row in flows(done)}
    assert outcome["refused"] == "refused" and outcome["late"] == "timed out"
    assert outcome["spoken to wrongly"] == "malformed answer" and outcome["posted"] == "done"
    assert [int(row["bytes_out"]) // 1000 for row in flows(done, "posted")] == [300] * 3
    late = flows(done, "late")[0]
    assert float(late["ended"]) - float(late["started"]) == 3


def test_requests_keep_their_pace(run_experiment):
    """A pause counts from the end, an interval from the beginning, however slow the server is."""
    hosts = {
        "a": (0, [model("http", name="closed", to="b", count=5, pause="1 s"),
                  model("http", name="open", to="b", count=5, interval="1 s")]),
        "b": (1, [model("http_server", delay="1500 ms")]),
    }
    done = run_experiment(experiment(hosts, LINE))
    starts = {name: [float(row["started"]) for row in flows(done, name)] for name in ("closed", "open")}
    assert starts["open"] == [0, 1, 2, 3, 4]
    gaps = [b - a for a, b in zip(starts["closed"], starts["closed"][1:])]
    assert all(2.5 < gap < 2.6 for gap in gaps), gaps


def test_a_model_that_cannot_run_fails_the_run(run_experiment):
    hosts = {"a": (0, [model("sink", port=80), model("http_server", "1 s")])}
    done = run_experiment(experiment(hosts), status=1)
    assert "FAIL model http_server of host a could not run: port in use" in done.out


def test_models_crash_and_come_back_with_their_host(run_experiment):
    hosts = {"a": (0, [model("http", to="b", count="unlimited", interval="1 s", timeout="900 ms")]), "b": (1, [model("http_server")])}
    text = experiment(hosts, LINE, stop="20 s")
    text["events"] = [{"at": "5500 ms", "crash": "b", "for": "4 s"}]
    done = run_experiment(text)
    outcomes = [row["outcome"] for row in flows(done, "http")]
    assert outcomes[:6] == ["done"] * 6 and outcomes[6:10] == ["timed out"] * 4 and set(outcomes[11:]) == {"done"}, outcomes


def test_events_start_and_stop_models(run_experiment):
    hosts = {"a": (0, [model("http", "never", name="crowd", to="b", count="unlimited", interval="1 s"), model("http", name="one", to="b", start="19 s")]),
             "b": (1, [model("http_server"), model("sink", port=5001)])}
    text = experiment(hosts, LINE, stop="30 s")
    text["events"] = [{"at": "3 s", "start": "crowd", "hosts": "a", "for": "4500 ms"}, {"at": "4 s", "start": "crowd", "hosts": "a"},
                      {"at": "10 s", "stop": "http_server", "hosts": "b", "for": "3 s"}, {"at": "11 s", "start": "crowd", "hosts": "a"},
                      {"at": "15030 ms", "stop": "crowd", "hosts": "a"}]
    done = run_experiment(text)
    rows = [(float(row["started"]), row["outcome"]) for row in flows(done, "crowd")]
    # Started while it runs it goes on; the server is away from 10 s to 13 s.
    assert [at for at, _ in rows] == [3, 4, 5, 6, 7, 11, 12, 13, 14, 15], rows
    assert [how for _, how in rows] == ["done"] * 5 + ["refused"] * 2 + ["done"] * 2 + ["cut"], rows
    # What will still be started keeps the simulation going, and nothing else does.
    assert 19 <= float(re.search(r"2 hosts \| ([\d.]+) s simulated", done.out)[1]) < 21, done.out


def test_models_over_links(run_experiment):
    """Every type of a model, between hosts that have links and no graph, through a router."""
    clients = [model("http", to="server", count=3), model("bulk", to="server:5001", size="1 MB"), model("dns", names=["server", "r"], count=2),
               model("dns", name="asked", to="server", names=["server"]), model("bulk", name="down", to="server:9", direction="down"),
               model("constant_rate", to="server:5001", rate="1 Mbit", duration="2 s"),
               model("on_off", to="server:5001", rate="1 Mbit", burst="100 ms", silence="100 ms", duration="2 s")]
    servers = [model("http_server"), model("sink", port=5001), model("sink", name="datagrams", port=5001, protocol="udp"),
               model("source", port=9, size="50 KB"), model("dns_server")]
    done = run_experiment({
        "general": {"stop_time": "20 s"}, "routers": ["r"],
        "hosts": {"client": {"processes": clients}, "server": {"interfaces": {"eth0": "192.168.7.2/24"}, "processes": servers}},
        "links": [{"between": ["client", "r"], "latency": "1 ms"}, {"between": ["r", "server"], "latency": "9 ms", "rate": "8 Mbit"}],
        "host_option_defaults": {"pcap_enabled": True}})
    of_client = [row for row in flows(done) if row["host"] == "client"]
    assert len(of_client) == 10 and {row["outcome"] for row in of_client} == {"done"}, of_client
    assert {row["peer"].split(":")[0] for row in of_client if row["model"] == "bulk"} == {"192.168.7.2"}, of_client
    bulk = next(row for row in of_client if row["model"] == "bulk")
    assert float(bulk["connected"]) - float(bulk["started"]) > 0.019 and float(bulk["ended"]) - float(bulk["started"]) > 1
    counted = [int(row["datagrams"]) for row in flows(done, "datagrams")]
    assert len(counted) == 2 and sum(counted) > 200, counted
    assert (done.path / "routers/r/eth1.pcap").stat().st_size > 1_000_000


@pytest.mark.needs("curl")
def test_programs_and_models_over_a_switch(run_experiment):
    curl = {"path": "curl", "args": "-sS -o page -w %{size_download} http://model/", "start_time": "1 s"}
    server = {"path": "python3", "args": "-u -m http.server 80 --directory /usr/share/common-licenses", "expected_final_state": "running"}
    done = run_experiment({
        "general": {"stop_time": "20 s"}, "switches": ["lan"],
        "hosts": {"curl": {"processes": [curl]}, "model": {"processes": [model("http_server", response_size="3 KB")]},
                  "user": {"processes": [model("http", "2 s", to="python", path="/GPL-3", count=4)]}, "python": {"processes": [server]}},
        "links": [{"between": [name, "lan"]} for name in ("curl", "model", "user", "python")]})
    assert done.text("curl") == "3000"
    assert [row["outcome"] for row in flows(done, "http")] == ["done"] * 4


@pytest.mark.needs("curl")
def test_a_real_client_of_a_model(run_experiment):
    curl = {"path": "curl", "args": ["-sS", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{http_code} %{size_download} %{num_connects}\\n",
                                     "http://b/1", "http://b/2"], "start_time": "1 s"}
    posting = {"path": "curl", "args": ["-sS", "--data-binary", "@/usr/share/common-licenses/GPL-3", "http://b/", "-o", "got"],
               "start_time": "5 s"}
    head = {"path": "curl", "args": ["-sSI", "http://b/"], "start_time": "8 s"}
    hosts = {"a": (0, [curl]), "c": (0, [posting]), "d": (0, [head]), "b": (1, [model("http_server", response_size="3 KB")])}
    done = run_experiment(experiment(hosts, LINE))
    assert done.text("a") == "200 3000 1\n200 3000 0\n", "both over one connection"
    assert (done.host("c") / "got").stat().st_size == 3000
    assert "Content-Length: 3000" in done.text("d")
    assert max(int(row["bytes_in"]) for row in flows(done, "http_server")) > 35_149


@pytest.mark.needs("iperf")
def test_models_speak_with_iperf(run_experiment):
    server = {"path": "iperf", "args": "-s -u -f k", "expected_final_state": "running"}
    tcp_server = {"path": "iperf", "args": "-s -f m", "expected_final_state": "running"}
    client = {"path": "iperf", "args": "-c sink -u -b 800k -t 3", "start_time": "1 s", "expected_final_state": "any"}
    hosts = {
        "server": (1, [server, tcp_server]), "sink": (1, [model("sink", port=5001, protocol="udp")]), "client": (0, [client]),
        "models": (0, [model("constant_rate", "1 s", to="server:5001", rate="1 Mbit", datagram_size="1250 B", duration="5 s"),
                       model("bulk", "10 s", to="server:5001", size="2 MB")]),
    }
    done = run_experiment(experiment(hosts, graph((0, 1, "10 ms", 0.01), bandwidth="10 Mbit"), stop="40 s"))
    udp, tcp = (f.read_text() for f in done.streams("server", "iperf"))
    lost = re.search(r" (\d+)/ *500 \(", udp)
    assert lost and re.search(r"0\.0+-(4\.9|5\.0)\d* sec", udp), udp
    assert re.search(r"(1\.91|2\.00) MBytes", tcp), tcp
    assert flows(done, "bulk")[0]["outcome"] == "done"
    received = flows(done, "sink")[0]
    assert int(received["bytes_in"]) == int(received["datagrams"]) * 1470
    assert 195 <= int(received["datagrams"]) + int(received["lost"]) <= 210 and float(received["mean_delay"]) < 0.02


@pytest.mark.needs("dig")
def test_dig_asks_a_model(run_experiment):
    dig = {"path": "dig", "args": "@ns +short +tries=1 web", "start_time": "1 s"}
    hosts = {"ns": (1, [model("dns_server", delay={"exponential": "5 ms"})]), "web": (1, []), "a": (0, [dig]),
             "b": (0, [model("dns", to="ns", names=["web"], count=50), model("dns", name="nobody", to="web", names=["web"], timeout="1 s")])}
    done = run_experiment(experiment(hosts, LINE))
    assert re.fullmatch(r"11\.0\.0\.\d\n", done.text("a"))
    times = [float(row["ended"]) - float(row["started"]) for row in flows(done, "dns")]
    assert len(times) == 50 and 0.022 < sum(times) / 50 < 0.029 and min(times) > 0.02
    nobody = flows(done, "nobody")[0]
    assert nobody["outcome"] == "timed out" and nobody["datagrams"] == "3" and float(nobody["ended"]) == 3


def busy(seed):
    def clients(n):
        return [model("http", f"{n * 37} ms", to=["s0", "s1"], count=10, interval={"exponential": "300 ms"}),
                model("dns", to="s0", names=["s0", "s1", "none"], count=10, pause={"exponential": "200 ms"}),
                model("on_off", to="s1:5001", rate="100 Kbit", burst={"exponential": "300 ms"}, silence={"pareto": {"mean": "300 ms", "shape": 1.5}}, duration="4 s"),
                model("bulk", to="s0:5001", size={"exponential": "50 KB"}, count=3, pause="100 ms")]

    serving = [model("http_server", response_size={"pareto": {"mean": "20 KB", "shape": 1.2, "max": "1 MB"}}, delay={"exponential": "3 ms"}),
               model("sink", port=5001), model("sink", port=5001, protocol="udp"), model("dns_server")]
    real = {"path": "python3", "start_time": "1 s", "args": [
        "-c", "import urllib.request as u\nfor n in range(5): print(len(u.urlopen('http://s0/').read()))"]}
    hosts = {"s0": (0, serving), "s1": (1, serving), "real": (2, [real]), **{f"c{n}": (n % 3, clients(n)) for n in range(6)}}
    gml = graph((0, 1, "3 ms", 0.01), (1, 2, "300 us", 0.02), (0, 2, "10 ms", 0.01), bandwidth="10 Mbit")
    text = experiment(hosts, gml, stop="8 s", seed=seed)
    text["host_option_defaults"] = {"pcap_enabled": True}
    text["events"] = [{"at": "2 s", "crash": "s0", "for": "500 ms"}]
    return text


def test_runs_with_models_are_the_same_for_any_workers(belljar, run_experiment):
    ways = [["--parallelism", "1"], ["--parallelism", "2"], ["--parallelism", "3", "--stealing", "false"], ["--cells", "2"], ["--placement", "far"]]
    first, *others = [run_experiment(busy(1), args=way, status=None, name=f"way{n}") for n, way in enumerate(ways)]
    assert len(flows(first)) > 200
    for other in others:
        assert (other.path / "flows.csv").read_bytes() == (first.path / "flows.csv").read_bytes()
    for other in others[:-1]:
        same = execute([belljar, "diff", first.path, other.path])
        assert same.status == 0, same
    other = run_experiment(busy(2), status=None)
    assert (other.path / "flows.csv").read_bytes() != (first.path / "flows.csv").read_bytes()


@pytest.mark.slow
def test_a_hundred_programs_among_ten_thousand_models(belljar, workdir):
    from test_benches import bench

    began = time.monotonic()
    result = bench(belljar, workdir, "models", "--repeat", 1, timeout=900)
    assert result["kib_per_waiting_host"]["median"] < 16 and result["kib_per_host"]["median"] < 100, result
    assert time.monotonic() - began < 900
