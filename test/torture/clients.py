#!/usr/bin/env python3
"""clients.py KIND SECONDS PLACE...: asks a server, or a program on pipes, and checks every answer. Prints `requests N`, or `wrong: ...` and
ends with 1. redis, memcached, nginx, postgres: PLACE is a socket. sql: PLACE is the command of a program that reads statements."""
import hashlib
import multiprocessing
import os
import random
import socket
import struct
import subprocess
import sys
import time

PATIENCE = 120  # seconds without an answer that make one wrong


class Wrong(Exception):
    pass


def expect(what, found, expected):
    if found != expected:
        raise Wrong(f"{what}: {found!r} instead of {expected!r}"[:400])


def connect(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(path)
    return connection, connection.makefile("rb")


def redis(path, going, dice):
    connection, answers = connect(path)

    def ask(*words):
        words = [str(word).encode() for word in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def answer():
        line = answers.readline()
        if line[:1] in b"+:":
            return line[1:-2].decode()
        if line[:1] == b"$":
            return answers.read(int(line[1:]) + 2)[:-2].decode()
        if line[:1] == b"*":
            return [answer() for _ in range(int(line[1:]))]
        raise Wrong(f"redis answers {line!r}")

    me, count = f"{os.getpid()}:", 0
    while going():
        key, value = me + str(dice.randrange(50)), hashlib.sha256(str(count).encode()).hexdigest() * dice.randrange(1, 60)
        connection.sendall(
            ask("SET", key, value)
            + ask("GET", key)
            + ask("DEL", me + "l")
            + ask("RPUSH", me + "l", *range(20))
            + ask("LRANGE", me + "l", 5, 9)
            + ask("EVAL", "local s=0 for i=1,50 do s=s+i*tonumber(ARGV[1]) end return s", 0, count)
            + ask("INCRBY", me + "n", 3)
        )
        found = [answer() for _ in range(7)]
        expect("redis", found[:2] + found[3:6], ["OK", value, "20", [str(i) for i in range(5, 10)], str(1275 * count)])
        count += 1
        expect("redis counts", found[6], str(3 * count))
    return count * 7


def memcached(path, going, dice):
    connection, answers = connect(path)
    count = 0
    while going():
        key, value = f"{os.getpid()}-{dice.randrange(100)}".encode(), bytes([65 + dice.randrange(26)]) * dice.randrange(1, 5000)
        connection.sendall(b"set %s 0 0 %d\r\n%s\r\nget %s\r\ndelete %s\r\n" % (key, len(value), value, key, key))
        expect("memcached", answers.readline(), b"STORED\r\n")
        line = answers.readline()
        expect("memcached", line, b"VALUE %s 0 %d\r\n" % (key, len(value)))
        expect("memcached", answers.read(len(value) + 7), value + b"\r\nEND\r\n")
        expect("memcached", answers.readline(), b"DELETED\r\n")
        count += 3
    return count


def nginx(path, going, dice):
    body, count = bytes(range(256)) * 40, 0
    while going():
        connection, answers = connect(path)
        for _ in range(20):
            low = dice.randrange(len(body))
            connection.sendall(b"GET /file HTTP/1.1\r\nHost: x\r\nRange: bytes=%d-\r\n\r\n" % low)
            expect("nginx", answers.readline()[:12], b"HTTP/1.1 206")
            while answers.readline() != b"\r\n":
                pass
            expect("nginx", answers.read(len(body) - low), body[low:])
            count += 1
        connection.close()
    return count


def postgres(path, going, dice):
    connection, answers = connect(path)

    def message():
        kind, size = struct.unpack("!cI", answers.read(5))
        return kind, answers.read(size - 4)

    def ready(rows):
        while True:
            kind, body = message()
            if kind == b"E":
                raise Wrong(f"postgres: {body!r}")
            if kind == b"D":
                columns, at = [], 2
                for _ in range(struct.unpack("!H", body[:2])[0]):
                    size = struct.unpack("!i", body[at : at + 4])[0]
                    columns.append(body[at + 4 : at + 4 + size].decode())
                    at += 4 + size
                rows.append(columns)
            if kind == b"Z":
                return rows

    def query(text):
        data = text.encode() + b"\0"
        connection.sendall(b"Q" + struct.pack("!I", len(data) + 4) + data)
        return ready([])

    start = struct.pack("!I", 196608) + b"user\0nobody\0database\0postgres\0\0"
    connection.sendall(struct.pack("!I", len(start) + 4) + start)
    ready([])
    me, count = f"t{os.getpid()}", 0
    query(f"create temporary table {me} (k integer primary key, v text)")
    while going():
        n = dice.randrange(1, 500)
        expect("postgres", query(f"select sum(x * {n}) from generate_series(1, 1000) as x"), [[str(500500 * n)]])
        query(f"begin; insert into {me} select x, md5(x::text) from generate_series(1, {n}) as x; commit")
        expect("postgres", query(f"select count(*), max(k), min(length(v)) from {me}"), [[str(n), str(n), "32"]])
        query(f"delete from {me}")
        query("do $$ begin perform 1 / 0; exception when division_by_zero then null; end $$")
        count += 5
    return count


def sql(command, going, dice):
    """A statement's answer is what it prints before the line that it is asked for next."""
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    count = 0

    def query(text):
        program.stdin.write(f"{text};\nselect 'end of answer';\n")
        program.stdin.flush()
        rows = []
        while (line := program.stdout.readline()) != "end of answer\n":
            if not line:
                raise Wrong(f"{command[0]} ended: {program.wait()}")
            rows.append(line.strip())
        return rows

    me = f"t{os.getpid()}"
    query(f"create temporary table {me} (k integer primary key, v varchar(100))")
    series = "with recursive c(x) as (select 1 union all select x + 1 from c where x < 900) select"
    while going():
        n = dice.randrange(1, 900)
        expect(command[0], query(f"{series} sum(x * {n}) from c"), [str(405450 * n)])
        query(f"insert into {me} with recursive c(x) as (select 1 union all select x + 1 from c where x < {n}) select x, hex(x) from c")
        expect(command[0], query(f"select count(*) + max(k) from {me} where v like '%'"), [str(2 * n)])
        query(f"delete from {me}")
        count += 4
    program.stdin.close()
    program.stdout.close()
    if program.wait():
        raise Wrong(f"{command[0]} ended with {program.returncode}")
    return count


def run(kind, seconds, place, seed, results):
    end = time.monotonic() + seconds
    try:
        results.put(kind(place, lambda: time.monotonic() < end, random.Random(seed)))
    except (Wrong, OSError, struct.error, ValueError) as error:
        results.put(f"{type(error).__name__}: {error}")


def main():
    name, seconds, *place = sys.argv[1:]
    kind = {"redis": redis, "memcached": memcached, "nginx": nginx, "postgres": postgres, "sql": sql}[name]
    results = multiprocessing.Queue()
    clients = 1 if kind is sql else 3
    process = [
        multiprocessing.Process(target=run, args=(kind, int(seconds), place if kind is sql else place[0], seed, results)) for seed in range(clients)
    ]
    for one in process:
        one.start()
    found = [results.get() for _ in process]
    for one in process:
        one.join()
    wrong = [one for one in found if isinstance(one, str)]
    if wrong:
        print("wrong:", wrong[0])
        sys.exit(1)
    print("requests", sum(found))


main()
