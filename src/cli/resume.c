/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the checkpoint to continue from; see resume.h. */
#include <config.h>

#include "cli/resume.h"

#include "files/checkpoints.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/printable.h"

#include <stdlib.h>
#include <string.h>

static void
add_line (struct strbuf *lines, const char *what, const char *text)
{
    strbuf_printf (lines, "accelerate: note: %s", what);
    printable_add (lines, text);
    strbuf_add_char (lines, '\n');
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
    add_line (lines, path ? "resuming from " : "no checkpoint to resume from in ", path ? path : folder);
    return plan_set_variable (plan, ENV_RESUME_FROM, path ? path : "", fail);
}
