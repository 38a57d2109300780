"""What `make torture` attaches to: servers with clients that check every answer, and programs that check themselves."""
import glob
import os
import subprocess
import time

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
apps, own, i386, victims = (f"{root}/build/{name}" for name in ("apps", "torture", "i386", "victim"))
made = f"{own}/made"
libraries = f"{own}/usr/lib/x86_64-linux-gnu"
libraries32 = f"{i386}/usr/lib/i386-linux-gnu:{i386}/lib/i386-linux-gnu"
erlang = f"{own}/usr/lib/erlang"
as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


class Target:
    """`asked` is a program that gets the seconds that it is to run in the place of SECONDS and ends with `requests N`; `server`, if there is
    one, has been started before, and is ended by SIGTERM. Attached to is the server with its children; without one, the program, or its
    children if it only asks."""

    def __init__(self, name, width, asked, server=None, environment=None, prepare=None, socket=None, only_asks=False):
        self.name, self.width, self.asked, self.server, self.prepare = name, width, asked, server, prepare
        self.environment, self.socket, self.only_asks = {**os.environ, **(environment or {})}, socket, only_asks

    def start(self, work, seconds):
        self.work, self.ended = work, False
        fill = lambda words: [word.replace("WORK", work).replace("SECONDS", str(seconds)) for word in words]
        self.output = open(f"{work}/output", "w+")
        self.daemon = None
        environment = {name: value.replace("SECONDS", str(seconds)) for name, value in self.environment.items()}
        if self.prepare:
            self.prepare(work, environment)
        if self.server:
            log = open(f"{work}/server.log", "w")
            self.daemon = subprocess.Popen(fill(self.server), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=work)
            wait_until(60, lambda: os.path.exists(fill([self.socket])[0]) or self.daemon.poll() is not None)
            if self.daemon.poll() is not None:
                raise RuntimeError(f"{self.name} does not start: {open(f'{work}/server.log').read()[-500:]}")
        self.program = subprocess.Popen(
            fill(self.asked), stdin=subprocess.DEVNULL, stdout=self.output, stderr=open(f"{work}/errors", "w"), env=environment, cwd=work
        )

    def pids(self):
        """What can be attached to now."""
        first = self.daemon.pid if self.daemon else self.program.pid
        below = descendants(first)
        return below if self.only_asks else [first] + below

    def is_over(self):
        return self.program.poll() is not None or (self.daemon is not None and self.daemon.poll() is not None)

    def end(self, patience):
        """Waits for the program, ends the server. Gives (requests, what is wrong or None, what died or None)."""
        died = None
        if not wait_until(patience, lambda: self.program.poll() is not None):
            died = f"{self.name} hangs: {states(self.pids() or [self.program.pid])}"
            self.program.kill()
        code = self.program.wait()
        if self.daemon:
            if self.daemon.poll() is not None:
                died = f"{self.name}: the server ended with {self.daemon.returncode}"
            else:
                self.daemon.terminate()
                if not wait_until(patience, lambda: self.daemon.poll() is not None):
                    died = died or f"{self.name}: the server does not end: {states(self.pids())}"
                    self.daemon.kill()
                elif self.daemon.returncode:
                    died = died or f"{self.name}: the server ends with {self.daemon.returncode}"
            self.daemon.wait()
        self.output.seek(0)
        lines = self.output.read().splitlines()
        requests = sum(int(line.split()[1]) for line in lines if line.startswith("requests "))
        wrong = next((line for line in lines if line.startswith("wrong: ")), None)
        if code and not wrong and not died:
            died = f"{self.name} ended with {code}: {tail(f'{self.work}/errors')}"
        if not code and not requests:
            wrong = wrong or "wrong: no requests"
        return requests, wrong, died


