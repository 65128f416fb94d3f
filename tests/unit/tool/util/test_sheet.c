/* The JSON writer, and sheets: one declaration per column makes a table and JSON. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tool/util/sheet.h"

static void is_text(struct json_writer *w, const char *expected)
{
    assert_int_equal(w->err, 0);
    assert_string_equal(w->text.data, expected);
    json_finish(w);
}

static void commas_stand_between_entries_only(void **state)
{
    (void)state;
    struct json_writer w = {0};
    json_add_object(&w, NULL);
    json_add_array(&w, "empty");
    json_close(&w);
    json_add_array(&w, "list");
    json_add_count(&w, NULL, UINT64_MAX);
    json_add_number(&w, NULL, INT64_MIN);
    json_add_object(&w, NULL);
    json_close(&w);
    json_add_text(&w, NULL, "a\"b");
    json_close(&w);
    json_add_real(&w, "real", 3, 0.5);
    json_add_flag(&w, "yes", true);
    json_add_text(&w, "none", NULL);
    json_add_known(&w, "unknown", false, 1);
    json_add_range(&w, "range", -1, 0);
    json_close(&w);
    is_text(&w, "{\"empty\":[],\"list\":[18446744073709551615,-9223372036854775808,{},\"a\\\"b\"],"
                "\"real\":0.500,\"yes\":true,\"none\":null,\"unknown\":null,\"range\":[-1,0]}");
}

static void a_text_can_be_embedded_in_another(void **state)
{
    (void)state;
    struct json_writer inner = {0}, outer = {0};
    struct buf b = {0};
    json_add_array(&inner, NULL);
    json_add_count(&inner, NULL, 7);
    json_finish_in(&inner, &b);
    assert_string_equal(b.data, "[7]");
    json_add_object(&outer, NULL);
    json_add_raw(&outer, "list", b.data, b.len);
    json_add_null(&outer, "last");
    json_close(&outer);
    is_text(&outer, "{\"list\":[7],\"last\":null}");
    buf_free(&b);
}

static void a_failed_writer_fails_the_text_that_takes_it(void **state)
{
    (void)state;
    struct json_writer w = {0};
    struct buf b = {0};
    json_add_object(&w, NULL);
    json_keep_error(&w, -ENOMEM);
    json_finish_in(&w, &b);
    assert_true(b.failed);
    buf_free(&b);
}

static void a_line_starts_after_the_comma(void **state)
{
    (void)state;
    struct json_writer w = {0};
    json_add_object(&w, NULL);
    json_add_array(&w, "rows");
    for (int i = 0; i < 2; i++) {
        json_add_row(&w);
        json_add_number(&w, "i", i);
        json_close(&w);
    }
    json_line(&w);
    json_close(&w);
    json_line(&w);
    json_add_null(&w, "last");
    json_close(&w);
    is_text(&w, "{\"rows\":[\n{\"i\":0},\n{\"i\":1}\n],\n\"last\":null}");
}

static void nesting_has_no_limit(void **state)
{
    (void)state;
    enum { DEPTH = 5000 };
    struct json_writer w = {0};
    for (int i = 0; i < DEPTH; i++)
        json_add_array(&w, NULL);
    for (int i = 0; i < DEPTH; i++)
        json_close(&w);
    assert_int_equal(w.text.len, 2 * DEPTH);
    assert_memory_equal(w.text.data + DEPTH - 2, "[[]]", 4);
    json_finish(&w);
}

static void text_goes_out_in_parts(void **state)
{
    (void)state;
    char *data = NULL;
    size_t len = 0, most = 0;
    FILE *out = open_memstream(&data, &len);
    assert_non_null(out);
    struct json_writer w = {.out = out};
    json_add_array(&w, NULL);
    for (int i = 0; i < 50000; i++) {
        json_add_row(&w);
        json_close(&w);
        most = w.text.len > most ? w.text.len : most;
    }
    json_close(&w);
    assert_int_equal(json_finish(&w), 0);
    assert_int_equal(fclose(out), 0);
    assert_true(most < len / 2);
    assert_int_equal(len, 50000 * 4 + 2); /* brackets, a comma less, a newline */
    free(data);
}

