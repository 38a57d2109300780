/* vfork and exec, posix_spawn, system. The children are this program again, called with `child`. */
#include "victim.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

TRACED uint32_t vfork_work(uint32_t a)
{
    for (uint32_t i = 0; i < 5; i++)
        a = mix(a, i);
    return a;
}

TRACED pid_t vfork_start(char *const arguments[])
{
    pid_t child = vfork();
    if (child == 0) {
        execve("/proc/self/exe", arguments, environ);
        _exit(127);
    }
    return child;
}

static void end_of(pid_t child)
{
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(int argc, char **argv)
{
    long rounds = victim_option(argc, argv, "-n", 10);
    char *arguments[] = {argv[0], (char *)"child", NULL};
    uint32_t sum = 1;
    if (victim_flag(argc, argv, "child"))
        return vfork_work(1) ? 7 : 0;
    for (long i = 0; i < rounds; i++) {
        pid_t spawned;
        end_of(vfork_start(arguments));
        sum = vfork_work(sum);
        CHECK(!posix_spawn(&spawned, "/proc/self/exe", NULL, NULL, arguments, environ));
        end_of(spawned);
        sum = vfork_work(sum);
    }
    CHECK(system("exit 3") == 3 << 8);
    printf("rounds %ld\nsum %08x\n", rounds, sum);
    return 0;
}
