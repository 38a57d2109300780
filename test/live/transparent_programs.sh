#!/bin/bash
# A probe on every patchable function entry and return of real programs and their libraries: output and exit code are byte-identical.
# (S2.2, S2.6)
# timeout: 420
. "$(dirname "$0")/lib.sh"

input=$work/input
awk 'BEGIN { srand(7); for (i = 0; i < 4000; i++) printf "%d line %08x %s\n", i, rand() * 4294967296, substr("the quick brown fox jumps", rand() * 20) }' >"$input"

cat >"$work/job.sql" <<'END'
create table t(id integer primary key, name text, value real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) insert into t select i, 'name' || (i * 7919 % 1000), i * 0.5 from n;
create index t_name on t(name);
select count(*), sum(value), min(name), max(name) from t;
select name, count(*) c, avg(value) from t group by name having c > 2 order by name desc limit 20;
select json_group_array(id) from (select id from t where name like 'name9%' order by value desc limit 50);
update t set value = value + 1 where id % 3 = 0;
delete from t where id % 7 = 0;
select total(value), group_concat(id, '-') from (select * from t order by id limit 30);
select * from no_such_table;
END
cat >"$work/job.sh" <<'END'
declare -A map
for ((i = 0; i < 300; i++)); do map[k$((i % 17))]+=$i,; done
for k in "${!map[@]}"; do echo "$k=${map[$k]}"; done | sort
f() { local n=$1; if ((n < 2)); then echo "$n"; else echo $(($(f $((n - 1))) + $(f $((n - 2))))); fi; }
f 7
printf '%s\n' {a..e}{1..3} | while read -r x; do echo "${x^^}:${#x}:${x/a/z}"; done
trap 'echo caught' USR1; kill -USR1 $$
(exit 9); echo "sub $?"
cat <<< "here $(echo nested $(echo deeper))"
[[ "foo123bar" =~ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
exit 3
END
cat >"$work/job.pl" <<'END'
my %h; open(my $f, '<', $ARGV[0]) or die;
while (<$f>) { my ($n, $w) = /^(\d+) line ([0-9a-f]+)/ or next; $h{substr($w, 0, 1)} += $n; }
printf "%s %d\n", $_, $h{$_} for sort keys %h;
my @s = sort { $a <=> $b } map { ($_ * 7919) % 1009 } 1 .. 500; print join(',', @s[0 .. 20]), "\n";
eval { die { code => 7 } }; print "died $@->{code}\n";
print unpack('%32C*', pack('N*', 1 .. 100)), "\n", join('', reverse split //, "transparent"), "\n";
local $SIG{ALRM} = sub { print "alarm\n" }; kill ALRM => $$;
my $pid = fork; if (!$pid) { exit 5 } waitpid $pid, 0; print $? >> 8, "\n";
exit 4;
END
cat >"$work/job.py" <<'END'
import hashlib, json, re, sys, threading, zlib
data = open(sys.argv[1], 'rb').read()
print(hashlib.sha256(data).hexdigest(), zlib.crc32(zlib.compress(data)))
print(len(re.findall(rb'qu[a-z]+', data)), json.dumps({str(i): [i, i / 3] for i in range(20)}, sort_keys=True))
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
out = []
threads = [threading.Thread(target=lambda k=k: out.append((k, fib(12 + k)))) for k in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(out))
try:
    raise KeyError('x')
except KeyError as e:
    print(repr(e), 2 ** 200 % 1000007)
sys.exit(6)
END

# Runs the command alone and under probity; both must do the same. The counts, printed after the command's output, must be many.
same() { # NAME COMMAND...
    local name=$1 code=0 expected=0 size
    shift
    "$@" >"$work/expected" 2>"$work/expected.err" </dev/null || expected=$?
    run_probity count --json '*:*' '*:*:return' -- "$@" >"$work/found" 2>"$work/found.err" </dev/null || code=$?
    [ $code = $expected ] || fail "$name: exit code $code instead of $expected: $(tail -n 3 "$work/found.err")"
    size=$(stat -c %s "$work/expected")
    head -c "$size" "$work/found" | cmp - "$work/expected" || fail "$name: other output"
    tail -c +$((size + 1)) "$work/found" >"$work/counts"
    ! grep -qv '^{.*}$' "$work/counts" || fail "$name: more output than alone: $(grep -v '^{.*}$' "$work/counts" | head -n 3)"
    [ "$(total_of "$work/counts")" -gt 1000 ] || fail "$name: only $(total_of "$work/counts") hits"
    while read -r line; do
        grep -qF -- "$line" "$work/found.err" || fail "$name: this is missing on stderr: $line"
    done <"$work/expected.err"
    echo "$name: $(wc -l <"$work/counts") points hit $(total_of "$work/counts") times"
}

export PERL_HASH_SEED=0 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
programs() { # NAME-SUFFIX SQLITE3 BASH PERL PYTHON GZIP OPENSSL XZ
    attempt same "sqlite3$1" "$2" :memory: ".read $work/job.sql"
    attempt same "bash$1" "$3" "$work/job.sh"
    attempt same "perl$1" "$4" "$work/job.pl" "$input"
    attempt same "python3$1" "$5" "$work/job.py" "$input"
    attempt same "gzip$1" "$6" -9nc "$input"
    attempt same "openssl digest$1" "$7" dgst -sha512 "$input"
    attempt same "openssl cipher$1" "$7" enc -aes-256-cbc -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff -iv 000102030405060708090a0b0c0d0e0f -a -in "$input"
    attempt same "xz$1" "$8" -zc "$input"
}

programs "" "$(command -v sqlite3)" "$(command -v bash)" "$(command -v perl)" "$python" "$(command -v gzip)" "$(command -v openssl)" \
    "$(command -v xz)"
attempt same "busybox, static" busybox sh -c 'for i in 1 2 3; do echo $i | sed s/2/two/; done; exit 8'

if [ -x "$i386/bin/bash" ]; then
    export LD_LIBRARY_PATH=$i386_libraries PYTHONHOME=$i386/usr OPENSSL_CONF=/dev/null
    perl_library=$i386/usr/lib/i386-linux-gnu/perl-base
    export PERL5LIB=$perl_library
    programs " (32-bit)" "$i386/usr/bin/sqlite3" "$i386/bin/bash" "$i386/usr/bin/perl" "$i386/usr/bin/python3.11" "$i386/bin/gzip" \
        "$i386/usr/bin/openssl" "$i386/usr/bin/xz"
else
    fail "no 32-bit programs in build/i386: tool/install-deps.sh --test fetches them"
fi
exit $failed
