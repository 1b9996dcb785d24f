/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of ~/.aws/config and ~/.aws/credentials. The first byte says which of them it is. */
#include <config.h>

#include "aws/profiles.h"
#include "tests/fuzz/target.h"

#include <assert.h>

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct profiles profiles;
    struct fail fail = { 0 };
    if (!size)
        return 0;
    if (profiles_parse (&profiles, "file", (const char *) data + 1, size - 1, *data & 1, &fail)) {
        assert (!strncmp (fail.text, "file:", 5) && !profiles.rows);
        return 0;
    }
    for (size_t i = 0; i < profiles.count; i++) {
        const struct profiles_row *row = &profiles.rows[i];
        assert (*row->section && !strchr (row->name, '\n') && !strchr (row->section, '\n'));
        assert (profiles_get (&profiles, row->kind, row->section, row->name));
        assert (profiles_get (&profiles, row->kind, row->section, ""));
    }
    profiles_release (&profiles);
    return 0;
}
