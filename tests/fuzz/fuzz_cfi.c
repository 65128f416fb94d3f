/* Fuzz target: the reader of call frame information, with any bytes.
 *
 *   clang -fsanitize=fuzzer,address,undefined -fwrapv -D_GNU_SOURCE -Isrc tests/fuzz/fuzz_cfi.c src/common/cfi*.c
 *   cc -DSTANDALONE ... fuzz_cfi.c && ./fuzz_cfi FILE...
 *
 * The first byte chooses the machine; the rest is a segment that begins with .eh_frame_hdr. Good seeds are segments of real
 * programs: STANDALONE takes ELF files too, reads all their functions, and then damages them in 100 000 ways. */
#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cfi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The result must be consistent for any input. */
static void check(const struct piano__cfi *cfi, uint64_t pc)
{
    struct piano__cfi_row row;
    int err = piano__cfi_find(cfi, pc, &row);
    if (err != 0 && err != -ENOENT && err != -EINVAL && err != -ENOTSUP)
        abort();
    if ((err == 0 || err == -ENOTSUP) && (pc < row.start || pc >= row.end))
        abort();
    if ((err == 0) != (row.rule.cfa != PIANO_CFA_NONE))
        abort();
}

static void check_all(const struct piano__cfi *cfi, uint64_t most)
{
    int64_t count = piano__cfi_count(cfi);
    uint64_t pc;
    for (uint64_t i = 0; i < most && (int64_t)i < count; i++) {
        if (piano__cfi_function(cfi, i, &pc) != 0)
            abort();
        for (unsigned k = 0; k < 64; k = 2 * k + 1)
            check(cfi, pc + k);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct piano__cfi cfi = {.bytes = data + 1,
                             .size = size - 1,
                             .address = 0x400000,
                             .header = 0x400000,
                             .machine = data[0] % 2 ? EM_X86_64 : EM_AARCH64};
    check_all(&cfi, 256);
    check(&cfi, 0);
    check(&cfi, UINT64_MAX);
    return 0;
}

#ifdef STANDALONE
#include <stdio.h>

#include "tool/util/buf.h"

static uint32_t random_state = 1;

static uint32_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    return random_state ^= random_state << 5;
}

static void damage(struct piano__cfi cfi)
{
    unsigned char *copy = malloc(cfi.size);
    uint64_t pc;
    int64_t count = piano__cfi_count(&cfi);
    if (!copy || count <= 0)
        abort();
    memcpy(copy, cfi.bytes, cfi.size);
    cfi.bytes = copy;
    size_t table = cfi.header - cfi.address + 12;
    size_t frames = table + (size_t)count * 8;
    for (int i = 0; i < 100000; i++) {
        size_t from = i % 8 ? frames : table;
        copy[from + next_random() % (cfi.size - from)] = (unsigned char)next_random();
        if (piano__cfi_function(&cfi, next_random() % (uint64_t)count, &pc) == 0)
            check(&cfi, pc + next_random() % 256);
    }
    free(copy);
}

static void run_elf(const struct buf *file)
{
    Elf64_Ehdr eh;
    Elf64_Phdr ph;
    memcpy(&eh, file->data, sizeof eh);
    struct piano__cfi cfi = {.machine = eh.e_machine};
    for (unsigned i = 0; i < 2u * eh.e_phnum; i++) { /* twice: the table, then its segment */
        memcpy(&ph, file->data + eh.e_phoff + i % eh.e_phnum * sizeof ph, sizeof ph);
        if (ph.p_type == PT_GNU_EH_FRAME)
            cfi.header = ph.p_vaddr;
        if (ph.p_type == PT_LOAD && cfi.header && cfi.header - ph.p_vaddr < ph.p_filesz) {
            cfi.bytes = (const unsigned char *)file->data + ph.p_offset;
            cfi.size = ph.p_filesz;
            cfi.address = ph.p_vaddr;
        }
    }
    if (cfi.size == 0)
        return;
    check_all(&cfi, UINT64_MAX);
    damage(cfi);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct buf b = {0};
        if (buf_read_file(&b, argv[i]) != 0)
            continue;
        if (b.len > sizeof(Elf64_Ehdr) && memcmp(b.data, ELFMAG, SELFMAG) == 0)
            run_elf(&b);
        else
            LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.len);
        buf_free(&b);
    }
    return 0;
}
#endif
