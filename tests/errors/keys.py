"""Table of the experiment file's keys: what each does at each thing that takes it, and on each backend.

A key `acts` (another value changes the network, the programs or the results), is `refused` there by an error, or has `none`, no effect by
nature, for a reason. `docs/keys.md` is generated from this table: `python tests/errors/keys.py`."""

import dataclasses
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = ROOT / "crates/cli/src/experiment.schema.json"
PAGE = ROOT / "docs/keys.md"
BACKENDS = ("run", "cells", "emulate", "tdf", "deploy")

ACTS, REFUSED = "acts", "refused"


@dataclasses.dataclass(frozen=True)
class Row:
    """Keys of a section with the same verdicts at the same things."""

    section: str
    keys: tuple[str, ...]
    things: tuple[str, ...]
    verdicts: dict[str, str]  # by backend: `acts`, `refused` with a reason behind a colon, or a reason for no effect


ROWS = []


def verdict(text):
    """The word of a verdict, and its reason."""
    word, _, reason = text.partition(": ")
    return (word, reason) if word in (ACTS, REFUSED) else ("none", text)


def row(section, keys, *things, run=ACTS, cells=None, emulate=None, tdf=None, deploy):
    """Adds a row. Cells do as `run`, `tdf` does as `emulate`, and that as `run`, unless given."""
    emulate = run if emulate is None else emulate
    others = tuple(thing for thing in things if thing != MACHINE)
    if MACHINE in things and verdict(run)[0] != REFUSED and deploy != NO_MACHINE:
        if others:
            row(section, keys, *others, run=run, cells=cells, emulate=emulate, tdf=tdf, deploy=deploy)
        things, emulate, tdf, deploy = (MACHINE,), NO_MACHINE, None, NO_MACHINE
    verdicts = dict(zip(BACKENDS, (run, run if cells is None else cells, emulate, emulate if tdf is None else tdf, deploy)))
    ROWS.append(Row(section, tuple(keys.split()), things or ("",), verdicts))


# Hosts, by where they are. Other backends refuse whole machines.
HOSTS = ("host on the graph", "host on links", "machine")
GRAPH, LINKS, MACHINE = HOSTS
NO_MACHINE = "refused: a machine keeps a simulation's time"
# Reasons that stand in many rows.
NETWORK = "the network is that of the machines"
MACHINES = "the machines are as they are"
RESULTS = "results do not depend on it"
CLOCKS = "clocks are this machine's"
NATIVE = "programs run natively"
NO_KERNEL = "the kernel is this machine's"
NO_DEVICE = "refused: the device keeps a simulation's time"
NO_EVENTS = "refused: machines have no events"
NO_MODELS = "refused: traffic models exist in simulations alone"
NOT_THERE = "refused: the machines have no such device"

# --- general, network, belljar, experimental
row("", "general network hosts host_option_defaults links events properties belljar experimental", deploy=ACTS)
row("", "switches routers", deploy=NETWORK)
row("", "simulators radios nics memories", emulate=NO_DEVICE, deploy=NOT_THERE)
row("", "gateways", tdf="refused: time outside is not dilated", deploy=NOT_THERE)
row("general", "stop_time data_directory template_directory", deploy=ACTS)
row("general", "seed", deploy="nothing is drawn")
row("general", "parallelism", run=RESULTS, deploy="no simulation is computed")
row("general", "bootstrap_end_time", deploy=NETWORK)
row("general", "log_level heartbeat_interval progress", emulate="the log is a simulation's", deploy="the log is a simulation's")
row("general", "model_unblocked_syscall_latency", emulate="system calls take the time that they take", deploy="system calls take the time that they take")
row("network", "graph use_shortest_path graph.type graph.inline graph.file graph.file.path graph.file.compression", deploy=NETWORK)
row("belljar", "start_date", emulate=CLOCKS, deploy="clocks are the machines'")
row("belljar", "placement", run=RESULTS, emulate=NATIVE, deploy=NATIVE)
row("belljar", "ipv6", deploy=MACHINES)
row("belljar", "address_pool", deploy=NETWORK)
row("belljar", "metrics metrics.interval route_log", emulate="nothing is sampled", deploy="nothing is sampled")
row("belljar", "dns dns.address dns.records", deploy="the machines have a name server of their own")
row("experimental", "strace_logging_mode", emulate="system calls are not logged", deploy="system calls are not logged")
row("experimental", "socket_send_buffer socket_send_autotune socket_recv_buffer socket_recv_autotune", emulate=NO_KERNEL, deploy=MACHINES)
row("experimental", "unblocked_syscall_latency unblocked_vdso_latency max_unapplied_cpu_latency native_preemption_sim_interval",
    emulate="work takes the time that it takes", deploy="work takes the time that it takes")
