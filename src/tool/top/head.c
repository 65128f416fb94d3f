/* Facts about the whole program, from the picture and from the kernel. */
#include "tool/top/head.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tool/profile/profile.h"
#include "tool/record/process.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

static size_t count_threads(uint32_t pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    return stat(path, &st) == 0 && st.st_nlink > 2 ? st.st_nlink - 2 : 0;
}

void head_look(struct head_process *h, const struct live_picture *p)
{
    struct head_process before = *h;
    bool runs = p->end == RECORDING_RUNNING;
    *h = (struct head_process){.cpu_ns = runs ? process_cpu_ns((pid_t)p->pid) : 0,
                               .at_ns = p->at_ns,
                               .cpu = -1,
                               .threads = runs ? count_threads(p->pid) : 0};
    if (h->threads > 0 && before.threads > 0 && h->at_ns > before.at_ns &&
        h->cpu_ns >= before.cpu_ns)
        h->cpu = (double)(h->cpu_ns - before.cpu_ns) / (double)(h->at_ns - before.at_ns);
}

/* Returns the name of a signal that ends programs, or NULL. glibc 2.31 has no sigabbrev_np. */
static const char *signal_name(int number)
{
    static const char *const names[] = {
        [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT",
        [SIGILL] = "SIGILL",   [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT",
        [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",   [SIGKILL] = "SIGKILL",
        [SIGUSR1] = "SIGUSR1", [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
        [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM",
        [SIGXCPU] = "SIGXCPU", [SIGXFSZ] = "SIGXFSZ", [SIGVTALRM] = "SIGVTALRM",
        [SIGPROF] = "SIGPROF", [SIGSYS] = "SIGSYS",
    };
    return number >= 0 && (size_t)number < sizeof(names) / sizeof(*names) ? names[number] : NULL;
}

/* "running", "exited with 0", "killed by SIGKILL" */
static void put_state(struct buf *b, const struct live_picture *p)
{
    const char *name = p->end == RECORDING_KILLED ? signal_name(p->status) : NULL;
    if (p->end == RECORDING_RUNNING)
        buf_puts(b, "running");
    else if (p->end == RECORDING_EXITED && p->status >= 0)
        buf_printf(b, "exited with %d", p->status);
    else if (p->end == RECORDING_EXITED)
        buf_puts(b, "ended");
    else if (name)
        buf_printf(b, "killed by %s", name);
    else if (p->end == RECORDING_KILLED)
        buf_printf(b, "killed by signal %d", p->status);
    else
        buf_puts(b, "ended, exit status unknown");
}

static void put_heap(struct buf *b, const struct live_picture *p)
{
    char text[UNITS_LEN];
    if (!(p->instruments & PROFILE_HEAP)) {
        buf_puts(b, "heap -");
        return;
    }
    buf_printf(b, "heap %s", units_bytes(text, figure_whole(p->live_bytes)));
    if (p->span_s > 0)
        buf_printf(b, " (%s/min)", units_bytes_signed(text, figure_whole(p->growth * 60)));
    else
        buf_puts(b, " (-/min)");
}

void head_put(struct buf *first, struct buf *second, const struct live_picture *p,
              const struct head_process *h)
{
    char safe[256], text[UNITS_LEN];
    say_safe(safe, sizeof(safe), paths_base(p->program ? p->program : ""));
    buf_printf(first, "%s  pid %u  ", *safe ? safe : "-", p->pid);
    put_state(first, p);
    buf_printf(first, "  %s", p->wall_ns >= 0 ? units_time(text, p->wall_ns) : "-");
    buf_printf(second, "CPU %s  ", h->cpu >= 0 ? units_percent(text, h->cpu) : "-");
    if (h->threads)
        buf_printf(second, "threads %zu  ", h->threads);
    else
        buf_puts(second, "threads -  ");
    put_heap(second, p);
    buf_puts(second, "  ");
    if (p->has_polls)
        buf_printf(second, "red flags %zu  ", p->flag_count);
    else
        buf_puts(second, "red flags -  ");
    buf_printf(second, "lost %llu", (unsigned long long)p->lost);
    if (p->given_up)
        buf_printf(second, "  overwritten %llu", (unsigned long long)p->given_up);
}

static void put_end(struct json_writer *w, const struct live_picture *p)
{
    static const char *const names[] = {"running", "exited", "killed", "unknown"};
    json_add_text(w, "state", names[p->end]);
    json_add_known(w, "exit_status", p->end == RECORDING_EXITED && p->status >= 0, p->status);
    json_add_known(w, "signal", p->end == RECORDING_KILLED, p->status);
}

void head_put_json(struct json_writer *w, const struct live_picture *p,
                   const struct head_process *h)
{
    bool has_heap = p->instruments & PROFILE_HEAP, has_rates = p->span_s > 0;
    json_add_text(w, "program", p->program);
    json_add_count(w, "pid", p->pid);
    put_end(w, p);
    json_add_known(w, "wall_ns", p->wall_ns >= 0, p->wall_ns);
    json_add_real(w, "since_last_s", 6, p->span_s);
    if (h->cpu >= 0)
        json_add_real(w, "cpu", 6, h->cpu);
    else
        json_add_null(w, "cpu");
    json_add_known_count(w, "threads_now", h->threads > 0, h->threads);
    json_add_known(w, "live_bytes", has_heap, figure_whole(p->live_bytes));
    if (has_heap)
        json_add_range(w, "live_bytes_ci95", figure_whole(p->live_low), figure_whole(p->live_high));
    else
        json_add_null(w, "live_bytes_ci95");
    json_add_known(w, "growth_per_minute", has_heap && has_rates, figure_whole(p->growth * 60));
    json_add_count(w, "lost", p->lost);
    json_add_count(w, "overwritten", p->given_up);
    json_add_known_count(w, "polls", p->has_polls, p->polls);
}
