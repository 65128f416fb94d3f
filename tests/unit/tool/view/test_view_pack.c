/* The data of a page: columns encoded and decoded, blocks, and small parts of a page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "tool/view/base64.h"
#include "tool/view/lanes.h"
#include "tool/view/pack.h"
#include "tool/view/request.h"
#include "tool/view/sha256.h"
#include "tool/view/texts.h"

enum { MANY = 100000 };

/* ---- columns ---- */

static struct column column_of(enum column_type type, enum column_code code, const int64_t *values,
                               size_t count, bool fitted)
{
    struct column c = {.kind = {.name = "x", .type = type, .code = code, .fitted = fitted}};
    for (size_t i = 0; i < count; i++)
        column_put(&c, values[i]);
    assert_false(c.failed);
    assert_int_equal(c.rows, count);
    assert_int_equal(c.bytes, count * column_width(c.kind.type));
    return c;
}

/* Value I of decoded bytes, with a sign if the type has one. */
static int64_t value_at(const unsigned char *bytes, enum column_type type, size_t i)
{
    uint64_t v = 0;
    size_t width = column_width(type);
    memcpy(&v, bytes + i * width, width); /* tests run on little-endian machines */
    return (int64_t)v;
}

/* Decodes COUNT values of TYPE from IN to OUT, like a reader (docs/page-format.md). */
static void decode(enum column_type type, enum column_code code, const unsigned char *in,
                   unsigned char *out, size_t count)
{
    size_t width = column_width(type);
    bool delta = code == COLUMN_DELTA || code == COLUMN_DELTA_PLANES;
    bool planes = code == COLUMN_PLANES || code == COLUMN_DELTA_PLANES;
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        for (size_t k = 0; k < width; k++)
            value |= (uint64_t)in[planes ? k * count + i : i * width + k] << 8 * k;
        before = delta ? before + value : value;
        memcpy(out + i * width, &before, width); /* little-endian */
    }
}

