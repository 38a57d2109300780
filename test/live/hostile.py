"""hostile.py CONTROLLER WORK COUNT [FIRST]: what test/live/hostile.sh does, with seeds FIRST to FIRST + COUNT - 1, several at a time. A seed stands
for what the process does, its width and user, and the mode of probity. In WORK are v_hostile and v_hostile-small, in 64 and in 32."""
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

controller, work, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
first = int(sys.argv[4]) if len(sys.argv) > 4 else 1
AT_ONCE = 4
SECONDS = 0.6  # that the controller is asked to run
BOUND = 240  # and may take in all, under sanitizers and on a machine that has other work to do
KILOBYTES = 3 << 20  # of memory that it may have at a time
CODES = set(range(0, 10))
victims = {(width, kind): f"{work}/{width}/v_hostile{kind}" for width in (64, 32) for kind in ("", "-small")}
deeds = subprocess.run([victims[64, ""], "list"], capture_output=True, text=True, check=True).stdout.split()
failed, lock, turn, codes, slowest = [], threading.Lock(), iter(range(first, first + count)), {}, (0.0, "")


def script(victim, period):
    return (
        f"uprobe:{victim}:hostile_work {{ printf(\"%d %s %s\\n\", arg0, str(arg1), ustack(5)); @[tid, arg0 % 50] = count(); @h = hist(arg0);"
        " @s[ustack] = count(); @t[str(arg1)] = sum(arg0); @v[arg0 % 9] = arg0; delete(@[tid, (arg0 + 1) % 50]); }"
        f" uretprobe:{victim}:hostile_work {{ @r[retval % 3] = stats(retval); @a = avg(retval); @m = min(retval); }}"
        " interval:ms:50 { print(@h); print(@s); clear(@s); @i++; @v[@i % 3] = 5; for ($kv : @v) { @c[$kv.0] = $kv.1; } printf(\"%d\\n\", len(@v)); }"
        f" interval:ms:{period} {{ exit(); }} END {{ printf(\"end\\n\"); zero(@h); }}"
    )


def arguments(mode, pid, victim, folder):
    calls = ["--calls", f"{victim}:*", "--calls", "libc:*alloc*"]
    seconds = str(SECONDS)
    period = int(SECONDS * 1000)
    if mode == "count":
        return ["count", "-p", pid, "-i", "0.1", "-d", seconds, f"{victim}:*", f"{victim}:*:return", "libc:*alloc*"]
    if mode == "trace":
        return ["trace", "-p", pid, "-e", script(victim, period)]
    if mode == "lossless":
        return ["trace", "--lossless", "-p", pid, "-e", script(victim, period)]
    if mode == "record":
        return ["record", "-o", f"{folder}/t", "-p", pid, "-d", seconds, *calls, "--metric", f"b={victim}:hostile_work:arg0", "-F", "200"]
    if mode == "live":
        return ["record", "--live-tree", "-o", f"{folder}/t", "-p", pid, "-d", seconds, *calls, "--climb", "--clock", "wall"]
    if mode == "stacks":
        return ["record", "-o", f"{folder}/t", "-p", pid, "-d", seconds, "--stacks-at", f"{victim}:hostile_work"]
    return ["climb", "-p", pid, "-d", seconds, "--metric", f"b={victim}:hostile_work:arg0" if mode == "climb_value" else "wall"]


MODES = ["count", "trace", "lossless", "record", "live", "stacks", "climb", "climb_value"]


def files(folder):
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            status = os.lstat(file)
            found[file] = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns)
    return found


