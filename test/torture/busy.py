"""Threads, exceptions, signals, processes and C extensions, checked, for as many seconds as the argument says."""
import hashlib
import json
import os
import signal
import sys
import threading
import time

end = time.monotonic() + int(sys.argv[1])
requests = [0] * 5
alarms = 0


def wrong(what):
    print("wrong:", what, flush=True)
    os._exit(1)


def thrower(depth):
    if depth == 0:
        raise ValueError("deep")
    return thrower(depth - 1) + 1


def one_round(seed):
    try:
        thrower(seed % 100)
        wrong("no exception")
    except ValueError as error:
        if str(error) != "deep":
            wrong(error)
    data = {str(i): [i * seed, "x" * (i % 20)] for i in range(300)}
    if json.loads(json.dumps(data)) != data:
        wrong("JSON")
    if sum(i * i for i in range(1000)) != 332833500:
        wrong("sum of squares")
    if hashlib.sha256(b"abc" * 1000).hexdigest()[:8] != "328de8f1":
        wrong("sha256 " + hashlib.sha256(b"abc" * 1000).hexdigest())
    if sorted(range(500), key=lambda i: (i * 7919) % 503) != sorted(range(500), key=lambda i: (i * 7919) % 503):
        wrong("sort")


def work(number):
    seed = 0
    while time.monotonic() < end:
        seed += 1
        one_round(seed)
        requests[number] += 1


def on_alarm(*_):
    global alarms
    alarms += 1


signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
while time.monotonic() < end:
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, 0)
        one_round(3)
        os._exit(7)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7:
        wrong("a forked child")
    requests[4] += 1
    time.sleep(0.01)
for thread in threads:
    thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
if not alarms:
    wrong("no signals")
print("requests", sum(requests))
