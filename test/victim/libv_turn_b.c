#define TURN 1
#include "libv_turn_a.c"
