/* What the kernel says of threads when they end: how long they ran. Nothing else tells that of a thread that has no events, once it is
 * gone.
 *
 * It is told by taskstats, a netlink socket, to those who may administer the network and see all processes; elsewhere there is nothing
 * here. It tells of every thread of the machine that ends, which costs such a thread about a microsecond more where it was measured;
 * starting and ending one takes some 16. Nobody waits for us: what finds no room in the socket is not told. */
#include "base/clock.h"
#include "sample/internal.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKET_BYTES = 4 << 20, MESSAGE_BYTES = 8192, KEPT_NS = 1000000000 };

/* ---- messages ---- */

struct attributes {
    const uint8_t *at;
    size_t bytes;
};

/* The next attribute: its type; its contents in *inner. -1: there is none. */
static int next_attribute(struct attributes *in, struct attributes *inner)
{
    struct nlattr head;
    if (in->bytes < sizeof head)
        return -1;
    memcpy(&head, in->at, sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > in->bytes)
        return -1;
    *inner = (struct attributes){in->at + NLA_HDRLEN, head.nla_len - NLA_HDRLEN};
    size_t whole = NLA_ALIGN((size_t)head.nla_len);
    in->at += whole < in->bytes ? whole : in->bytes;
    in->bytes -= whole < in->bytes ? whole : in->bytes;
    return head.nla_type & NLA_TYPE_MASK;
}

static bool find_attribute(struct attributes in, int type, struct attributes *out)
{
    for (int found; (found = next_attribute(&in, out)) >= 0;)
        if (found == type)
            return true;
    return false;
}

/* The attributes of a message of the type, or of any where it is 0; none of an error. */
static bool open_message(const uint8_t *bytes, size_t size, struct attributes *out)
{
    struct nlmsghdr head;
    if (size < NLMSG_HDRLEN + GENL_HDRLEN)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (head.nlmsg_type == NLMSG_ERROR || head.nlmsg_len > size || head.nlmsg_len < NLMSG_HDRLEN + GENL_HDRLEN)
        return false;
    *out = (struct attributes){bytes + NLMSG_HDRLEN + GENL_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN};
    return true;
}

/* Sends a command with one attribute, a text. */
static bool command(int fd, uint16_t type, uint8_t number, uint16_t attribute, const char *text)
{
    uint8_t message[256] = {0};
    size_t bytes = strlen(text) + 1;
    struct nlattr value = {.nla_len = (uint16_t)(NLA_HDRLEN + bytes), .nla_type = attribute};
    struct genlmsghdr general = {.cmd = number, .version = 1};
    struct nlmsghdr head = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK};
    size_t at = NLMSG_HDRLEN + GENL_HDRLEN;
    if (at + NLA_HDRLEN + NLA_ALIGN(bytes) > sizeof message)
        return false;
    head.nlmsg_len = (uint32_t)(at + NLA_HDRLEN + NLA_ALIGN(bytes));
    memcpy(message, &head, sizeof head);
    memcpy(message + NLMSG_HDRLEN, &general, sizeof general);
    memcpy(message + at, &value, sizeof value);
    memcpy(message + at + NLA_HDRLEN, text, bytes);
    return send(fd, message, head.nlmsg_len, 0) == (ssize_t)head.nlmsg_len;
}

/* What the kernel acknowledges it does before send() returns, so the answers are there. */
static bool is_acknowledged(int fd, uint16_t *family)
{
    uint8_t message[MESSAGE_BYTES];
    for (ssize_t got; (got = recv(fd, message, sizeof message, MSG_DONTWAIT)) > 0;) {
        struct nlmsghdr head;
        struct nlmsgerr error;
        struct attributes all, value;
        memcpy(&head, message, (size_t)got < sizeof head ? (size_t)got : sizeof head);
        if (head.nlmsg_type == NLMSG_ERROR && (size_t)got >= NLMSG_HDRLEN + sizeof error) {
            memcpy(&error, message + NLMSG_HDRLEN, sizeof error);
            return !error.error;
        }
        if (family && open_message(message, (size_t)got, &all) && find_attribute(all, CTRL_ATTR_FAMILY_ID, &value) &&
            value.bytes >= sizeof *family)
            memcpy(family, value.at, sizeof *family);
    }
    return false;
}

