#!/bin/bash
# `record --calls '*'` counts exactly as many calls of each function of sqlite3, its libraries and libc as callgrind does, in a 64-bit and a
# 32-bit program (S4.1). Both run the same program on the same processor features: valgrind's object is preloaded in both, and libc is told
# to choose the plainest of its functions, since valgrind's processor is not this one.
# timeout: 240
. "$(dirname "$0")/lib.sh"
command -v valgrind >/dev/null || skip "valgrind is not installed"

features=()
for feature in AVX AVX2 AVX512F AVX512VL AVX512BW ERMS FSRM RTM SSE4_2 SSE4_1 SSSE3 BMI2 MOVBE LZCNT POPCNT FMA FMA4 AVX_Fast_Unaligned_Load \
    Fast_Unaligned_Load Fast_Unaligned_Copy Fast_Copy_Backward Fast_Rep_String Prefer_ERMS Prefer_FSRM Prefer_PMINUB_for_stringop Slow_BSF; do
    features+=("-$feature")
done
export LD_BIND_NOW=1 GLIBC_TUNABLES=glibc.cpu.hwcaps=$(IFS=, && echo "${features[*]}")

cat >"$work/job.sql" <<'SQL'
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 2400)
  insert into t select i, printf('row %d', i * 7919 % 1000), i * 0.5 from n;
create index tb on t(b);
select count(*), sum(length(b)), avg(c) from t;
select b, count(*) from t group by b order by 2 desc, 1 limit 5;
delete from t where a % 7 = 0;
update t set c = c * 2 where b like 'row 1%';
select sum(c) from t where b glob '*[0-4]';
SQL

# env sets what only the program shall see: it is 32-bit where probity and valgrind are not.
compare() { # PRELOADED LIBRARY-PATH COMMAND...
    local preloaded=$1 libraries=$2 name=$3
    shift 2
    LD_LIBRARY_PATH=$libraries timeout -k 5 120 valgrind -q --tool=callgrind --dump-instr=yes --collect-jumps=yes --compress-pos=no \
        --compress-strings=no --callgrind-out-file="$work/callgrind.out" "$@" <"$work/job.sql" >"$work/callgrind.stdout" ||
        fail "valgrind does not run $name"
    ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD=$preloaded LD_LIBRARY_PATH=$libraries run_probity record -v -o "$work/trace" --calls '*' -- "$@" \
        <"$work/job.sql" >"$work/traced.stdout" 2>"$work/messages" || fail "$name does not run: $(tail -n 3 "$work/messages")"
    cmp "$work/callgrind.stdout" "$work/traced.stdout" || fail "$name printed something else when it was recorded"
    grep -q ' 0 lost;' "$work/messages" || fail "calls were lost: $(cat "$work/messages")"
    echo "$name:"
    python3 test/live/callgrind.py "$work/callgrind.out" "$work/trace" "$work/messages" || fail "$name: calls differ"
}

objects=/usr/libexec/valgrind
compare $objects/vgpreload_core-amd64-linux.so "" "$(command -v sqlite3)" :memory:
[ -x "$i386/usr/bin/sqlite3" ] || fail "no 32-bit programs in build/i386: tool/install-deps.sh --test fetches them"
compare $objects/vgpreload_core-x86-linux.so "$i386_libraries" "$i386/usr/bin/sqlite3" :memory:
