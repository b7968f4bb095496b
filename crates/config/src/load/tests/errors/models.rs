use super::*;

#[track_caller]
fn model(lines: &str, expected: &str, help: &str) {
    check(
        &format!(
            "{GENERAL}\n{NETWORK}\nhosts:\n  web: {{ network_node_id: 0, processes: [] }}\n  a:\n    \
             network_node_id: 0\n    processes:\n    - {lines}\n"
        ),
        expected,
        help,
    );
}

/// A model with this text in its braces.
#[track_caller]
fn keys(keys: &str, expected: &str, help: &str) {
    model(&format!("model: {{ {keys} }}"), expected, help);
}

const FORMS: &str = "write a value, { exponential: MEAN }, { uniform: [LEAST, MOST] } or { pareto: { mean: MEAN, shape: 1.5 } }";

#[test]
fn what_stands_beside_a_model() {
    model(
        "{ path: sh, model: { type: sink, port: 1 } }",
        "8:9 a process has a 'path' or a 'model', not both",
        "make two items of the list 'processes'",
    );
    model(
        "{ model: { type: sink, port: 1 }, args: x }",
        "8:41 'args' is not a key of a model of host 'a'",
        "valid keys are model, start_time, shutdown_time",
    );
    model("{ model: }", "8:9 'model' has no value", "write model: { type: sink, port: 5001 }");
    model(
        "{ model: sink }",
        "8:16 'model' must be a mapping, but is a string",
        "write keys and values, one per line: 'key: value'",
    );
    model(
        "{ model: { type: sink, port: 1 }, start_time: 2, shutdown_time: 2 }",
        "8:71 'shutdown_time' (2.000000000 s) must be later than 'start_time' (2.000000000 s)",
        "both count from the start of the simulation",
    );
}

#[test]
fn types_and_names() {
    keys("port: 1", "8:14 'model' has no 'type'", "write type: bulk, say");
    keys("type: sinc, port: 1", "8:22 'sinc' is not a value of 'type'", "did you mean 'sink'?");
    keys("type: sink, prot: 1", "8:28 'prot' is not a key of a model of type 'sink'", "did you mean 'port'?");
    keys("type: sink, port: 1, name: ''", "8:43 'name' is empty", "");
    keys(
        "type: sink, port: 1, name: 'a,b'",
        "8:43 'name' has a comma or a quote",
        "names of models are words in a table",
    );
    keys("type: sink", "8:14 a model of type 'sink' has no 'port'", "add port: 5001");
    keys("type: sink, port: 0", "8:34 'port' must be from 1 to 65535", "");
    keys("type: sink, port: 65536", "8:34 'port' must be at most 65535, not 65536", "");
    keys("type: source, port: 1", "8:14 a model of type 'source' has no 'size'", "add size: 1 MB");
}

#[test]
fn servers_of_clients() {
    keys("type: bulk, size: 1 MB", "8:14 a model of type 'bulk' has no 'to'", "add to: server:5001");
    keys("type: bulk, to: web, size: 1 B", "8:32 'web' does not end with a port", "write web:5001, say");
    keys(
        "type: bulk, to: 'web:0', size: 1 B",
        "8:32 'web:0' does not end with a port",
        "write web:5001, say",
    );
    keys("type: bulk, to: 'wep:1', size: 1 B", "8:32 there is no host 'wep'", "did you mean 'web:1'?");
    keys("type: bulk, to: 'elsewhere:1', size: 1 B", "8:32 there is no host 'elsewhere'", "");
    keys("type: http, to: []", "8:32 'to' is empty", "write to: server:5001");
    keys(
        "type: constant_rate, to: ['web:1', 'a:1'], rate: 1 Mbit",
        "8:41 a stream of datagrams goes to one host",
        "make an item of 'processes' for each",
    );
    keys(
        "type: dns, to: [web, a], names: [web]",
        "8:31 a DNS client asks one server",
        "make an item of 'processes' for each",
    );
}

