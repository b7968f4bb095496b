"""`belljar exec` with --strace and --pcap: one failing command needs no experiment and no results folder."""

import re

from conftest import execute

TALK = """import os, socket
a = socket.create_server(("127.0.0.1", 7000)); b = socket.create_connection(("127.0.0.1", 7000)); c, _ = a.accept()
b.sendall(b"hello"); print(c.recv(5)); os.system("true")
"""


def test_calls_go_to_standard_error_in_the_order_of_time(belljar, workdir):
    done = execute([belljar, "exec", "--strace", "--", "/bin/sh", "-c", "cat /proc/sys/net/none; sleep 10; exit 3"], cwd=workdir)
    assert done.status == 3
    lines = [line for line in done.err.splitlines() if re.match(r"\d+\.\d{9} \[\d+\] ", line)]
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times) and len(times) > 20
    assert any('"/proc/sys/net/none"' in line and "ENOENT" in line for line in lines)
    threads = {line.split()[1] for line in lines}
    assert len(threads) == 3, "those of the shell and of both children"
    assert list(workdir.iterdir()) == []
    # The summary's line about the file stands beside them.
    assert "cat found no /proc/sys/net/none (1x)" in done.err


def test_packets_go_to_a_file_of_the_command(belljar, workdir):
    done = execute([belljar, "exec", "--pcap", "--", "python3", "-c", TALK], cwd=workdir)
    assert done.status == 0 and done.out == "b'hello'\n"
    assert re.search(r"python3\.pcapng: ([1-9]\d*) packets", done.err), done.err
    (file,) = workdir.iterdir()
    assert file.name == "python3.pcapng" and b"hello" in file.read_bytes()


def test_a_results_folder_has_both(belljar, workdir):
    done = execute([belljar, "exec", "--strace", "--pcap", "-o", "kept", "--", "python3", "-c", TALK], cwd=workdir)
    assert done.status == 0 and "socket(" not in done.err
    (host,) = (workdir / "kept/hosts").iterdir()
    assert {"eth0.pcap", "lo.pcap"} <= {file.name for file in host.iterdir()}
    assert len(list(host.glob("*.strace"))) >= 2
    assert not list(workdir.glob("*.pcapng"))