row("experimental", "use_cpu_pinning", run=RESULTS, deploy="no simulation is computed")
row("experimental", "edge_bandwidth_algorithm edge_bandwidth_burst_ratio edge_bandwidth_limiting_enabled interface_qdisc native_preemption_enabled "
    "native_preemption_native_interval report_errors_to_stderr runahead scheduler use_dynamic_runahead use_memory_manager use_new_tcp "
    "use_object_counters use_preload_libc use_preload_openssl_crypto use_preload_openssl_rng use_sched_fifo use_syscall_counters use_worker_spinning",
    run="steers how Shadow works inside: a note lists it", deploy="steers how Shadow works inside: a note lists it")

# --- hosts
row("hosts", "network_node_id", GRAPH, LINKS, deploy=NETWORK)
row("hosts", "network_node_id", MACHINE, run="refused: a machine is at the end of a link", deploy="refused: a machine is at the end of a link")
row("hosts", "ip_addr ip6_addr bandwidth_up bandwidth_down", GRAPH, deploy=NETWORK)
row("hosts", "ip_addr ip6_addr bandwidth_up bandwidth_down", LINKS, MACHINE, run="refused: it is not on the graph", deploy="refused: it is not on the graph")
row("hosts", "ipv6", GRAPH, LINKS, deploy=MACHINES)
row("hosts", "ipv6", MACHINE, emulate=NO_MACHINE, deploy=NO_MACHINE)
row("hosts", "host_options host_options.log_level", *HOSTS, emulate="the log is a simulation's", deploy="the log is a simulation's")
row("hosts", "host_options.pcap_enabled host_options.pcap_capture_size host_options.pcap_filter", *HOSTS, deploy="no packets are captured")
row("hosts", "host_options.shared", GRAPH, LINKS, deploy=MACHINES)
row("hosts", "host_options.shared processes.arg0", MACHINE, run="refused: a machine has its own files, and starts its processes by their path",
    deploy="refused: a machine has its own files, and starts its processes by their path")
row("hosts", "host_options.sysctls", GRAPH, LINKS, deploy=MACHINES)
row("hosts", "host_options.sysctls", MACHINE, emulate=NO_MACHINE, deploy=NO_MACHINE)
row("hosts", "host_options.scheduling", GRAPH, LINKS, emulate="the kernel schedules", deploy="the machines' kernels schedule")
row("hosts", "host_options.scheduling", MACHINE, run="refused: its kernel schedules", deploy="refused: its kernel schedules")
row("hosts", "host_options.queue", GRAPH, deploy=NETWORK)
row("hosts", "host_options.queue", LINKS, MACHINE, run="refused: it is not on the graph", deploy="refused: it is not on the graph")
row("hosts", "clock clock.offset clock.drift_ppm clock.reading", GRAPH, LINKS, emulate=CLOCKS, deploy="clocks are the machines'")
row("hosts", "clock.hardware_offset clock.hardware_drift_ppm", LINKS, emulate=CLOCKS, deploy="clocks are the machines'")
row("hosts", "clock.hardware_offset clock.hardware_drift_ppm", GRAPH, run="refused: it has no PTP hardware clock", deploy="refused: it has no PTP hardware clock")
row("hosts", "cpu cpu.syscall cpu.packet cpu.byte cpu.interrupt cpu.backlog", GRAPH, LINKS,
    emulate="work takes the time that it takes", deploy="work takes the time that it takes")
row("hosts", "memory", GRAPH, LINKS, emulate="memory is this machine's", deploy="memory is the machines'")
row("hosts", "cpu_count", GRAPH, LINKS, emulate="processors are this machine's", deploy="processors are the machines'")
row("hosts", "memory cpu_count clock clock.offset clock.drift_ppm clock.reading clock.hardware_offset clock.hardware_drift_ppm cpu cpu.syscall cpu.packet cpu.byte cpu.interrupt cpu.backlog devices devices.pci devices.driver "
    "devices.interface devices.latency devices.mtu devices.interrupts devices.interrupt_interval devices.ring", MACHINE,
    run="refused: it has its own", deploy="refused: it has its own")
