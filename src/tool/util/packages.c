/* Package names differ between releases (libdebuginfod1 became libdebuginfod1t64), so this asks
 * apt-cache for the names it knows. For other systems it uses the names in their documentation. */
#include "tool/util/packages.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The first word of each line of apt-cache's output is a package name. Keeps the highest
 * version. */
static bool ask_apt(char *name, size_t size, const char *pattern)
{
    char command[200], line[512];
    name[0] = '\0';
    snprintf(command, sizeof(command), "apt-cache search --names-only '^%s$' 2>/dev/null", pattern);
    FILE *p = popen(command, "re");
    while (p && fgets(line, sizeof(line), p)) {
        line[strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789+-.")] = '\0';
        if (strlen(line) < size && strverscmp(line, name) > 0)
            memcpy(name, line, strlen(line) + 1);
    }
    if (p)
        pclose(p);
    return name[0] != '\0';
}

static bool has_command(const char *name)
{
    char command[100];
    snprintf(command, sizeof(command), "command -v %s 2>/dev/null", name);
    FILE *p = popen(command, "re");
    bool found = p && fgetc(p) != EOF;
    if (p)
        pclose(p);
    return found;
}

const char *packages_advice(char *out, size_t size, const struct package *p)
{
    char name[100];
    out[0] = '\0';
    if (ask_apt(name, sizeof(name), p->debian))
        snprintf(out, size, " (apt-get install %s)", name);
    else if (has_command("apt-get"))
        snprintf(out, size, " (apt-cache knows no package for it: try apt-get update)");
    else if (has_command("dnf"))
        snprintf(out, size, " (dnf install %s)", p->fedora);
    else if (has_command("pacman"))
        snprintf(out, size, " (pacman -S %s)", p->arch);
    return out;
}
