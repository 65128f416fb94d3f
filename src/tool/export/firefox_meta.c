/* The parts of a Firefox profile that belong to no thread: what it is, how markers are shown, and
 * memory over time. */
#include "tool/export/firefox.h"

/* ---- what it is ---- */

static void put_category(struct json_writer *j, const char *name, const char *color)
{
    json_add_object(j, NULL);
    json_add_text(j, "name", name);
    json_add_text(j, "color", color);
    json_add_array(j, "subcategories");
    json_add_text(j, NULL, "Other");
    json_close(j);
    json_close(j);
}

static void put_field(struct json_writer *j, const char *key, const char *label)
{
    json_add_object(j, NULL);
    json_add_text(j, "key", key);
    json_add_text(j, "label", label);
    json_add_text(j, "format", "string");
    json_add_flag(j, "searchable", true);
    json_close(j);
}

static void put_schema(struct json_writer *j, enum marker_kind kind)
{
    json_add_row(j);
    json_add_text(j, "name", firefox_marker_types[kind]);
    json_add_text(j, "tooltipLabel", "{marker.name}");
    json_add_text(j, "tableLabel", "{marker.name}");
    json_add_text(j, "chartLabel", "{marker.name}");
    json_add_array(j, "display");
    json_add_text(j, NULL, "marker-chart");
    json_add_text(j, NULL, "marker-table");
    if (kind == MARKER_POLL || kind == MARKER_FRAME || kind == MARKER_MARK)
        json_add_text(j, NULL, "timeline-overview");
    json_close(j);
    json_add_array(j, "data");
    if (kind == MARKER_POLL)
        put_field(j, "task", "Task");
    if (kind == MARKER_FRAME) {
        put_field(j, "frame", "Frame");
        put_field(j, "spike", "Spike");
    }
    json_close(j);
    json_close(j);
}

void firefox_put_meta(struct json_writer *j, const struct export_source *s)
{
    const struct piano__rec_header *h = &s->profile->rec.header;
    uint64_t hz = h->trace.cpu_hz;
    char name[PIANO_REC_PATH];
    json_add_object(j, "meta");
    json_add_count(j, "preprocessedProfileVersion", 48);
    json_add_count(j, "version", 30);
    json_add_text(j, "product", export_program(name, s));
    json_add_text(j, "importedFrom", "piano");
    json_add_real(j, "startTime", 3, (double)h->start_real_ns / 1e6);
    json_add_real(j, "interval", 6, hz && hz <= 1000000000 ? 1e3 / (double)hz : 1);
    json_add_count(j, "processType", 0);
    json_add_flag(j, "debug", false);
    json_add_count(j, "stackwalk", 1);
    json_add_flag(j, "symbolicated", true);
    json_add_flag(j, "usesOnlyOneStackType", true);
    json_add_flag(j, "doesNotUseFrameImplementation", true);
    json_add_flag(j, "sourceCodeIsNotOnSearchfox", true);
    json_add_object(j, "sampleUnits");
    json_add_text(j, "time", "ms");
    json_add_text(j, "eventDelay", "ms");
    json_add_text(j, "threadCPUDelta", "ns");
    json_close(j);
    json_add_array(j, "categories"); /* in the order of enum firefox_category */
    put_category(j, "Other", "grey");
    put_category(j, "Native", "blue");
    put_category(j, "Python", "yellow");
    json_close(j);
    json_add_array(j, "markerSchema");
    for (int kind = 0; kind < MARKER_KINDS; kind++)
        put_schema(j, (enum marker_kind)kind);
    json_close(j);
    json_close(j);
}

/* ---- memory ---- */

/* A count is the change since the one before. */
void firefox_put_counters(struct json_writer *j, const struct export_source *s, uint64_t start_ns)
{
    const struct recording *rec = &s->profile->rec;
    char pid[24];
    int64_t before = 0;
    snprintf(pid, sizeof(pid), "%u", rec->header.pid);
    json_add_array(j, "counters");
    if (s->heap && rec->snapshot_count > 0 && !rec->range.given) {
        json_add_object(j, NULL);
        json_add_text(j, "name", "malloc");
        json_add_text(j, "category", "Memory");
        json_add_text(j, "description", "Live bytes, at snapshots");
        json_add_text(j, "pid", pid);
        json_add_count(j, "mainThreadIndex", 0);
        json_add_object(j, "samples");
        json_add_count(j, "length", rec->snapshot_count);
        json_add_array(j, "time");
        for (size_t i = 0; i < rec->snapshot_count; i++) {
            uint64_t at = rec->snapshots[i].at_ns;
            json_add_real(j, NULL, 6, at > start_ns ? (double)(at - start_ns) / 1e6 : 0);
        }
        json_close(j);
        json_add_array(j, "count");
        for (size_t i = 0; i < rec->snapshot_count; i++) {
            int64_t live = figure_whole(rec->snapshots[i].live_bytes);
            json_add_number(j, NULL, live - before);
            before = live;
        }
        json_close(j);
        json_close(j);
        json_close(j);
    }
    json_close(j);
}
