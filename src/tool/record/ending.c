/* The fields are written one by one with pwrite: the program's mapping of the file may be gone, and a
 * file that cannot be written keeps what it has. */
#include "tool/record/ending.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "tool/util/say.h"

static bool put(int fd, size_t at, uint64_t value)
{
    return pwrite(fd, &value, sizeof value, (off_t)at) == (ssize_t)sizeof value;
}

#define PUT(fd, field, value) put(fd, offsetof(struct piano__rec_header, field), value)

/* CPU time that the samples should represent; 0: unknown. */
static uint64_t cpu_time(const struct record *r, const struct sampler *cpu, const struct watch *w)
{
    if (r->cpu_inside)
        return w->cpu_ns; /* without children, which are not sampled */
    if (!cpu || !cpu->is_open)
        return 0;
    return cpu->wish.without_kernel ? w->family_user_ns : w->family_ns;
}

/* The part of that which samples in other recordings of the same process represent: it ran other
 * programs before. */
static uint64_t sampled_elsewhere(const struct recordings *recordings, const struct recording *one)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < recordings->count; i++) {
        const struct recording *other = &recordings->list[i];
        struct piano__rec_header h;
        if (other != one && other->pid == one->pid && recordings_header(other->path, &h) == 0)
            sum += h.trace.sampled_ns;
    }
    return sum;
}

void ending_write(const struct recordings *recordings, const struct recording *one,
                  const struct record *r, const struct sampler *cpu, const struct watch *w,
                  int cpu_err)
{
    struct piano__rec_header h;
    uint64_t used = cpu_time(r, cpu, w), elsewhere = sampled_elsewhere(recordings, one);
    if (recordings_header(one->path, &h) != 0)
        return;
    int fd = open(one->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    bool is_good = PUT(fd, exit_status, 1 + (uint64_t)(unsigned)w->status) &&
                   PUT(fd, session_ns, recordings->since_ns);
    /* A program that was killed, or that called _exit, could not write this. */
    if (h.end_mono_ns == 0)
        is_good &= PUT(fd, end_mono_ns, w->end_ns);
    if (used > elsewhere)
        is_good &= PUT(fd, trace.kernel_ns, used - elsewhere);
    if (!cpu || !cpu->wish.without_kernel)
        is_good &= PUT(fd, process_cpu_ns, w->cpu_ns);
    if (cpu_err != 0)
        is_good &= PUT(fd, trace.cpu_error, (uint64_t)-cpu_err);
    if (!is_good)
        say("the exit status could not be written into the recording");
    close(fd);
}

/* A child that was killed, or that called _exit, did not write when. The kernel's records have the
 * time and what it used; its status is known only to its parent. */
static void write_other(const struct recording *one, const struct recordings *recordings,
                        const struct sampler *cpu)
{
    struct piano__rec_header h;
    const struct sampler_end *end =
        cpu && cpu->is_open ? sampler_end_of(cpu, (uint32_t)one->pid) : NULL;
    if (recordings_header(one->path, &h) != 0)
        return;
    int fd = open(one->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    bool is_good = PUT(fd, session_ns, recordings->since_ns);
    if (end && h.end_mono_ns == 0 && end->at_ns >= h.start_mono_ns)
        is_good &= PUT(fd, end_mono_ns, end->at_ns);
    if (end && !cpu->wish.without_kernel && end->used_ns > 0)
        is_good &= PUT(fd, process_cpu_ns, end->used_ns);
    if (!is_good)
        say("the end of process %d could not be written into its recording", (int)one->pid);
    close(fd);
}

void ending_write_others(const struct recordings *recordings, const struct sampler *cpu)
{
    for (size_t i = 0; i < recordings->count; i++) {
        if (recordings->list[i].pid != recordings->program)
            write_other(&recordings->list[i], recordings, cpu);
    }
}

void ending_write_attached(const char *path, const struct sampler *cpu, const struct watch *w,
                           int cpu_err)
{
    struct piano__rec_header *h = cpu ? cpu->journal.view.base.header : NULL;
    if (h && !cpu->wish.without_kernel)
        h->trace.kernel_ns = w->cpu_ns;
    int fd = cpu_err != 0 ? open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd >= 0 && !PUT(fd, trace.cpu_error, (uint64_t)-cpu_err))
        say("the recording could not be completed: it does not say why it has no CPU samples");
    if (fd >= 0)
        close(fd);
}
