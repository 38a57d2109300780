#include "report/proto.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, LENGTH = 2 };

static void put_varint(struct proto *proto, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        VEC_PUSH(&proto->bytes, (uint8_t)(value | 0x80));
    VEC_PUSH(&proto->bytes, (uint8_t)value);
}

static size_t varint_bytes(uint64_t value)
{
    size_t n = 1;
    for (; value >= 0x80; value >>= 7)
        n++;
    return n;
}

static void put_bytes(struct proto *proto, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(&proto->bytes, at[i]);
}

void proto_number(struct proto *proto, unsigned field, uint64_t value)
{
    if (!value)
        return;
    put_varint(proto, field << 3 | VARINT);
    put_varint(proto, value);
}

void proto_bytes(struct proto *proto, unsigned field, const void *bytes, size_t count)
{
    put_varint(proto, field << 3 | LENGTH);
    put_varint(proto, count);
    put_bytes(proto, bytes, count);
}

void proto_text(struct proto *proto, unsigned field, const char *text)
{
    proto_bytes(proto, field, text, strlen(text));
}

void proto_numbers(struct proto *proto, unsigned field, const uint64_t *value, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += varint_bytes(value[i]);
    put_varint(proto, field << 3 | LENGTH);
    put_varint(proto, bytes);
    for (size_t i = 0; i < count; i++)
        put_varint(proto, value[i]);
}

void proto_message(struct proto *proto, unsigned field, struct proto *inner)
{
    proto_bytes(proto, field, inner->bytes.at, inner->bytes.n);
    inner->bytes.n = 0;
}

void proto_deinit(struct proto *proto)
{
    VEC_FREE(&proto->bytes);
}
