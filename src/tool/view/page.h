/* The page: one HTML file with the viewer and the data in it; docs/page-format.md. */
#ifndef PIANO_TOOL_VIEW_PAGE_H
#define PIANO_TOOL_VIEW_PAGE_H

#include <stdio.h>

#include "tool/view/packer.h"

/* The policy a page is under: what it may run and load. */
void page_put_policy(struct buf *b);
/* Writes what K has packed. 0 or negative errno. */
int page_write(FILE *out, const struct packer *k);

#endif
