"""What random experiments have beside programs on a graph: models, links with switches and routers, time series, filters.

Drawn from a stream of its own, so that what a seed drew before is drawn still."""

import random


def pick_latency(draw):
    """10 us to 50 ms, in microseconds; short and long ones alike."""
    return round(10 * 5000 ** draw.random())


def time(draw, least, most):
    return f"{draw.randrange(least, most)} ms"


def model(type, **keys):
    start = keys.pop("start_time", 0)
    return {"model": {"type": type, **keys}, "start_time": start}


def add_models(draw, exp, nodes):
    """Servers beside the real ones, and hosts of clients; some wait for an event, some are stopped by one."""
    hosts, events = exp["hosts"], exp["events"]
    servers = [name for name in hosts if name.startswith("server")]
    for name in servers:
        hosts[name]["processes"] += [
            model("http_server", port=8080, response_size={"pareto": {"mean": "8 KB", "shape": 1.3, "max": "200 KB"}}, delay={"exponential": "2 ms"}),
            model("sink", port=5001), model("sink", name="datagrams", port=5001, protocol="udp")]
    for n in range(draw.randrange(1, 4)):
        to = draw.choice(servers)
        clients = [
            model("http", to=f"{to}:8080", count=draw.randrange(1, 8), pause={"exponential": "150 ms"}, keep_alive=draw.random() < 0.5),
            model("bulk", to=[f"{one}:5001" for one in servers], size={"uniform": ["1 B", "200 KB"]}, count=2),
            model("on_off", to=f"{to}:5001", rate="200 Kbit", burst={"exponential": "200 ms"}, silence="100 ms", duration="3 s"),
            model("dns", names=servers, count=3, interval="300 ms", timeout="700 ms"),
            # And a real server on the other side.
            model("bulk", name="to a program", to=f"{to}:80", size="3 KB")]
        chosen = draw.sample(clients, draw.randrange(1, len(clients) + 1))
        for one in chosen:
            one["start_time"] = draw.choice([0, "never", time(draw, 0, 3000)])
        hosts[f"model{n}"] = {"network_node_id": draw.randrange(nodes), "processes": chosen}
        name = (chosen[0]["model"].get("name") or chosen[0]["model"]["type"])
        events.append({"at": time(draw, 100, 3000), "start": name, "hosts": f"model{n}", "for": time(draw, 100, 2000)})
        if draw.random() < 0.5:
            events.append({"every": time(draw, 300, 900), "probability": 0.5, "stop": name, "hosts": f"model{n}"})
    events.append({"at": time(draw, 500, 3000), "stop": "http_server", "hosts": draw.choice(servers), "for": time(draw, 50, 500)})


def add_links(draw, exp, nodes, process):
    """A site behind a gateway that is on the graph: hosts, a switch or two, perhaps a router on the way."""
    hosts, events = exp["hosts"], exp["events"]

    def line():
        latency = pick_latency(draw)
        entry = {"latency": f"{latency} us", "rate": draw.choice(["2 Mbit", "100 Mbit", "unlimited"])}
        if draw.random() < 0.4:
            entry["jitter"] = f"{draw.randrange(latency)} us"
        if draw.random() < 0.4:
            entry["packet_loss"] = draw.choice([0.001, 0.05])
        if draw.random() < 0.4:
            entry["queue"] = draw.choice([{"packets": 5}, {"codel": {}}])
        if entry["rate"] == "unlimited":
            entry.pop("queue", None)  # refused: nothing waits
        return entry

    exp["switches"] = ["lan", "lan2"][: draw.randrange(1, 3)]
    way = ["gate", *draw.choice([[], ["border"]]), *exp["switches"]]
    if "border" in way:
        exp["routers"] = ["border"]
    hosts["gate"] = {"network_node_id": draw.randrange(nodes), "forwarding": True, "processes": []}
    links = [{"name": f"way{n}", "between": [a, b], **line()} for n, (a, b) in enumerate(zip(way, way[1:]))]
    if len(exp["switches"]) == 2 and draw.random() < 0.5:
        links.append({"name": "loop", "between": ["lan", "lan2"], **line()})
    for n in range(draw.randrange(2, 5)):
        to = draw.choice(["server0", "site0", "site1"])
        processes = [
            process("tcp-server", 80), process("udp-echo", 53), process("tcp-client", to, 80, draw.randrange(1, 100_000), 10),
            process("udp-client", to, 53, 20, 7000), model("sink", port=5001), process("family", 2),
            model("bulk", name="across", to=draw.choice(["server0:5001", "site0:5001"]), size="20 KB", count=2)]
        hosts[f"site{n}"] = {"processes": processes[:2] + draw.sample(processes[2:4], 1) + processes[4:]}
        links.append({"name": f"edge{n}", "between": [f"site{n}", draw.choice(exp["switches"])], **line()})
        if draw.random() < 0.3:
            links[-1]["reverse"] = {"rate": "1 Mbit"}
    exp["links"] = links
    for _ in range(draw.randrange(1, 3)):
        link, ends = draw.choice(links)["name"], {"at": time(draw, 200, 3500), "for": time(draw, 50, 1500)}
        events.append(draw.choice([
            {**ends, "link_down": link}, {**ends, "link_change": link, "latency": f"{pick_latency(draw)} us", "rate": "500 Kbit", "jitter": "0 ms"},
            {**ends, "partition": [["site0"], ["server0", "lan"]]}, {**ends, "crash": "site1", "files": "lost"}]))


def add(seed, exp, nodes, process):
    """Adds it to an experiment; `process` makes one of the test's programs."""
    draw = random.Random(f"more {seed}")
    graph_hosts = sorted(exp["hosts"])
    for event in exp["events"]:
        # Not those that have no programs or are not on the graph.
        for key, value in event.items():
            if value == {"one_of": "all"}:
                event[key] = {"one_of": graph_hosts}
    # Most often something happens.
    quiet = not exp["events"] and draw.random() < 0.7
    if draw.random() < 0.6:
        add_models(draw, exp, nodes)
    if draw.random() < 0.6:
        add_links(draw, exp, nodes, process)
    if quiet:
        exp["events"] = []
    if draw.random() < 0.5:
        exp["belljar"] = {"metrics": {"interval": draw.choice(["10 ms", "137 ms", "1 s"])}}
    if draw.random() < 0.3:
        exp["host_option_defaults"]["pcap_filter"] = draw.choice(["tcp and not port 80", "host server0 or arp", {"eth0": "udp", "lo": False}])
    if draw.random() < 0.4:
        exp["host_option_defaults"]["scheduling"] = "random"
    if draw.random() < 0.3 and not quiet:
        exp["events"].append({"at": f"{draw.randrange(100, 2000)} ms", "pause": draw.choice(graph_hosts), "for": f"{draw.randrange(1, 900)} ms"})
    return exp
