"""Real resolvers, in a network namespace whose resolv.conf names the server, with `ndots:5`.

Each runtime is one process that looks all names up and prints what it found and how long each took.
A runtime that is not installed, or no right to make a namespace, is a skip that says so.
"""

import ipaddress
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mesh_testkit import plain_environment

ANY, V4, V6 = "any", "v4", "v6"
GUARD_S = 60.0
ASKS_AGAIN_S = 30
"""With the 5 s of their own, what a slow machine takes would look like a lost answer."""
STALL_S = 25.0
"""A resolver that asks again has waited for longer before."""

TABLE = {
    "table": {
        "web.ns.svc.cluster.local": {
            "ips": ["10.0.0.1"],
            "registry": "Kubernetes",
            "shortname": "web",
            "namespace": "ns",
        },
        "reviews.other.svc.cluster.local": {
            "ips": ["10.0.0.2", "10.0.0.3"],
            "registry": "Kubernetes",
            "shortname": "reviews",
            "namespace": "other",
        },
        "www.example.com": {"ips": ["10.0.0.4"]},
        "dual.example.com": {"ips": ["10.0.0.5", "2001:db8::5"]},
        "six.example.com": {"ips": ["2001:db8::6"]},
        "*.wild.example.com": {"ips": ["10.0.0.7"]},
    }
}
WHOLE = {
    "web.ns.svc.cluster.local": {"10.0.0.1"},
    "reviews.other.svc.cluster.local": {"10.0.0.2", "10.0.0.3"},
    "www.example.com": {"10.0.0.4"},
    "dual.example.com": {"10.0.0.5", "2001:db8::5"},
    "six.example.com": {"2001:db8::6"},
    "a.wild.example.com": {"10.0.0.7"},
    "none.example.com": set(),
}
SHORT = {
    "web": {"10.0.0.1"},
    "web.ns": {"10.0.0.1"},
    "web.ns.svc": {"10.0.0.1"},
    "reviews.other": {"10.0.0.2", "10.0.0.3"},
    "reviews": set(),
}
NAMES = {**WHOLE, **SHORT}

NXDOMAIN_UPSTREAM = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5300))
while True:
    q, peer = s.recvfrom(4096)
    question = q[12 : q.index(0, 12) + 5]
    s.sendto(q[:2] + bytes((0x80 | q[2] & 1, 0x83, 0, 1)) + bytes(6) + question, peer)
"""

PYTHON = """
import socket, sys, time
family = {"any": 0, "v4": socket.AF_INET, "v6": socket.AF_INET6}[sys.argv[1]]
for name in sys.argv[2:]:
    started = time.monotonic()
    try:
        found = {a[4][0] for a in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)}
    except socket.gaierror:
        found = set()
    print(name, time.monotonic() - started, *found)
"""

C = r"""
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
int main(int n, char **a) {
  for (int i = 2; i < n; i++) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *r = 0, *e;
    hints.ai_family = !strcmp(a[1], "any") ? AF_UNSPEC : !strcmp(a[1], "v4") ? AF_INET : AF_INET6;
    struct timespec s, t;
    clock_gettime(CLOCK_MONOTONIC, &s);
    int failed = getaddrinfo(a[i], "80", &hints, &r);
    clock_gettime(CLOCK_MONOTONIC, &t);
    printf("%s %f", a[i], t.tv_sec - s.tv_sec + (t.tv_nsec - s.tv_nsec) / 1e9);
    for (e = failed ? 0 : r; e; e = e->ai_next) {
      char text[64];
      getnameinfo(e->ai_addr, e->ai_addrlen, text, sizeof text, 0, 0, NI_NUMERICHOST);
      printf(" %s", text);
    }
    printf("\n");
  }
}
"""

NODE_GETADDRINFO = """
const dns = require('dns').promises;
(async () => {
  const family = {any: 0, v4: 4, v6: 6}[process.argv[1]];
  for (const name of process.argv.slice(2)) {
    const started = process.hrtime.bigint();
    let found = [];
    try { found = (await dns.lookup(name, {family, all: true})).map(a => a.address); } catch (e) {}
    console.log(name, Number(process.hrtime.bigint() - started) / 1e9, ...found);
  }
})();
"""

NODE_CARES = """
const dns = new (require('dns').promises.Resolver)({timeout: 30000, tries: 1});
(async () => {
  const wanted = process.argv[1];
  for (const name of process.argv.slice(2)) {
    const started = process.hrtime.bigint();
    let found = [];
    if (wanted != 'v6') try { found.push(...await dns.resolve4(name)); } catch (e) {}
    if (wanted != 'v4') try { found.push(...await dns.resolve6(name)); } catch (e) {}
    console.log(name, Number(process.hrtime.bigint() - started) / 1e9, ...found);
  }
})();
"""

JAVA = """
import java.net.InetAddress;
public class Look {
  public static void main(String[] a) {
    for (int i = 1; i < a.length; i++) {
      long started = System.nanoTime();
      StringBuilder found = new StringBuilder();
      try {
        for (InetAddress each : InetAddress.getAllByName(a[i])) {
          found.append(" ").append(each.getHostAddress());
        }
      } catch (java.net.UnknownHostException e) {
      }
      System.out.println(a[i] + " " + (System.nanoTime() - started) / 1e9 + found);
    }
  }
}
"""

GO = """
package main

