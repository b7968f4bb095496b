"""Servers, as Debian's packages configure and start them, used from other hosts."""

import pathlib

from .cases import GPL, answers, at, case, over_ipv6, same_license, shell, stays, written

PYTHON = "/usr/bin/python3"


def fetches(done):
    same_license(done.stdout("client", "curl"))


@case("nginx", "nginx curl", "nginx curl", "nginx -v", "the daemon as configured, curl from another host")
def nginx():
    def hosts(folder):
        return {"server": (0, [shell(0, f"cp {GPL} /var/www/html && exec nginx")]),
                "client": (0, [at(3, "curl", "-sS http://server/GPL-3")])}

    return hosts, fetches


HTTP2 = """
server {
    listen 443 ssl http2;
    server_name server;
    root /var/www/html;
    ssl_certificate /etc/ssl/server.pem;
    ssl_certificate_key /etc/ssl/server.key;
}
"""


@case("curl", "nginx curl openssl", "curl nginx openssl", "curl --version",
      "HTTP/2 over TLS from nginx: 20 files at once on one connection, the certificate made and fetched there")
def curl():
    def hosts(folder):
        conf = written(folder, "http2.conf", HTTP2)
        setup = ("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=server "
                 "-addext subjectAltName=DNS:server -keyout /etc/ssl/server.key -out /etc/ssl/server.pem && "
                 f"cp /etc/ssl/server.pem {GPL} /var/www/html && cp {conf} /etc/nginx/conf.d && exec nginx")
        fetch = ("curl -sS -O http://server/server.pem; curl -sS --cacert server.pem --http2 --parallel -o 'got#1' "
                 "-w '%{http_version} %{response_code} %{num_connects}\\n' 'https://server/GPL-3?[1-20]'")
        return {"server": (0, [shell(0, setup)]), "client": (0, [shell(5, fetch)])}

    def check(done):
        lines = done.text("client").split("\n")[:-1]
        assert lines.count("2 200 0") == 19 and lines.count("2 200 1") == 1, (lines, str(done))
        for n in range(1, 21):
            same_license((done.host("client") / f"got{n}").read_bytes())

    return hosts, check


@case("nghttp2", "nghttpx nghttp h2load", "nghttp2-proxy nghttp2-client", "nghttpx --version",
      "nghttpx before python3 -m http.server, asked by nghttp and by h2load with 4 connections of 8 streams")
def nghttp2():
    def hosts(folder):
        web = stays(PYTHON, f"-m http.server -d {pathlib.Path(GPL).parent} 80")
        proxy = stays("nghttpx", ["--frontend=*,8080;no-tls", "--backend=web,80", "--workers=2", "/dev/null", "/dev/null"])
        return {"web": (0, [web]), "proxy": (0, [proxy]),
                "client": (0, [at(3, "nghttp", "http://proxy:8080/GPL-3"),
                               at(5, "h2load", "-n 200 -c 4 -m 8 http://proxy:8080/BSD")])}

    def check(done):
        same_license(done.stdout("client", "nghttp"))
        said = done.text("client", "h2load")
        assert "200 succeeded, 0 failed, 0 errored" in said, said + str(done)

    return hosts, check


@case("apache2", "apache2 apache2ctl curl", "apache2 curl", "apache2 -v", "apache2ctl start as configured, curl from another host")
def apache2():
    def hosts(folder):
        return {"server": (0, [shell(0, f"cp {GPL} /var/www/html && apache2ctl start")]),
                "client": (0, [at(5, "curl", "-sS http://server/GPL-3")])}

    return hosts, fetches


@case("lighttpd", "lighttpd curl", "lighttpd curl", "lighttpd -v", "its init script, curl from another host")
def lighttpd():
    def hosts(folder):
        return {"server": (0, [shell(0, f"cp {GPL} /var/www/html && /etc/init.d/lighttpd start")]),
                "client": (0, [at(5, "curl", "-sS http://server/GPL-3")])}

    return hosts, fetches


HAPROXY = """
frontend web
    bind *:80
    default_backend all
backend all
    balance roundrobin
    server one one:80 check
    server two two:80 check
"""


@case("haproxy", "haproxy curl", "haproxy curl", "haproxy -v",
      "its init script and configuration, with two servers added between which it takes turns")
