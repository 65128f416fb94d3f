/* The call tree of a recording, from the roots: memory allocated, or time spent, below each
 * function. A node is a function under one caller, whatever the line of the call. Inlined
 * functions have their own nodes, marked as such.
 *
 * A chain of single callees is not indented, because trees of real programs are deeper than a
 * terminal is wide. Branches below 1 % are folded into one line with their number and sum,
 * unless the user asks for everything. A tree is cut at MAX_NODES nodes. */
#include "tool/report/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

static const double fold_below = 0.01;
static const double straight_from = 0.999; /* share of a node in its only child */

enum { INDENT_MAX = 40, MAX_NODES = 1 << 22 };
#define NO_NODE UINT32_MAX

struct node {
    const char *function, *file, *module;
    unsigned line; /* of the first call found */
    bool inlined, mmap;
    double weight, own; /* OWN: by this function itself */
    uint32_t parent, child, next;
};

struct tree {
    struct node *nodes; /* 0 is the common root */
    size_t count, cap;
    uint32_t *slots; /* open addressing from parent and function to the node; 0: free */
    size_t slot_count;
    bool failed;
};

static bool is_child(const struct node *n, uint32_t parent, const struct symbol_frame *f, bool mmap)
{
    return n->parent == parent && n->function == f->function && n->module == f->module &&
           n->inlined == f->inlined && n->mmap == mmap;
}

static size_t slot_of(const struct tree *t, uint32_t parent, const char *function)
{
    uint64_t h = ((uintptr_t)function ^ (uint64_t)parent << 32) * 0xff51afd7ed558ccdu;
    return (size_t)(h ^ h >> 31) & (t->slot_count - 1);
}

/* Makes room for one more node; false if it cannot. */
static bool make_room(struct tree *t)
{
    if (t->count < t->cap)
        return true;
    size_t cap = t->cap ? t->cap * 2 : 256;
    struct node *nodes = cap <= MAX_NODES ? realloc(t->nodes, cap * sizeof(*nodes)) : NULL;
    uint32_t *slots = nodes ? calloc(cap * 2, sizeof(*slots)) : NULL;
    t->nodes = nodes ? nodes : t->nodes;
    if (!slots) {
        t->failed |= cap <= MAX_NODES;
        return false;
    }
    free(t->slots);
    t->slots = slots;
    t->slot_count = cap * 2;
    t->cap = cap;
    for (uint32_t i = 1; i < t->count; i++) {
        size_t at = slot_of(t, t->nodes[i].parent, t->nodes[i].function);
        while (slots[at])
            at = (at + 1) & (t->slot_count - 1);
        slots[at] = i;
    }
    return true;
}

/* Finds or creates the child of PARENT for frame F; NO_NODE if there is no room. */
static uint32_t child_of(struct tree *t, uint32_t parent, const struct symbol_frame *f, bool mmap)
{
    if (!make_room(t) && t->failed)
        return NO_NODE;
    size_t at = slot_of(t, parent, f->function);
    for (; t->slots[at]; at = (at + 1) & (t->slot_count - 1))
        if (is_child(&t->nodes[t->slots[at]], parent, f, mmap))
            return t->slots[at];
    if (t->count == t->cap)
        return NO_NODE;
    uint32_t new = (uint32_t)t->count++;
    t->slots[at] = new;
    t->nodes[new] = (struct node){.function = f->function,
                                  .file = f->file,
                                  .module = f->module,
                                  .line = f->line,
                                  .inlined = f->inlined,
                                  .mmap = mmap,
                                  .parent = parent,
                                  .child = NO_NODE,
                                  .next = t->nodes[parent].child};
    t->nodes[parent].child = new;
    return new;
}

static int add_stack(struct tree *t, const struct heap *heap, uint32_t stack, double weight,
                     const struct symbol_frame **frames)
{
    size_t count = heap_frames(heap, stack, frames);
    bool mmap = (heap->rec.stacks[stack].flags & PIANO_STACK_MMAP) != 0;
    uint32_t at = 0, child;
    t->nodes[0].weight += weight;
    for (size_t i = count; i-- > 0;) {
        child = child_of(t, at, frames[i], mmap && i == 0);
        if (child == NO_NODE)
            break;
        at = child;
        t->nodes[at].weight += weight;
    }
    t->nodes[at].own += weight;
    return t->failed ? -ENOMEM : 0;
}

