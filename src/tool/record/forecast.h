/* Says how long the room for events lasts, before the oldest are overwritten. */
#ifndef PIANO_TOOL_RECORD_FORECAST_H
#define PIANO_TOOL_RECORD_FORECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/recording.h"

/* Writes a notice to TEXT if the ring of events of H is an eighth full at NOW_NS, so that its rate is
 * known. Returns false before. */
bool forecast(char *text, size_t size, const struct piano__rec_header *h, uint64_t now_ns);

#endif
