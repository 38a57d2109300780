/* The agents, as the build embedded them (tool/embed.sh). Position independent; WIRE_AGENT_... says what is where. */
#ifndef LOAD_AGENT_BLOB_H
#define LOAD_AGENT_BLOB_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t load_agent64[], load_agent32[];
extern const size_t load_agent64_bytes, load_agent32_bytes;

#endif
