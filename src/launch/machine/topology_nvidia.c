/* SPDX-License-Identifier: Apache-2.0 */
/* What NVIDIA's driver tells in /proc, without any library of its; see topology_nvidia.h. */
#include <config.h>

#include "launch/machine/topology_nvidia.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/strbuf.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 16 * 1024 };

/* @return the text of ROOT/proc/driver/nvidia/A/B, to be freed, or NULL */
static char *
read_text (const char *root, const char *a, const char *b)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    char *text = NULL;
    strbuf_printf (&path, "%s/proc/driver/nvidia/%s%s", root, a, b);
    return path.failed || io_read_file (path.text, FILE_BYTES, &text, NULL, NULL) ? NULL : text;
}

/* The first word that is a version: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug ..." */
static bool
find_version (const char *text, int version[3])
{
    for (const char *word = text; *word && *word != '\n'; word += strcspn (word, " \t\n")) {
        word += strspn (word, " \t");
        version[2] = 0;
        if (isdigit ((unsigned char) *word)
            && sscanf (word, "%9d.%9d.%9d", &version[0], &version[1], &version[2]) >= 2)
            return true;
    }
    return false;
}

/* Whether two cards can reach each other since the driver learnt it, in 550.40.07. */
static bool
is_new (const int version[3])
{
    static const int wanted[3] = { 550, 40, 7 };
    for (int i = 0; i < 3; i++)
        if (version[i] != wanted[i])
            return version[i] > wanted[i];
    return true;
}

bool
topology_lacks_p2p (const char *root)
{
    int version[3];
    AUTO_FREE char *text = read_text (root, "", "version");
    if (!text || !find_version (text, version) || is_new (version))
        return false;
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s/proc/driver/nvidia/gpus", root);
    DIR *dir = path.failed ? NULL : opendir (path.text);
    if (!dir)
        return false;
    int count = 0;
    bool found = false;
    for (struct dirent *entry; (entry = readdir (dir));) {
        if (*entry->d_name == '.')
            continue;
        strbuf_truncate (&path, 0);
        strbuf_printf (&path, "gpus/%s", entry->d_name);
        AUTO_FREE char *information = path.failed ? NULL : read_text (root, path.text, "/information");
        const char *model = information ? strstr (information, "Model:") : NULL;
        size_t length = model ? strcspn (model, "\n") : 0;
        found = found || (model && memmem (model, length, "RTX 40", 6));
        count++;
    }
    closedir (dir);
    return found && count > 1;
}