row("hosts", "setup", GRAPH, LINKS, deploy="refused: the machines would keep what it changes")
row("hosts", "setup", MACHINE, run="refused: its processes start one after the other", deploy="refused: its processes start one after the other")
row("hosts", "root", *HOSTS, deploy="refused: machines have their own files")
row("hosts", "machine machine.type machine.qemu machine.args machine.kernel machine.modules machine.kernel_args machine.busybox machine.memory "
    "machine.nic machine.shift machine.quantum machine.files", LINKS, MACHINE, emulate=NO_MACHINE, deploy=NO_MACHINE)
row("hosts", "machine machine.type machine.qemu machine.args machine.kernel machine.modules machine.kernel_args machine.busybox machine.memory "
    "machine.nic machine.shift machine.quantum machine.files", GRAPH, run="refused: a machine is at the end of a link", deploy="refused: a machine is at the end of a link")
row("hosts", "interfaces", GRAPH, LINKS, MACHINE, deploy=NETWORK)
row("hosts", "routes routing", GRAPH, run="refused: it has no link", deploy="refused: it has no link")
row("hosts", "routes routing", LINKS, MACHINE, deploy=NETWORK)
row("hosts", "forwarding", *HOSTS, deploy=NETWORK)
row("hosts", "devices devices.pci devices.driver devices.interface devices.latency devices.mtu devices.interrupt_interval devices.ring",
    GRAPH, LINKS, emulate=NO_DEVICE, deploy=NOT_THERE)
row("hosts", "devices.interrupts", GRAPH, LINKS, run="the controller interrupts at the same times: a trace of the channel shows the kind",
    emulate=NO_DEVICE, deploy=NOT_THERE)
row("hosts", "processes processes.path processes.args processes.environment processes.expected_final_state processes.expected_final_state.exited "
    "processes.expected_final_state.signaled", *HOSTS, deploy=ACTS)
row("hosts", "processes.arg0 processes.start_time processes.shutdown_time processes.shutdown_signal", GRAPH, LINKS, deploy=ACTS)
row("hosts", "processes.start_time processes.shutdown_time processes.shutdown_signal", MACHINE, emulate=NO_MACHINE, deploy=NO_MACHINE)
row("hosts", "processes.user", GRAPH, LINKS, deploy="refused: programs run as the user of ssh")
row("hosts", "processes.user", MACHINE, run="refused: processes of a machine run as root", deploy="refused: processes of a machine run as root")
row("hosts", "processes.placement", *HOSTS, run=RESULTS, emulate=NATIVE, deploy=NATIVE)
row("hosts", "processes.model processes.model.type processes.model.name processes.model.to processes.model.size processes.model.direction "
    "processes.model.count processes.model.pause processes.model.interval processes.model.port processes.model.protocol processes.model.path "
    "processes.model.request_size processes.model.keep_alive processes.model.timeout processes.model.response_size processes.model.delay "
    "processes.model.rate processes.model.datagram_size processes.model.duration processes.model.burst processes.model.silence "
    "processes.model.names processes.model.retries", GRAPH, LINKS, emulate=NO_MODELS, deploy=NO_MODELS)
row("hosts", "processes.model processes.model.type processes.model.name processes.model.to processes.model.size processes.model.direction "
    "processes.model.count processes.model.pause processes.model.interval processes.model.port processes.model.protocol processes.model.path "
    "processes.model.request_size processes.model.keep_alive processes.model.timeout processes.model.response_size processes.model.delay "
    "processes.model.rate processes.model.datagram_size processes.model.duration processes.model.burst processes.model.silence "
    "processes.model.names processes.model.retries", MACHINE, run="refused: models cannot run in a machine", deploy="refused: models cannot run in a machine")
