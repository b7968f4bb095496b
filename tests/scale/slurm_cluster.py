"""A Slurm cluster of one node on this machine, for a test: controller and node as processes of the test, nothing installed or enabled."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

from conftest import free_port

#: What it is made of, in Debian's slurm-wlm and munge.
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue")


class Cluster:
    """Starts it, and ends it with `stop()`. `environment` is what clients need."""

    def __init__(self, folder: pathlib.Path, cpus: int = 2) -> None:
        self.folder, self.processes = folder, []
        # Paths of sockets are short, and munge wants folders that nobody else may write in.
        self.run = pathlib.Path(f"/run/belljar-slurm-{os.getpid()}")
        self.run.mkdir(mode=0o755)
        name = socket.gethostname()
        key = self.run / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        munge = self.run / "munge.socket"
        for made in ("state", "spool"):
            (self.run / made).mkdir()
        (self.run / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={munge}
CredType=cred/munge
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
StateSaveLocation={self.run}/state
SlurmdSpoolDir={self.run}/spool
SlurmctldPidFile={self.run}/slurmctld.pid
SlurmdPidFile={self.run}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
JobRequeue=0
MpiDefault=none
SwitchType=switch/none
NodeName={name} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={name} Default=YES MaxTime=60 State=UP
""")
        self.environment = {"SLURM_CONF": str(self.run / "slurm.conf")}
        self._start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}", f"--pid-file={self.run}/munged.pid",
                    f"--log-file={self.run}/munged.log", f"--seed-file={self.run}/munged.seed", "--num-threads=2")
        self._until(munge.exists, "munged")
        self._start("slurmctld", "-D", "-f", str(self.run / "slurm.conf"))
        self._start("slurmd", "-D", "-f", str(self.run / "slurm.conf"), "-N", name)
        self._until(lambda: "idle" in self._said("sinfo", "-h", "-o", "%T"), "the node")

    def _start(self, program: str, *arguments: str) -> None:
        log = (self.folder / f"{program}.log").open("ab")
        self.processes.append(subprocess.Popen([shutil.which(program) or program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                               env={**os.environ, **self.environment}))

    def _said(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.environment}, timeout=600).stdout

    def _until(self, there, what: str, patience: float = 300.0) -> None:
        end = time.monotonic() + patience
        while not there():
            if time.monotonic() > end:
                logs = "\n".join(f.read_text(errors="replace")[-1500:] for f in sorted(self.folder.glob("*.log")))
                self.stop()
                raise RuntimeError(f"{what} does not come up:\n{logs}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends what was started, in the opposite order."""
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.run, ignore_errors=True)