static void there_and_back(enum column_type type, enum column_code code, const int64_t *values,
                           size_t count)
{
    struct column c = column_of(type, code, values, count, false);
    unsigned char *coded = malloc(c.bytes + 1), *back = malloc(c.bytes + 1);
    assert_non_null(coded);
    assert_non_null(back);
    column_encode(&c, coded);
    decode(type, code, coded, back, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(value_at(back, type, i), values[i]);
    free(coded);
    free(back);
    column_release(&c);
}

static void test_columns_survive_encoding_and_decoding(void **state)
{
    static const int64_t small[] = {0, 255, 1, 254, 0, 7};
    static const int64_t words[] = {0, UINT32_MAX, 1, UINT32_MAX - 1, 0, 1 << 20};
    static const int64_t wide[] = {0, INT64_MAX, INT64_MIN, -1, 1, INT64_MIN + 1, (int64_t)1 << 53};
    (void)state;
    for (int code = COLUMN_PLAIN; code <= COLUMN_DELTA_PLANES; code++) {
        for (size_t count = 0; count <= 6; count++) {
            there_and_back(COLUMN_U8, (enum column_code)code, small, count);
            there_and_back(COLUMN_U16, (enum column_code)code, small, count);
            there_and_back(COLUMN_U32, (enum column_code)code, words, count);
        }
        for (size_t count = 0; count <= 7; count++)
            there_and_back(COLUMN_I64, (enum column_code)code, wide, count);
    }
}

/* The exact bytes, for readers written independently. */
static void test_encoded_bytes_match_the_format(void **state)
{
    static const int64_t values[] = {0x0102, 0x0304, 0x0303};
    static const unsigned char planes[] = {2, 4, 3, 1, 3, 3, 0, 0, 0, 0, 0, 0};
    static const unsigned char deltas[] = {2, 1, 0, 0, 2, 2, 0, 0, 255, 255, 255, 255};
    unsigned char out[12];
    (void)state;
    struct column c = column_of(COLUMN_U32, COLUMN_PLANES, values, 3, false);
    column_encode(&c, out);
    assert_memory_equal(out, planes, sizeof(planes));
    column_release(&c);
    c = column_of(COLUMN_U32, COLUMN_DELTA, values, 3, false);
    column_encode(&c, out);
    assert_memory_equal(out, deltas, sizeof(deltas));
    column_release(&c);
}

static void test_values_are_clamped_to_the_column_type(void **state)
{
    static const int64_t values[] = {-5, INT64_MAX, 300};
    (void)state;
    struct column c = column_of(COLUMN_U8, COLUMN_PLAIN, values, 3, false);
    assert_int_equal(value_at(c.data, COLUMN_U8, 0), 0);
    assert_int_equal(value_at(c.data, COLUMN_U8, 1), 255);
    assert_int_equal(value_at(c.data, COLUMN_U8, 2), 255);
    column_release(&c);
}

/* Narrow as long as possible; existing values are kept when the column becomes wider. */
static void test_column_type_is_the_narrowest_that_fits(void **state)
{
    static const int64_t narrow[] = {0, UINT32_MAX, 17};
    static const int64_t lots[][3] = {
        {5, 6, (int64_t)UINT32_MAX + 1}, {-1, 5, 6}, {INT64_MAX, 0, -1}, {5, INT64_MIN, 6}};
    (void)state;
    struct column c = column_of(COLUMN_I64, COLUMN_PLAIN, narrow, 3, true);
    assert_int_equal(c.kind.type, COLUMN_U32);
    column_release(&c);
    for (size_t k = 0; k < 4; k++) {
        c = column_of(COLUMN_I64, COLUMN_PLAIN, lots[k], 3, true);
        assert_int_equal(c.kind.type, COLUMN_I64);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(value_at(c.data, COLUMN_I64, i), lots[k][i]);
        column_release(&c);
    }
}

static void test_append_widens_the_column_type(void **state)
{
    static const int64_t narrow[] = {1, 2}, wide[] = {-1, INT64_MAX};
    (void)state;
    for (int first = 0; first < 2; first++) {
        const int64_t *values[2] = {first ? wide : narrow, first ? narrow : wide};
        struct column all = {.kind = {.name = "x", .type = COLUMN_I64, .fitted = true}}, part;
        for (int i = 0; i < 2; i++) {
            part = column_of(COLUMN_I64, COLUMN_PLAIN, values[i], 2, true);
            column_append(&all, &part);
            assert_null(part.data);
        }
        part = column_of(COLUMN_I64, COLUMN_PLAIN, NULL, 0, true);
        column_append(&all, &part);
        assert_int_equal(all.rows, 4);
        assert_int_equal(all.kind.type, COLUMN_I64);
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(value_at(all.data, COLUMN_I64, i), values[i / 2][i % 2]);
        column_release(&all);
    }
}

/* ---- blocks ---- */

static const struct pack_table *find(const struct pack *p, const char *name)
{
    for (size_t i = 0; i < p->table_count; i++)
        if (strcmp(p->tables[i]->name, name) == 0)
            return p->tables[i];
    return NULL;
}

/* The coded bytes of a column, inflated; malloc'd. */
static unsigned char *unpacked(const struct pack *p, const struct pack_place *place)
{
    const struct pack_block *b = &p->blocks[place->block];
    unsigned char *raw = malloc(b->raw_bytes + 1), *out = malloc(place->bytes + 1);
    uLongf len = b->raw_bytes;
    assert_non_null(raw);
    assert_non_null(out);
    if (b->deflated)
        assert_int_equal(uncompress(raw, &len, b->data, b->bytes), Z_OK);
    else
        memcpy(raw, b->data, b->bytes);
    assert_int_equal(len, b->raw_bytes);
    assert_true(place->at + place->bytes <= b->raw_bytes);
    assert_int_equal(place->at % 8, 0);
    memcpy(out, raw + place->at, place->bytes);
    free(raw);
    return out;
}

static void test_pack(void **state)
{
    struct json_writer w = {.out = NULL};
    static const struct column_kind kinds[] = {{"at", COLUMN_I64, COLUMN_DELTA_PLANES, false},
                                               {"noise", COLUMN_U32, COLUMN_PLAIN, false},
                                               {"share", COLUMN_F64, COLUMN_PLANES, false}};
    struct pack p = {.blocks = NULL};
    struct buf json = {0}, meta = {0};
    uint32_t noise = 1;
    (void)state;
    struct pack_table *big = pack_table(&p, "big", kinds, 3),
                      *small = pack_table(&p, "small", kinds, 1);
    struct pack_table *none = pack_table(&p, "empty", kinds, 3);
    assert_non_null(big);
    assert_non_null(small);
    assert_non_null(none);
    for (int64_t i = 0; i < MANY; i++) {
        noise = noise * 1664525 + 1013904223;
        column_put(&big->columns[0], INT64_MAX - MANY + i);
        column_put(&big->columns[1], noise);
        column_put_f64(&big->columns[2], -0.5);
    }
    column_put(&small->columns[0], 42);
    buf_puts(&json, "{\"a\":1}");
    pack_json(&p, "text", &json);
    assert_int_equal(pack_finish(&p), 0);
    unsigned char *coded = unpacked(&p, &find(&p, "big")->places[0]), *back = malloc(8 * MANY);
    assert_non_null(back);
    decode(COLUMN_I64, COLUMN_DELTA_PLANES, coded, back, MANY);
    for (int64_t i = 0; i < MANY; i++)
        assert_int_equal(value_at(back, COLUMN_I64, (size_t)i), INT64_MAX - MANY + i);
    free(coded);
    free(back);
    coded = unpacked(&p, &find(&p, "text")->places[0]);
    assert_memory_equal(coded, "{\"a\":1}", 7);
    free(coded);
    assert_true(p.blocks[find(&p, "big")->places[0].block].bytes < 8 * MANY / 100);
    json_add_object(&w, NULL);
    pack_put_meta(&w, &p);
    json_finish_in(&w, &meta);
    assert_non_null(strstr(meta.data, "\"big\":{\"rows\":100000,"));
    assert_non_null(strstr(meta.data, "\"text\":{\"json\":true,"));
    assert_null(strstr(meta.data, "\"empty\""));
    buf_free(&meta);
    pack_release(&p);
}

static void test_pack_nothing(void **state)
{
    struct pack p = {.blocks = NULL};
    (void)state;
    assert_int_equal(pack_finish(&p), 0);
    assert_int_equal(pack_bytes(&p), 0);
    pack_release(&p);
}

/* ---- texts and threads ---- */

static void test_texts(void **state)
{
    struct pack p = {.blocks = NULL};
    struct texts s;
    char name[32];
    (void)state;
    assert_int_equal(texts_start(&s, &p), 0);
    assert_int_equal(texts_of(&s, NULL), PACK_NONE);
    uint32_t empty = texts_of(&s, ""), bad = texts_of(&s, "a\xff"),
             good = texts_of(&s, "a\xef\xbf\xbd");
    assert_int_equal(empty, 0);
    assert_int_equal(bad, good); /* both are an a and U+FFFD */
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 5000; i++) {
            snprintf(name, sizeof(name), "f%u", i);
            assert_int_equal(texts_of(&s, name), 2 + i);
        }
    assert_int_equal(texts_shared(&s, "f7"), 9);
    assert_int_equal(s.table->columns[0].rows, 5002);
    texts_release(&s);
    pack_release(&p);
}

