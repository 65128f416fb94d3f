/* For bench/tree.py: a server of PROCESSES processes, forked as nginx, postgres and gunicorn do it,
 * that answer REQUESTS requests of the first one. Says how many it answered in a second, and the CPU
 * microseconds of the others for one. With PROCESSES and `start`: starts as many programs, one after
 * the other, and says the microseconds of one. */
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024, BYTES = 256, AHEAD = 4 /* requests that a process may have at a time */ };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A tenth of a millisecond of work, with some blocks. */
__attribute__((noinline)) static unsigned answer(unsigned request)
{
    unsigned sum = request;
    for (int i = 0; i < 100; i++) {
        size_t size = 64 + (size_t)(sum % 1000);
        unsigned char *block = malloc(size);
        memset(block, (int)sum, size);
        for (size_t k = 0; k < 1200; k++)
            sum = sum * 31 + block[k % 64];
        free(block);
    }
    return sum;
}

static void serve(int fd)
{
    char request[BYTES];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (;;) {
        poll(&p, 1, -1);
        if (read(fd, request, sizeof request) != sizeof request)
            exit(0);
        request[0] = (char)answer((unsigned char)request[1]);
        if (write(fd, request, sizeof request) != sizeof request)
            exit(1);
    }
}

/* Sends a request to each process for each answer that it gave. */
static double ask(struct pollfd *others, int count, long requests)
{
    char request[BYTES] = "";
    long sent = 0, answered = 0;
    double begin = now();
    for (int k = 0; k < AHEAD; k++)
        for (int i = 0; i < count && sent < requests; i++, sent++)
            if (write(others[i].fd, request, sizeof request) != sizeof request)
                exit(1);
    while (answered < requests) {
        poll(others, (nfds_t)count, -1);
        for (int i = 0; i < count; i++) {
            if (!(others[i].revents & POLLIN))
                continue;
            if (read(others[i].fd, request, sizeof request) != sizeof request)
                exit(1);
            answered++;
            if (sent < requests && write(others[i].fd, request, sizeof request) == sizeof request)
                sent++;
        }
    }
    return now() - begin;
}

static void start_programs(int count)
{
    char *words[] = {"true", NULL};
    extern char **environ;
    double begin = now();
    for (int i = 0; i < count; i++) {
        pid_t pid;
        if (posix_spawn(&pid, "/bin/true", NULL, NULL, words, environ) != 0 ||
            waitpid(pid, NULL, 0) != pid)
            exit(1);
    }
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    printf("%.1f %.1f\n", (now() - begin) / count * 1e6,
           ((double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
            (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)) /
               count);
}

int main(int argc, char **argv)
{
    static struct pollfd others[MOST];
    int count = argc > 2 ? atoi(argv[1]) : 0;
    if (count < 1 || count > MOST)
        return 2;
    if (strcmp(argv[2], "start") == 0) {
        start_programs(count);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
            return 1;
        if (fork() == 0) {
            for (int k = 0; k < i; k++)
                close(others[k].fd);
            close(fds[0]);
            serve(fds[1]);
        }
        close(fds[1]);
        others[i] = (struct pollfd){.fd = fds[0], .events = POLLIN};
    }
    long requests = atol(argv[2]);
    struct rusage used;
    ask(others, count, 2L * count); /* until all have begun */
    double wall = ask(others, count, requests);
    for (int i = 0; i < count; i++)
        close(others[i].fd);
    while (wait(NULL) > 0) {
    }
    getrusage(RUSAGE_CHILDREN, &used);
    printf("%.1f %.3f\n", (double)requests / wall,
           ((double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
            (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)) /
               (double)requests);
    return 0;
}
