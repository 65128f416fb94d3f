/* Helpers of the tests of call frame information: small hand-written images. */
#ifndef TESTS_UNIT_CFI_IMAGE_H
#define TESTS_UNIT_CFI_IMAGE_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cfi.h"

enum { BASE = 0x400000, FUNCTION = 0x401000, FUNCTION_BYTES = 0x100, ROOM = 512 };

/* .eh_frame_hdr with a table of one function, a CIE and its FDE, in a heap block of exact size. */
struct image {
    struct piano__cfi cfi;
    unsigned char *bytes;
    size_t len;
};

struct spec {
    uint16_t machine;
    const char *augmentation; /* "zR" when NULL */
    const char *augmentation_data;
    size_t augmentation_len;
    uint8_t version; /* 1 when 0 */
    const char *ra;  /* the usual column when NULL */
};

static void put(struct image *im, const void *bytes, size_t len)
{
    assert_true(im->len + len <= ROOM);
    memcpy(im->bytes + im->len, bytes, len);
    im->len += len;
}

static void put32(struct image *im, int64_t value)
{
    int32_t word = (int32_t)value;
    put(im, &word, 4);
}

static void put_length_at(struct image *im, size_t at)
{
    while (im->len % 8)
        put(im, "", 1);
    uint32_t length = (uint32_t)(im->len - at - 4);
    memcpy(im->bytes + at, &length, 4);
}

static void put_cie(struct image *im, const struct spec *spec)
{
    const char *augmentation = spec->augmentation ? spec->augmentation : "zR";
    uint8_t version = spec->version ? spec->version : 1;
    size_t start = im->len;
    put32(im, 0); /* length, later */
    put32(im, 0); /* a CIE */
    put(im, &version, 1);
    put(im, augmentation, strlen(augmentation) + 1);
    if (version == 4)
        put(im, "\x08\x00", 2);
    put(im, "\x01\x78", 2); /* code 1, data -8 */
    put(im, spec->ra ? spec->ra : spec->machine == EM_X86_64 ? "\x10" : "\x1e", 1);
    if (spec->augmentation) {
        unsigned char len = (unsigned char)spec->augmentation_len;
        if (*augmentation == 'z')
            put(im, &len, 1);
        put(im, spec->augmentation_data, spec->augmentation_len);
    } else {
        put(im, "\x01\x1b", 2); /* pc-relative, 4 signed bytes */
    }
    if (spec->machine == EM_X86_64)
        put(im, "\x0c\x07\x08\x90\x01", 5); /* CFA rsp+8; ra at CFA-8 */
    else
        put(im, "\x0c\x1f\x00", 3); /* CFA sp+0; ra in x30 */
    put_length_at(im, start);
}

static struct image image_make(const struct spec *spec, const char *program, size_t len)
{
    struct image im = {.bytes = calloc(1, ROOM)};
    assert_non_null(im.bytes);
    put(&im, "\x01\x1b\x03\x3b", 4);
    put32(&im, 16); /* .eh_frame */
    put32(&im, 1);
    put32(&im, FUNCTION - BASE);
    size_t fde_word = im.len;
    put32(&im, 0);
    size_t cie = im.len;
    put_cie(&im, spec);
    size_t fde = im.len;
    memcpy(im.bytes + fde_word, &(int32_t){(int32_t)fde}, 4);
    put32(&im, 0);
    put32(&im, (int64_t)(im.len - cie));
    put32(&im, FUNCTION - (int64_t)(BASE + im.len));
    put32(&im, FUNCTION_BYTES);
    if (!spec->augmentation || *spec->augmentation == 'z')
        put(&im, "", 1);
    put(&im, program, len);
    put_length_at(&im, fde);
    im.bytes = realloc(im.bytes, im.len); /* so that ASan detects the end */
    im.cfi = (struct piano__cfi){.bytes = im.bytes,
                                 .size = im.len,
                                 .address = BASE,
                                 .header = BASE,
                                 .machine = spec->machine};
    return im;
}

/* The row of PC in a function with PROGRAM, and the result of piano__cfi_find. */
static inline int find_in(const struct spec *spec, const char *program, size_t len, uint64_t pc,
                          struct piano__cfi_row *row)
{
    struct image im = image_make(spec, program, len);
    int result = piano__cfi_find(&im.cfi, pc, row);
    free(im.bytes);
    return result;
}

static const struct spec x86 = {.machine = EM_X86_64};
static const struct spec arm = {.machine = EM_AARCH64};

#define FIND(spec, program, offset, row)                                                           \
    find_in(spec, program, sizeof(program) - 1, FUNCTION + (offset), row)

#endif
