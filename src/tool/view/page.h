/* The page: one HTML file with the viewer and the data; docs/page-format.md. */
#ifndef PIANO_TOOL_VIEW_PAGE_H
#define PIANO_TOOL_VIEW_PAGE_H

#include <stdio.h>

#include "tool/view/packer.h"

/* Writes the content security policy of a page: what it may run and load. IS_LIVE: newer data from
 * the server it came from, too. */
void page_put_policy(struct buf *b, bool is_live);
/* Writes the packed data of K as a page. Returns 0 or negative errno. */
int page_write(FILE *out, const struct packer *k);

#endif
