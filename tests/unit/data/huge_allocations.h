/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that ask for more memory than there is.  Sanitizers ask these functions: their allocators refuse it, as the
 * usual one does, and do not abort. */
#ifndef TESTS_UNIT_HUGE_ALLOCATIONS_H
#define TESTS_UNIT_HUGE_ALLOCATIONS_H

__attribute__ ((visibility ("default"))) const char *__asan_default_options (void);
__attribute__ ((visibility ("default"))) const char *__tsan_default_options (void);

const char *
__asan_default_options (void)
{
    return "allocator_may_return_null=1";
}

const char *
__tsan_default_options (void)
{
    return "allocator_may_return_null=1";
}

#endif