/* ---- life ---- */

static bool listen_to_all(int fd)
{
    uint16_t family = 0;
    char processors[128] = "";
    FILE *in = fopen("/sys/devices/system/cpu/possible", "re");
    if (in && !fgets(processors, sizeof processors, in))
        *processors = 0;
    if (in)
        fclose(in);
    processors[strcspn(processors, "\n")] = 0;
    struct sockaddr_nl own = {.nl_family = AF_NETLINK};
    return *processors && !bind(fd, (struct sockaddr *)&own, sizeof own) &&
           command(fd, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, TASKSTATS_GENL_NAME) && is_acknowledged(fd, &family) &&
           family && command(fd, family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, processors) && is_acknowledged(fd, NULL);
}

void sample_ends_open(struct sample_set *set)
{
    int bytes = SOCKET_BYTES;
    if (set->ends_fd >= 0)
        return;
    set->ends_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
    if (set->ends_fd < 0)
        return;
    if (setsockopt(set->ends_fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
        setsockopt(set->ends_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (!listen_to_all(set->ends_fd))
        sample_ends_close(set);
}

void sample_ends_close(struct sample_set *set)
{
    if (set->ends_fd >= 0)
        close(set->ends_fd);
    set->ends_fd = -1;
}

/* ---- what it says ---- */

static bool take_end(struct attributes all, struct sample_end *out)
{
    struct attributes thread, number, value;
    struct taskstats stats = {0};
    if (!find_attribute(all, TASKSTATS_TYPE_AGGR_PID, &thread) || !find_attribute(thread, TASKSTATS_TYPE_PID, &number) ||
        !find_attribute(thread, TASKSTATS_TYPE_STATS, &value) || number.bytes < sizeof out->tid)
        return false;
    memcpy(&stats, value.at, value.bytes < sizeof stats ? value.bytes : sizeof stats);
    memcpy(&out->tid, number.at, sizeof out->tid);
    out->pid = stats.ac_tgid; /* 0: an older kernel */
    out->run_ns = stats.cpu_run_virtual_total;
    out->elapsed_ns = stats.ac_etime * 1000;
    memcpy(out->name, stats.ac_comm, sizeof out->name - 1);
    out->name[sizeof out->name - 1] = 0;
    return true;
}

void sample_ends_read(struct sample_set *set)
{
    uint8_t message[MESSAGE_BYTES];
    uint64_t now_ns = clock_now_ns();
    size_t old = 0;
    for (ssize_t got; set->ends_fd >= 0 && (got = recv(set->ends_fd, message, sizeof message, MSG_DONTWAIT)) > 0;) {
        struct attributes all;
        struct sample_end end = {.time_ns = now_ns};
        if (open_message(message, (size_t)got, &all) && take_end(all, &end))
            VEC_PUSH(&set->end, end);
    }
    /* However long nobody has read: the rings tell an end that was heard of before read_ns no more. */
    while (old < set->end.n && set->end.at[old].time_ns + KEPT_NS < set->read_ns)
        old++;
    if (!old || old < set->end.n / 2)
        return;
    memmove(set->end.at, set->end.at + old, (set->end.n - old) * sizeof *set->end.at);
    set->end.n -= old;
}

bool sample_ends_take(struct sample_set *set, uint32_t tid, struct sample_end *out)
{
    for (size_t i = set->end.n; i-- > 0;)
        if (set->end.at[i].tid == tid) {
            *out = set->end.at[i];
            set->end.at[i].tid = 0;
            return true;
        }
    return false;
}
