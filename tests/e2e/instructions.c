/* Reads lines `OFFSET SIZE` of functions in FILE, and prints the offsets of their instructions, one function per line; `-` before
 * the first that cannot be read. */
#include <stdio.h>
#include <stdlib.h>

#include "target/entry/x86.h"

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    size_t offset, size;
    if (!file)
        return 1;
    while (scanf("%zx %zx", &offset, &size) == 2) {
        struct piano__x86_insn insn = {.length = 0};
        uint8_t *code = malloc(size);
        if (!code || fseek(file, (long)offset, SEEK_SET) != 0 || fread(code, 1, size, file) != size)
            return 1;
        for (size_t at = 0; at < size; at += insn.length) {
            bool known = piano__x86_read(code + at, size - at, &insn);
            printf(known ? " %zx" : " -%zx", offset + at);
            if (!known)
                break;
        }
        printf("\n");
        free(code);
    }
    return 0;
}