row("host_option_defaults", "log_level", emulate="the log is a simulation's", deploy="the log is a simulation's")
row("host_option_defaults", "pcap_enabled pcap_capture_size pcap_filter", deploy="no packets are captured")
row("host_option_defaults", "shared sysctls", deploy=MACHINES)
row("host_option_defaults", "scheduling", emulate="the kernel schedules", deploy="the machines' kernels schedule")
row("host_option_defaults", "queue", deploy=NETWORK)
row("host_option_defaults", "clock clock.reading", emulate=CLOCKS, deploy="clocks are the machines'")

# --- devices
LEARNING, P4 = SWITCHES = ("switch", "P4 switch")
P4_KEYS = ("include define p4info runtime commands queue_packets queue_bytes queues input_packets latency packets_per_second timestamps trace cpu_port")
row("switches", "ageing", LEARNING, deploy=NETWORK)
row("switches", "ageing", P4, run="refused: the program decides what is forgotten", deploy="refused: the program decides what is forgotten")
row("switches", "p4 include define p4info runtime commands timestamps cpu_port", P4, deploy=NOT_THERE)
row("switches", "queue_packets queue_bytes queues input_packets latency packets_per_second", P4,
    emulate="P4 switches take the time that they take", deploy=NOT_THERE)
row("switches", "trace", P4, emulate="refused: traces are for simulations", deploy=NOT_THERE)
row("switches", "management management.interface management.address management.port management.thrift_port management.device_id management.control_latency",
    P4, deploy=NOT_THERE)
row("switches", P4_KEYS, LEARNING, run="refused: it has no program", deploy="refused: it has no program")
row("switches", "p4 management management.interface management.address management.port management.thrift_port management.device_id "
    "management.control_latency", LEARNING, run="makes it a P4 switch", deploy="makes it a P4 switch")
row("routers", "interfaces routes routing", deploy=NETWORK)
row("routers", "clamp_mss", emulate="refused: it needs a firewall rule", deploy=NETWORK)
row("simulators", "command environment working_directory sync latency start_timeout ends ports ports.role ports.socket devices devices.pci "
    "devices.memory devices.interface devices.latency", emulate=NO_DEVICE, deploy=NOT_THERE)
row("simulators", "sync_interval", run=RESULTS, emulate=NO_DEVICE, deploy=NOT_THERE)
row("radios", "stations stations.position stations.path mobility mobility.ns2 mobility.bonnmotion mobility.dimensions mobility.random_waypoint "
    "mobility.random_waypoint.area mobility.random_waypoint.speed mobility.random_waypoint.pause mobility.random_waypoint.steady_state range "
    "carrier_sense_range log_distance log_distance.exponent log_distance.reference_loss log_distance.transmit_power "
    "log_distance.reception_threshold log_distance.carrier_sense_threshold capture packet_loss rate basic_rate preamble overhead slot sifs window "
    "retries queue latency", emulate=NO_DEVICE, deploy=NOT_THERE)
row("gateways", "interface address namespace", cells=ACTS, tdf="refused: time outside is not dilated", deploy=NOT_THERE)
row("gateways", "hard_limit", emulate="the verdict says how late frames were", tdf="refused: time outside is not dilated", deploy=NOT_THERE)
row("memories", "size access", emulate=NO_DEVICE, deploy=NOT_THERE)
row("nics", "mac fetch write_back register", emulate=NO_DEVICE, deploy=NOT_THERE)

# --- links, by what stands at the other end from a host
ENDS = ("host", "switch", "P4 switch", "router", "radio", "simulator", "two simulators", "gateway", "NIC", "machine")
EMULATED = ("host", "switch", "router")
SIMULATED = ("radio", "simulator", "NIC", "machine")
LINE = "rate latency jitter packet_loss reordering duplication corruption queue token_bucket overhead"
REVERSE = "reverse " + " ".join(f"reverse.{key}" for key in LINE.split())
row("links", "name between", *EMULATED, deploy=NETWORK)
row("links", "name between", P4, deploy=NOT_THERE)
row("links", "name between", *SIMULATED, "two simulators", emulate=NO_DEVICE, deploy=NOT_THERE)
row("links", "between.simulator between.port", "simulator", "two simulators", emulate=NO_DEVICE, deploy=NOT_THERE)
row("links", "name between", "gateway", tdf="refused: time outside is not dilated", deploy=NOT_THERE)
row("links", f"{LINE} {REVERSE} mtu", *EMULATED, deploy=NETWORK)
row("links", f"{LINE} {REVERSE} mtu", P4, deploy=NOT_THERE)
row("links", f"{LINE} {REVERSE} mtu", *SIMULATED, emulate=NO_DEVICE, deploy=NOT_THERE)
row("links", f"{LINE} {REVERSE} mtu", "gateway", tdf="refused: time outside is not dilated", deploy=NOT_THERE)
row("links", "latency reverse reverse.latency cost", "two simulators", emulate=NO_DEVICE, deploy=NOT_THERE)
row("links", " ".join(key for key in f"{LINE} {REVERSE} mtu".split() if key not in ("latency", "reverse", "reverse.latency")), "two simulators",
    run="refused: their channel has a latency and nothing else", deploy="refused: their channel has a latency and nothing else")
