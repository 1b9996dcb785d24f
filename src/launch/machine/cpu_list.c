/* SPDX-License-Identifier: Apache-2.0 */
/* "0-3,8" <-> sets of CPUs; see cpu_list.h. */
#include <config.h>

#include "launch/machine/cpu_list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

void
cpu_list_mark (const char *list, cpu_set_t *set, size_t bytes)
{
    while (isdigit ((unsigned char) *list)) {
        char *end;
        unsigned long first = strtoul (list, &end, 10), last = first;
        if (*end == '-')
            last = strtoul (end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < bytes * 8; cpu++)
            CPU_SET_S (cpu, bytes, set);
        list = *end == ',' ? end + 1 : end;
    }
}

void
cpu_list_write (const cpu_set_t *set, size_t bytes, char *text, size_t size)
{
    size_t at = 0;
    *text = '\0';
    for (size_t cpu = 0; cpu < bytes * 8; cpu++) {
        size_t last = cpu;
        if (!CPU_ISSET_S (cpu, bytes, set))
            continue;
        while (last + 1 < bytes * 8 && CPU_ISSET_S (last + 1, bytes, set))
            last++;
        if (at + 48 > size) {
            snprintf (text + at, size - at, ",...");
            return;
        }
        at += (size_t) snprintf (text + at, size - at, "%s%zu", at ? "," : "", cpu);
        if (last > cpu)
            at += (size_t) snprintf (text + at, size - at, "-%zu", last);
        cpu = last;
    }
}
