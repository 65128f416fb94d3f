/* Lengths of x86-64 instructions, from the opcode maps of the manuals of Intel and AMD. Invalid
 * opcodes, and those that compilers do not use in programs, are not known. */
#include "target/entry/x86.h"

#include <string.h>

/* One letter for each opcode. What follows the opcode:
 *
 *   .  nothing                      i  one byte              d  four bytes (two with prefix 66)
 *   m  ModRM                        b  ModRM, one byte       z  ModRM, four bytes (two with 66)
 *   w  two bytes                    e  three bytes           A  an address of 8 bytes (4 with 67)
 *   Q  as d, but 8 bytes with REX.W
 *   F  ModRM, one byte if it is `test`                       G  the same with four bytes
 *   t  nothing, does not go on      W  two bytes, does not go on
 *   j  jump, one byte               J  jump, four bytes      C  call, four bytes
 *   c  condition, one byte          K  condition, four bytes l  loop, one byte
 *   I  ModRM: call or jump to a computed address
 *   p  prefix                       r  REX prefix            E  another map
 *   V  VEX or EVEX prefix           x  unknown */
static const char one_byte[] = "mmmmidxxmmmmidxE" /* 00 */
                               "mmmmidxxmmmmidxx" /* 10 */
                               "mmmmidpxmmmmidpx" /* 20 */
                               "mmmmidpxmmmmidpx" /* 30 */
                               "rrrrrrrrrrrrrrrr" /* 40 */
                               "................" /* 50 */
                               "xxVmppppdzib...." /* 60 */
                               "cccccccccccccccc" /* 70 */
                               "bzxbmmmmmmmmmmmm" /* 80 */
                               "..........x....." /* 90 */
                               "AAAA....id......" /* a0 */
                               "iiiiiiiiQQQQQQQQ" /* b0 */
                               "bbWtVVbze.Wttixt" /* c0 */
                               "mmmmxxx.mmmmmmmm" /* d0 */
                               "lllliiiiCJxj...." /* e0 */
                               "p.ppt.FG......mI" /* f0 */;

static const char two_bytes[] = "mmmmx.....xtxm.b" /* 00 */
                                "mmmmmmmmmmmmmmmm" /* 10 */
                                "mmmmxxxxmmmmmmmm" /* 20 */
                                "......x.ExExxxxx" /* 30 */
                                "mmmmmmmmmmmmmmmm" /* 40 */
                                "mmmmmmmmmmmmmmmm" /* 50 */
                                "mmmmmmmmmmmmmmmm" /* 60 */
                                "bbbbmmm.mmmmmmmm" /* 70 */
                                "KKKKKKKKKKKKKKKK" /* 80 */
                                "mmmmmmmmmmmmmmmm" /* 90 */
                                "...mbmxx...mbmmm" /* a0 */
                                "mmmmmmmmmmbmmmmm" /* b0 */
                                "mmbmbbbm........" /* c0 */
                                "mmmmmmmmmmmmmmmm" /* d0 */
                                "mmmmmmmmmmmmmmmm" /* e0 */
                                "mmmmmmmmmmmmmmmm" /* f0 */;

enum { MOST_BYTES = 15 };

struct reader {
    const uint8_t *code;
    size_t room, at;
    bool has_66, has_67, has_wide;
    uint8_t modrm;
    size_t relative; /* offset of a displacement relative to the next instruction */
};

/* Returns the next byte; beyond the end, one that makes the instruction too long. */
static uint8_t next(struct reader *r)
{
    return r->at++ < r->room ? r->code[r->at - 1] : 0xcc;
}

static void read_modrm(struct reader *r)
{
    r->modrm = next(r);
    unsigned mod = r->modrm >> 6, rm = r->modrm & 7;
    if (mod == 3)
        return;
    unsigned base = rm == 4 ? next(r) & 7u : rm;
    if (mod == 0 && rm == 5)
        r->relative = r->at;
    r->at += mod == 1 ? 1 : mod == 2 || base == 5 ? 4 : 0;
}

