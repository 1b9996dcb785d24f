/* SPDX-License-Identifier: Apache-2.0 */
/* The environment that settings result in: the variables of the option table's rows, and those that depend on several
 * settings.  Pure: nothing is read from or written to this process's own environment. */
#ifndef CONFIG_ENVMAP_H
#define CONFIG_ENVMAP_H

#include "config/values.h"
#include "util/fail.h"
#include "util/strbuf.h"

/**
 * Append NAME=VALUE for every variable that launch path @p path hands to a rank, sorted by name.  Variables of single
 * ranks (RANK, MASTER_ADDR, ...) depend on the plan and are the plan's.
 *
 * @param path  one bit of enum option_path
 */
int envmap_emit (const struct config *config, unsigned path, struct strlist *env, struct fail *fail);

/** A variable that depends on several settings. */
struct envrule {
    const char *name;
    unsigned paths; /* enum option_path */
    bool (*when) (const struct settings *settings);
    const char *value;
    const char *doc; /* for the man page */
};

extern const struct envrule envrules[];
extern const size_t envrule_count;

#endif