row("links", "cost", *EMULATED, deploy=NETWORK)
row("links", "cost", P4, deploy=NOT_THERE)
row("links", "cost", *SIMULATED, emulate=NO_DEVICE, deploy=NOT_THERE)
row("links", "cost", "gateway", tdf="refused: time outside is not dilated", deploy=NOT_THERE)

# --- events, by what they change
TARGETS = ("path", "edge", "link", "link of two simulators", "PCI connection")
NO_CHANNEL = "refused: events do not change it"
row("events", "at every between probability for name", deploy=NO_EVENTS)
row("events", "link_down link_up link_change link_reset", "path", "edge", "link", deploy=NO_EVENTS)
row("events", "link_down link_up link_change link_reset latency jitter packet_loss rate reordering duplication corruption queue token_bucket",
    "link of two simulators", "PCI connection", run=NO_CHANNEL, deploy=NO_EVENTS)
row("events", "latency jitter packet_loss", "path", "edge", "link", deploy=NO_EVENTS)
row("events", "rate reordering duplication corruption queue token_bucket", "link", deploy=NO_EVENTS)
row("events", "rate reordering duplication corruption queue token_bucket", "path", "edge", run="refused: only links have it", deploy=NO_EVENTS)
row("events", "partition heal", "path", "link", deploy=NO_EVENTS)
row("events", "partition heal", "hosts behind switches of no group", emulate="refused: name the switches and routers of each side too", deploy=NO_EVENTS)
row("events", "bandwidth up down", GRAPH, deploy=NO_EVENTS)
row("events", "bandwidth up down", LINKS, run="refused: it is not on the graph", deploy=NO_EVENTS)
row("events", "crash restart dns_down dns_up start signal hosts process", "host", deploy=NO_EVENTS)
row("events", "pause resume", "host", emulate="refused: the kernel goes on while programs stand still", deploy=NO_EVENTS)
row("events", "cpu period", "host", emulate="refused: the processors are this machine's", deploy=NO_EVENTS)
row("events", "cpu", "machine", run="refused: its kernel is its own", deploy=NO_EVENTS)
row("events", "pause", "machine", run="refused: its clock is its own", deploy=NO_EVENTS)
row("events", "files", "host", emulate="refused: the kernel's overlay keeps files", deploy=NO_EVENTS)
row("events", "disk", "host", emulate="refused: the page cache keeps what is not synced", deploy=NO_EVENTS)
SIMULATED_FAULT = "refused: the disk, connections and calls of an emulated host are the kernel's"
row("events", "disk_fault disk_heal sync_time sync_errors full read_errors bit_rot path connection_reset ends call_faults results share pid call number",
    "host", emulate=SIMULATED_FAULT, deploy=NO_EVENTS)
