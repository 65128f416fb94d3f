/* The call tree of a recording as text and JSON.
 *
 * A chain of single callees is not indented, because trees of real programs are deeper than a
 * terminal is wide. Branches below 1 % are folded into one line with their number and sum,
 * unless the user asks for everything. */
#include "tool/profile/tree.h"

#include <stdlib.h>

#include "tool/report/heap.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

static const double fold_below = 0.01;
static const double straight_from = 0.999; /* share of a node in its only child */

enum { INDENT_MAX = 40 };

/* ---- text ---- */

struct printer {
    FILE *out;
    const struct tree *t;
    const struct report_options *o;
    double floor_at; /* lighter branches are folded */
    enum figure by;
};

static void print_line(const struct printer *p, double weight, size_t indent, const char *text)
{
    char figure[UNITS_LEN], part[UNITS_LEN], cut[1024];
    size_t used = 19 + indent;
    figure_text(figure, weight, p->by);
    units_percent(part, p->t->nodes[0].weight > 0 ? weight / p->t->nodes[0].weight : 0);
    if (p->o->width > used + 20)
        table_shorten(cut, sizeof(cut), text, p->o->width - used);
    else
        snprintf(cut, sizeof(cut), "%s", text);
    fprintf(p->out, "%9s %7s  %*s%s\n", figure, part, (int)indent, "", cut);
}

static void print_node(const struct printer *p, const struct tree_node *n, size_t indent)
{
    char place[700];
    char *name = profile_safe_name(n->function, n->mmap);
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
    for (uint32_t c = p->t->nodes[node].child; c != TREE_NONE; c = p->t->nodes[c].next) {
        if (p->t->nodes[c].weight >= p->floor_at) {
            shown++;
        } else {
            ++*folded;
            *rest += p->t->nodes[c].weight;
        }
    }
    return shown;
}

/* Depth is bounded by PROFILE_MAX_FRAMES. */
static void print_below(const struct printer *p, uint32_t node,
                        size_t indent) // NOLINT(misc-no-recursion)
{
    size_t folded;
    double rest;
    const struct tree_node *n = &p->t->nodes[node];
    size_t shown = shown_children(p, node, &folded, &rest);
    bool self = n->own >= p->floor_at && n->own > 0 && n->child != TREE_NONE && node != 0;
    bool straight = shown == 1 && p->t->nodes[n->child].weight >= n->weight * straight_from;
    size_t inner = straight || node == 0 || indent >= INDENT_MAX ? indent : indent + 2;
    char text[64];
    if (self)
        print_line(p, n->own, inner, "(itself)");
    for (uint32_t c = n->child; c != TREE_NONE; c = p->t->nodes[c].next) {
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

int heap_print_tree(FILE *out, const struct profile *heap, enum figure by,
                    const struct report_options *o)
{
    static const char *const titles[FIGURES] = {"Live",  "Allocated", "At peak",
                                                "Churn", "CPU",       "Off CPU"};
    struct tree t;
    int err = tree_make(&t, heap, by);
    if (err == 0) {
        struct printer p = {out, &t, o, o->all ? 0 : t.nodes[0].weight * fold_below, by};
        fprintf(out, "\n%s%9s %7s  %s%s\n", o->colour ? "\x1b[1m" : "", titles[by], "%", "Function",
                o->colour ? "\x1b[0m" : "");
        if (t.nodes[0].child == TREE_NONE)
            fputs("no samples\n", out);
        print_below(&p, 0, 0);
        if (!o->all && t.count > 1)
            report_dim(out, o->colour, "branches below 1 %% are folded: --all");
    }
    tree_release(&t);
    return err;
}

/* ---- JSON ---- */

static void put_node(struct json_writer *w, const char *key, const struct tree *t, const char *unit,
                     uint32_t node) // NOLINT(misc-no-recursion)
{
    const struct tree_node *n = &t->nodes[node];
    char own[16];
    snprintf(own, sizeof(own), "own_%s", unit);
    json_add_object(w, key);
    json_add_text(w, "function", node ? n->function : "(all)");
    json_add_text(w, "module", n->module);
    json_add_text(w, "file", n->file);
    json_add_known(w, "line", n->line > 0, n->line);
    json_add_flag(w, "inlined", n->inlined);
    json_add_number(w, unit, figure_whole(n->weight));
    json_add_number(w, own, figure_whole(n->own));
    json_add_array(w, "children");
    for (uint32_t c = n->child; c != TREE_NONE; c = t->nodes[c].next)
        put_node(w, NULL, t, unit, c);
    json_close(w);
    json_close(w);
}

void report_put_tree(struct json_writer *w, const struct profile *p, enum figure by)
{
    struct tree t;
    json_keep_error(w, tree_make(&t, p, by));
    if (w->err == 0) {
        json_line(w);
        json_add_text(w, "tree_by", figure_names[by]);
        put_node(w, "tree", &t, by < FIGURES_OF_HEAP ? "bytes" : "ns", 0);
    }
    tree_release(&t);
}
