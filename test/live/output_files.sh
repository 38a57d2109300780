#!/bin/bash
# Files that -o names: what another user has put under the name is neither followed nor written to; what is there stays until there is
# something to put in its place; devices, pipes and the own links work; nothing is readable by others, and errors of writing are errors.
# timeout: 120
. "$(dirname "$0")/lib.sh"
cd "$work"
# Each command that writes a file writes one that has the word `written` or begins as gzip does.
script='BEGIN { printf("written\n"); exit(); }'
printf 'written;b 5\n' >folded
"$probity" import -f folded -o named.trace folded >/dev/null
writers=(write_trace write_bpftrace write_report write_pprof)
ln -s "$probity" bpftrace
write_trace() { "${as[@]}" "$probity" trace -q -o "$1" -e "$script"; }
write_bpftrace() { "${as[@]}" "$work/bpftrace" -q -o "$1" -e "$script"; }
write_report() { "${as[@]}" "$probity" report -o "$1" "$work/named.trace"; }
write_pprof() { "${as[@]}" "$probity" report -f pprof -o "$1" "$work/named.trace"; }
is_written() { grep -aq "written\|$(printf '\x1f\x8b')" "$1"; }
as=(env)

works() { # WHAT COMMAND...
    local what=$1
    shift
    "$@" >"$work/out" 2>"$work/err" || complain "$what: $*: exit code $?: $(cat "$work/err")"
}
same() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || complain "$1: found $2, expected $3"
}
fails() { # CODE PATTERN COMMAND...
    local expected=$1 pattern=$2 code=0
    shift 2
    "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    # Under that name every error is 1.
    [[ "$*" != *write_bpftrace* ]] || expected=1
    [ $code = "$expected" ] || complain "$*: exit code $code instead of $expected: $(cat "$work/err")"
    grep -qE -- "$pattern" "$work/err" || complain "$*: does not say $pattern: $(cat "$work/err")"
}
no_rest() { # FOLDER: no file of ours that nobody asked for
    [ -z "$(find "$1" -maxdepth 1 -name '.probity*')" ] || complain "left behind: $(ls -la "$1")"
}

# Devices of our own where that is permitted: a program that is wrong takes them away.
null=/dev/null full=/dev/full
if mknod null c 1 3 2>/dev/null && mknod full c 1 7 && echo 2>/dev/null >null; then null=$work/null full=$work/full; fi
for write in "${writers[@]}"; do
    # A new file is for its owner alone, whatever the umask; one that is replaced keeps its mode, and its other names what they have.
    rm -rf own && mkdir own
    (umask 0 && works new "$write" own/new)
    is_written own/new || complain "$write: a new file: $(cat own/new)"
    same "$write: mode of a new file" "$(stat -c %a own/new)" 600
    echo before >own/old
    chmod 640 own/old
    ln own/old own/other
    works replaced "$write" own/old
    is_written own/old || complain "$write: a file that was there: $(cat own/old)"
    ! grep -aq before own/old || complain "$write: what was there is left behind what is new"
    same "$write: mode of a file that was there" "$(stat -c %a own/old)" 640
    same "$write: another name of it" "$(cat own/other)" before
    # The own links are followed, wherever they lead.
    mkdir own/sub
    ln -s sub/../two own/one
    ln -s "$work/own/three" own/two
    works link "$write" own/one
    is_written own/three && [ -L own/one ] && [ -L own/two ] || complain "$write: the own links are not followed: $(ls -la own)"
    ln -s loop own/loop
    fails 1 'Too many levels' "$write" own/loop
    for name in own/ own/. own/sub; do fails 1 'Is a directory' "$write" $name; done
    fails 1 'No such file' "$write" own/none/file
    no_rest own
    # What is no file.
    mkfifo own/pipe
    cat own/pipe >got &
    reader=$!
    works pipe "$write" own/pipe
    wait $reader
    is_written got && [ -p own/pipe ] || complain "$write: a pipe"
    works null "$write" "$null"
    [ -c "$null" ] || fail "$write: /dev/null is no device any more"
    fails 1 'full: write: No space left|full: not all could' "$write" "$full"
    [ -c "$full" ] || fail "$write: /dev/full is no device any more"
    : >out
    ("$write" /dev/stdout >out) 2>err || complain "$write: /dev/stdout: $(cat err)"
    is_written out || complain "$write: /dev/stdout, a file: $(cat out)"
    "$write" /dev/stdout 2>err | cat >out || complain "$write: /dev/stdout, a pipe: $(cat err)"
    is_written out || complain "$write: /dev/stdout, a pipe: $(cat out)"
    # Nobody reads the pipe.
    code=0
    "$write" own/pipe 2>err &
    writer=$!
    : <own/pipe
    wait $writer || code=$?
    [ $code = 0 ] || [ $code = 141 ] || complain "$write: a pipe that nobody reads is an error: $code $(cat err)"
    [ ! -s err ] || complain "$write: a pipe that nobody reads is complained of: $(cat err)"
done
if command -v script >/dev/null; then
    for write in write_trace write_report; do
        script -qec "$(declare -p as work probity script | sed 's/declare -[a-z-]*/declare/'; declare -f "$write"); $write /dev/tty" /dev/null </dev/null >out || complain "$write: a terminal: $?"
        is_written out || complain "$write: a terminal: $(cat out)"
    done
fi

