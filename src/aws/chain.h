/* SPDX-License-Identifier: Apache-2.0 */
/* Which credentials are used. */
#ifndef AWS_CHAIN_H
#define AWS_CHAIN_H

#include "aws/state.h"

/** Make sure that aws->keys are there and last for the next minutes. */
int chain_find (struct aws *aws, struct fail *fail);

/** AWS says that the keys have expired. @return whether it makes sense to find new ones */
bool chain_forget (struct aws *aws);

#endif