/* Merge sort of a list of siblings: heaviest first, then by name. */
static bool in_order(const struct node *a, const struct node *b)
{
    if (a->weight > b->weight || a->weight < b->weight)
        return a->weight > b->weight;
    return strcmp(a->function, b->function) <= 0;
}

static uint32_t merge(struct node *nodes, uint32_t a, uint32_t b)
{
    uint32_t head = NO_NODE, *tail = &head;
    while (a != NO_NODE && b != NO_NODE) {
        uint32_t *from = in_order(&nodes[a], &nodes[b]) ? &a : &b;
        *tail = *from;
        tail = &nodes[*from].next;
        *from = nodes[*from].next;
    }
    *tail = a != NO_NODE ? a : b;
    return head;
}

static uint32_t sort_list(struct node *nodes, uint32_t list)
{
    uint32_t bins[33];
    for (int i = 0; i < 33; i++)
        bins[i] = NO_NODE;
    while (list != NO_NODE) {
        uint32_t one = list;
        int i = 0;
        list = nodes[list].next;
        nodes[one].next = NO_NODE;
        for (; i < 32 && bins[i] != NO_NODE; i++) {
            one = merge(nodes, bins[i], one);
            bins[i] = NO_NODE;
        }
        bins[i] = one;
    }
    for (int i = 0; i < 33; i++)
        list = merge(nodes, bins[i], list);
    return list;
}

static int make(struct tree *t, const struct heap *heap, enum heap_by by)
{
    const struct symbol_frame **frames = calloc(HEAP_MAX_FRAMES, sizeof(*frames));
    *t = (struct tree){.nodes = NULL};
    int err = frames && make_room(t) ? 0 : -ENOMEM;
    if (err == 0)
        t->nodes[t->count++] =
            (struct node){.function = "", .module = "", .child = NO_NODE, .next = NO_NODE};
    for (uint32_t i = 0; i < heap->rec.stack_count && err == 0; i++) {
        double weight = heap_figure(&heap->rec.stacks[i].sum, by);
        if (heap->stacks[i].pcs && weight > 0)
            err = add_stack(t, heap, i, weight, frames);
    }
    for (size_t i = 0; i < t->count && err == 0; i++)
        t->nodes[i].child = sort_list(t->nodes, t->nodes[i].child);
    free(frames);
    return err;
}

/* ---- text ---- */

struct printer {
    FILE *out;
    const struct tree *t;
    const struct report_options *o;
    double floor_at; /* lighter branches are folded */
    enum heap_by by;
};

static void print_line(const struct printer *p, double weight, size_t indent, const char *text)
{
    char figure[UNITS_LEN], part[UNITS_LEN], cut[1024];
    size_t used = 19 + indent;
    heap_figure_text(figure, weight, p->by);
    units_percent(part, p->t->nodes[0].weight > 0 ? weight / p->t->nodes[0].weight : 0);
    if (p->o->width > used + 20)
        table_shorten(cut, sizeof(cut), text, p->o->width - used);
    else
        snprintf(cut, sizeof(cut), "%s", text);
    fprintf(p->out, "%9s %7s  %*s%s\n", figure, part, (int)indent, "", cut);
}

static void print_node(const struct printer *p, const struct node *n, size_t indent)
{
    char place[700];
    char *name = heap_name(n->function, n->mmap);
    struct buf b = {0};
    buf_puts(&b, name ? name : "?");
    if (n->inlined)
        buf_puts(&b, " (inlined)");
    if (n->file)
        buf_printf(&b, "  %s", heap_place(place, sizeof(place), n->file, n->line));
    print_line(p, n->weight, indent, b.data ? b.data : "?");
    buf_free(&b);
    free(name);
}