import ("context"; "fmt"; "net"; "os"; "time")

func main() {
  family := map[string]string{"any": "ip", "v4": "ip4", "v6": "ip6"}[os.Args[1]]
  for _, name := range os.Args[2:] {
    started := time.Now()
    found, _ := (&net.Resolver{PreferGo: true}).LookupIP(context.Background(), family, name)
    fmt.Print(name, " ", time.Since(started).Seconds())
    for _, each := range found { fmt.Print(" ", each) }
    fmt.Println()
  }
}
"""


class Namespace(NamedTuple):
    """A network of its own, in which the server has port 53."""

    name: str

    def run(self, *command: str) -> str:
        done = subprocess.run(
            ["ip", "netns", "exec", self.name, *command],
            env=plain_environment(),  # Node colours numbers where it is asked to
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    if os.geteuid() != 0:
        pytest.skip("only root may make a network namespace")
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` (iproute2)")
    name = f"mesh-dns-{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespace can be made: {done.stderr.strip()}")
    etc = Path("/etc/netns", name)  # `ip netns exec` mounts what is there over /etc
    etc.mkdir(parents=True)
    processes = []
    try:
        (etc / "resolv.conf").write_text(
            "search ns.svc.cluster.local svc.cluster.local cluster.local\n"
            f"nameserver 127.0.0.1\noptions ndots:5 timeout:{ASKS_AGAIN_S} attempts:1\n"
        )
        (etc / "nsswitch.conf").write_text("hosts: files dns\n")
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        inside = ["ip", "netns", "exec", name]
        upstream = subprocess.Popen([*inside, sys.executable, "-c", NXDOMAIN_UPSTREAM])
        processes.append(upstream)
        table = tmp_path_factory.mktemp("dns") / "table.json"
        table.write_text(json.dumps(TABLE))
        server = [sys.executable, "-m", "mesh_dnsproxy", "--listen", "127.0.0.1:53"]
        options = ["--table", str(table), "--namespace", "ns", "--upstream", "127.0.0.1:5300"]
        processes.append(subprocess.Popen([*inside, *server, *options], stdout=subprocess.DEVNULL))
        found = Namespace(name)
        deadline = time.monotonic() + GUARD_S
        while "10.0.0.1" not in found.run(sys.executable, "-c", PYTHON, V4, "web"):
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)
        yield found
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        subprocess.run(["ip", "netns", "delete", name], check=True)
        shutil.rmtree(etc)


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no `{program}`")
    return found


def check(output: str, names: dict[str, set[str]], wanted: str) -> None:
    """Compare with the table, and see that nothing was waited for."""
    lines = [line.split() for line in output.splitlines()]
    assert [line[0] for line in lines] == list(names)
    for name, seconds, *found in lines:
        version = {V4: ".", V6: ":"}.get(wanted, "")
        expected = {address for address in names[name] if version in address}
        assert {_plain(each) for each in found} == expected, (name, found)
        assert float(seconds) < STALL_S, f"{name} took {seconds} s"


def _plain(address: str) -> str:
    return str(ipaddress.ip_address(address))


@pytest.mark.parametrize("wanted", [ANY, V4, V6])
def test_glibc(namespace: Namespace, wanted: str) -> None:
    check(namespace.run(sys.executable, "-c", PYTHON, wanted, *NAMES), NAMES, wanted)


@pytest.mark.parametrize("wanted", [ANY, V4, V6])
def test_musl(namespace: Namespace, wanted: str, tmp_path: Path) -> None:
    source, program = tmp_path / "look.c", tmp_path / "look"
    source.write_text(C)
    subprocess.run([need("musl-gcc"), "-static", "-o", str(program), str(source)], check=True)
    # musl searches when there are fewer dots than ndots, and stops at the first name that is known.
    check(namespace.run(str(program), wanted, *NAMES), NAMES, wanted)


@pytest.mark.parametrize("wanted", [ANY, V4, V6])
def test_node_with_getaddrinfo(namespace: Namespace, wanted: str) -> None:
    check(namespace.run(need("node"), "-e", NODE_GETADDRINFO, wanted, *NAMES), NAMES, wanted)


@pytest.mark.parametrize("wanted", [ANY, V4, V6])
def test_node_with_c_ares(namespace: Namespace, wanted: str) -> None:
    # Node's resolve functions ask for the name as it is, without the search list.
    check(namespace.run(need("node"), "-e", NODE_CARES, wanted, *WHOLE), WHOLE, wanted)


def test_java(namespace: Namespace, tmp_path: Path) -> None:
    source = tmp_path / "Look.java"
    source.write_text(JAVA)
    need("javac")
    options = ["-Djava.net.preferIPv4Stack=false", "-XX:TieredStopAtLevel=1"]
    check(namespace.run(need("java"), *options, str(source), ANY, *NAMES), NAMES, ANY)


def test_go(namespace: Namespace, tmp_path: Path) -> None:
    source, program = tmp_path / "look.go", tmp_path / "look"
    source.write_text(GO)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
    command = [need("go"), "build", "-o", str(program), str(source)]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    for wanted in (ANY, V4, V6):
        check(namespace.run(str(program), wanted, *NAMES), NAMES, wanted)