static void an_error_is_kept(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        skip();
    setvbuf(full, NULL, _IONBF, 0);
    struct json_writer w = {.out = full};
    json_add_array(&w, NULL);
    json_close(&w);
    assert_true(json_finish(&w) < 0);
    fclose(full);
}

struct row {
    const char *name, *module;
    int64_t ns;
    uint64_t bytes;
    double share; /* negative: unknown */
};

static void columns(struct sheet *s, const void *ctx, const void *of)
{
    const bool *with_bytes = ctx;
    const struct row *row = of;
    SHEET(s, TEXT, "name", "Name", .text = row->name, .most = 6);
    SHEET(s, TEXT, "module", "Module", .text = row->module, .place = 1);
    SHEET(s, TIME, "ns", "Time", .number = row->ns, .mark = row->ns > 1000 ? "~" : "",
          .shown = row->ns < 0 ? "-" : NULL);
    SHEET(s, BYTES, "bytes", *with_bytes ? "Bytes" : NULL, .count = row->bytes);
    SHEET(s, SHARE, "share", "%", .real = row->share, .unknown = row->share < 0);
    SHEET(s, FLAG, "big", NULL, .count = row->bytes > 100);
    SHEET(s, REAL, NULL, NULL, .real = 1);
}

static const struct row rows[] = {{"one", NULL, 1500, 2048, 0.125},
                                  {"a long name\x1b", "libc", -5, 0, -1}};

static char *table_of(bool with_bytes)
{
    char *data = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&data, &len);
    struct table t = {.cells = NULL};
    assert_non_null(out);
    for (size_t i = 0; i < 2; i++)
        sheet_table(&t, columns, &with_bytes, &rows[i]);
    assert_int_equal(table_print(&t, out, 0, false), 0);
    table_release(&t);
    fclose(out);
    return data;
}

static void a_sheet_makes_a_table(void **state)
{
    (void)state;
    char *text = table_of(true);
    assert_string_equal(text, "Name      Time  Bytes      %  Module\n"
                              "------------------------------------\n"
                              "one     ~1.5us  2.0KB  12.5%  -\n"
                              "a …x1b       -     0B      -  libc\n");
    free(text);
}

static void a_column_without_a_title_is_not_in_the_table(void **state)
{
    (void)state;
    char *text = table_of(false);
    assert_null(strstr(text, "Bytes"));
    assert_null(strstr(text, "2.0KB"));
    free(text);
}

static void a_sheet_makes_json(void **state)
{
    (void)state;
    struct json_writer w = {0};
    const bool with_bytes = false;
    json_add_array(&w, NULL);
    for (size_t i = 0; i < 2; i++)
        sheet_put_row(&w, columns, &with_bytes, &rows[i]);
    json_close(&w);
    is_text(&w, "[\n{\"name\":\"one\",\"module\":null,\"ns\":1500,\"bytes\":2048,"
                "\"share\":0.125000,\"big\":true},\n"
                "{\"name\":\"a long name\\u001b\",\"module\":\"libc\",\"ns\":-5,\"bytes\":0,"
                "\"share\":null,\"big\":false}]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_entries_only),
        cmocka_unit_test(a_text_can_be_embedded_in_another),
        cmocka_unit_test(a_failed_writer_fails_the_text_that_takes_it),
        cmocka_unit_test(a_line_starts_after_the_comma),
        cmocka_unit_test(nesting_has_no_limit),
        cmocka_unit_test(text_goes_out_in_parts),
        cmocka_unit_test(an_error_is_kept),
        cmocka_unit_test(a_sheet_makes_a_table),
        cmocka_unit_test(a_column_without_a_title_is_not_in_the_table),
        cmocka_unit_test(a_sheet_makes_json),
    };
    return cmocka_run_group_tests_name("sheet", tests, NULL, NULL);
}
