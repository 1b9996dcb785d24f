/* SPDX-License-Identifier: Apache-2.0 */
/* What the original knows and this version does not have yet: flags, keys of the file, words.  They get an honest
 * answer instead of "unknown"; keys whose value changes nothing are accepted.  What is built leaves this table. */
#ifndef CONFIG_FOREIGN_H
#define CONFIG_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

enum foreign_place {
    FOREIGN_FLAG = 1 << 0,
    FOREIGN_KEY = 1 << 1,     /* of the file's top level */
    FOREIGN_SECTION = 1 << 2, /* a mapping at the file's top level */
};

struct foreign {
    const char *key;
    unsigned places;
    const char *const *harmless; /* values that change nothing, NULL-terminated; "*": all.  None and empty always are */
};

extern const struct foreign foreigns[];
extern const size_t foreign_count;

/** @return the row of @p key in @p place, or NULL; '-' and '_' count as equal for flags */
const struct foreign *foreign_find (unsigned place, const char *key);

/** Whether @p text, a scalar of the file, changes nothing. */
bool foreign_is_harmless (const struct foreign *row, const char *text);

/** Whether the original knows @p text as a value of @p key, any case. */
bool foreign_value (const char *key, const char *text);

#endif
