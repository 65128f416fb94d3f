/* A key-value server with two faults. It never frees its copies of requests, so it grows. And every
 * 70000 requests it sorts all its values on the serving thread, so all clients wait.
 *
 *   store [REQUESTS]
 *
 * It is its own client: four threads send requests over socket pairs until REQUESTS (300000) are answered. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CLIENTS = 4,
    KEYS = 1 << 18,
    COMPACT_EVERY = 70000,
    AUDIT_KEEP = 0, /* the number of requests that the audit log keeps; 0: all */
};

struct request {
    uint32_t key;
    char value[124];
};

struct slot {
    char value[32];
};

struct audit_entry {
    struct audit_entry *next;
    struct request request;
};

static struct slot *table;
static struct audit_entry *audit_first, **audit_end = &audit_first;
static unsigned long audit_count, served, requests = 300000;
static uint64_t sum;

static void *must(void *memory)
{
    if (!memory) {
        perror("store");
        exit(1);
    }
    return memory;
}

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "store: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* ---- the server ---- */

static void audit_append(const struct request *request)
{
    struct audit_entry *entry = must(malloc(sizeof *entry));
    entry->next = NULL;
    entry->request = *request;
    *audit_end = entry;
    audit_end = &entry->next;
    if (AUDIT_KEEP && ++audit_count > AUDIT_KEEP) {
        entry = audit_first;
        audit_first = entry->next;
        free(entry);
    }
}

static void table_create(void)
{
    table = must(calloc(KEYS, sizeof *table));
}

static void table_put(const struct request *request)
{
    struct slot *slot = &table[request->key % KEYS];
    snprintf(slot->value, sizeof slot->value, "%.31s", request->value);
}

static int compare_slots(const void *a, const void *b)
{
    return strcmp((*(struct slot *const *)a)->value, (*(struct slot *const *)b)->value);
}

static void compact(void)
{
    struct slot **sorted = must(malloc(KEYS * sizeof *sorted));
    for (unsigned i = 0; i < KEYS; i++)
        sorted[i] = &table[i];
    qsort(sorted, KEYS, sizeof *sorted, compare_slots);
    for (unsigned i = 0; i < KEYS; i++)
        sum = sum * 31 + (unsigned char)sorted[i]->value[0];
    free(sorted);
}

static void handle_request(int fd)
{
    struct request request;
    if (read(fd, &request, sizeof request) != sizeof request)
        return;
    audit_append(&request);
    table_put(&request);
    if (++served % COMPACT_EVERY == 0)
        compact();
    check((int)write(fd, &request.key, sizeof request.key), "write");
}

static void serve(int poll_fd)
{
    struct epoll_event events[CLIENTS];
    while (served < requests) {
        int count = epoll_wait(poll_fd, events, CLIENTS, -1);
        if (count < 0 && errno != EINTR)
            check(count, "epoll_wait");
        for (int i = 0; i < count; i++)
            handle_request(events[i].data.fd);
    }
}

/* ---- the clients ---- */

static void *client(void *argument)
{
    int fd = (int)(intptr_t)argument;
    uint32_t random = 12345u + (uint32_t)fd, answer;
    struct request request;
    do {
        memset(&request, 0, sizeof request);
        random = random * 1664525u + 1013904223u;
        request.key = random >> 8;
        snprintf(request.value, sizeof request.value, "%08x of client %d", random, fd);
    } while (write(fd, &request, sizeof request) == sizeof request &&
             read(fd, &answer, sizeof answer) == sizeof answer);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[CLIENTS];
    int poll_fd = epoll_create1(EPOLL_CLOEXEC), pairs[CLIENTS][2];
    if (argc > 1)
        requests = strtoul(argv[1], NULL, 10);
    check(poll_fd, "epoll_create1");
    table_create();
    for (int i = 0; i < CLIENTS; i++) {
        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pairs[i]), "socketpair");
        struct epoll_event event = {.events = EPOLLIN, .data.fd = pairs[i][0]};
        check(epoll_ctl(poll_fd, EPOLL_CTL_ADD, pairs[i][0], &event), "epoll_ctl");
        check(-pthread_create(&threads[i], NULL, client, (void *)(intptr_t)pairs[i][1]),
              "pthread_create");
    }
    serve(poll_fd);
    for (int i = 0; i < CLIENTS; i++) {
        shutdown(pairs[i][0], SHUT_RDWR);
        pthread_join(threads[i], NULL);
    }
    printf("%lu requests served\n", served);
    free(table);
    return 0;
}
