//! Errors in the files that form an experiment.

use super::*;

fn load(folder: &Folder, name: &str) -> String {
    let path = folder.0.join(name);
    let shown = Experiment::load(&path).unwrap_err().to_string();
    shown.replace(&format!("{}/", folder.0.display()), "")
}

#[test]
fn files_that_cannot_be_read() {
    let folder = Folder::new("unreadable");
    assert_eq!(
        load(&folder, "missing.yaml"),
        "error: the experiment cannot be read: no such file or directory\n --> missing.yaml"
    );
    std::fs::create_dir(folder.0.join("folder")).unwrap();
    assert_eq!(load(&folder, "folder"), "error: the experiment cannot be read: is a directory\n --> folder");
    folder.write("binary", b"general: \xff");
    assert_eq!(load(&folder, "binary"), "error: this is not text: byte 9 is not UTF-8\n --> binary");
}

#[test]
fn an_error_in_a_graph_file_points_into_that_file() {
    let folder = Folder::new("graph");
    folder.write("net.gml", "graph [\n  node [ id 0 ]\n  edge [ source 0 target 1 latency \"1 ms\" ]\n]\n");
    folder.write(
        "e.yaml",
        format!("{GENERAL}\nnetwork: {{ graph: {{ type: gml, file: {{ path: net.gml }} }} }}\n"),
    );
    assert_eq!(
        load(&folder, "e.yaml"),
        "\
error: the target of this edge is node 1, which does not exist
 --> net.gml:3:26
  |
3 |   edge [ source 0 target 1 latency \"1 ms\" ]
  |                          ^
  = help: the nearest id is 0"
    );
}

#[test]
fn graph_files_in_the_wrong_form() {
    let folder = Folder::new("packed");
    let mut packed = Vec::new();
    lzma_rs::xz_compress(&mut "graph [ node [ id 0 ] ]".as_bytes(), &mut packed).unwrap();
    folder.write("packed", &packed);
    folder.write("cut", &packed[..packed.len() - 9]);
    folder.write("plain", "graph [ node [ id 0 ] ]");
    let message = |file: &str| {
        let text = format!("{GENERAL}\nnetwork: {{ graph: {{ type: gml, file: {{ {file} }} }} }}\n");
        let around = PathContext { base_dir: folder.0.clone(), ..around() };
        let error = Experiment::parse_in("e.yaml", &text, &around).unwrap_err();
        (error.message, error.help.unwrap_or_default())
    };
    let expected = ("the graph file 'packed' is not text".to_owned(), "add compression: xz".to_owned());
    assert_eq!(message("path: packed"), expected);
    assert!(
        message("path: plain, compression: xz")
            .0
            .starts_with("the graph file 'plain' is not sound xz data: ")
    );
    assert!(
        message("path: cut, compression: xz").0.starts_with("the graph file 'cut' is not sound xz data: ")
    );
    assert_eq!(message("path: packed, compression: gz").0, "'gz' is not a value of 'compression'");
}

#[test]
fn a_program_of_the_examples_names_the_command_that_builds_it() {
    let folder = Folder::new("built");
    std::fs::create_dir_all(folder.0.join("examples/p4")).unwrap();
    let text = |path: &str| {
        format!(
            "{GENERAL}\n{NETWORK}\nhosts: {{ a: {{ network_node_id: 0, processes: [{{ path: {path} }}] }} }}\n"
        )
    };
    folder.write("examples/e.yaml", text("built/web"));
    assert!(!load(&folder, "examples/e.yaml").contains("make"), "without a Makefile nothing is built");
    folder.write("examples/Makefile", "");
    folder.write("examples/p4/e.yaml", text("../built/nopaxos"));
    for (file, path, place) in [
        ("examples/e.yaml", "built/web", "examples/built/web"),
        ("examples/p4/e.yaml", "../built/nopaxos", "examples/p4/../built/nopaxos"),
    ] {
        let shown = load(&folder, file);
        let first = format!("error: there is no program '{path}'\n --> {file}:3:55\n");
        assert!(shown.starts_with(&first), "{shown}");
        assert!(shown.contains(&format!("= help: looked for {place} and ")), "{shown}");
        assert!(shown.ends_with("; to build it: make -C examples"), "{shown}");
    }
}