def haproxy():
    def hosts(folder):
        more = written(folder, "more.cfg", HAPROXY)
        web = lambda name: (0, [shell(0, f"echo {name} > index.html; exec {PYTHON} -m http.server 80", expected_final_state="running")])
        start = f"cat {more} >> /etc/haproxy/haproxy.cfg && /etc/init.d/haproxy start"
        return {"one": web("one"), "two": web("two"), "balancer": (0, [shell(2, start)]),
                "client": (0, [shell(10, "for n in 1 2 3 4; do curl -sS http://balancer/; done")])}

    def check(done):
        said = done.text("client").split()
        assert sorted(said) == ["one", "one", "two", "two"] and said[0] != said[1], (said, str(done))

    return hosts, check


@case("wget2", "wget2 nginx", "wget2 nginx", "wget2 --version", "a site of 12 pages fetched recursively from nginx, several at once")
def wget2():
    def hosts(folder):
        site = ("cd /var/www/html && : > index.html && for n in $(seq 12); do echo \"<a href='/p$n.html'>$n</a>\" >> index.html; "
                "{ echo \"<p>page $n\"; cat /usr/share/common-licenses/BSD; } > p$n.html; done; exec nginx")
        return {"server": (0, [shell(0, site)]),
                "client": (0, [at(3, "wget2", "-q -r -l 2 http://server/index.html")])}

    def check(done):
        text = pathlib.Path("/usr/share/common-licenses/BSD").read_text()
        for n in range(1, 13):
            assert (done.host("client") / f"server/p{n}.html").read_text() == f"<p>page {n}\n{text}", str(done)

    return hosts, check


@case("PostgreSQL", "pg_createcluster psql", "postgresql", "psql --version",
      "a cluster made and started by Debian's tools, transactions from another host", stop="60 s")
def postgresql():
    make = ("set -e; v=$(ls /usr/lib/postgresql | sort -n | tail -1); pg_createcluster $v sim -p 5432; cd /etc/postgresql/$v/sim\n"
            "echo \"listen_addresses = '*'\" >> postgresql.conf; echo 'host all all 11.0.0.0/8 trust' >> pg_hba.conf; pg_ctlcluster $v sim start")
    sql = ("create table t (id int primary key, v text); begin; insert into t values (1, 'one'), (2, 'two'); commit; "
           "begin; delete from t; rollback; select v from t order by id")

    def hosts(folder):
        return {"db": (0, [shell(0, make)]),
                "client": (0, [at(20, "psql", ["-h", "db", "-U", "postgres", "-Atqc", sql])])}

    return hosts, lambda done: answers(done, "one", "two")


@case("Redis", "redis-server redis-cli", "redis-server redis-tools", "redis-server --version",
      "with Debian's configuration, opened to the network; a replica on another host; a transaction")
def redis():
    def hosts(folder):
        start = "/etc/redis/redis.conf --bind 0.0.0.0 --protected-mode no"
        put = "printf 'multi\\nset k one\\nappend k -two\\nexec\\n' | redis-cli -h server; sleep 5; redis-cli -h replica get k; redis-cli -h replica set k no"
        return {"server": (0, [at(0, "redis-server", start)]), "replica": (0, [at(1, "redis-server", start + " --replicaof server 6379")]),
                "client": (0, [shell(5, put)])}

    def check(done):
        answers(done, "one-two")
        assert "READONLY" in done.text("client"), str(done)

    return hosts, check


@case("etcd", "etcd etcdctl", "etcd-server etcd-client", "etcd --version", "a cluster of three, written at one member and read at another")
def etcd():
    names = ("etcd1", "etcd2", "etcd3")
    cluster = ",".join(f"{name}=http://{name}:2380" for name in names)

    def member(second, name):
        # Never at the same nanosecond, as no three machines do: that is what its election timeouts are drawn from.
        return (0, [stays("etcd", f"--name {name} --data-dir /var/lib/etcd/cluster --initial-cluster {cluster} "
                          f"--listen-peer-urls http://0.0.0.0:2380 --initial-advertise-peer-urls http://{name}:2380 "
                          f"--listen-client-urls http://0.0.0.0:2379 --advertise-client-urls http://{name}:2379") | {"start_time": f"{second} s"}])

    def hosts(folder):
        run = ("export ETCDCTL_API=3; etcdctl --endpoints etcd1:2379 put key value; etcdctl --endpoints etcd3:2379 get key; "
               "etcdctl --endpoints etcd2:2379 member list | grep -c started")
        return {name: member(n / 10, name) for n, name in enumerate(names)} | {"client": (0, [shell(10, run)])}

    return hosts, lambda done: answers(done, "OK", "value", "3")


