/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts by the names of shells, for all commands; see emit.h. */
#include <config.h>

#include "config/emit/emit.h"

#include <string.h>

static const struct command_info infos[] = {
#define COMMAND(NAME, function, word, ...) { .name = word, .options = COMMAND_##NAME, __VA_ARGS__ },
#include "config/table/rows_commands.h"
#undef COMMAND
};

static const struct {
    const char *name;
    void (*emit) (const struct command_info *const *commands, size_t count, struct strbuf *out);
} shells[] = { { "bash", emit_bash }, { "fish", emit_fish }, { "zsh", emit_zsh } };

bool
emit_completion (const char *shell, struct strbuf *out)
{
    const struct command_info *all[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++)
        all[i] = &infos[i];
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp (shell, shells[i].name)) {
            shells[i].emit (all, COMMAND_COUNT, out);
            return true;
        }
    return false;
}
