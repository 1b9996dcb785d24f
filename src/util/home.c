/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that begin with ~; see home.h. */
#include <config.h>

#include "util/home.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

void
home_add (struct strbuf *out, const char *path)
{
    if (path[0] == '~' && (!path[1] || path[1] == '/')) {
        const char *home = getenv ("HOME");
        const struct passwd *user = home ? NULL : getpwuid (getuid ());
        if (home || user) {
            strbuf_add (out, home ? home : user->pw_dir);
            path++;
        }
    }
    strbuf_add (out, path);
}