static void test_lanes(void **state)
{
    struct lanes l = {.list = NULL};
    (void)state;
    assert_int_equal(lanes_of(&l, 7), 0);
    assert_int_equal(lanes_numbered(&l, 7), 1);
    assert_int_equal(lanes_of(&l, 7), 0);
    assert_int_equal(lanes_of(&l, 0), 2);
    lanes_release(&l);
}

/* ---- small pieces ---- */

static void test_base64(void **state)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"\xff\xfe\xfd", "//79"}};
    char out[16];
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        size_t len = strlen(pairs[i][0]);
        assert_int_equal(base64_length(len), strlen(pairs[i][1]));
        base64_encode(out, pairs[i][0], len);
        assert_memory_equal(out, pairs[i][1], strlen(pairs[i][1]));
    }
}

/* Examples of FIPS 180-4, and lengths around the end of a block with known digests. */
static void test_sha256(void **state)
{
    static const struct {
        const char *text;
        const char *digest;
    } known[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                 {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                 {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                 {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                  "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"}};
    unsigned char digest[SHA256_BYTES];
    char text[2 * SHA256_BYTES + 1];
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        sha256(digest, known[i].text, strlen(known[i].text));
        for (size_t k = 0; k < sizeof(digest); k++)
            snprintf(text + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(text, known[i].digest);
    }
}

/* ---- requests ---- */

static int judged_by(const struct request_rules *rules, const char *text, struct request *r)
{
    static char copy[512];
    size_t len = strlen(text);
    memcpy(copy, text, len + 1);
    assert_true(request_whole(text, len));
    return request_parse(copy, len, r) ? request_judge(r, rules) : 400;
}

static int judged(const char *text)
{
    static const struct request_rules rules = {.path = "/0123/", .port = 8080};
    struct request r;
    return judged_by(&rules, text, &r);
}

static void test_requests_for_newer_data(void **state)
{
    static const struct request_rules rules = {.path = "/0123/", .port = 8080, .live = true};
    static const struct {
        int status;
        uint64_t has;
        const char *target;
    } cases[] = {{200, 7, "/0123/live/7"},
                 {200, 0, "/0123/live/0"},
                 {200, 999999999999999, "/0123/live/999999999999999"},
                 {404, 0, "/0123/live/9999999999999999"},
                 {404, 0, "/0123/live/"},
                 {404, 0, "/0123/live/7/"},
                 {404, 0, "/0123/live/+7"},
                 {404, 0, "/0123/live/7?x"},
                 {404, 0, "/0124/live/7"},
                 {404, 0, "/live/7"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[256];
        struct request r;
        snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
                 cases[i].target);
        assert_int_equal(judged_by(&rules, text, &r), cases[i].status);
        assert_int_equal(r.is_live, cases[i].status == 200);
        assert_int_equal(r.has, cases[i].has);
        assert_int_equal(judged(text), 404); /* of a page that does not poll */
    }
}

static void test_requests(void **state)
{
#define OURS "Host: 127.0.0.1:8080\r\n"
    static const struct {
        int status;
        const char *text;
    } cases[] = {
        {200, "GET /0123/ HTTP/1.1\r\n" OURS "\r\n"},
        {200, "HEAD /0123/ HTTP/1.0\r\nhost:localhost:8080 \r\nAccept: */*\r\n\r\n"},
        {200, "GET /0123/ HTTP/1.1\r\n" OURS "Origin: http://127.0.0.1:8080\r\n\r\n"},
        {403, "GET /0123/ HTTP/1.1\r\n\r\n"},
        {403, "GET /0123/ HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n"},
        {403, "GET /0123/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
        {403, "GET /0123/ HTTP/1.1\r\nHost: 127.0.0.1:8081\r\n\r\n"},
        {403, "GET /0123/ HTTP/1.1\r\nHost: 127.0.0.1:8080.evil.example\r\n\r\n"},
        {403, "GET /0123/ HTTP/1.1\r\n" OURS "Origin: null\r\n\r\n"},
        {403, "GET /0123/ HTTP/1.1\r\n" OURS "Origin: https://127.0.0.1:8080\r\n\r\n"},
        {403, "GET /0123/ HTTP/1.1\r\n" OURS "Origin: http://evil.example\r\n\r\n"},
        {400, "GET /0123/ HTTP/1.1\r\n" OURS OURS "\r\n"},
        {400, "GET /0123/ HTTP/1.1\r\n" OURS " folded: x\r\n\r\n"},
        {400, "GET /0123/ HTTP/2\r\n" OURS "\r\n"},
        {400, "GET /0123/\r\n" OURS "\r\n"},
        {400, "\r\n\r\n"},
        {405, "POST /0123/ HTTP/1.1\r\n" OURS "\r\n"},
        {405, "get /0123/ HTTP/1.1\r\n" OURS "\r\n"},
        {404, "GET / HTTP/1.1\r\n" OURS "\r\n"},
        {404, "GET /0124/ HTTP/1.1\r\n" OURS "\r\n"},
        {404, "GET /0123/x HTTP/1.1\r\n" OURS "\r\n"},
        {404, "GET http://127.0.0.1:8080/0123/ HTTP/1.1\r\n" OURS "\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (judged(cases[i].text) != cases[i].status)
            fail_msg("%d and not %d: %s", judged(cases[i].text), cases[i].status, cases[i].text);
    assert_false(request_whole("GET / HTTP/1.1\r\nHost: x\r\n", 25));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_survive_encoding_and_decoding),
        cmocka_unit_test(test_encoded_bytes_match_the_format),
        cmocka_unit_test(test_values_are_clamped_to_the_column_type),
        cmocka_unit_test(test_column_type_is_the_narrowest_that_fits),
        cmocka_unit_test(test_append_widens_the_column_type),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_pack_nothing),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_requests_for_newer_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
