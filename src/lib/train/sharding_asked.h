/* SPDX-License-Identifier: Apache-2.0 */
/* What programs (accel_model_set_sharding()) and launchers ask of sharding. */
#ifndef LIB_TRAIN_SHARDING_ASKED_H
#define LIB_TRAIN_SHARDING_ASKED_H

#include "lib/train/stretches.h"

/** @return whether a model that is not prepared yet may become sharded. */
bool sharding_is_asked (const struct accel_model *model);

/** @return the strategy for comparing ranks; see accel_sharding_options */
enum accel_sharding sharding_wanted (const struct accel_model *model);

/** @return the end of an error text about something that sharding prevents: what to do about it; static */
const char *sharding_hint (const struct accel_model *model);

/** @return what the launcher was given if it asks for sharding; static */
const char *sharding_launcher_option (void);

/** @return which option that would change addresses has no effect, because the program does not say that it follows
 *          them, of a model that is divided; NULL: none; static */
const char *sharding_not_followed (const struct accel_model *model);

/** Where the states of optimizers with the masters, and divided parameters, are to be; and if that is in files, in
 *  which folder: NULL if none is known.  @{ */
enum accel_offload offload_of_optimizers (const struct accel_model *model);
enum accel_offload offload_of_parameters (const struct accel_model *model);
const char *offload_folder (const struct accel_model *model, bool is_param);
/** @} */

#endif
