/* Stacks as a tree. Parents have lower numbers than their children. */
#include "tool/view/trie.h"

#include <stdlib.h>
#include <string.h>

#include "tool/profile/stretch.h"
#include "tool/util/vec.h"

static bool same_code(const struct trie *t, const struct trie_code *a, const struct trie_code *b)
{
    bool named = a->function == b->function && a->module == b->module && a->inlined == b->inlined;
    return named && (t->by_name || (a->file == b->file && a->line == b->line));
}

static const char *module_of(const struct trie *t, const char *module)
{
    return t->program && strcmp(module, t->program) == 0 ? t->program_as : module;
}

static uint32_t function_of(struct trie *t, struct texts *s, const char *name)
{
    const char *within = t->program ? profile_name_within(name, t->program) : name;
    if (within == name)
        return texts_shared(s, name);
    struct buf b = {0};
    buf_printf(&b, "%s%s", t->program_as, within);
    uint32_t number = b.failed ? PACK_NONE : texts_of(s, b.data);
    t->failed |= b.failed;
    buf_free(&b);
    return number;
}

static uint32_t code_of(struct trie *t, struct texts *s, const struct symbol_frame *f)
{
    const char *module = module_of(t, f->module);
    struct trie_code code = {.function = function_of(t, s, f->function),
                             .file = texts_shared(s, f->file),
                             .module = *module ? texts_shared(s, module) : PACK_NONE,
                             .line = f->line,
                             .inlined = f->inlined,
                             .plumbing = stretch_is_passed(f)};
    const uint64_t id[] = {(uint64_t)code.function << 33 ^ (uint64_t)code.module << 1 ^
                               code.inlined,
                           t->by_name ? 0 : (uint64_t)code.file << 32 | code.line};
    uint64_t key = map_hash(id, sizeof(id));
    uint32_t found;
    for (; (found = map_find(&t->code_of, key)) != MAP_NONE; key++)
        if (same_code(t, &t->codes[found], &code))
            return found;
    if (VEC_ROOM(t->codes, t->code_count, t->code_cap) != 0 ||
        map_put(&t->code_of, key, (uint32_t)t->code_count) != 0) {
        t->failed = true;
        return PACK_NONE;
    }
    t->codes[t->code_count] = code;
    return (uint32_t)t->code_count++;
}

static uint32_t node_of(struct trie *t, uint32_t parent, uint32_t code)
{
    uint64_t key = (uint64_t)parent << 32 | code; /* unique */
    uint32_t found = map_find(&t->node_of, key);
    if (found != MAP_NONE)
        return found;
    if (VEC_ROOM(t->nodes, t->node_count, t->node_cap) != 0 ||
        map_put(&t->node_of, key, (uint32_t)t->node_count) != 0) {
        t->failed = true;
        return PACK_NONE;
    }
    t->nodes[t->node_count] = (struct trie_node){parent, code};
    return (uint32_t)t->node_count++;
}

uint32_t trie_stack(struct trie *t, struct texts *s, struct profile *p, uint32_t stack)
{
    if (!t->frames)
        t->frames = calloc(PROFILE_MAX_FRAMES, sizeof(*t->frames));
    if (!t->frames || profile_name_stack(p, stack) != 0) {
        t->failed = true;
        return PACK_NONE;
    }
    uint32_t node = PACK_NONE;
    for (size_t i = profile_frames(p, stack, t->frames); i-- > 0 && !t->failed;) {
        uint32_t code = code_of(t, s, t->frames[i]);
        node = t->failed ? PACK_NONE : node_of(t, node, code);
    }
    return node;
}

uint32_t trie_outwards(const struct trie *t, uint32_t node, uint32_t frames)
{
    while (frames-- > 0 && node < t->node_count && t->nodes[node].parent != PACK_NONE)
        node = t->nodes[node].parent;
    return node;
}

void trie_pack(struct trie *t, struct pack *p)
{
    p->failed |= t->failed;
    if (t->node_count == 0)
        return;
    struct pack_table *c = pack_add(p, SCHEMA_code), *n = pack_add(p, SCHEMA_nodes);
    for (size_t i = 0; c && i < t->code_count; i++) {
        column_put(&c->columns[0], t->codes[i].function);
        column_put(&c->columns[1], t->codes[i].file);
        column_put(&c->columns[2], t->codes[i].line);
        column_put(&c->columns[3], t->codes[i].module);
        column_put(&c->columns[4], t->codes[i].inlined);
        column_put(&c->columns[5], t->codes[i].plumbing);
        SCHEMA_WRITES(code, 6);
    }
    for (size_t i = 0; n && i < t->node_count; i++) {
        column_put(&n->columns[0], t->nodes[i].parent);
        column_put(&n->columns[1], t->nodes[i].code);
        SCHEMA_WRITES(nodes, 2);
    }
}

void trie_release(struct trie *t)
{
    map_release(&t->code_of);
    map_release(&t->node_of);
    free(t->codes);
    free(t->nodes);
    free(t->frames);
    *t = (struct trie){.codes = NULL};
}
