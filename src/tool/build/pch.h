/* Precompiled headers. The wrapper preprocesses a unit without them, from the headers themselves, so
 * that the functions in them can be instrumented. */
#ifndef PIANO_TOOL_BUILD_PCH_H
#define PIANO_TOOL_BUILD_PCH_H

#include "tool/build/args.h"
#include "tool/build/selection.h"
#include "tool/util/buf.h"

/* If the command makes DIR/NAME.gch or DIR/NAME.pch and there is no DIR/NAME, creates one that
 * includes the source. Meson keeps only the precompiled file in a directory of its own, and
 * `-include NAME` would not find a header there. */
void pch_add_header(const struct args *a);

/* CMake's cmake_pch.hxx declares itself a system header, and with it all that it includes. Removes
 * that mark in TEXT from headers of the project. */
void pch_unmark(struct buf *text, const struct selection *s);

#endif