row("events", "disk_fault disk_heal connection_reset call_faults", "machine", run="refused: its kernel is its own", deploy=NO_EVENTS)
row("events", "memory limit", "host", emulate="refused: memory is this machine's", deploy=NO_EVENTS)
row("events", "memory", "machine", run="refused: its kernel is its own", deploy=NO_EVENTS)
row("events", "root keep", "host", emulate="refused: an emulated host has the same root to its end", deploy=NO_EVENTS)
row("events", "root keep", "machine", run="refused: its files are its own", deploy=NO_EVENTS)
row("events", "upgrade grace", "host", emulate="refused: an emulation does not wait for the end of a process", deploy=NO_EVENTS)
row("events", "upgrade", "machine", run="refused: its kernel is its own", deploy=NO_EVENTS)
row("events", "dns_answers names answer", "host", emulate="refused: its name server answers all hosts alike", deploy=NO_EVENTS)
row("events", "kill", "host", emulate="refused: processes that programs start have no names there", deploy=NO_EVENTS)
row("events", "kill", "machine", run="refused: its kernel is its own", deploy=NO_EVENTS)
row("events", "stop", "host", emulate=NO_MODELS, deploy=NO_EVENTS)
row("events", "clock step drift_ppm", "host", emulate=CLOCKS, deploy=NO_EVENTS)
row("events", "clock step drift_ppm", "machine", run="refused: its clock is its own", deploy=NO_EVENTS)
row("events", "move to speed", "station of a radio", emulate=NO_DEVICE, deploy=NO_EVENTS)
row("events", "move to speed", "host", run="refused: it is no station", deploy=NO_EVENTS)
row("events", "p4 runtime commands", "P4 switch", deploy=NO_EVENTS)

# --- properties
NO_TIMES = "refused: the times of lines are recorded in simulations alone"
row("properties", "name always never sometimes assertions hosts process files lines where model consistency", deploy=ACTS)
row("properties", "history", "of one host", deploy=ACTS)
row("properties", "history", "of several hosts", emulate="refused: the order of their lines is known in simulations alone",
    deploy="refused: the order of their lines is known in simulations alone")
row("properties", "packets filter always.filter never.filter sometimes.filter eventually.filter", deploy="refused: no packets are captured")
row("properties", "eventually eventually.matches eventually.within eventually.after", emulate=NO_TIMES, deploy=NO_TIMES)

EXPLORES = "`belljar explore` alone draws faults"
row("", "explore", run=EXPLORES, deploy=EXPLORES)
EXPLORE = ("hosts between faults for scheduling kinds kinds.calls kinds.calls.results kinds.calls.share kinds.disk kinds.disk.faults kinds.disk.sync_time kinds.reset kinds.reset.ends kinds.kill kinds.kill.names kinds.cpu kinds.cpu.period kinds.cpu.share kinds.pause_process kinds.pause_process.names kinds.memory kinds.memory.limit kinds.dns kinds.dns.names kinds.dns.answers kinds.clock kinds.clock.step kinds.crash kinds.crash.files kinds.crash.disk kinds.lossy kinds.lossy.packet_loss "
           "kinds.one_way kinds.partition kinds.pause kinds.slow kinds.slow.latency kinds.stop kinds.upgrade kinds.upgrade.upgrades kinds.upgrade.upgrades.upgrade kinds.upgrade.upgrades.hosts kinds.upgrade.upgrades.to kinds.upgrade.upgrades.grace kinds.upgrade.upgrades.restart kinds.upgrade.upgrades.root kinds.upgrade.upgrades.keep")
row("explore", EXPLORE, run=EXPLORES, deploy=EXPLORES)

# --- values with keys of their own, wherever the key that has them acts
row("scheduling", "priorities priorities.points priorities.calls priorities.instructions", emulate="the kernel schedules", deploy="the machines' kernels schedule")
row("queue", "packets ecn_threshold ecn_threshold.packets ecn_threshold.bytes bytes codel codel.packets codel.target codel.interval codel.ecn "
    "codel.ce_threshold fq_codel fq_codel.packets fq_codel.bytes fq_codel.flows fq_codel.quantum fq_codel.target fq_codel.interval fq_codel.ecn "
    "fq_codel.ce_threshold red red.min red.max red.limit red.probability red.weight red.average_packet red.ecn priority priority.bands "
    "priority.dscp priority.default", "queue", deploy=NETWORK)
row("queue", "ecn_threshold ecn_threshold.packets ecn_threshold.bytes codel fq_codel red priority", "queue at a P4 switch",
    run="refused: it has packets or bytes, and strict priorities", deploy=NOT_THERE)
