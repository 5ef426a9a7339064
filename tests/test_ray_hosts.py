"""Several hosts, played by network namespaces: links are cut, hosts die.

Needs root: `pytest -m root tests/test_ray_hosts.py`. Every address is inside namespaces
that are made here, and only processes in these are killed.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from limits import HANG_SECONDS

pytest.importorskip("ray", reason="needs Ray: pip install 'wolfpack[ray]'")

pytestmark = [
    pytest.mark.root,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pipes of drivers
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("ip"),
        reason="makes network namespaces: needs root, and iproute2",
    ),
]
HERE = Path(__file__).parent
HEAD = "10.77.0.1:6379"


class Hosts:
    """Namespaces, joined by a bridge in one of its own."""

    def __init__(self, count, folder, **environment):
        self.name, self.folder = f"wp{os.getpid()}", folder
        self.environment = {**os.environ, **environment, "RAY_USAGE_STATS_ENABLED": "0"}
        self.names = [f"{self.name}-h{i}" for i in range(count + 1)]  # 0: the bridge
        self.ray = tempfile.mkdtemp(prefix="wp")  # names of sockets must be short
        for name in self.names:
            self._ip("netns", "add", name)
        self._ip("-n", self.names[0], "link", "add", "br0", "type", "bridge")
        self._ip("-n", self.names[0], "link", "set", "br0", "up")
        for i in range(1, count + 1):
            self._plug(i)

    def _plug(self, i):
        bridge, host = self.names[0], self.names[i]
        self._ip("link", "add", f"e{i}", "netns", bridge, "type", "veth", "peer",
                 "name", "eth0", "netns", host)  # fmt: skip
        self._ip("-n", bridge, "link", "set", f"e{i}", "master", "br0", "up")
        self._ip("-n", host, "addr", "add", f"10.77.0.{i}/24", "dev", "eth0")
        self._ip("-n", host, "link", "set", "lo", "up")
        self._ip("-n", host, "link", "set", "eth0", "up")

    @staticmethod
    def _ip(*words):
        return subprocess.run(["ip", *words], check=True, capture_output=True,
                              text=True).stdout  # fmt: skip

    def start(self, i, *command, **how):
        """Start a process on host i."""
        inside = ["ip", "netns", "exec", self.names[i], *command]
        return subprocess.Popen(inside, env=self.environment, text=True, **how)

    def start_ray(self, i, cores=1):
        """Let host i be the head, or join it."""
        role = ["--head", "--port=6379", "--include-dashboard=false"]
        if i > 1:
            role = [f"--address={HEAD}"]
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *role,
                   f"--node-ip-address=10.77.0.{i}", f"--num-cpus={cores}"]  # fmt: skip
        if i == 1:
            command.append(f"--temp-dir={self.ray}")
        with (self.folder / f"host{i}.log").open("w") as log:
            process = self.start(i, *command, stdout=log, stderr=log)
            assert process.wait(HANG_SECONDS) == 0, Path(log.name).read_text()

    def cut(self, i):
        self._ip("-n", self.names[0], "link", "set", f"e{i}", "down")

    def join(self, i):
        self._ip("-n", self.names[0], "link", "set", f"e{i}", "up")

    def kill(self, i):
        """Take the power off host i."""
        for pid in self._ip("netns", "pids", self.names[i]).split():
            os.kill(int(pid), signal.SIGKILL)

    def close(self):
        for i, name in enumerate(self.names):
            self.kill(i)
            self._ip("netns", "del", name)
        shutil.rmtree(self.ray, ignore_errors=True)


DRIVER = """
import json, sys, numpy as np, wolfpack
sys.path.insert(0, sys.argv[1])
from played import assert_sound, lasso
problem, stop = lasso(), sys.argv[2]

def callback(event):
    import os
    row = event.row
    found = [event.live.n_workers, row.n_oracle_calls, event.relative_gap]
    print("row", json.dumps(found), flush=True)
    return os.path.exists(stop)

result = wolfpack.solve(problem, engine=wolfpack.Ray("10.77.0.1:6379"), tol=0,
    max_epochs=np.inf, callback=callback)