/* VEX (c4, c5) and EVEX (62) prefixes: returns the letter of the opcode after them. */
static char read_vector(struct reader *r, uint8_t prefix)
{
    unsigned map = 1;
    if (prefix == 0xc4)
        map = next(r) & 31u;
    if (prefix == 0x62) {
        map = next(r) & 7u;
        r->at++;
    }
    r->at++;
    uint8_t opcode = next(r);
    if (map == 3)
        return 'b';
    if (map == 1)
        return two_bytes[opcode] == 'K' || two_bytes[opcode] == 'E' ? 'x' : two_bytes[opcode];
    return map == 2 || map == 5 || map == 6 ? 'm' : 'x';
}

/* Reads prefixes and opcode, and returns the letter of the opcode. */
static char read_opcode(struct reader *r)
{
    char letter;
    uint8_t byte;
    while ((letter = one_byte[byte = next(r)]) == 'p' && r->at < MOST_BYTES) {
        r->has_66 |= byte == 0x66;
        r->has_67 |= byte == 0x67;
    }
    if (letter == 'r') {
        r->has_wide = byte & 8;
        letter = one_byte[byte = next(r)];
    }
    if (letter == 'V')
        return read_vector(r, byte);
    if (letter != 'E')
        return letter == 'r' ? 'x' : letter;
    letter = two_bytes[byte = next(r)];
    if (letter != 'E')
        return letter;
    r->at++;
    return byte == 0x3a ? 'b' : 'm';
}

static size_t operand_bytes(const struct reader *r, char letter)
{
    bool is_test = (r->modrm & 0x30) == 0;
    size_t full = r->has_66 && !r->has_wide ? 2 : 4;
    if (letter == 'Q')
        return r->has_wide ? 8 : full;
    if (letter == 'd' || letter == 'z' || (letter == 'G' && is_test))
        return full;
    if (strchr("ibjcl", letter) || (letter == 'F' && is_test))
        return 1;
    if (letter == 'w' || letter == 'W')
        return 2;
    if (letter == 'A')
        return r->has_67 ? 4 : 8;
    return letter == 'e' ? 3 : strchr("JCK", letter) ? 4 : 0;
}

static enum piano__x86_flow flow_of(const struct reader *r, char letter)
{
    unsigned what = (unsigned)r->modrm >> 3 & 7;
    switch (letter) {
    case 'j':
    case 'J':
        return PIANO_X86_JUMP;
    case 'c':
    case 'K':
        return PIANO_X86_JUMP_IF;
    case 'l':
        return PIANO_X86_OTHER;
    case 'C':
        return PIANO_X86_CALL;
    case 't':
    case 'W':
        return PIANO_X86_STOP;
    case 'I':
        return what == 4 || what == 5   ? PIANO_X86_STOP
               : what == 2 || what == 3 ? PIANO_X86_OTHER
                                        : PIANO_X86_NEXT;
    default:
        return PIANO_X86_NEXT;
    }
}

static int64_t read_offset(const uint8_t *at, size_t bytes)
{
    int32_t wide;
    if (bytes == 1)
        return (int8_t)*at;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

bool piano__x86_read(const uint8_t *code, size_t room, struct piano__x86_insn *insn)
{
    struct reader r = {.code = code, .room = room < MOST_BYTES ? room : MOST_BYTES};
    *insn = (struct piano__x86_insn){.length = 0};
    char letter = read_opcode(&r);
    insn->opcode = r.at - 1;
    if (letter == 'x' || letter == 'p') /* nothing but prefixes */
        return false;
    if (strchr("mbzFGI", letter))
        read_modrm(&r);
    size_t bytes = operand_bytes(&r, letter);
    r.at += bytes;
    if (r.at > r.room)
        return false;
    insn->length = r.at;
    insn->relative = r.relative;
    insn->flow = flow_of(&r, letter);
    if (strchr("jJcKlC", letter))
        insn->target = (int64_t)r.at + read_offset(code + r.at - bytes, bytes);
    return true;
}
