/* A page served only to this machine cannot be seen from another one. sshd sets SSH_CONNECTION to
 * the address and port of ours that the user connected to. With these, the complete command for a
 * tunnel can be printed. The variable is only text: anything that does not look like an address is
 * not printed. */
#include "tool/view/remote.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/say.h"
#include "tool/view/browser.h"

static const char FILE_HINT[] = "piano view -o page.html";

static bool consists_of(const char *text, const char *chars)
{
    return *text && text[strspn(text, chars)] == '\0';
}

/* Writes " -p 2222 user@192.0.2.4" to TEXT, as far as known. */
static void put_target(char *text, size_t size, const char *connection)
{
    char address[64] = "", port[8] = "";
    const char *user = getenv("USER");
    bool known = sscanf(connection, "%*s %*s %63s %7s", address, port) == 2 &&
                 consists_of(address, "0123456789abcdefABCDEF.:") &&
                 consists_of(port, "0123456789");
    bool named =
        user && strlen(user) < 64 && user[0] != '-' &&
        consists_of(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    snprintf(text, size, "%s%s %s%s%s", known && strcmp(port, "22") != 0 ? " -p " : "",
             known && strcmp(port, "22") != 0 ? port : "", named ? user : "", named ? "@" : "",
             known ? address : "HOST");
}

void remote_say(unsigned port)
{
    char target[192];
    const char *connection = getenv("SSH_CONNECTION");
    if (connection && *connection) {
        put_target(target, sizeof(target), connection);
        say("to open it on your own machine, run there: ssh -L %u:127.0.0.1:%u%s", port, port,
            target);
        say("and open the address above; or write a file and copy it: %s", FILE_HINT);
    } else if (!browser_possible()) {
        say("no display is set here: open the address in a browser on this machine, or write a "
            "file: %s",
            FILE_HINT);
    }
}