assert_sound(problem, result.state)
print(result.status.name, result.relative_gap < 1e-3)
"""


class Watch:
    """Reads what the driver prints, in a thread."""

    def __init__(self, process):
        self.process, self.rows, self.lines = process, [], []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("row "):
                self.rows.append(json.loads(line[4:]))
            else:
                self.lines.append(line.strip())

    def wait(self, condition):
        """Wait for an event, and that calls are made meanwhile."""
        end = time.monotonic() + HANG_SECONDS
        while not (self.rows and condition(*self.rows[-1])):
            assert time.monotonic() < end, (self.rows[-3:], self.lines)
            assert self.process.poll() is None, self.lines
            time.sleep(0.1)
        return self.rows[-1][1]

    def go_on(self, calls=2000):
        """Wait until `calls` more oracle calls are made."""
        goal = self.rows[-1][1] + calls
        self.wait(lambda live, made, gap: made >= goal)


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(secrets.token_hex(32))
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}


def drive(hosts, stop):
    process = hosts.start(
        1, sys.executable, "-c", DRIVER, str(HERE), str(stop),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return Watch(process)


def test_a_link_is_cut_and_a_host_is_lost(tmp_path, token):
    hosts = Hosts(3, tmp_path, **token)
    try:
        for i in (1, 2, 3):
            hosts.start_ray(i)
        watch = drive(hosts, tmp_path / "stop")
        watch.wait(lambda live, calls, gap: live == 3 and calls > 1000)
        hosts.cut(2)
        watch.wait(lambda live, calls, gap: live == 2)
        watch.go_on()  # the others do not wait
        hosts.join(2)
        watch.wait(lambda live, calls, gap: live == 3)
        hosts.kill(3)
        watch.wait(lambda live, calls, gap: live == 2)
        watch.wait(lambda live, calls, gap: gap < 1e-3)
        (tmp_path / "stop").touch()
        assert watch.process.wait(HANG_SECONDS) == 0, watch.lines
        assert watch.lines[-1] == "STOPPED True"
    finally:
        hosts.close()


def test_an_open_cluster_of_two_hosts_is_refused(tmp_path):
    hosts = Hosts(2, tmp_path, RAY_AUTH_MODE="disabled")
    try:
        for i in (1, 2):
            hosts.start_ray(i)
        watch = drive(hosts, tmp_path / "stop")
        assert watch.process.wait(HANG_SECONDS) != 0
        time.sleep(0.5)
        text = "\n".join(watch.lines)
        assert "this Ray cluster has 2 hosts and asks for no token" in text
        assert "export RAY_AUTH_MODE=token" in text
        assert "export RAY_AUTH_TOKEN_PATH=" in text
    finally:
        hosts.close()


def test_a_wrong_token_is_refused_in_time(tmp_path, token):
    hosts = Hosts(1, tmp_path, **token)
    try:
        hosts.start_ray(1)
        Path(hosts.environment["RAY_AUTH_TOKEN_PATH"]).write_text("f" * 64)
        watch = drive(hosts, tmp_path / "stop")
        assert watch.process.wait(HANG_SECONDS) != 0
        time.sleep(0.5)
        assert "cannot join the Ray cluster at 10.77.0.1:6379" in "\n".join(watch.lines)
    finally:
        hosts.close()


def make_certificate(folder):
    """Return the variables of a certificate for all hosts, signed by itself."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    names = ",".join(f"IP:10.77.0.{i}" for i in (1, 2, 3))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=wolfpack",
         "-addext", f"subjectAltName={names},IP:127.0.0.1,DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(certificate),
        "RAY_TLS_SERVER_KEY": str(key),
        "RAY_TLS_CA_CERT": str(certificate),
    }


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate")
def test_everything_may_be_encrypted(tmp_path, token):
    hosts = Hosts(2, tmp_path, **token, **make_certificate(tmp_path))
    try:
        for i in (1, 2):
            hosts.start_ray(i)
        watch = drive(hosts, tmp_path / "stop")
        watch.wait(lambda live, calls, gap: live == 2 and gap < 1e-3)
        (tmp_path / "stop").touch()
        assert watch.process.wait(HANG_SECONDS) == 0, watch.lines
        del hosts.environment["RAY_USE_TLS"]
        watch = drive(hosts, tmp_path / "stop")
        assert watch.process.wait(HANG_SECONDS) != 0
        time.sleep(0.5)
        assert "cannot join the Ray cluster" in "\n".join(watch.lines)
    finally:
        hosts.close()
