/* SPDX-License-Identifier: Apache-2.0 */
/* What conditions and proposals of questions look at: the answers to others; see questions.h. */
#include <config.h>

#include "cli/questions/questions.h"

#include "util/parse.h"

#include <string.h>

const char *
answers_get (const struct answers *answers, const char *id)
{
    for (size_t i = 0; i < answers->count; i++)
        if (answers->items[i].applies && answers->items[i].text && !strcmp (answers->items[i].question->id, id))
            return answers->items[i].text;
    return "";
}

bool
answers_is (const struct answers *answers, const char *id, const char *value)
{
    return !strcmp (answers_get (answers, id), value);
}

int64_t
answers_number (const struct answers *answers, const char *id)
{
    int64_t number;
    return parse_int64 (answers_get (answers, id), INT64_MIN, INT64_MAX, &number) == PARSE_OK ? number : 0;
}

bool
answers_allow (const struct answers *answers, struct condition if_answer, bool (*when) (const struct answers *answers))
{
    return (!if_answer.id || answers_is (answers, if_answer.id, if_answer.value)) && (!when || when (answers));
}
