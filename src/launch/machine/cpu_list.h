/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of CPUs as the kernel writes them: "0-3,8". */
#ifndef LAUNCH_MACHINE_CPU_LIST_H
#define LAUNCH_MACHINE_CPU_LIST_H

#include <sched.h>
#include <stddef.h>

/** Mark the CPUs of @p list in @p set of @p bytes; what is not a list is left out. */
void cpu_list_mark (const char *list, cpu_set_t *set, size_t bytes);

/** Write @p set as a list.  One that is too long ends in "...". */
void cpu_list_write (const cpu_set_t *set, size_t bytes, char *text, size_t size);

#endif
