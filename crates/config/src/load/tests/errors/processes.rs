use super::*;

#[track_caller]
fn process(lines: &str, expected: &str, help: &str) {
    check(
        &format!(
            "{GENERAL}\n{NETWORK}\nhosts:\n  a:\n    network_node_id: 0\n    processes:\n    - {lines}\n"
        ),
        expected,
        help,
    );
}

#[test]
fn programs() {
    process("{}", "7:7 a process of host 'a' has no 'path'", "add path: /bin/true");
    process(
        "path: sh\n      arg: x",
        "8:7 'arg' is not a key of a process of host 'a'",
        "did you mean 'args'?",
    );
    process(
        "path: belljar-routed",
        "7:13 there is no program 'belljar-routed' in PATH",
        "in a checkout, make -C examples built/belljar-routed makes it: give its path with a '/'",
    );
    process(
        "path: no-such",
        "7:13 there is no program 'no-such' in PATH",
        "install it, or give its path with a '/'",
    );
    process("path: /no/such", "7:13 there is no program '/no/such'", "looked for /no/such");
    process(
        "path: ./sh",
        "7:13 there is no program './sh'",
        "looked for /nowhere/experiment/sh and /nowhere/sh",
    );
    process("path: /bin", "7:13 '/bin' is a directory, not a program", "");
    process(
        "path: /etc/passwd",
        "7:13 '/etc/passwd' is not executable",
        "chmod +x '/etc/passwd', or run its interpreter",
    );
    process("path: /dev/null", "7:13 '/dev/null' is not a regular file", "");
    process("path: ''", "7:13 'path' is empty", "write path: /bin/true");
    process("path: [sh]", "7:13 'path' must be a string, but is a list", "");
}

#[test]
fn values_of_a_process() {
    process(
        "{ path: sh, args: {} }",
        "7:25 'args' must be a string or a list of strings, but is a mapping",
        "",
    );
    process(
        "{ path: sh, args: \"a 'b\" }",
        "7:25 a quote in 'args' is not closed",
        "close it, or write 'args' as a list",
    );
    process("{ path: sh, args: [[a]] }", "7:26 an item of 'args' must be a string, but is a list", "");
    process("{ path: sh, args: [\"\\0\"] }", "7:25 an argument cannot contain a NUL character", "");
    process(
        "{ path: sh, environment: [] }",
        "7:32 'environment' must be a mapping, but is a list",
        "write keys and values, one per line: 'key: value'",
    );
    process(
        "{ path: sh, environment: { A=B: c } }",
        "7:34 'A=B' cannot be the name of an environment variable",
        "names are not empty and have no '='",
    );
    process("{ path: sh, environment: { A: [] } }", "7:37 'A' must be a string, but is a list", "");
    process(
        "{ path: sh, start_time: -1 }",
        "7:31 'start_time': a time cannot be negative: \"-1\"",
        "write a number and a unit, such as \"10 ms\"",
    );
    process(
        "{ path: sh, start_time: 5, shutdown_time: 4 }",
        "7:49 'shutdown_time' (4.000000000 s) must be later than 'start_time' (5.000000000 s)",
        "both count from the start of the simulation",
    );
    process("{ path: sh, shutdown_signal: TERM }", "7:36 'TERM' is not a signal", "did you mean 'SIGTERM'?");
    process(
        "{ path: sh, shutdown_signal: sigint }",
        "7:36 'sigint' is not a signal",
        "did you mean 'SIGINT'?",
    );
    process(
        "{ path: sh, shutdown_signal: 99 }",
        "7:36 '99' is not a signal",
        "write a name such as SIGTERM, or a number from 1 to 31",
    );
    process(
        "{ path: sh, shutdown_signal: bananas }",
        "7:36 'bananas' is not a signal",
        "write a name such as SIGTERM, or a number from 1 to 31",
    );
    process(
        "{ path: sh, expected_final_state: runing }",
        "7:41 'runing' is not a value of 'expected_final_state'",
        "write running, any, { exited: 0 } or { signaled: SIGTERM }",
    );
    process(
        "{ path: sh, expected_final_state: [] }",
        "7:41 'expected_final_state' cannot be a list",
        "write running, any, { exited: 0 } or { signaled: SIGTERM }",
    );
    process(
        "{ path: sh, expected_final_state: {} }",
        "7:41 'expected_final_state' must be one of 'exited' and 'signaled'",
        "write running, any, { exited: 0 } or { signaled: SIGTERM }",
    );
    process(
        "{ path: sh, expected_final_state: { exited: 0, signaled: 9 } }",
        "7:41 'expected_final_state' must be one of 'exited' and 'signaled'",
        "write running, any, { exited: 0 } or { signaled: SIGTERM }",
    );
    process(
        "{ path: sh, expected_final_state: { exited: 256 } }",
        "7:51 'exited' must be at most 255, not 256",
        "",
    );
    process(
        "{ path: sh, expected_final_state: { exit: 0 } }",
        "7:43 'exit' is not a key of 'expected_final_state'",
        "did you mean 'exited'?",
    );
    process(
        "{ path: sh, placement: nere }",
        "7:30 'nere' is not a value of 'placement'",
        "use one of near, far, linux, auto",
    );
}

#[test]
fn programs_beside_the_experiment_need_a_slash() {
    let folder = Folder::new("beside");
    folder.write("tool", "#!/bin/sh\n");
    let text = |path: &str| {
        format!(
            "{GENERAL}\n{NETWORK}\nhosts: {{ a: {{ network_node_id: 0, processes: [ {{ path: {path} }} ] }} }}\n"
        )
    };
    let path = folder.write("experiment.yaml", text("tool"));
    let error = Experiment::load(&path).unwrap_err();
    assert_eq!(error.help.unwrap(), "a file of this name lies beside: write './tool'");
    let path = folder.write("experiment.yaml", text("./tool"));
    let error = Experiment::load(&path).unwrap_err();
    assert!(error.message.ends_with("/tool' is not executable"), "{error}");
}

#[test]
fn a_home_folder_that_is_not_known() {
    let around = PathContext { home: None, ..around() };
    let text = format!(
        "{GENERAL}\n{NETWORK}\nhosts: {{ a: {{ network_node_id: 0, processes: [ {{ path: ~/x }} ] }} }}\n"
    );
    let error = Experiment::parse_in("test.yaml", &text, &around).unwrap_err();
    assert_eq!(error.message, "'~/' cannot be expanded: HOME is not set");
}

#[test]
fn users() {
    process(
        "{ path: sh, user: 'a:b' }",
        "7:25 'a:b' is not a user",
        "write a name of /etc/passwd, such as postgres, or a number",
    );
}
