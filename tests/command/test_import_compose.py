"""`belljar import compose.yaml`: services as hosts with their images as roots, from the file to a shrunk failure."""

import json
import os
import shutil
import sys

import pytest
import yaml
from conftest import ROOT, execute

sys.path.insert(0, str(ROOT / "tests/kernel"))
from test_root import busybox, layer, put, save  # noqa: E402

pytestmark = pytest.mark.needs("busybox")

COMPOSE = """\
name: shop
x-common: &common
  restart: unless-stopped
  environment:
    WHO: ${WHO:-nobody}
    PRICE: $$5
services:
  web_front:
    <<: *common
    image: example.org/web:2.1
    depends_on:
      db: {condition: service_healthy}
      setup: {condition: service_completed_successfully}
    ports: ["8080:80"]
    deploy: {replicas: 2, resources: {limits: {memory: 64M}}}
    networks: {front: {aliases: [www]}, back: {}}
    sysctls: {net.ipv4.tcp_ecn: 1}
  db:
    image: ./database
    command: ["/bin/sh", "-c", "cat /etc/extra /data/file; env; exec sleep 1000"]
    env_file: [db.env]
    environment: [OWN=1, INHERITED]
    volumes: ["./extra.conf:/etc/extra:ro", "./data:/data", "store:/var/store"]
    healthcheck: {test: "true", interval: 5s}
    networks: [back]
    hostname: database
    cap_add: [NET_ADMIN]
  setup:
    image: ./database
    entrypoint: /bin/sh -c
    command: ["echo ready"]
    networks: [back]
  client:
    image: ./database
    restart: "no"
    depends_on: [web_front]
    entrypoint: ["/bin/sh", "-c"]
    command:
      - "for n in 1 2 3 4; do wget -q -O - http://www/ || exit 1; done; (wget -q -O - http://db/ & sleep 5; kill $$! 2> /dev/null && echo no db)"
    networks: [front]
networks: {front: {}, back: {}}
volumes: {store: {}}
"""


@pytest.fixture
def project(workdir):
    """A folder with the file, an image of `web_front` as `docker save` writes it, and one of the others as a folder."""
    busybox(workdir / "database")
    (workdir / "database/bin/mkdir").symlink_to("/bin/busybox")
    (workdir / "database/bin/cp").symlink_to("/bin/busybox")
    busybox(workdir / "web")
    put(workdir, "web/www/index.html", "page\n")
    save(workdir / "web-2.1.tar", [layer(workdir / "web")], {"Entrypoint": ["/bin/busybox"], "Cmd": ["httpd", "-f", "-h", "/www"]})
    shutil.rmtree(workdir / "web")
    put(workdir, "compose.yaml", COMPOSE)
    put(workdir, "db.env", "# comment\nFROM_FILE=\"two words\"\nOWN=0\n")
    put(workdir, ".env", "WHO=me\n")
    put(workdir, "extra.conf", "extra\n")
    put(workdir, "data/file", "data\n")
    return workdir


def belljar_in(workdir, belljar, *args):
    return execute([belljar, *args], cwd=workdir, env={**os.environ, "BELLJAR_CACHE": str(workdir / "cache")})


def test_services_become_hosts_that_run(belljar, project):
    done = belljar_in(project, belljar, "import", "compose.yaml", "-o", "shop.yaml")
    assert done.status == 0, done
    written = yaml.safe_load((project / "shop.yaml").read_text())
    assert sorted(written["hosts"]) == ["client", "db", "setup", "web-front-1", "web-front-2"]
    web = written["hosts"]["web-front-1"]
    assert web["memory"] == f"{64 << 20} B" and web["root"] == "web-2.1.tar" and web["host_options"] == {"sysctls": {"net.ipv4.tcp_ecn": "1"}}
    # db is healthy after its first check, and the setup has ended.
    [process] = web["processes"]
    assert process == {"environment": {"WHO": "me", "PRICE": "$5"}, "start_time": "10000 ms", "expected_final_state": "running"}
    assert written["hosts"]["setup"]["processes"][0]["expected_final_state"] == {"exited": 0}
    assert written["events"] == [{"at": "0 s", "link_down": [["db"], ["client"]]}, {"at": "0 s", "link_down": [["setup"], ["client"]]}]
    notes = [line.partition("compose.yaml: line ")[2] for line in done.err.splitlines()]
    for note in ("12: 'ports' of 'web_front' are not published", "20: variable 'INHERITED' of 'db' is not set", "21: './data' is copied to '/data' of 'db'",
                 "21: volume 'store' of 'db' is a folder of its own", "22: the health check of 'db' is not run", "25: 'cap_add' of service 'db' is not taken over",
                 "6: service 'web_front' starts 5 s after 'db', which is taken to be healthy then"):
        assert any(line.startswith(note) or line.split(": ", 1)[1].startswith(note.split(": ", 1)[1]) for line in notes), (note, notes)
    done = belljar_in(project, belljar, "run", "shop.yaml", "-o", "shop.data")
    assert done.status == 0, done
    hosts = project / "shop.data/hosts"
    said = "".join(file.read_text() for file in (hosts / "db").glob("sh.*.stdout"))
    assert said.startswith("extra\ndata\n") and "FROM_FILE=two words\n" in said and "OWN=1\n" in said, said
    said = "".join(file.read_text() for file in (hosts / "client").glob("sh.*.stdout"))
    assert said == "page\n" * 4 + "no db\n", said


