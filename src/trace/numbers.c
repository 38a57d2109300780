#include "trace/numbers.h"
#include "trace/layout.h"

#include <stdlib.h>

void trace_numbers_init(struct trace_numbers *numbers, uint64_t secret)
{
    *numbers = (struct trace_numbers){.secret = secret | 1};
}

void trace_numbers_deinit(struct trace_numbers *numbers)
{
    VEC_FREE(&numbers->end);
    VEC_FREE(&numbers->hash);
    VEC_FREE(&numbers->bucket);
    free(numbers->bytes);
    numbers->bytes = NULL;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t hash_bytes(uint64_t secret, const uint8_t *bytes, size_t size)
{
    uint64_t hash = secret ^ size;
    for (; size >= 8; bytes += 8, size -= 8)
        hash = mix(hash ^ trace_load64(bytes), secret ^ 0x9e3779b97f4a7c15);
    uint64_t rest = 0;
    memcpy(&rest, bytes, size);
    hash = mix(hash ^ rest, secret ^ 0xd1b54a32d192ed03);
    return (uint32_t)(hash ^ hash >> 32);
}

static bool is_equal(const struct trace_numbers *numbers, uint32_t number, const uint8_t *bytes, size_t size)
{
    uint64_t start = number ? numbers->end.at[number - 1] : 0;
    return numbers->end.at[number] - start == size && !memcmp(numbers->bytes + start, bytes, size);
}

static void grow(struct trace_numbers *numbers)
{
    size_t size = numbers->bucket.n ? numbers->bucket.n * 2 : 64;
    VEC_FREE(&numbers->bucket);
    numbers->bucket.at = memory_zero(size, sizeof(uint32_t));
    numbers->bucket.n = numbers->bucket.room = size;
    for (uint32_t i = 0; i < numbers->hash.n; i++) {
        size_t at = numbers->hash.at[i] & (size - 1);
        while (numbers->bucket.at[at])
            at = (at + 1) & (size - 1);
        numbers->bucket.at[at] = i + 1;
    }
}

static void keep(struct trace_numbers *numbers, const uint8_t *bytes, size_t size)
{
    if (!numbers->bytes || numbers->room - numbers->used < size) {
        numbers->room = numbers->room * 2 + size + 256;
        numbers->bytes = memory_resize(numbers->bytes, numbers->room, 1);
    }
    memcpy(numbers->bytes + numbers->used, bytes, size);
    numbers->used += size;
    VEC_PUSH(&numbers->end, numbers->used);
}

uint32_t trace_numbers_find(struct trace_numbers *numbers, const uint8_t *bytes, size_t size, bool *is_new)
{
    if (numbers->hash.n * 2 >= numbers->bucket.n)
        grow(numbers);
    uint32_t hash = hash_bytes(numbers->secret, bytes, size);
    size_t mask = numbers->bucket.n - 1, at = hash & mask;
    for (uint32_t entry; (entry = numbers->bucket.at[at]) != 0; at = (at + 1) & mask)
        if (numbers->hash.at[entry - 1] == hash && is_equal(numbers, entry - 1, bytes, size)) {
            *is_new = false;
            return entry - 1;
        }
    keep(numbers, bytes, size);
    VEC_PUSH(&numbers->hash, hash);
    numbers->bucket.at[at] = (uint32_t)numbers->hash.n;
    *is_new = true;
    return (uint32_t)numbers->hash.n - 1;
}
