#!/bin/bash
# What processes, files and traces say does nothing to a terminal, whichever command prints it: control characters of one byte and of two,
# bytes that are no UTF-8, marks that turn the direction of writing; in strings, names of processes, threads, functions, programs and
# source files. Pipes get strings as they are, JSON is JSON, and --raw is for those who want it. (issue 13.3)
# timeout: 200
. "$(dirname "$0")/lib.sh"
cd "$work"

# Names with what sets a title, colours text, and turns it round.
hostile=$'ev\e]0;pwn\a\e[35m\xc2\x9b\x9b\xff\xe2\x80\xae\xe2\x81\xa7\x7fil'
printf '%s' "$hostile" >hostile
cat >victim.c <<'END_C'
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#define HOSTILE "ev\033]0;pwn\a\033[35m\302\233\233\377\342\200\256\342\201\247\177il"
struct evil_type { const char *text; };
__attribute__((noipa, used)) long say(const char *text, struct evil_type *type) __asm__(SYMBOL);
long say(const char *text, struct evil_type *type)
{
    long sum = (long)(text + (long)type->text);
    for (volatile int i = 0; i < 2000; i++) sum += i;
    return sum;
}
__attribute__((noipa, used)) long plain(const char *text, struct evil_type *type) { return say(text, type) + 1; }
static void *run(void *rounds)
{
    prctl(PR_SET_NAME, "t\033]0;p\a\302\233\377\177");
    struct evil_type type = {HOSTILE};
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 200; i++) plain(HOSTILE, &type);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < *(long *)rounds);
    return NULL;
}
int main(int argc, char **argv)
{
    long seconds = argc > 1;
    (void)argv;
    prctl(PR_SET_NAME, "e\033]0;p\a\302\233\377\177");
    pthread_t thread;
    pthread_create(&thread, NULL, run, &seconds);
    pthread_join(thread, NULL);
    struct evil_type type = {HOSTILE};
    for (int i = 0; i < 20; i++) plain(HOSTILE, &type);
    return 0;
}
END_C
# A name of as many bytes, in whose place the linked program is given the hostile one.
symbol=$(printf 'ev%*sil' $(($(wc -c <hostile) - 4)) '' | tr ' ' _)
mkdir sources && cp victim.c "sources/$hostile.c"

# Nothing reaches the terminal, and something is shown.
shown() { # WHAT COMMAND...
    local what=$1
    shift
    "$python" "$root/test/live/terminal.py" "$@" >shown 2>said || complain "$what: $(cat said)"
    [ -s shown ] || complain "$what: nothing is shown"
}
escaped() { # WHAT COMMAND...: and the hostile text is shown escaped
    shown "$@"
    grep -qaE '\\x(1b|9b|e2)|\\u(001b|202e|009b|fffd)' shown || complain "$1: the name is not shown: $(head -c 600 shown | cat -v)"
}