row("loss", "gilbert_elliott gilbert_elliott.to_bad gilbert_elliott.to_good gilbert_elliott.loss_bad gilbert_elliott.loss_good", deploy=NETWORK)
row("reordering", "probability delay", deploy=NETWORK)
row("token_bucket", "rate burst", deploy=NETWORK)
row("interfaces", "addresses mac", deploy=NETWORK)
row("interfaces", "advertise", "router", deploy=NETWORK)
row("interfaces", "advertise", "host", run="refused: routers advertise", deploy=NETWORK)
row("route", "to via dev metric", deploy=NETWORK)
row("draw_time", "exponential uniform pareto pareto.mean pareto.shape pareto.max", emulate=NO_MODELS, deploy=NO_MODELS)
row("draw_size", "exponential uniform pareto pareto.mean pareto.shape pareto.max", emulate=NO_MODELS, deploy=NO_MODELS)
row("hosts", "one_of", "set of hosts in an event", deploy=NO_EVENTS)

# Definitions of the schema whose keys have rows of their own.
DEFINITIONS = {"queue", "scheduling", "loss", "reordering", "token_bucket", "interfaces", "route", "draw_time", "draw_size", "hosts"}
SECTIONS = {"host": "hosts", "process": "hosts.processes", "model": "hosts.processes.model", "event": "events", "link": "links", "property": "properties", "explore": "explore"}


def keys_of_schema(schema):
    """All keys of the schema, as (section, path of the key in it)."""
    found = set()

    def walk(node, section, path, within):
        if not isinstance(node, dict):
            return
        name = node.get("$ref", "").rpartition("/")[2]
        if name in DEFINITIONS:
            section, path = name, ()
        if name and name not in within:
            walk(schema["$defs"][name], section, path, within | {name})
        for key, value in node.get("properties", {}).items():
            here = (*path, key)
            if not section:
                found.add(("", key))
                walk(value, key, (), within)
            elif value is not True and value != {} or section == "events":
                found.add((section, ".".join(here)))
                walk(value, section, here, within)
        for key in ("items", "additionalProperties"):
            walk(node.get(key), section, path, within)
        for key in ("anyOf", "oneOf", "allOf"):
            for one in node.get(key, ()):
                walk(one, section, path, within)

    walk(schema, "", (), frozenset())
    return found


def page():
    """The table as a page of the documentation."""
    lines = [
        "# What each key does",
        "",
        "Every key of the [experiment file](reference.md) at every thing that takes it, on every backend: it acts; it is refused; or it has no effect by nature, for",
        "the reason given. A refusal names file, line and remedy, before anything starts; `belljar validate --for emulate FILE` (`dilated`, `deploy`) tries those of",
        "other backends. `--cells` does as `run`, and `emulate --tdf` as `emulate`, unless a row says otherwise. The table is generated from `tests/errors/keys.py`;",
        "tests hold it against the schema, the loader, pairs of runs that differ in one key (`tests/errors/acting.py`), the same runs in cells, and an emulated run",
        "that shows the keys of links, hosts and events (`tests/emulation/test_emulated_keys.py`).",
        "",
    ]
    titles = {"": "Sections", "hosts": "Hosts", "links": "Links", "events": "Events"}
    sections = list(dict.fromkeys(row.section for row in ROWS))
    for section in sections:
        lines += [f"## {titles.get(section, f'`{section}`')}", ""]
        if section == "links":
            lines += ["The column *at* is what stands at one end of the link; a host is at the other. `reverse.KEY` is KEY in the direction from the second end.", ""]
        lines += ["| Keys | at | `run` | `emulate` | `deploy` |", "|---|---|---|---|---|"]
        for row in (row for row in ROWS if row.section == section):
            cell = {}
            for backend in BACKENDS:
                word, reason = verdict(row.verdicts[backend])
                cell[backend] = word if not reason else f"{word}: {reason}" if word != "none" else f"no effect: {reason}"
            for name, other in (("cells", "run"), ("tdf", "emulate")):
                if cell[name] != cell[other]:
                    cell[other] += f"; `--{name}` {cell[name]}"
            keys = ", ".join(f"`{key}`" for key in row.keys)
            lines.append(f"| {keys} | {', '.join(row.things)} | {cell['run']} | {cell['emulate']} | {cell['deploy']} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main(schema):
    """Writes the page. The status is not 0 if a key of the schema has no row, or a row no key."""
    listed = {(row.section, key) for row in ROWS for key in row.keys}
    without, unknown = sorted(keys_of_schema(schema) - listed), sorted(listed - keys_of_schema(schema))
    print(f"without a row: {without}\nnot in the schema: {unknown}")
    if without or unknown:
        return 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(json.loads(SCHEMA.read_text())))
