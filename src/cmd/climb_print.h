/* What a climb has learnt, for people and as JSON. */
#ifndef CMD_CLIMB_PRINT_H
#define CMD_CLIMB_PRINT_H

#include "climb/climb.h"

#include <stdio.h>

/* Links below `least` of a hot spot's time are left out. */
void cmd_climb_text(FILE *out, const struct climb *climb, double least);
void cmd_climb_json(FILE *out, const struct climb *climb, double least);
/* One line of how it stands. */
void cmd_climb_status(FILE *out, const struct climb *climb);

/* The view for terminals, in place of the one before: hot spots now, how high each climb stands, what is hooked. At most `lines` lines of
 * `columns` columns. */
void cmd_climb_screen(FILE *out, const struct climb *climb, unsigned lines, unsigned columns);

#endif