check_width() { # WIDTH
    local w=$1 program=$work/$1-$hostile
    gcc -m"$w" -idirafter "/usr/include/$(gcc -print-multiarch)" -std=gnu11 -D_GNU_SOURCE -g -O1 "-DSYMBOL=\"$symbol\"" -o victim "sources/$hostile.c" -pthread || fail "$w: gcc"
    "$python" -c 'import sys; data = open("victim", "rb").read(); open(sys.argv[1], "wb").write(data.replace(sys.argv[2].encode(), open("hostile", "rb").read()))' "$w-victim" "$symbol"
    chmod 755 "$w-victim" && cp "$w-victim" "$program"
    nm "$program" | shows -a ' T ev' || fail "$w: the function's name is not hostile: $(nm "$program" | grep -a ' T ' | cat -v)"
    local v=$work/$w-victim
    escaped "$w list" "$probity" list "$v:ev*"
    escaped "$w list of a file" "$probity" list "$program:plain"
    escaped "$w list -j" "$probity" list -j "$program:ev*"
    escaped "$w count" "$probity" count "$program:*" -- "$program"
    escaped "$w count -j" "$probity" count -j "$v:ev*" -- "$v"
    shown "$w near names" "$probity" count "$v:evi" -- "$v"
    escaped "$w no such file" "$probity" count "/nowhere/$hostile:f" -- "$v"
    escaped "$w trace -l" "$probity" trace -l "uprobe:$v:ev*"
    escaped "$w a script that is not there" "$probity" trace "/nowhere/$hostile"
    escaped "$w a command that is not there" "$probity" record -- "/nowhere/$hostile"
    escaped "$w no such function" "$probity" trace -e "uprobe:$program:nosuch { exit(); }" -- "$v"
    cat >all.bt <<END
config = { missing_probes = "warn" }
uprobe:$v:plain {
    printf("%s|%-90s|%.30s|%r|%c\n", str(arg0), str(arg0), str(arg0), buf(arg0, 30), 155);
    @text[str(arg0), comm] = count();
    @stack[ustack] = count();
    @last = str(arg0);
    @perf[ustack(perf)] = count();
    @one = (str(arg0), comm, 1);
    @symbols[usym(reg("ip"))] = count();
    print(str(arg0));
    print(("x", comm));
    errorf("%s", str(arg0));
    warnf("%s", comm);
    cat("/nowhere/%s", str(arg0));
    cat("$work/hostile");
}
uprobe:$v:ev* { @names[func, probe] = count(); }
END
    escaped "$w trace" "$probity" trace all.bt -- "$v"
    escaped "$w trace -f json" "$probity" trace -f json all.bt -- "$v"
    shown "$w trace -d" "$probity" trace -d -e "uprobe:$v:plain { printf(\"%s\", str(args.type->text)); }"
    escaped "$w trace -o /dev/tty" "$probity" trace -o /dev/tty all.bt -- "$v"
    "$python" "$root/test/live/terminal.py" --raw "$probity" trace --raw all.bt -- "$v" >shown 2>said || complain "$w trace --raw: $(cat said)"
    # Elsewhere bytes are as they are, and JSON is JSON.
    "$probity" trace -q -e "uprobe:$v:plain { printf(\"%s\n\", str(arg0)); exit(); }" -- "$v" >out 2>said || complain "$w trace, a pipe: $(cat said)"
    head -n 1 out | head -c -1 | cmp -s - hostile || complain "$w trace, a pipe: $(cat -v out)"
    "$probity" trace -q -f json all.bt -- "$v" >json 2>said || complain "$w trace -f json: $(cat said)"
    "$python" -c 'import json, sys; [json.loads(line) for line in open("json", encoding="utf-8")]' || complain "$w trace -f json is no JSON"
    "$probity" count -j "$program:*" -- "$program" >json 2>said || complain "$w count -j: $(cat said)"
    "$python" -c 'import json, sys; [json.loads(line) for line in open("json", encoding="utf-8")]' || complain "$w count -j is no JSON"

    escaped "$w record" "$probity" record -v -o "trace-$hostile" --calls "*:plain" --calls '*:ev*' -F 999 -- "$program" long
    mv "trace-$hostile" trace
    for view in tree flat arcflow merged samples threads diff; do
        local two=
        [ $view != diff ] || two=trace
        escaped "$w report $view" "$probity" report --color always --view $view trace $two
        escaped "$w report $view -f json" "$probity" report --view $view -f json trace $two
        "$probity" report --view $view -f json trace $two >json 2>said && "$python" -c 'import json; json.load(open("json", encoding="utf-8"))' || complain "$w report $view is no JSON"
    done
    for by in line module; do escaped "$w report --by $by" "$probity" report --by $by --view flat --data samples trace; done
    for format in folded callgrind; do escaped "$w report -f $format" "$probity" report -f $format trace; done
    # Much text, of which a part will do.
    for format in speedscope chrome; do escaped "$w report -f $format" bash -c "'$probity' report -f $format trace | head -c 100000"; done
    for format in speedscope chrome; do
        "$probity" report -f $format trace >json 2>said && "$python" -c 'import json; json.load(open("json", encoding="utf-8"))' || complain "$w $format is no JSON"
    done
    shown "$w browse" --keys '*/ev
q' "$probity" browse trace
    escaped "$w climb" "$probity" climb --metric calls -d 3 -- "$program" long
    escaped "$w climb -j" "$probity" climb -qj -d 3 -- "$program" long
    rm -rf trace
}
for width in 64 32; do attempt check_width $width; done

# What other programs wrote.
printf '%s %d/%d 1.5: 10 cpu-clock:\n\t55d0 %s+0x1 (/x/%s)\n\n' "$hostile" 1 1 "$hostile" "$hostile" >perf.txt
"$probity" import -f perf-script -o perf.trace perf.txt >/dev/null 2>said || complain "import: $(cat said)"
escaped "what perf wrote" "$probity" report perf.trace
escaped "its name" "$probity" import -f events -o "bad-$hostile" "/nowhere/$hostile"
exit $failed