#[test]
fn values_of_clients() {
    keys("type: bulk, to: 'web:1'", "8:14 a model of type 'bulk' has no 'size'", "add size: 10 MB");
    keys(
        "type: bulk, to: 'web:1', size: 1 MB, direction: down",
        "8:47 the size of a transfer down is what the server sends",
        "remove 'size'; a model of type 'source' has one",
    );
    keys("type: bulk, to: 'web:1', size: 1 B, count: 0", "8:59 'count' must be at least 1", "");
    keys(
        "type: http, to: web, pause: 1 s, interval: 1 s",
        "8:59 a client has a 'pause' or an 'interval', not both",
        "a pause counts from the end of one, an interval from its beginning",
    );
    keys(
        "type: http, to: web, path: index.html",
        "8:43 'index.html' is not a path of a request",
        "it begins with '/' and has no spaces, such as /index.html",
    );
    keys("type: http, to: web, timeout: 0", "8:46 'timeout' must not be 0", "");
    keys(
        "type: constant_rate, to: 'web:1', rate: 1 Mbit, datagram_size: 15 B",
        "8:79 'datagram_size' must be from 16 B to 65507 B",
        "its first 16 bytes hold number and time",
    );
    keys(
        "type: on_off, to: 'web:1', rate: 1 Mbit, burst: 1 s",
        "8:14 a model of type 'on_off' has no 'silence'",
        "add silence: { exponential: 1 s }",
    );
    keys("type: dns", "8:14 a model of type 'dns' has no 'names'", "add names: [server]");
    keys("type: dns, names: []", "8:34 'names' is empty", "write names: [server]");
    keys("type: dns, names: [[a]]", "8:35 a name of 'names' must be a string, but is a list", "");
    keys("type: dns, names: ['a..b']", "8:35 'a..b' is not a name that can be asked for", "");
}

#[test]
fn distributions() {
    let size = |value: &str, expected: &str, help: &str| {
        keys(&format!("type: source, port: 1, size: {value}"), expected, help);
    };
    size("[1 B]", "8:45 'size' cannot be a list", FORMS);
    size("{}", "8:45 'size' must have one distribution", FORMS);
    size("{ uniform: [1 B, 2 B], exponential: 1 B }", "8:45 'size' must have one distribution", FORMS);
    size(
        "{ normal: 1 }",
        "8:47 'normal' is not a key of 'size'",
        "valid keys are exponential, uniform, pareto",
    );
    size("{ uniform: [1 B] }", "8:56 'uniform' takes the least and the most", FORMS);
    size("{ uniform: [2 B, 1 B] }", "8:56 the least of 'uniform' is more than the most", "");
    size("{ pareto: { mean: 1 B } }", "8:55 'pareto' has no 'shape'", "add shape: 1.5");
    size(
        "{ pareto: { mean: 1 B, shape: 1 } }",
        "8:75 'shape' must be a number above 1, not '1'",
        "at 1 and below a Pareto distribution has no mean",
    );
    size("2000 TB", "8:45 'size' is more than 1024 TiB", "");
}

#[test]
fn resolved_models_load_again() {
    let models = [
        "type: bulk, to: ['web:1', '10.0.0.1:2'], size: unlimited, count: unlimited, interval: 1 ns",
        "type: bulk, to: 'web:1', direction: down, pause: { uniform: [1 s, 3.5 ms] }",
        "type: sink, port: 1, protocol: udp, name: a sink",
        "type: source, port: 1, size: { pareto: { mean: 1 KB, shape: 1.25 } }",
        "type: http, to: web, path: '/a?b=\"c\"', request_size: { exponential: 1 MB }, keep_alive: false",
        "type: http_server, delay: { pareto: { mean: 1 ms, shape: 3 } }",
        "type: constant_rate, to: 'web:1', rate: 1500 bit, duration: 1 min",
        "type: on_off, to: 'web:1', rate: 1 Gbit, burst: 1 s, silence: { exponential: 1 s }",
        "type: dns, names: [web, other.example], retries: 0",
        "type: dns_server, delay: 3 ms",
    ];
    let items: String = models
        .iter()
        .map(|keys| {
            format!(
                "    - {{ model: {{ {} }}, shutdown_time: 9 s }}\n",
                keys.replace("[1 s, 3.5 ms]", "[3.5 ms, 1 s]")
            )
        })
        .collect();
    super::super::round_trip::round_trip(&format!(
        "{GENERAL}\n{NETWORK}\nhosts:\n  web: {{ network_node_id: 0, processes: [] }}\n  a:\n    \
         network_node_id: 0\n    processes:\n    - {{ path: sh }}\n{items}"
    ));
}
