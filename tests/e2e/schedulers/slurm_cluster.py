"""A Slurm of one machine: munged, slurmctld and slurmd, with folders and ports of their own."""
import os
import pathlib
import shutil
import socket
import subprocess

from programs import PATIENCE_S, stop_all, wait_until

PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def missing():
    """Why there can be no cluster here; empty where there can be one."""
    if os.geteuid() != 0:
        return "Slurm's daemons run as root here"
    for name in ("munged", "slurmctld", "slurmd", "sbatch"):
        if shutil.which(name, path=PATH) is None:
            return f"there is no {name}: ops/setup --tests installs Slurm"
    return ""


class Slurm:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []
        self.settings = self.folder / "slurm.conf"
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.settings)}

    def start(self):
        for name in ("munge", "state", "spool", "log"):
            (self.folder / name).mkdir()
        munge = self.folder / "munge"
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        # It wants folders that nobody else may write, also above; a test's folder may not be so.
        self.launch("munged", "--foreground", "--force", f"--socket={munge}/socket",
                    f"--key-file={munge}/key", f"--pid-file={munge}/pid",
                    f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        wait_until((munge / "socket").exists, "munged's socket")
        controller, node = free_ports(2)
        host = socket.gethostname().partition(".")[0]
        self.settings.write_text(f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge}/socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=5
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=UNLIMITED State=UP
""")
        (self.folder / "gres.conf").write_text("AutoDetect=off\nName=gpu File=/dev/null\n")
        self.launch("slurmctld", "-D", "-f", str(self.settings))
        self.launch("slurmd", "-D", "-f", str(self.settings), "-N", host)
        wait_until(lambda: self.ask("sinfo", "-h", "-o", "%t").strip() == "idle", "the node",
                   seconds=PATIENCE_S)

    def launch(self, name, *words):
        log = open(self.folder / f"{name}.log", "ab")
        self.processes.append(subprocess.Popen([shutil.which(name, path=PATH), *words], stdout=log,
                                               stderr=log, env=self.environment))

    def ask(self, *words, **options):
        done = subprocess.run(words, text=True, capture_output=True, check=False,
                              timeout=PATIENCE_S, env=self.environment, **options)
        return done.stdout + done.stderr

    def state(self, job):
        """Of a job that ended within the last minutes, too."""
        told = self.ask("scontrol", "show", "job", job)
        return told.partition("JobState=")[2].partition(" ")[0], \
            told.partition("ExitCode=")[2].partition("\n")[0].strip()

    def stop(self):
        self.ask("scancel", "--user=root")
        stop_all(self.processes, 20)
