/* A query load on SQLite: inserts, an index, a join with aggregates, text search, updates; all in
 * memory. Prints a digest of all values that it read, which must be the same for every build, and
 * `cpu_ns wall_ns` to stderr.
 *
 *   sqload TURNS */
#include <stdio.h>
#include <stdlib.h>

#include "chain.h"
#include "sqlite3.h"

static sqlite3 *db;

static int take_row(void *ctx, int n, char **values, char **names)
{
    (void)ctx;
    (void)names;
    for (int i = 0; i < n; i++)
        for (const char *s = values[i] ? values[i] : "-"; *s; s++)
            state = state * 33 + (unsigned char)*s;
    return 0;
}

static void run_sql(const char *sql)
{
    char *error = NULL;
    if (sqlite3_exec(db, sql, take_row, NULL, &error) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, error);
        exit(1);
    }
}

static void fill(void)
{
    char sql[256];
    run_sql("create table customers(id integer primary key, name text)");
    run_sql("create table items(id integer primary key, price real, label text)");
    run_sql("create table orders(id integer primary key, customer int, item int, qty int, note)");
    run_sql("create index by_customer on orders(customer)");
    for (int i = 0; i < 500; i++) {
        snprintf(sql, sizeof sql, "insert into customers values(%d,'customer %d')", i,
                 i * 37 % 500);
        run_sql(sql);
        snprintf(sql, sizeof sql, "insert into items values(%d,%d.5,'item %d')", i, i % 97, i);
        run_sql(sql);
    }
}

static void turn(int i)
{
    char sql[512];
    run_sql("begin");
    for (int k = 0; k < 50; k++) {
        snprintf(sql, sizeof sql,
                 "insert into orders(customer,item,qty,note) "
                 "values(%d,%d,%d,'order %d of turn %d')",
                 (i * 7 + k) % 500, (i + k * 13) % 200, k % 9 + 1, k, i);
        run_sql(sql);
    }
    run_sql("commit");
    snprintf(sql, sizeof sql,
             "select c.name, sum(o.qty*p.price) from orders o join customers c on c.id=o.customer "
             "join items p on p.id=o.item where o.customer between %d and %d "
             "group by c.id order by 2 desc limit 5",
             i % 400, i % 400 + 100);
    run_sql(sql);
    run_sql("select count(*), avg(qty), max(note) from orders where note like '%turn 3%'");
    snprintf(sql, sizeof sql, "update items set price = price * 1.01 where id %% 10 = %d", i % 10);
    run_sql(sql);
}

int main(int argc, char **argv)
{
    double wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    int turns = argc > 1 ? atoi(argv[1]) : 100;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK)
        return 1;
    fill();
    for (int i = 0; i < turns; i++)
        turn(i);
    sqlite3_close(db);
    printf("sqlite %s, %d turns: %016lx\n", sqlite3_libversion(), turns, (unsigned long)state);
    fprintf(stderr, "%.0f %.0f\n", clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu,
            clock_ns(CLOCK_MONOTONIC) - wall);
    return 0;
}
