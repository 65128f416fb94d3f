/* The viewer's files, built from viewer/ and embedded by the assembler. */
#include "tool/view/assets.h"

/* Embeds the bytes of FILE between NAME and NAME_end. */
#define EMBED(name, file)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " name "\n"                                                                   \
            ".hidden " name "\n"                                                                   \
            "" name ": .incbin \"" file "\"\n"                                                     \
            ".global " name "_end\n"                                                               \
            ".hidden " name "_end\n"                                                               \
            "" name "_end: .byte 0\n"                                                              \
            ".popsection\n")

extern const char asset_viewer_js[] __attribute__((visibility("hidden")));
extern const char asset_viewer_js_end[] __attribute__((visibility("hidden")));
extern const char asset_viewer_css[] __attribute__((visibility("hidden")));
extern const char asset_viewer_css_end[] __attribute__((visibility("hidden")));
EMBED("asset_viewer_js", "viewer.js");
EMBED("asset_viewer_css", "viewer.css");

struct asset asset_script(void)
{
    return (struct asset){asset_viewer_js, (size_t)(asset_viewer_js_end - asset_viewer_js)};
}

struct asset asset_style(void)
{
    return (struct asset){asset_viewer_css, (size_t)(asset_viewer_css_end - asset_viewer_css)};
}