def openssh_over(family):
    def hosts(folder):
        server = ("set -e; mkdir -p -m 700 /run/sshd /root/.ssh; ssh-keygen -A; "
                  "until curl -sf http://client:8000/id.pub -o /root/.ssh/authorized_keys; do sleep 1; done; /etc/init.d/ssh start")
        client = (f"ssh-keygen -q -t ed25519 -N '' -f id; {PYTHON} -m http.server 8000 & p=$!; sleep 15\n"
                  "o='-i id -o StrictHostKeyChecking=accept-new -o BatchMode=yes'\n"
                  f"ssh {family}$o server 'hostname; echo $SSH_CONNECTION'; scp {family}-q $o server:{GPL} got; ssh {family}-tt $o server tty </dev/null; kill $p")
        return {"server": (0, [shell(1, server)]), "client": (0, [shell(1, client)])}

    def check(done):
        said = done.streams("client", "sh")[0].read_text()
        assert said.startswith("server\n") and "/dev/pts/0" in said, said + str(done)
        client = said.splitlines()[1].split()[0]
        assert (":" in client) == bool(family), said
        same_license((done.host("client") / "got").read_bytes())

    return hosts, check


@case("OpenSSH", "sshd ssh ssh-keygen", "openssh-server openssh-client", "ssh -V",
      "sshd as configured; a command with a key, a file by scp, a terminal", stop="60 s", tolerates=("keyctl",),
      note="hosts have no kernel keyrings; pam_keyinit, which asks for one, is optional in Debian's configuration")
def openssh():
    return openssh_over("")


@case("OpenSSH over IPv6", "sshd ssh ssh-keygen", "openssh-server openssh-client", "ssh -V",
      "the same where there is IPv6, ssh -6 and scp -6", stop="60 s", tolerates=("keyctl",),
      note="keyrings as above")
def openssh_ipv6():
    hosts, check = openssh_over("-6 ")
    return lambda folder: over_ipv6(hosts(folder), "60 s"), check


ZK = "/usr/share/zookeeper/bin/zkCli.sh"


@case("ZooKeeper", "java /etc/init.d/zookeeper", "zookeeperd", "java -cp /usr/share/java/zookeeper.jar org.apache.zookeeper.version.VersionInfoMain",
      "its init script and configuration; a node made, read and listed from another host", stop="90 s")
def zookeeper():
    def hosts(folder):
        use = f"{ZK} -server server:2181 create /node hello; {ZK} -server server:2181 get /node; {ZK} -server server:2181 ls /"
        return {"server": (0, [at(0, "/etc/init.d/zookeeper", "start")]), "client": (0, [shell(20, use)])}

    return hosts, lambda done: answers(done, "hello", "[node, zookeeper]")


@case("RabbitMQ", "rabbitmq-server rabbitmqctl amqp-publish", "rabbitmq-server amqp-tools", "dpkg-query -W -f ${Version} rabbitmq-server",
      "its init script, a user made by rabbitmqctl; messages published and consumed from other hosts", stop="240 s")
def rabbitmq():
    url = "amqp://u:p@server"

    def hosts(folder):
        start = ("/etc/init.d/rabbitmq-server start && rabbitmqctl add_user u p && rabbitmqctl set_permissions u '.*' '.*' '.*' && "
                 "rabbitmqctl list_users && echo ready > ready && exec /usr/bin/python3 -m http.server 80")
        wait = "until curl -sf http://server/ready; do sleep 1; done; "
        consume = f"amqp-declare-queue -u {url} -q queue; amqp-consume -u {url} -q queue -c 3 cat"
        publish = f"sleep 10; for n in 1 2 3; do amqp-publish -u {url} -r queue -b \"message $n\n\"; done"
        return {"server": (0, [shell(0, start, expected_final_state="running")]), "client": (0, [shell(1, wait + consume)]),
                "other": (0, [shell(1, wait + publish)])}

    return hosts, lambda done: answers(done, "message 1", "message 2", "message 3")
