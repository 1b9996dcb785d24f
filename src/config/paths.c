/* SPDX-License-Identifier: Apache-2.0 */
/* Where the default configuration file is; see paths.h. */
#include <config.h>

#include "config/paths.h"

#include "util/text.h"

#include <stdlib.h>
#include <string.h>

static int
path_of (const char *name, char **path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf buf = { 0 };
    const char *hf_home = getenv ("HF_HOME"), *cache = getenv ("XDG_CACHE_HOME");
    /* As in Accelerate, only a leading ~ is expanded, and no variables; an empty HF_HOME or XDG_CACHE_HOME means the
     * current folder. */
    home_add (&buf, hf_home ? hf_home : cache ? cache : "~/.cache");
    if (!hf_home)
        strbuf_printf (&buf, "%shuggingface", buf.length ? "/" : "");
    strbuf_printf (&buf, "%saccelerate/%s", buf.length ? "/" : "", name);
    *path = strbuf_take (&buf);
    return *path ? 0 : fail_nomem (fail);
}

int
path_of_default_file (char **path, struct fail *fail)
{
    return path_of ("default_config.yaml", path, fail);
}

int
path_of_job_key (char **path, struct fail *fail)
{
    return path_of ("job_key", path, fail);
}

bool
path_is_json (const char *path)
{
    return strlen (path) > strlen (".json") && text_ends_in (path, ".json");
}
