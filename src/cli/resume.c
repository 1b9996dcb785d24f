/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the checkpoint to continue from; see resume.h. */
#include <config.h>

#include "cli/resume.h"

#include "files/checkpoints.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/printable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
add_line (struct strbuf *lines, const char *what, const char *text)
{
    strbuf_printf (lines, "accelerate: note: %s", what);
    printable_add (lines, text);
    strbuf_add_char (lines, '\n');
}

/* A first start has no checkpoint, and often no folder yet; with a wrong path, training would begin again unnoticed. */
static void
say_fresh (struct strbuf *lines, const char *folder)
{
    AUTO_FREE char *here = NULL;
    if (!access (folder, F_OK) || errno != ENOENT) {
        add_line (lines, "no checkpoint to resume from in ", folder);
        return;
    }
    if (*folder != '/')
        here = getcwd (NULL, 0);
    strbuf_add (lines, "accelerate: warning: --resume: folder ");
    if (here) {
        printable_add (lines, here);
        strbuf_add_char (lines, '/');
    }
    printable_add (lines, folder);
    strbuf_add (lines, " does not exist; the ranks start from the beginning. If this is not the first start, correct "
                       "the path.\n");
}

int
resume_find (struct plan *plan, const char *folder, struct strbuf *lines, struct fail *fail)
{
    AUTO_STRLIST struct strlist passed = { 0 };
    AUTO_FREE char *found = NULL;
    AUTO_FREE char *path = NULL;
    struct accel_error err;
    if (checkpoint_find_newest (&found, folder, &passed, &err))
        return fail_set (fail, FAIL_GENERAL, "--resume: %s", err.text);
    for (size_t i = 0; i < passed.count; i++)
        add_line (lines, "passed over a checkpoint: ", passed.items[i]);
    if (found && !(path = realpath (found, NULL)))
        return fail_set (fail, FAIL_GENERAL, "--resume: %s: %s", found, strerror (errno));
    if (path)
        add_line (lines, "resuming from ", path);
    else
        say_fresh (lines, folder);
    return plan_set_variable (plan, ENV_RESUME_FROM, path ? path : "", fail);
}
