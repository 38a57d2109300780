#!/bin/bash
# 1,000 scripts that read memory at random addresses, in sqlite3, java and programs with their own SIGSEGV handlers: what the programs print
# and how they end is what they do untraced, every script ends in error records, and none of them hurts. (S0.7)
# timeout: 400
. "$(dirname "$0")/lib.sh"
RANDOM=${PROBITY_SEED:-1}
echo "seed ${PROBITY_SEED:-1}"

# Addresses that no process has, or should not be read: unmapped, not canonical, the kernel's, near the ends; and some that are likely mapped.
address() {
    case $((RANDOM % 8)) in
    0) echo $((RANDOM % 64)) ;;
    1) printf '0xffff%04x%04x%04x' $RANDOM $RANDOM $RANDOM ;;
    2) printf '0x8000%04x%04x%04x' $RANDOM $RANDOM $RANDOM ;;
    3) printf '0x%04x%04x' $RANDOM $RANDOM ;;
    4) printf '0x7f%02x%04x%04x' $((RANDOM % 256)) $RANDOM $RANDOM ;;
    5) printf '0xfffffffffffffff%x' $((RANDOM % 16)) ;;
    6) printf '0xfffff%03x' $((RANDOM % 4096)) ;;
    7) printf '0x55%02x%04x%04x' $((RANDOM % 256)) $RANDOM $RANDOM ;;
    esac
}

# A script on FUNCTION of MODULE: one of several ways to read.
script() { # MODULE FUNCTION
    local a b
    a=$(address) b=$(address)
    case $((RANDOM % 7)) in
    0) echo "uprobe:$1:$2 { \$x = *(uint64 *)$a; @a = count(); }" ;;
    1) echo "uprobe:$1:$2 { @b[str($a)] = count(); }" ;;
    2) echo "uprobe:$1:$2 { printf(\"%r\\n\", buf($a, 64)); }" ;;
    3) echo "uprobe:$1:$2 { \$p = (struct node *)$a; @c = sum(\$p->next->next->value + \$p->bits); }" ;;
    4) echo "uretprobe:$1:$2 { \$x = *(uint8 *)(retval + $a); @d = max(\$x); }" ;;
    5) echo "uprobe:$1:$2 { \$x = *(uint32 *)(arg0 ^ $a); \$y = **(uint64 **)$b; @e = hist(\$y); }" ;;
    6) echo "uprobe:$1:$2 / (*(int16 *)$a) > 5 / { @f = lhist(*(int8 *)$b, 0, 100, 10); }" ;;
    esac
}

# COUNT scripts as one program, over the functions.
program() { # COUNT MODULE FUNCTION...
    local count=$1 module=$2 i
    shift 2
    echo 'struct node { struct node *next; int bits : 5; long value; };'
    for ((i = 0; i < count; i++)); do script "$module" "${@:$((RANDOM % $# + 1)):1}"; done
}

scripts=0
# The command's output and exit code under a program of COUNT scripts must be those it has alone.
unharmed() { # NAME COUNT MODULE FUNCTIONS COMMAND...
    local name=$1 count=$2 module=$3 functions=$4 code=0 traced=0
    shift 4
    [ -e "$work/$name.native" ] || { "$@" >"$work/$name.native" 2>/dev/null || echo "exit $?" >>"$work/$name.native"; }
    # shellcheck disable=SC2086
    program "$count" "$module" $functions >"$work/program.bt"
    run_probity trace -q -o "$work/printed" "$work/program.bt" -- "$@" >"$work/traced" 2>"$work/err" || traced=$?
    code=$(sed -n 's/^exit //p' "$work/$name.native")
    [ "$traced" = "${code:-0}" ] || { cp "$work/program.bt" "$build/log/trace_safety.bt"; fail "$name: exit code $traced instead of ${code:-0}: $(tail -n 3 "$work/err")"; }
    grep -v '^exit ' "$work/$name.native" | cmp -s - "$work/traced" || { cp "$work/program.bt" "$build/log/trace_safety.bt"; fail "$name: another output"; }
    grep -q 'can not read memory' "$work/err" || fail "$name: no error record"
    scripts=$((scripts + count))
}

cat >"$work/job.sql" <<'END'
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) insert into t select i, 'row ' || i, i / 7.0 from n;
select count(*), sum(a), round(sum(c), 6), max(b) from t where b like '%7%' group by a % 10 order by 2;
END
cat >"$work/Job.java" <<'END'
public class Job {
    static int depth(int[] a, int i) { try { return a[i] + a.length; } catch (NullPointerException | ArrayIndexOutOfBoundsException e) { return 1; } }
    public static void main(String[] args) {
        long sum = 0;
        for (int i = 0; i < 3000000; i++) sum = sum * 31 + depth(i % 70000 == 0 ? null : new int[]{i}, i % 3 == 0 ? 0 : 1);
        System.gc();
        System.out.println("result " + sum);
    }
}
END

rounds=$(scale 10 40)
for ((round = 0; round < rounds; round++)); do
    unharmed sqlite3 40 libsqlite3 'sqlite3_step sqlite3_column_text sqlite3_value_int sqlite3_free sqlite3_malloc' sqlite3 :memory: ".read $work/job.sql"
    for width in 64 32; do
        unharmed "v_altstack $width" 20 "$victims/$width/v_altstack" 'on_fault load' "$victims/$width/v_altstack" -n 200
    done
done
if command -v java >/dev/null; then
    (cd "$work" && javac Job.java)
    for ((round = 0; round < $(scale 4 12); round++)); do
        unharmed java 50 libjvm 'JVM_ArrayCopy JVM_IHashCode JVM_GC JVM_CurrentTimeMillis JVM_NanoTime JVM_FindLoadedClass JVM_GetClassModifiers JVM_FillInStackTrace' \
            java -Xmx128m -cp "$work" Job
    done
else
    echo "no java here"
fi
echo "$scripts scripts"
[ $scripts -ge 800 ] || fail "only $scripts scripts"
