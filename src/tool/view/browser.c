/* Opens a page with the desktop's `xdg-open`, without a shell. It runs in its own session, so that
 * Ctrl-C here does not end a browser that it started. */
#include "tool/view/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

bool browser_possible(void)
{
    return is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
}

int browser_open(const char *url)
{
    char name[] = "xdg-open", argument[256];
    char *const words[] = {name, argument, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    pid_t pid;
    if (snprintf(argument, sizeof(argument), "%s", url) >= (int)sizeof(argument))
        return -E2BIG;
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&files) != 0)
        return -ENOMEM;
    if (posix_spawnattr_init(&how) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return -ENOMEM;
    }
    int err = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    err = err ? err
              : posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    err = err ? err : posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    err = err ? err : posix_spawnattr_setsigmask(&how, &none);
    err = err ? err : posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    err = err ? err : posix_spawnp(&pid, name, &files, &how, words, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return -err;
}
