/* The embedded viewer: its script and its style. */
#ifndef PIANO_TOOL_VIEW_ASSETS_H
#define PIANO_TOOL_VIEW_ASSETS_H

#include <stddef.h>

struct asset {
    const char *text;
    size_t len;
};

struct asset asset_script(void);
struct asset asset_style(void);

#endif
