/* Lives under a seccomp filter that kills the process on any system call but a few, and checks its results.
 *   v_seccomp [-n CALLS] */
#include "victim.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

TRACED uint32_t confined_work(uint32_t a)
{
    for (uint32_t i = 0; i < 4; i++)
        a = mix(a, i);
    return a;
}

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int argc, char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_restart_syscall),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    long calls = victim_option(argc, argv, "-n", 1000);
    char line[64], byte;
    uint32_t sum = 1;
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    CHECK(write(1, "ready\n", 6) == 6);
    CHECK(read(0, &byte, 1) >= 0);
    for (long i = 0; i < calls; i++)
        sum = confined_work(sum);
    int length = snprintf(line, sizeof line, "confined_work %ld\nsum %08x\nready\n", calls, sum);
    CHECK(write(1, line, (size_t)length) == length);
    CHECK(read(0, &byte, 1) >= 0);
    _exit(0);
}
