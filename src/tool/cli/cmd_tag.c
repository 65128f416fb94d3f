/* `piano tag`: names for runs, as in `piano diff before after`. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/command.h"
#include "tool/cli/outcome.h"
#include "tool/load/runs.h"
#include "tool/load/tags.h"
#include "tool/util/json_writer.h"
#include "tool/util/nearest.h"
#include "tool/util/owner.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

struct request {
    bool add, force, remove, json;
    const char *words[2];
    size_t word_count;
};

static const struct flag flags[] = {
    {"--add", "add one more run to the name", FLAG_SWITCH(add)},
    {"--force", "move the name to another run", FLAG_SWITCH(force)},
    {"--delete", "delete the name; the run stays", FLAG_SWITCH(remove)},
    {"--json", "the tags as JSON", FLAG_SWITCH(json)},
    {0},
};

static int failed(const char *name, int err)
{
    char room[PATH_MAX + 128];
    char *dir = paths_runs_dir();
    int status = say_error(owner_hint(room, sizeof(room), dir ? dir : "", err, NULL),
                           "the tag `%s` could not be written: %s", name, strerror(-err));
    free(dir);
    return status;
}

static int put_tags(const struct tags *tags)
{
    struct json_writer w = {.out = stdout};
    json_add_object(&w, NULL);
    json_add_array(&w, "tags");
    for (size_t i = 0; i < tags->count; i++) {
        const struct tag *t = &tags->list[i];
        json_add_object(&w, NULL);
        json_add_text(&w, "name", t->name);
        json_add_array(&w, "runs");
        for (size_t k = 0; k < t->run_count; k++)
            json_add_text(&w, NULL, t->runs[k]);
        json_close(&w);
        json_close(&w);
    }
    return json_finish(&w);
}

static void print_tags(const struct tags *tags)
{
    char safe[256];
    for (size_t i = 0; i < tags->count; i++) {
        const struct tag *t = &tags->list[i];
        printf("%s\n", say_safe(safe, sizeof(safe), t->name));
        for (size_t k = 0; k < t->run_count; k++)
            printf("    %s\n", say_safe(safe, sizeof(safe), t->runs[k]));
    }
    if (tags->count == 0)
        say("there are no tags yet; `piano tag NAME` names the latest run");
}

static int list_tags(const char *dir, bool json)
{
    struct tags tags;
    char room[PATH_MAX + 128];
    int err = tags_load(&tags, dir);
    if (err)
        return say_error(owner_hint(room, sizeof(room), dir, err, NULL), "%s/tags: %s", dir,
                         strerror(-err));
    if (json)
        err = put_tags(&tags);
    else
        print_tags(&tags);
    tags_release(&tags);
    return err ? outcome_written("the list of tags", err) : EXIT_DONE;
}

static int delete_tag(const char *dir, const char *name)
{
    struct tags tags;
    int err = tags_delete(dir, name);
    if (err == 0)
        return EXIT_DONE;
    if (err != -ENOENT || tags_load(&tags, dir) != 0)
        return say_error(NULL, "the tag `%s` could not be deleted: %s", name, strerror(-err));
    const char **names = calloc(tags.count + 1, sizeof(*names));
    for (size_t i = 0; names && i < tags.count; i++)
        names[i] = tags.list[i].name;
    const char *near = names ? nearest_name(name, names, tags.count) : NULL;
    int status =
        near ? say_error("piano tag", "there is no tag `%s`; did you mean `%s`?", name, near)
             : say_error("piano tag", "there is no tag `%s`", name);
    free(names);
    tags_release(&tags);
    return status;
}

/* How the tag refers to PATH: by file name inside the runs directory, else by absolute path. */
static char *reference(const char *dir, const char *path)
{
    char *real = realpath(path, NULL), *base = realpath(dir, NULL);
    size_t len = base ? strlen(base) : 0;
    char *out = NULL;
    if (real && base && strncmp(real, base, len) == 0 && real[len] == '/' &&
        !strchr(real + len + 1, '/'))
        out = strdup(real + len + 1);
    else if (real)
        out = strdup(real);
    free(real);
    free(base);
    return out;
}

static int write_tag(const char *dir, const struct request *q)
{
    const char *name = q->words[0];
    struct runs_paths paths;
    struct run_error error;
    struct tags tags;
    int err = tags_load(&tags, dir);
    if (err)
        return failed(name, err);
    bool taken = tags_find(&tags, name) != NULL;
    tags_release(&tags);
    if (taken && !q->add && !q->force)
        return say_error("--force to move it, --add to add this run to it",
                         "there is a tag `%s` already", name);
    err = runs_resolve(q->word_count > 1 ? q->words[1] : NULL, &paths, &error);
    if (err)
        return outcome_failed(err, &error);
    bool add = q->add;
    for (size_t i = 0; i < paths.count && err == 0; i++) {
        char *run = reference(dir, paths.paths[i]);
        err = run ? strchr(run, '\n') ? -EINVAL : tags_write(dir, name, run, add) : -ENOMEM;
        add = true;
        if (err == 0)
            say("%s: %s", name, run);
        free(run);
    }
    runs_paths_release(&paths);
    return err ? failed(name, err) : EXIT_DONE;
}

static int tag(void *request)
{
    struct request *q = request;
    q->word_count = q->words[1] ? 2 : q->words[0] ? 1 : 0;
    if (q->remove && q->word_count != 1)
        return say_usage("tag", "--delete needs the name of one tag");
    const char *problem = q->word_count ? tags_name_problem(q->words[0]) : NULL;
    if (problem) {
        char safe[128];
        return say_usage("tag", "`%s`: %s", say_safe(safe, sizeof(safe), q->words[0]), problem);
    }
    char *dir = paths_runs_dir();
    if (!dir)
        return paths_say_failure();
    int status = q->remove       ? delete_tag(dir, q->words[0])
                 : q->word_count ? write_tag(dir, q)
                                 : list_tags(dir, q->json);
    free(dir);
    return status;
}

const struct command command_tag = {
    .name = "tag",
    .summary = "give a run a name",
    .usage = "piano tag [--json]\n"
             "piano tag NAME [RUN] [--add | --force]\n"
             "piano tag --delete NAME",
    .about = "Gives the latest run, or RUN, a name, which can be used wherever a run is asked for. "
             "Without NAME: lists the tags. A tag with several runs is a side of `piano diff`: "
             "repeated runs distinguish a change from noise.",
    .flags = flags,
    .examples = "piano profile && piano tag before     # then change the code\n"
                "piano profile && piano tag after\n"
                "piano diff before after",
    .words = {WORDS_LISTED, offsetof(REQUEST, words), "run", 2, "at most a name and a run"},
    .run = tag,
    COMMAND_REQUEST(),
};
