use super::*;
use crate::{Experiment, PathContext};

fn take(format: Format, text: &str, scripts: &[(&str, &str)]) -> (Experiment, Vec<String>) {
    let script =
        |machine: &str| scripts.iter().find(|(m, _)| *m == machine).map(|(_, text)| text.to_string());
    let imported = import_text("lab", text, format, script).unwrap_or_else(|e| panic!("{e}"));
    let loaded = Experiment::parse_in("out.yaml", &imported.yaml, &PathContext::default());
    (loaded.unwrap_or_else(|e| panic!("{e}\n{}", imported.yaml)), imported.notes)
}
fn error(format: Format, text: &str) -> String {
    let error = import_text("lab", text, format, |_| None).unwrap_err();
    let place = error.position.map_or("-".to_owned(), |(line, column)| format!("{line}:{column}"));
    format!("{place} {}", error.message)
}
fn kinds(e: &Experiment) -> Vec<&str> {
    e.topology.devices.iter().map(|device| device.kind.noun().0).collect()
}
fn ends(e: &Experiment) -> Vec<String> {
    let end = |end: &crate::topology::LinkEnd| {
        let interface = &e.node_interfaces(end.node)[end.port];
        let own = interface.addresses.first().map_or("-".to_owned(), |own| own.to_string());
        format!("{}:{} {own}", e.node_name(end.node), interface.name)
    };
    e.topology.links.iter().map(|link| link.ends.each_ref().map(end).join(" = ")).collect()
}

#[test]
fn a_topology_of_containerlab() {
    let (e, notes) = take(
        Format::Containerlab,
        r#"
name: lab
topology:
  kinds: { nokia_srlinux: { image: ghcr.io/nokia/srlinux } }
  nodes:
    SRL_1: { kind: nokia_srlinux, type: ixrd3 }
    br1: { kind: bridge }
    h1:
      kind: linux
      image: alpine
      exec:
      - ip addr add 192.168.1.2/24 dev eth1
      - ip route add default via 192.168.1.1
      - sleep infinity
    h2: { kind: linux }
  links:
  - endpoints: ["SRL_1:ethernet-1/1", "br1:e1"]
    mtu: 9000
  - endpoints: ["h1:eth1", "br1:e2"]
  - type: veth
    endpoints: [ { node: h2, interface: eth1, mac: 02:00:00:00:00:AA }, { node: br1, interface: e3 } ]
  - endpoints: ["h2:eth2", "host:veth0"]
"#,
        &[],
    );
    let expected = [
        "srl-1:ethernet-1-1 192.168.1.1/24 = br1:e1 -",
        "h1:eth1 192.168.1.2/24 = br1:e2 -",
        "h2:eth1 192.168.1.3/24 = br1:e3 -",
    ];
    assert_eq!(ends(&e), expected);
    assert_eq!((e.topology.links[0].mtu, kinds(&e)), (9_000, vec!["switch", "router"]));
    assert_eq!(e.hosts[0].routing.routes[0].via, [std::net::Ipv4Addr::new(192, 168, 1, 1)]);
    assert_eq!(e.hosts[1].interfaces[0].mac, Some([2, 0, 0, 0, 0, 0xaa]));
    let expected = [
        "'SRL_1' is called 'srl-1' here",
        "'h1' does not run 'sleep infinity': give it processes",
        "'image' of nodes has no meaning here",
        "'type' of nodes has no meaning here",
        "links to 'host' are left out: they lead out of the topology",
        "nodes of kind 'nokia_srlinux' become routers with routes of shortest paths",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn a_lab_of_kathara() {
    let (e, notes) = take(
        Format::Kathara,
        "LAB_DESCRIPTION=\"two networks\"\n# comment\npc1[0]=\"A\"\npc1[image]=\"kathara/base\"\nr1[0]=A\nr1[1]=\"B/02:00:00:00:00:01\"\n\
         r2[0]='B'\nr2[1]=\"C\"\npc2[0]=\"C\"\npc3[0]=\"C\"\npc3[bridged]=true\n",
        &[
            ("pc1", "ip address add 195.11.14.5/24 dev eth0\nip route add default via 195.11.14.1\n"),
            (
                "r1",
                "ifconfig eth0 195.11.14.1 netmask 255.255.255.0 up\nifconfig eth1 100.0.0.9/30 up\n/etc/init.d/frr start\n",
            ),
            ("r2", "ip a add 100.0.0.10/30 dev eth0\nroute add -net 195.11.14.0/24 gw 100.0.0.9\nmystery\n"),
        ],
    );
    let expected = [
        "pc1:eth0 195.11.14.5/24 = r1:eth0 195.11.14.1/24",
        "r1:eth1 100.0.0.9/30 = r2:eth0 100.0.0.10/30",
        "r2:eth1 10.0.0.1/24 = c:p1 -",
        "pc2:eth0 10.0.0.2/24 = c:p2 -",
        "pc3:eth0 10.0.0.3/24 = c:p3 -",
    ];
    assert_eq!(ends(&e), expected);
    assert_eq!((e.topology.devices[0].name.as_str(), e.topology.devices[1].name.as_str()), ("c", "r1"));
    assert!(e.hosts.iter().any(|host| host.name == "r2" && host.forwarding));
    let expected = [
        "'r2' does not run 'mystery': give it processes",
        "option 'bridged' of machines has no meaning here",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn what_is_no_topology_is_refused_where_it_goes_wrong() {
    let lab = |text: &str| error(Format::Containerlab, text);
    assert_eq!(lab(""), "- this file is empty");
    assert_eq!(lab("hosts: {}"), "1:1 there is no 'topology' in this file");
    assert_eq!(
        lab("topology: { nodes: { a: {} } }"),
        "- this topology has no links that could be taken over"
    );
    let link = |ends: &str| {
        lab(&format!("topology:\n  nodes: {{ a: {{}}, b: {{}} }}\n  links:\n  - endpoints: {ends}\n"))
    };
    assert_eq!(link("[\"a:e1\"]"), "4:16 a link has two endpoints");
    assert_eq!(link("[\"a:e1\", \"c:e1\"]"), "4:25 there is no node 'c'");
    assert_eq!(link("[\"a\", \"b:e1\"]"), "4:17 'a' is not an endpoint");
    assert_eq!(
        lab("topology:\n  nodes: { A: {}, a: {} }\n"),
        "2:19 there are two nodes that would be called 'a'"
    );
    assert_eq!(error(Format::Kathara, "pc1\n"), "1:1 this is not a line of lab.conf");
    assert_eq!(error(Format::Kathara, "pc1[image]=x\n"), "- no machine of this lab has an interface");
}
