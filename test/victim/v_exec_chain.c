/* Executes itself N times, then prints what it computed on the way.
 *   v_exec_chain [-n N] */
#include "victim.h"

#include <unistd.h>

TRACED uint32_t chain_work(uint32_t a)
{
    for (uint32_t i = 0; i < 9; i++)
        a = mix(a, i);
    return a;
}

int main(int argc, char **argv)
{
    long left = victim_option(argc, argv, "-n", 10);
    uint32_t sum = chain_work((uint32_t)victim_option(argc, argv, "-s", 1));
    char left_text[24], sum_text[24];
    char *arguments[] = {argv[0], (char *)"-n", left_text, (char *)"-s", sum_text, NULL};
    if (left == 0) {
        printf("sum %08x\n", sum);
        return 0;
    }
    snprintf(left_text, sizeof left_text, "%ld", left - 1);
    snprintf(sum_text, sizeof sum_text, "%u", sum >> 1);
    execv("/proc/self/exe", arguments);
    return 1;
}