# A file system that knows no files without a name.
printf '%s\n' '#define _GNU_SOURCE' '#include <dlfcn.h>' '#include <errno.h>' '#include <fcntl.h>' \
    'int openat(int d, const char *p, int f, ...) {' \
    '    if ((f & O_TMPFILE) == O_TMPFILE) { errno = EOPNOTSUPP; return -1; }' \
    '    __builtin_va_list a; __builtin_va_start(a, f);' \
    '    return ((int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat"))(d, p, f, __builtin_va_arg(a, int)); }' >plain.c
gcc -shared -fPIC -o plain.so plain.c -ldl
as=(env "LD_PRELOAD=$work/plain.so" "ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0")
for write in write_trace write_report; do
    rm -rf own && mkdir own && echo before >own/old
    for name in new old; do
        works "$name, named" "$write" own/$name
        is_written own/$name || complain "$write: $name, named: $(cat own/$name)"
    done
    same "$write: mode of a new file" "$(stat -c %a own/new)" 600
    no_rest own
done
as=(env)

# What was there stays where there is nothing to put in its place.
echo before >keep
fails 2 'parse|expected|ERROR' "$probity" trace -o keep -e 'BEGIN {'
fails 6 . "$probity" report -o keep nosuch.trace
for ((i = 0; i < 200; i++)); do echo "written;function_$i 1"; done >folded
"$probity" import -f folded -o large.trace folded >/dev/null
fails 1 'keep: .*(File too large|not all)' bash -c "ulimit -f 1; trap '' XFSZ; exec '$probity' report -f folded -o keep large.trace"
same "a file after commands that failed" "$(cat keep)" before
no_rest .

# A directory that takes no new file: the own file itself, unless it has other names.
if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
    echo "not root: other users' links are not tested"
    exit $failed
fi
victim_uid=65534
user=(setpriv --reuid $victim_uid --regid $victim_uid --clear-groups)
cp "$probity" tool && chmod 755 tool
probity=$work/tool
rm bpftrace && ln -s "$work/tool" bpftrace
chmod -R a+rX named.trace
mkdir fixed && echo before >fixed/file && chown -R $victim_uid fixed && chown root fixed
for write in "${writers[@]}"; do
    as=("${user[@]}")
    works "in place" "$write" fixed/file
    is_written fixed/file || complain "$write: in place: $(cat fixed/file)"
    ln fixed/file fixed/second
    fails 4 'Permission denied' "$write" fixed/file
    rm fixed/second
    fails 4 'Permission denied' "$write" fixed/new
done

# Another user's links, files and pipes in a directory that all can write to.
lure() { # OWNER-OF-WHAT-IS-THERE OWNER-OF-THE-GOOD-FILE
    rm -rf sticky good
    mkdir sticky good && chmod 1777 sticky && chmod 755 good
    echo before >good/file
    chown "$2" good good/file
    ln -s "$work/good/file" sticky/link
    ln -s "$work/good/new" sticky/dangling
    ln good/file sticky/hard
    mkfifo sticky/pipe && chmod 666 sticky/pipe
    echo theirs >sticky/theirs && chmod 666 sticky/theirs
    exec {theirs}<sticky/theirs
    chown -h "$1" sticky/link sticky/dangling sticky/pipe sticky/theirs
}
good_is_untouched() { # WHO
    same "$1: the file that was lured to" "$(cat good/file)" before
    [ ! -e good/new ] || complain "$1: a file was made where a link said"
}
for write in "${writers[@]}"; do
    lure $victim_uid root
    as=(env)
    fails 4 "another user's" "$write" sticky/link
    fails 4 "another user's" "$write" sticky/dangling
    fails 4 "another user's" timeout 20 bash -c "$(declare -p as work probity script); $(declare -f "$write"); $write sticky/pipe"
    works "a hard link" "$write" sticky/hard
    works "a file of another user's" "$write" sticky/theirs
    good_is_untouched "root, $write"
    same "root, $write: what the other user has open" "$(cat <&"$theirs")" theirs
    same "root, $write: whose the new file is" "$(stat -c '%u %a' sticky/theirs)" "0 600"
    exec {theirs}<&-
    # The same as a plain user, whom a third one lures.
    lure 12345 $victim_uid
    as=("${user[@]}")
    fails 4 "another user's" "$write" sticky/link
    fails 4 "another user's" "$write" sticky/dangling
    fails 4 "another user's" timeout 20 bash -c "$(declare -p as work probity script); $(declare -f "$write"); $write sticky/pipe"
    works "a hard link" "$write" sticky/hard
    fails 4 'not permitted|denied' "$write" sticky/theirs
    good_is_untouched "user, $write"
    same "user, $write: what the other user has open" "$(cat <&"$theirs")" theirs
    exec {theirs}<&-
    no_rest sticky
done

# Who changes the name while it is looked at gets nothing either.
lure $victim_uid root
chown root good/file
"${user[@]}" perl -e '
chdir $ARGV[0] or die;
for (;;) {
    unlink "race"; symlink "../good/file", "race";
    unlink "race"; if (open my $file, ">", "race") { close $file }
}' "$work/sticky" &
started+=($!)
racer=$!
as=(env)
probity_runs=$(scale 150 3000)
for ((i = 0; i < probity_runs; i++)); do "$probity" report -o sticky/race named.trace >/dev/null 2>&1 || true; done
kill "$racer"
good_is_untouched "the race"
no_rest sticky
exit $failed
