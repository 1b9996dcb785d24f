/* SPDX-License-Identifier: Apache-2.0 */
/* Version numbers of Python packages. */
#ifndef CONFIG_PEP440_H
#define CONFIG_PEP440_H

#include <stdbool.h>

/** Whether @p text is a version by PEP 440, Appendix B, without blanks around it: 1.2.3, 1.0rc1, 0.30.0.dev0. */
bool pep440_is_version (const char *text);

#endif
