/* Processes that run in their parent's memory.
 *   v_vforks spin        vfork, clone, posix_spawn, popen, system and fork, again and again, until a line comes on stdin
 *   v_vforks hold        a vforked child waits for a line on stdin before it goes on; its parent waits for it
 *   v_vforks hold -t N   ... while N other threads work; the parent ends them when the child has gone on
 *   v_vforks stop        as hold, but the child stops itself by SIGSTOP and waits to be continued
 * Prints the process id of the child that waits. What comes back from all of them is checked. */
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile int ends;

TRACED uint32_t vforks_work(uint32_t a)
{
    for (uint32_t i = 0; i < 7; i++)
        a = mix(a, i);
    return a;
}

/* Called by children in their parent's memory, too. */
TRACED uint32_t vforks_child_work(uint32_t a)
{
    return mix(a, vforks_work(a));
}

static void end_of(pid_t child, int code)
{
    int status;
    pid_t got;
    while ((got = waitpid(child, &status, __WALL)) < 0 && errno == EINTR)
        ;
    CHECK(child > 0 && got == child && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static int in_clone(void *unused)
{
    (void)unused;
    _exit(vforks_child_work(3) == vforks_child_work(3) ? 9 : 8);
}

static void spin(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    char *arguments[] = {(char *)"sh", (char *)"-c", (char *)"exit 7", NULL}, line[16] = "";
    struct pollfd in = {.fd = 0, .events = POLLIN};
    volatile long rounds = 0;
    pid_t child;
    for (; poll(&in, 1, 0) == 0; rounds++) {
        volatile uint32_t before = vforks_child_work((uint32_t)rounds);
        child = vfork();
        if (child == 0) {
            if (vforks_child_work((uint32_t)rounds) != before)
                _exit(1);
            execve("/bin/sh", arguments, environ);
            _exit(127);
        }
        end_of(child, 7);
        end_of(clone(in_clone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), 9);
        CHECK(!posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ));
        end_of(child, 7);
        child = fork();
        if (child == 0)
            _exit(vforks_child_work((uint32_t)rounds) == before ? 5 : 6);
        end_of(child, 5);
        FILE *pipe = popen("echo hello", "r");
        CHECK(pipe && fgets(line, sizeof line, pipe) && !strcmp(line, "hello\n") && !pclose(pipe));
        CHECK(system("exit 3") == 3 << 8);
    }
    fprintf(stderr, "rounds %ld\n", rounds);
}

static void *work(void *unused)
{
    uint32_t sum = 1;
    while (!ends)
        sum = vforks_work(sum);
    return unused;
}

/* In the child. */
__attribute__((noipa)) static void wait_in_child(int stops)
{
    char text[32], line;
    int bytes = snprintf(text, sizeof text, "%d\nready\n", (int)getpid());
    if (write(1, text, (size_t)bytes) != bytes)
        _exit(1);
    if (stops)
        kill(getpid(), SIGSTOP);
    else
        while (read(0, &line, 1) < 0 && errno == EINTR)
            ;
}

static void hold(int stops)
{
    volatile uint32_t before = vforks_child_work(5);
    pid_t child = vfork();
    if (child == 0) {
        wait_in_child(stops);
        _exit(vforks_child_work(5) == before ? 4 : 6);
    }
    end_of(child, 4);
    CHECK(vforks_child_work(5) == before);
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 0);
    pthread_t thread[16];
    CHECK(threads <= 16);
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_create(&thread[i], NULL, work, NULL));
    if (victim_flag(argc, argv, "spin")) {
        puts("ready"), fflush(stdout);
        spin();
    } else {
        if (victim_flag(argc, argv, "-w"))
            victim_wait();
        hold(victim_flag(argc, argv, "stop"));
    }
    ends = 1;
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_join(thread[i], NULL));
    puts("ready"), fflush(stdout);
    if (victim_flag(argc, argv, "-w"))
        victim_wait();
    puts("ok");
    return 0;
}