def hash_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def left_over(session):
    """Processes of a session that execute the controller."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(controller) and os.getsid(int(pid)) == session:
                found.append(pid)
        except OSError:
            pass
    return found


def end_session(session):
    try:
        os.killpg(session, signal.SIGKILL)
    except OSError:
        pass


def wait_for(process):
    """Exit code, None when it had to be killed, and what it used."""
    deadline = time.monotonic() + BOUND
    pid = 0
    while not pid and time.monotonic() < deadline:
        time.sleep(0.01)
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if not pid:
        os.kill(process.pid, signal.SIGABRT)
        status, usage = os.wait4(process.pid, 0)[1:]
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode if pid else None, usage


def start_victim(deed, seed, victim, is_other, folder):
    # Whoever asks to be traced is traced by its parent: not by us.
    command = ["sh", "-c", '"$0" "$@" & wait', victim, deed, str(seed), "120000"]
    if is_other:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    with open(f"{folder}/victim", "w") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/")
    while process.poll() is None:
        with open(f"{folder}/victim") as text:
            for line in text:
                if line.startswith("ready ") and line.endswith("\n"):
                    return process, line.split()[1]
        time.sleep(0.01)
    raise RuntimeError("the hostile program ended at once")


def run(seed):
    chance = random.Random(seed)
    deed = deeds[seed % len(deeds)]
    mode = MODES[(seed % len(deeds) + seed // len(deeds)) % len(MODES)]
    width = chance.choice((64, 32))
    is_other = os.getuid() == 0 and chance.random() < 0.5
    program = victims[width, "-small" if deed == "stacks" or chance.random() < 0.25 else ""]
    folder = f"{work}/seed-{seed}"
    os.mkdir(folder)
    own = f"{folder}/own"
    os.mkdir(own)
    victim, pid = start_victim(deed, seed, program, is_other, folder)
    what = f"seed {seed}: {mode} against {deed}, {width} bit, {os.path.basename(program)}, {'another user' if is_other else 'the same user'}"
    problems, start = [], time.monotonic()
    with open(f"{folder}/out", "wb") as out, open(f"{folder}/err", "wb") as err:
        tracer = subprocess.Popen(
            [controller, *arguments(mode, pid, program, own)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, cwd=own)
        code, usage = wait_for(tracer)
    took = time.monotonic() - start
    if code is None:
        problems.append(f"did not end in {BOUND} s")
    elif left_over(tracer.pid):
        problems.append(f"left processes {' '.join(left_over(tracer.pid))}")
    if usage.ru_maxrss > KILOBYTES:
        problems.append(f"took {usage.ru_maxrss} KB of memory")
    end_session(tracer.pid)
    end_session(victim.pid)
    victim.wait()
    with open(f"{folder}/err", "rb") as err:
        text = err.read()
    if code is not None and code not in CODES:
        problems.append(f"exit code {code}")
    if b"Sanitizer" in text or b"runtime error" in text:
        problems.append("a sanitizer's report")
    strange = [file for file in files(own) if not file.startswith(f"{own}/t/")]
    if strange:
        problems.append(f"files {strange}")
    with lock:
        global slowest
        slowest = max(slowest, (took, what))
        codes[code] = codes.get(code, 0) + 1
        if took > 20:
            print(f"{what}: took {took:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s of the processor", flush=True)
        if problems:
            failed.append(seed)
            print(f"{what}: {'; '.join(problems)}\n{text[:6000].decode(errors='replace')}", flush=True)
    if not problems:
        subprocess.run(["rm", "-rf", folder], check=True)


def work_through():
    while True:
        with lock:
            seed = next(turn, None)
        if seed is None:
            return
        try:
            run(seed)
        except Exception as problem:  # the other seeds are worth running
            with lock:
                failed.append(seed)
                print(f"seed {seed}: {problem!r}", flush=True)


before = {path: hash_of(path) for path in [controller, *victims.values()]}
workers = [threading.Thread(target=work_through) for _ in range(AT_ONCE)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
for path, value in before.items():
    if hash_of(path) != value:
        failed.append(path)
        print(f"{path} has changed")
print(f"{count} seeds, exit codes {dict(sorted(codes.items(), key=str))}, the longest took {slowest[0]:.1f} s ({slowest[1]}); failed: {failed or 'none'}")
sys.exit(1 if failed else 0)