@pytest.mark.slow  # a campaign of 20 s; test_explore.py has shorter ones
def test_from_services_to_a_shrunk_failure(belljar, project):
    """The way of the guide: import, a property, explore."""
    put(project, "compose.yaml", """\
services:
  web: {image: "web:2.1"}
  client:
    image: ./database
    depends_on: [web]
    entrypoint: ["/bin/sh", "-c"]
    command: ["while wget -q -O - http://web/; do sleep 1; done; echo lost"]
""")
    done = belljar_in(project, belljar, "import", "compose.yaml", "-o", "shop.yaml")
    assert done.status == 0, done
    with (project / "shop.yaml").open("a") as file:
        file.write("properties:\n- {name: always-served, never: lost, hosts: client}\nexplore: {hosts: web, kinds: [kill], between: [5 s, 40 s]}\n")
    text = (project / "shop.yaml").read_text().replace("expected_final_state: running", "expected_final_state: any")
    (project / "shop.yaml").write_text(text)
    done = belljar_in(project, belljar, "explore", "shop.yaml", "--budget", "6runs", "--first", "-o", "found")
    assert done.status == 1 and "FOUND property always-served (never)" in done.out, done
    found = yaml.safe_load((project / "found/findings/property-always-served-never/experiment.yaml").read_text())
    assert len(found["events"]) == 1, found["events"]


@pytest.mark.parametrize("text, error", [
    ("services:\n  a: {image: nginx}\n", "there is no archive or folder of the image of service 'a'"),
    ("services:\n  a: {image: ./database}\n", "service 'a' has no command, and its image has none"),
    ("services:\n  a: {image: ./database, command: 'sh \"'}\n", "a quote in this command is not closed"),
    ("services:\n  a: {image: ./database, command: sh, depends_on: [b]}\n  b: {image: ./database, command: sh, depends_on: [a]}\n", "service 'a' depends on itself"),
    ("services:\n  a: {image: ./database, command: sh, mem_limit: much}\n", "'much' is no size of Compose"),
    ("services:\n  a: {image: ./database, command: sh, restart: often}\n", "'often' is no restart policy"),
    ("services:\n  a: {image: ./database, command: sh, healthcheck: {interval: soon}}\n", "'soon' is no duration of Compose"),
    ("services:\n  a: {image: ./database, command: sh, env_file: none.env}\n", "there is no file 'none.env'"),
    ("services:\n  a: {image: ./database, command: '${X:?set it}'}\n", "variable 'X' has no value: set it"),
    ("services:\n  a: {image: ./database, command: sh, scale: 0}\n", "a service without replicas is none"),
    ("services:\n  a: {image: ./database, command: sh, cpus: many}\n", "'many' is no number of processors"),
    ("services:\n  a: {image: ./database, command: sh, networks: {n: {ipv4_address: here}}}\n", "the address 'here' of service 'a' is no IPv4 address"),
    ("services:\n  a_b: {image: ./database, command: sh}\n  a-b: {image: ./database, command: sh}\n", "two services would have hosts of the same name"),
    ("services:\n  a: {image: ./database, command: sh, volumes: ['./a:/b:c:d']}\n", "'./a:/b:c:d' is not a volume"),
    ("services:\n", "section"),
])
def test_wrong_files_have_one_error(belljar, project, text, error):
    put(project, "compose.yaml", text)
    done = belljar_in(project, belljar, "import", "compose.yaml", "-o", "out.yaml")
    assert done.status != 0 and not (project / "out.yaml").exists() and done.err.count("error") == 1, done
    assert error in done.err or error == "section", done


def test_runs_are_the_same(belljar, project):
    assert belljar_in(project, belljar, "import", "compose.yaml", "-o", "shop.yaml").status == 0
    seen = []
    for number, options in enumerate([["--parallelism", "1"], ["--parallelism", "3"]]):
        # In a folder of the same name, which programs see.
        assert belljar_in(project, belljar, "run", "shop.yaml", "-o", "shop.data", *options).status == 0
        folder = (project / "shop.data").rename(project / f"{number}.data")
        seen.append({str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.glob("hosts/*/*.std*"))})
    assert seen[0] == seen[1] and len(seen[0]) == 12, json.dumps(sorted(seen[0]))
