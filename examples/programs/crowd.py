#!/usr/bin/env python3
"""Writes crowd.yaml: 100 curl clients and three servers on a ring of 20 nodes with chords, loss on every edge.

    examples/programs/crowd.py > examples/crowd.yaml
"""

NODES, CLIENTS = 20, 100
FILES = ["GPL-2", "GPL-3", "LGPL-2.1", "Apache-2.0", "MPL-2.0"]
SERVERS = {
    "python": (0, "{path: /usr/bin/python3, args: -u -m http.server 80 --directory /usr, expected_final_state: running}"),
    "lighttpd": (7, '{path: programs/lighttpd.conf, environment: {PORT: "80"}, expected_final_state: running}'),
    "go": (13, "{path: built/web, args: /usr, expected_final_state: running}"),
}

print("# 100 curl clients and three servers on a graph of 20 nodes, all of whose edges lose packets. Written by")
print("# programs/crowd.py. Needs `make -C examples`.")
print("general:\n  stop_time: 120 s\n\nnetwork:\n  graph:\n    type: gml\n    inline: |\n      graph [\n        directed 0")
for n in range(NODES):
    rate = (10, 20, 50, 100)[n % 4]
    print(f'        node [ id {n} host_bandwidth_up "{rate} Mbit" host_bandwidth_down "{rate} Mbit" ]')
for n in range(NODES):
    print(f'        edge [ source {n} target {n} latency "1 ms" ]')
    print(f'        edge [ source {n} target {(n + 1) % NODES} latency "{3 + n % 5} ms" packet_loss 0.00{1 + n % 5} ]')
    if n % 4 == 0:
        print(f'        edge [ source {n} target {(n + 9) % NODES} latency "{10 + n} ms" packet_loss 0.01 ]')
print("      ]\n\nhosts:")
for name, (node, process) in SERVERS.items():
    print(f"  {name}:\n    network_node_id: {node}\n    processes:\n    - {process}")
for c in range(CLIENTS):
    server, file = list(SERVERS)[c % 3], FILES[c % len(FILES)]
    print(f"  client{c:02}:\n    network_node_id: {c % NODES}\n    processes:")
    print(f"    - {{path: curl, args: -sS -o {file} http://{server}/share/common-licenses/{file}, start_time: {2000 + 37 * c} ms}}")
