/* Protocol Buffers messages, written by hand: only what profile.proto needs. https://protobuf.dev/programming-guides/encoding/ */
#ifndef REPORT_PROTO_H
#define REPORT_PROTO_H

#include "base/memory.h"

#include <stdint.h>

/* All zero is a valid empty message. */
struct proto {
    VEC(uint8_t) bytes;
};

/* A number; 0, the default, is left out. */
void proto_number(struct proto *proto, unsigned field, uint64_t value);
void proto_bytes(struct proto *proto, unsigned field, const void *bytes, size_t count);
void proto_text(struct proto *proto, unsigned field, const char *text);
/* Several numbers of one field. */
void proto_numbers(struct proto *proto, unsigned field, const uint64_t *value, size_t count);
/* Another message, which is emptied and can be used again. */
void proto_message(struct proto *proto, unsigned field, struct proto *inner);
void proto_deinit(struct proto *proto);

#endif
