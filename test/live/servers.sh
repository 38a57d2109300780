#!/bin/bash
# Servers under load, redis and nginx with a master and two workers, with probes on everything coming and going: every answer is right. (S2.2)
# timeout: 180
. "$(dirname "$0")/lib.sh"
apps=$root/build/apps
[ -x "$apps/usr/sbin/nginx" ] || fail "no servers in build/apps: tool/install-deps.sh --test fetches them"

# Asks the servers until told to stop, checks every answer, then prints how many there were.
cat >"$work/client.py" <<'END'
import hashlib, os, socket, sys
kind, path, stop = sys.argv[1:]
body = bytes(range(256)) * 40
asked = 0
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(path)
    return s, s.makefile("rb")
while not os.path.exists(stop):
    s, f = connect()
    for i in range(50):
        if kind == "redis":
            key = b"k%d" % (i % 7)
            value = hashlib.sha256(b"%d" % i).hexdigest().encode()
            s.sendall(b"SET %s %s\r\nGET %s\r\nINCR n%d\r\nDEL n%d\r\n" % (key, value, key, os.getpid(), os.getpid()))
            answer = [f.readline() for _ in range(5)]
            assert answer == [b"+OK\r\n", b"$64\r\n", value + b"\r\n", b":1\r\n", b":1\r\n"], answer
        else:
            s.sendall(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n")
            assert f.readline().startswith(b"HTTP/1.1 200"), "status"
            while f.readline() != b"\r\n":
                pass
            assert f.read(len(body)) == body, "body"
        asked += 1
    s.close()
assert asked > 0
print(asked)
END

under_load() { # NAME SOCKET PID...
    local name=$1 socket=$2 i pid client options=() code=0
    shift 2
    rm -f "$work/stop"
    python3 "$work/client.py" "$name" "$socket" "$work/stop" >"$work/asked" 2>"$work/client.err" &
    client=$!
    started+=("$client")
    for pid in "$@"; do options+=(-p "$pid"); done
    for ((i = 0; i < $(scale 4 60); i++)); do
        run_probity count --json -d 0.5 "${options[@]}" '*:*' '*:*:return' >"$work/json" 2>"$work/err" || fail "$name: $(cat "$work/err")"
        [ "$(total_of "$work/json")" -gt 100 ] || fail "$name: only $(total_of "$work/json") hits"
        alive "$client" || fail "$name gave a wrong answer: $(tail -n 2 "$work/client.err")"
    done
    touch "$work/stop"
    wait "$client" || code=$?
    [ $code = 0 ] || fail "$name gave a wrong answer: $(tail -n 2 "$work/client.err")"
    for pid in "$@"; do
        alive "$pid" || fail "$name: process $pid died"
        text_is_the_files "$pid"
    done
    echo "$name: $(cat "$work/asked") requests, $(total_of "$work/json") hits in the last half second"
}

chmod 777 "$work"
(exec -a redis-server "$apps/usr/bin/redis-check-rdb" --port 0 --unixsocket "$work/redis" --dir "$work" --save '' --daemonize no) >"$work/redis.log" 2>&1 &
redis=$!
started+=("$redis")
wait_until 20 test -S "$work/redis" || fail "redis does not start: $(tail -n 3 "$work/redis.log")"
under_load redis "$work/redis" "$redis"
kill -TERM "$redis"
wait "$redis" || fail "redis ends with $?"

mkdir -p "$work/www" "$work/tmp"
python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 40)' >"$work/www/file"
chmod -R a+rX "$work"
cat >"$work/nginx.conf" <<END
daemon off;
worker_processes 2;
pid $work/nginx.pid;
error_log stderr;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path $work/tmp/body; proxy_temp_path $work/tmp/proxy; fastcgi_temp_path $work/tmp/fastcgi;
    uwsgi_temp_path $work/tmp/uwsgi; scgi_temp_path $work/tmp/scgi;
    server { listen unix:$work/nginx; root $work/www; gzip off; }
}
END
"$apps/usr/sbin/nginx" -e stderr -p "$work" -c "$work/nginx.conf" 2>"$work/nginx.log" &
nginx=$!
started+=("$nginx")
workers() { mapfile -t worker < <(cat "/proc/$nginx/task/$nginx/children" 2>/dev/null | tr ' ' '\n' | grep .); [ ${#worker[@]} = 2 ] && [ -S "$work/nginx" ]; }
wait_until 20 workers || fail "nginx does not start: $(tail -n 3 "$work/nginx.log")"
started+=("${worker[@]}")
under_load nginx "$work/nginx" "$nginx" "${worker[@]}"
kill -QUIT "$nginx"
wait "$nginx" || fail "nginx ends with $?"