static size_t shown_children(const struct printer *p, uint32_t node, size_t *folded, double *rest)
{
    size_t shown = 0;
    *folded = 0;
    *rest = 0;
    for (uint32_t c = p->t->nodes[node].child; c != NO_NODE; c = p->t->nodes[c].next) {
        if (p->t->nodes[c].weight >= p->floor_at) {
            shown++;
        } else {
            ++*folded;
            *rest += p->t->nodes[c].weight;
        }
    }
    return shown;
}

/* Depth is bounded by HEAP_MAX_FRAMES. */
static void print_below(const struct printer *p, uint32_t node,
                        size_t indent) // NOLINT(misc-no-recursion)
{
    size_t folded;
    double rest;
    const struct node *n = &p->t->nodes[node];
    size_t shown = shown_children(p, node, &folded, &rest);
    bool self = n->own >= p->floor_at && n->own > 0 && n->child != NO_NODE && node != 0;
    bool straight = shown == 1 && p->t->nodes[n->child].weight >= n->weight * straight_from;
    size_t inner = straight || node == 0 || indent >= INDENT_MAX ? indent : indent + 2;
    char text[64];
    if (self)
        print_line(p, n->own, inner, "(itself)");
    for (uint32_t c = n->child; c != NO_NODE; c = p->t->nodes[c].next) {
        if (p->t->nodes[c].weight < p->floor_at)
            continue;
        print_node(p, &p->t->nodes[c], inner);
        print_below(p, c, inner);
    }
    if (folded > 0) {
        snprintf(text, sizeof(text), "(%zu smaller branch%s)", folded, folded == 1 ? "" : "es");
        print_line(p, rest, inner, text);
    }
}

int heap_print_tree(FILE *out, const struct heap *heap, enum heap_by by,
                    const struct report_options *o)
{
    static const char *const titles[HEAP_ALL_BYS] = {"Live",  "Allocated", "At peak",
                                                     "Churn", "CPU",       "Off CPU"};
    struct tree t;
    int err = make(&t, heap, by);
    if (err == 0) {
        struct printer p = {out, &t, o, o->all ? 0 : t.nodes[0].weight * fold_below, by};
        fprintf(out, "\n%s%9s %7s  %s%s\n", o->colour ? "\x1b[1m" : "", titles[by], "%", "Function",
                o->colour ? "\x1b[0m" : "");
        if (t.nodes[0].child == NO_NODE)
            fputs("nothing, as far as was sampled\n", out);
        print_below(&p, 0, 0);
        if (!o->all && t.count > 1)
            report_dim(out, o->colour, "branches below 1 %% are folded: --all");
    }
    free(t.slots);
    free(t.nodes);
    return err;
}

/* ---- JSON ---- */

static void put_node(struct buf *b, const struct tree *t, const char *unit,
                     uint32_t node) // NOLINT(misc-no-recursion)
{
    const struct node *n = &t->nodes[node];
    buf_puts(b, "{\"function\":");
    json_put_string(b, node ? n->function : "(all)");
    buf_puts(b, ",\"module\":");
    json_put_string(b, n->module);
    buf_puts(b, ",\"file\":");
    if (n->file)
        json_put_string(b, n->file);
    else
        buf_puts(b, "null");
    if (n->line)
        buf_printf(b, ",\"line\":%u", n->line);
    else
        buf_puts(b, ",\"line\":null");
    buf_printf(b, ",\"inlined\":%s,\"%s\":%lld,\"own_%s\":%lld,\"children\":[",
               n->inlined ? "true" : "false", unit, (long long)heap_whole(n->weight), unit,
               (long long)heap_whole(n->own));
    for (uint32_t c = n->child; c != NO_NODE; c = t->nodes[c].next) {
        put_node(b, t, unit, c);
        buf_puts(b, t->nodes[c].next != NO_NODE ? "," : "");
    }
    buf_puts(b, "]}");
}

void heap_put_tree(struct buf *b, const struct heap *heap, enum heap_by by, int *err)
{
    struct tree t;
    *err = make(&t, heap, by);
    if (*err == 0) {
        buf_printf(b, "\"tree_by\":\"%s\",\"tree\":", heap_by_names[by]);
        put_node(b, &t, by < HEAP_BYS ? "bytes" : "ns", 0);
    }
    free(t.slots);
    free(t.nodes);
}
