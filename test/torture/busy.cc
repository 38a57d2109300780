// Exceptions, signals with siglongjmp, threads that come and go and are cancelled, fork, dlopen, contexts and alternate stacks, checked, for
// as many seconds as the argument says.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

static std::atomic<long> requests;
static time_t end_time;

static bool going() { return time(nullptr) < end_time; }

[[noreturn]] static void wrong(const char *what)
{
    printf("wrong: %s\n", what);
    fflush(stdout);
    _exit(1);
}

struct counted {
    int &count;
    explicit counted(int &c) : count(c) { count++; }
    ~counted() { count--; }
};

__attribute__((noinline)) static int thrower(int depth, int &count)
{
    counted here(count);
    if (!depth)
        throw std::runtime_error("deep" + std::to_string(count));
    return thrower(depth - 1, count) + 1;
}

static void exceptions()
{
    for (int depth = 0; depth < 50; depth++) {
        int count = 0;
        try {
            thrower(depth, count);
            wrong("no exception");
        } catch (const std::exception &e) {
            if (count || e.what() != "deep" + std::to_string(depth + 1))
                wrong("exception");
        }
    }
}

#ifdef __x86_64__
enum { PC_REGISTER = REG_RIP };
#else
enum { PC_REGISTER = REG_EIP };
#endif
static thread_local sigjmp_buf back;
static char *guarded;
static void on_fault(int, siginfo_t *info, void *context)
{
    if (info->si_addr != guarded) {
        auto *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
        printf("wrong: fault at %p, code %d, pc %#lx\n", info->si_addr, info->si_code, (unsigned long)registers[PC_REGISTER]);
        fflush(stdout);
        signal(SIGSEGV, SIG_DFL); // it ends of the same fault, with a core of it
        return;
    }
    siglongjmp(back, 1);
}

static void faults()
{
    if (!sigsetjmp(back, 1)) {
        *(volatile char *)guarded = 1;
        wrong("no fault");
    }
}

static ucontext_t caller, other;
static int passed;
static void pass()
{
    for (;;) {
        passed++;
        swapcontext(&other, &caller);
    }
}

static void contexts()
{
    static char stack[65536];
    static int expected;
    if (!expected) {
        getcontext(&other);
        other.uc_stack.ss_sp = stack;
        other.uc_stack.ss_size = sizeof stack;
        makecontext(&other, pass, 0);
    }
    for (int i = 0; i < 100; i++) {
        swapcontext(&caller, &other);
        if (passed != ++expected)
            wrong("contexts");
    }
}

static void *cancelled(void *)
{
    for (;;) {
        char buffer[10];
        FILE *zero = fopen("/dev/zero", "r");
        if (!zero || fread(buffer, 1, sizeof buffer, zero) != sizeof buffer)
            wrong("/dev/zero");
        fclose(zero);
        pthread_testcancel();
    }
}

static void threads()
{
    std::atomic<long> sum{0};
    std::vector<std::thread> some;
    for (int i = 0; i < 20; i++)
        some.emplace_back([&sum, i] { sum += (long)std::string((size_t)i, 'x').size(); });
    pthread_t doomed;
    if (pthread_create(&doomed, nullptr, cancelled, nullptr))
        wrong("pthread_create");
    for (auto &thread : some)
        thread.join();
    pthread_cancel(doomed);
    void *result;
    pthread_join(doomed, &result);
    if (sum != 190 || result != PTHREAD_CANCELED)
        wrong("threads");
}

static void processes()
{
    pid_t child = fork();
    if (!child)
        _exit(std::string(100, 'x').size() == 100 ? 3 : 4);
    int status;
    if (waitpid(child, &status, 0) != child || status != 3 << 8)
        wrong("fork");
    child = vfork();
    if (!child) {
        execl("/bin/true", "true", (char *)nullptr);
        _exit(9);
    }
    if (waitpid(child, &status, 0) != child || status)
        wrong("vfork");
}

static void libraries()
{
    void *library = dlopen("libz.so.1", RTLD_NOW);
    if (!library)
        return; // not there in this width
    auto *crc = (unsigned long (*)(unsigned long, const char *, unsigned))dlsym(library, "crc32");
    for (int i = 0; i < 20; i++)
        if (crc(0, "123456789", 9) != 0xcbf43926)
            wrong("crc32");
    dlclose(library);
}

static volatile sig_atomic_t ticks;
static void on_tick(int) { ticks = ticks + 1; }

int main(int, char **argument)
{
    end_time = time(nullptr) + atoi(argument[1]);
    guarded = (char *)mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static char alternate[65536];
    stack_t stack = {};
    stack.ss_sp = alternate;
    stack.ss_size = sizeof alternate;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    struct sigaction tick = {};
    tick.sa_handler = on_tick;
    tick.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &tick, nullptr);
    timer_t timer;
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    itimerspec interval = {{0, 1000000}, {0, 1000000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &interval, nullptr))
        wrong("timer");
    std::vector<std::thread> steady;
    for (int i = 0; i < 3; i++)
        steady.emplace_back([] {
            while (going()) {
                exceptions();
                requests++;
            }
        });
    while (going()) {
        faults();
        contexts();
        threads();
        processes();
        libraries();
        requests++;
    }
    for (auto &thread : steady)
        thread.join();
    if (!ticks)
        wrong("no signals");
    printf("requests %ld\n", requests.load());
}
