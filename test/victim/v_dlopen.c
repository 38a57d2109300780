/* Loads, calls and unloads libv_plugin.so, which lies beside the program, again and again.
 *   v_dlopen [-n LOADS] [-w] */
#include "victim.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

struct plugin_counts {
    uint64_t loads, unloads, calls;
};

int main(int argc, char **argv)
{
    long loads = victim_option(argc, argv, "-n", 50);
    int waits = victim_flag(argc, argv, "-w");
    char self[PATH_MAX] = "", path[PATH_MAX + 32];
    struct plugin_counts counts = {0};
    uint32_t sum = 0;
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(path, sizeof path, "%s/libv_plugin.so", dirname(self));
    if (waits)
        victim_wait();
    for (long i = 0; i < loads; i++) {
        void *plugin = dlopen(path, RTLD_NOW | (i & 1 ? RTLD_GLOBAL : 0));
        CHECK(plugin);
        void (*start)(struct plugin_counts *) = (void (*)(struct plugin_counts *))dlsym(plugin, "plugin_start");
        uint32_t (*work)(uint32_t) = (uint32_t(*)(uint32_t))dlsym(plugin, "plugin_work");
        CHECK(start && work);
        start(&counts);
        for (uint32_t j = 0; j < 100; j++)
            sum = mix(sum, work(j));
        CHECK(!dlclose(plugin));
    }
    CHECK(counts.loads == (uint64_t)loads && counts.unloads == (uint64_t)loads);
    printf("plugin_start %llu\nplugin_work %llu\nplugin_unload %llu\nsum %08x\n", (unsigned long long)counts.loads,
           (unsigned long long)counts.calls, (unsigned long long)counts.unloads, sum);
    if (waits)
        victim_wait();
    return 0;
}
