/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of lists of hosts and of frames: the first byte chooses. */
#include <config.h>

#include "hosts/list/hostlist.h"
#include "hosts/job_spec.h"
#include "tests/fuzz/target.h"

/* No name may look like an option of ssh, or like more than one word. */
static void
check_list (struct hostlist *list)
{
    hostlist_finish (list);
    for (size_t i = 0; i < list->count; i++)
        if (!*list->hosts[i].name || *list->hosts[i].name == '-' || strpbrk (list->hosts[i].name, " \t\n'\"$;")
            || list->hosts[i].slots < 0)
            abort ();
    struct fail fail = { 0 };
    if (list->count && hostlist_divide (list, 0, &fail))
        fuzz_check_message (&fail);
}

static void
take_frame (const char *bytes, size_t length)
{
    struct wire_frame frame;
    struct job_spec spec;
    struct fail fail = { 0 };
    size_t used;
    if (wire_next (bytes, length, &frame, &used) != 1)
        return;
    if (used > length)
        abort ();
    if (job_spec_take (&spec, &frame, &fail))
        fuzz_check_message (&fail);
    else
        job_spec_release (&spec);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct hostlist list = { 0 };
    struct fail fail = { 0 };
    if (!size)
        return 0;
    AUTO_FREE char *text = strndup ((const char *) data + 1, size - 1);
    if (*data == 'w')
        take_frame ((const char *) data + 1, size - 1);
    else if (*data == 'f' ? hostlist_add_file (&list, "file", text, &fail) : hostlist_add_text (&list, text, &fail))
        fuzz_check_message (&fail);
    else
        check_list (&list);
    hostlist_release (&list);
    return 0;
}
