/* What the formats have in common: whole numbers, and the names of programs and processes. */
#include "tool/export/export.h"

#include "tool/util/paths.h"
#include "tool/util/program.h"

int64_t export_round(struct export_rounding *r, double value)
{
    r->sum += value;
    int64_t upto = figure_whole(r->sum), one = upto - r->given;
    r->given = upto;
    return one;
}

const char *export_process_name(char *text, const struct recording *rec, uint32_t pid)
{
    const struct recording_thread *t = recording_thread_of(rec, pid);
    if (pid == rec->header.pid && *rec->header.program)
        return program_called(text, PIANO_REC_PATH, rec->header.program, rec->header.command);
    const struct recording_process *process = recording_process_of(rec, pid);
    if (process && *process->name)
        return process->name;
    return t && t->name[0] ? t->name : "process";
}

const char *export_program(char *text, const struct export_source *s)
{
    if (s->profile)
        return program_called(text, PIANO_REC_PATH, s->profile->rec.header.program,
                              s->profile->rec.header.command);
    return s->run->program ? paths_base(s->run->program) : "";
}
