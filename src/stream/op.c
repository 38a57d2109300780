#include "stream/op.h"

const struct stream_op stream_ops[WIRE_OP_COUNT] = {
#define OP(name, fields, text) [WIRE_##name] = {#name, fields},
#include "wire/ops.def"
#undef OP
};

const char *const stream_ctx_names[WIRE_CTX_COUNT] = {"pid", "tid",    "uid",   "gid", "cpu",  "nsecs", "elapsed", "rand", "place", "pc",
                                                      "sp",  "return", "model", "row", "func", "probe", "ppid",    "bias", "quota"};
const char *const stream_map_kind_names[WIRE_MAP_KINDS] = {"int", "value", "count", "sum",   "avg",    "min",
                                                           "max", "stats", "hist",  "lhist", "tseries"};
const char *const stream_reduce_names[WIRE_REDUCES] = {"count", "sum", "avg", "min", "max"};

bool stream_op_has(uint32_t op, char letter)
{
    for (const char *field = stream_ops[op].fields; *field; field++)
        if (*field == letter)
            return true;
    return false;
}
