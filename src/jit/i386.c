#include "jit/internal.h"
const struct jit_arch jit_i386;