def wait_until(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def tail(path):
    with open(path, errors="replace") as file:
        lines = file.read().splitlines()
    return " | ".join(lines[:1] + lines[1:][-2:])[:400]


def descendants(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in file.read().split():
                    found += [int(child)] + descendants(int(child))
    except OSError:
        pass
    return found


def states(pids):
    lines = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status") as file:
                lines.append(" ".join(line.strip().replace("\t", "") for line in file if line.startswith(("Name", "Pid", "State", "TracerPid"))))
        except OSError:
            pass
    return "; ".join(lines)


def postgres_data(work, environment):
    os.chmod(work, 0o777)
    subprocess.run(
        [*as_nobody, f"{own}/usr/lib/postgresql/15/bin/initdb", "-D", f"{work}/data", "-U", "nobody", "-A", "trust", "--no-sync", "-E", "UTF8"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment,
        cwd=work,
    )


def mariadb_data(work, environment):
    os.makedirs(f"{work}/data/test")


def nginx_data(work, environment):
    os.makedirs(f"{work}/www")
    os.makedirs(f"{work}/tmp")
    os.chmod(work, 0o777)
    with open(f"{work}/www/file", "wb") as file:
        file.write(bytes(range(256)) * 40)
    temporary = " ".join(f"{kind}_temp_path {work}/tmp/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(f"{work}/nginx.conf", "w") as file:
        file.write(
            f"daemon off; worker_processes 2; pid {work}/nginx.pid; error_log stderr; events {{ worker_connections 64; }}\n"
            f"http {{ access_log off; {temporary} server {{ listen unix:{work}/socket; root {work}/www; gzip off; }} }}\n"
        )


def clients(kind, *place):
    return ["python3", f"{here}/clients.py", kind, "SECONDS", *place]


def victim(name, width, *arguments):
    return [f"{victims}/{width}/{name}", *arguments]


def all_targets():
    torture = {"LD_LIBRARY_PATH": libraries}
    narrow = {"LD_LIBRARY_PATH": libraries32, "PYTHONHOME": f"{i386}/usr"}
    erts = (glob.glob(f"{erlang}/erts-*/bin") or [""])[0]
    socket = "WORK/socket"
    postgres = [*as_nobody, f"{own}/usr/lib/postgresql/15/bin/postgres", "-D", "WORK/data", "-k", "WORK", "-c", "listen_addresses=", "-c", "fsync=off"]
    mariadb_client = [f"{own}/usr/bin/mariadb", "--no-defaults", "-N", "-B", "-n", "--socket", socket, "test"]
    mariadb = [f"{own}/usr/sbin/mariadbd", "--no-defaults", f"--basedir={own}/usr", "--datadir=WORK/data", "--skip-grant-tables"]
    mariadb += ["--skip-networking", f"--socket={socket}", "--user=root", f"--lc-messages-dir={own}/usr/share/mysql", "--innodb-fast-shutdown=2"]
    redis = [f"{made}/redis-server", "--port", "0", "--unixsocket", socket, "--dir", "WORK", "--save", "", "--daemonize", "no"]
    sbcl = [f"{own}/usr/bin/sbcl", "--noinform", "--no-userinit", "--no-sysinit", "--disable-debugger", "--non-interactive"]
    sbcl += ["--eval", "(require :sb-posix)", "--load", f"{here}/busy.lisp"]
    return [
        Target("redis", 64, clients("redis", socket), redis, socket=socket),
        Target("postgres", 64, clients("postgres", "WORK/.s.PGSQL.5432"), postgres, torture, postgres_data, "WORK/.s.PGSQL.5432"),
        Target("nginx", 64, clients("nginx", socket), [f"{apps}/usr/sbin/nginx", "-e", "stderr", "-p", "WORK", "-c", "WORK/nginx.conf"], None,
               nginx_data, socket),
        Target("memcached", 64, clients("memcached", socket), [f"{own}/usr/bin/memcached", "-s", socket, "-t", "4", "-u", "nobody"], torture,
               lambda work, _: os.chmod(work, 0o777), socket),
        Target("mariadb", 64, clients("sql", *mariadb_client), mariadb, torture, mariadb_data, socket),
        Target("java", 64, ["java", "-XX:-UsePerfData", "-cp", made, "Busy", "SECONDS"]),
        Target("node", 64, ["node", f"{here}/busy.js", "SECONDS"]),
        Target("python3", 64, ["python3", f"{here}/busy.py", "SECONDS"]),
        Target("python3", 32, [f"{i386}/usr/bin/python3.11", f"{here}/busy.py", "SECONDS"], environment=narrow),
        Target("ruby", 64, [f"{own}/usr/bin/ruby3.1", "--disable-gems", f"{here}/busy.rb", "SECONDS"],
               environment={**torture, "RUBYLIB": f"{own}/usr/lib/ruby/3.1.0:{libraries}/ruby/3.1.0"}),
        Target("php", 64, [f"{own}/usr/bin/php8.2", "-n", f"{here}/busy.php", "SECONDS"], environment=torture),
        Target("erlang", 64, [f"{erts}/erlexec", "-noshell", "-noinput", "-pa", made, "-run", "busy", "main", "SECONDS", "-s", "erlang", "halt"],
               environment={**torture, "ROOTDIR": erlang, "BINDIR": erts, "EMU": "beam", "PROGNAME": "erl"}),
        Target("sbcl", 64, sbcl, environment={"SBCL_HOME": f"{own}/usr/lib/sbcl", "SECONDS": "SECONDS"}),
        Target("go", 64, [f"{made}/go64", "SECONDS"]),
        Target("go", 32, [f"{made}/go32", "SECONDS"]),
        Target("C++", 64, [f"{made}/cc64", "SECONDS"]),
        Target("C++", 32, [f"{made}/cc32", "SECONDS"]),
        Target("sqlite3", 64, clients("sql", "sqlite3", ":memory:"), only_asks=True),
        Target("sqlite3", 32, clients("sql", f"{i386}/usr/bin/sqlite3", ":memory:"), environment={"LD_LIBRARY_PATH": libraries32}, only_asks=True),
    ]


def make():
    """Compiles what has to be compiled, once."""
    os.makedirs(made, exist_ok=True)
    machine = subprocess.run(["gcc", "-print-multiarch"], check=True, capture_output=True, text=True).stdout.strip()
    erts = (glob.glob(f"{erlang}/erts-*/bin") or [""])[0]
    compiled = [
        ("cc64", "busy.cc", ["g++", "-O2", "-g", "-o", f"{made}/cc64", f"{here}/busy.cc", "-pthread", "-ldl"], {}),
        ("cc32", "busy.cc", ["g++", "-m32", "-idirafter", f"/usr/include/{machine}", "-O2", "-g", "-o", f"{made}/cc32", f"{here}/busy.cc", "-pthread", "-ldl"], {}),
        ("go64", "busy.go", ["go", "build", "-o", f"{made}/go64", f"{here}/busy.go"], {}),
        ("go32", "busy.go", ["go", "build", "-o", f"{made}/go32", f"{here}/busy.go"], {"GOARCH": "386"}),
        ("Busy.class", "Busy.java", ["javac", "-d", made, f"{here}/Busy.java"], {}),
        ("busy.beam", "busy.erl", [f"{erts}/erlexec", "-noshell", "-noinput", "-eval", f'{{ok, _}} = compile:file("{here}/busy", [report, {{outdir, "{made}"}}]), halt().'],
         {"LD_LIBRARY_PATH": libraries, "ROOTDIR": erlang, "BINDIR": erts, "EMU": "beam", "PROGNAME": "erl"}),
    ]
    for name, source, command, environment in compiled:
        if not os.path.exists(f"{made}/{name}") or os.path.getmtime(f"{made}/{name}") < os.path.getmtime(f"{here}/{source}"):
            subprocess.run(command, check=True, env={**os.environ, **environment}, cwd=made)
    if not os.path.lexists(f"{made}/redis-server"):
        os.symlink(f"{apps}/usr/bin/redis-check-rdb", f"{made}/redis-server")
