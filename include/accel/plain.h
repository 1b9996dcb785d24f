/* SPDX-License-Identifier: Apache-2.0 */
/* Plain functions in place of the macros that pass the sizes of structs: for programs that are not written in C, which
 * find "accel_open" in the library by its name, and for generators of bindings, which do not see macros.  accel.h does
 * not include this header; in C, `(accel_open) (&acc, NULL, &err)` calls one.
 *
 * They read structs of the size that they have in the library that is loaded, where the macros pass the size that they
 * have in the program: a binding must have its structs from the headers of that library, see accel_version(), or pass
 * NULL for options, or call the function that ends in _sized with its own sizes. */
#ifndef ACCEL_PLAIN_H
#define ACCEL_PLAIN_H

#include <accel/accel.h>

ACCEL_BEGIN_DECLS

/** Name, parameters and arguments of each; all return enum accel_status. */
#define ACCEL_PLAIN_MAP(X) \
    X (accel_open, (struct accel **acc, const struct accel_options *options, struct accel_error *err), (acc, \
       options, err)) \
    X (accel_model_create, (struct accel_model **model, const struct accel_parameter *parameters, size_t count, \
       struct accel_error *err), (model, parameters, count, err)) \
    X (accel_model_set_ddp, (struct accel_model *model, const struct accel_ddp_options *options, \
       struct accel_error *err), (model, options, err)) \
    X (accel_model_set_sharding, (struct accel_model *model, const struct accel_sharding_options *options, \
       struct accel_error *err), (model, options, err)) \
    X (accel_model_set_tensor_parallel, (struct accel_model *model, const struct accel *acc, \
       const struct accel_partition *rows, size_t count, struct accel_error *err), (model, acc, rows, count, err)) \
    X (accel_segment_create, (struct accel_segment **segment, const struct accel_segment_options *options, \
       struct accel_error *err), (segment, options, err)) \
    X (accel_model_initialize, (struct accel_model *model, const struct accel_initializer *rows, size_t count, \
       struct accel_generator *generator, struct accel_error *err), (model, rows, count, generator, err)) \
    X (accel_model_set_file_names, (struct accel_model *model, const struct accel_file_name *rows, size_t count, \
       struct accel_error *err), (model, rows, count, err)) \
    X (accel_optimizer_create, (struct accel_optimizer **optimizer, struct accel_model *model, \
       enum accel_optimizer_kind kind, const struct accel_optimizer_options *options, struct accel_error *err), \
       (optimizer, model, kind, options, err)) \
    X (accel_optimizer_create_custom, (struct accel_optimizer **optimizer, struct accel_model *model, \
       const struct accel_custom_optimizer *options, struct accel_error *err), (optimizer, model, options, err)) \
    X (accel_optimizer_get_group, (const struct accel_optimizer *optimizer, size_t group, \
       struct accel_param_group *numbers, struct accel_error *err), (optimizer, group, numbers, err)) \
    X (accel_optimizer_set_group, (struct accel_optimizer *optimizer, size_t group, \
       const struct accel_param_group *numbers, struct accel_error *err), (optimizer, group, numbers, err)) \
    X (accel_outlier_watch, (struct accel *acc, const struct accel_outlier_options *options, \
       struct accel_error *err), (acc, options, err)) \
    X (accel_scheduler_create, (struct accel_scheduler **scheduler, struct accel_optimizer *optimizer, \
       const struct accel_scheduler_options *options, struct accel_error *err), (scheduler, optimizer, options, \
       err)) \
    X (accel_scheduler_create_sequential, (struct accel_scheduler **scheduler, struct accel_optimizer *optimizer, \
       const struct accel_scheduler_options *schedules, size_t count, const uint64_t *milestones, \
       struct accel_error *err), (scheduler, optimizer, schedules, count, milestones, err)) \
    X (accel_scheduler_create_chained, (struct accel_scheduler **scheduler, struct accel_optimizer *optimizer, \
       const struct accel_scheduler_options *schedules, size_t count, struct accel_error *err), (scheduler, \
       optimizer, schedules, count, err)) \
    X (accel_model_from_array, (struct accel_model **model, const struct accel_array *array, \
       const struct accel_array_row *rows, size_t row_count, struct accel_error *err), (model, array, rows, \
       row_count, err)) \
    X (accel_model_from_structs, (struct accel_model **model, const void *structs, size_t count, \
       const struct accel_struct_layout *layout, struct accel_error *err), (model, structs, count, layout, err)) \
    X (accel_dataset_subset, (struct accel_dataset **subset, const struct accel_dataset *dataset, size_t first, \
       size_t size, struct accel_error *err), (subset, dataset, first, size, err)) \
    X (accel_dataset_open_tokens, (struct accel_dataset **dataset, const char *const *paths, size_t count, \
       const struct accel_tokens_options *options, struct accel_error *err), (dataset, paths, count, options, err)) \
    X (accel_dataset_open_csv, (struct accel_dataset **dataset, const char *path, \
       const struct accel_csv_options *options, struct accel_error *err), (dataset, path, options, err)) \
    X (accel_dataset_open_idx, (struct accel_dataset **dataset, const char *images, const char *labels, \
       const struct accel_idx_options *options, struct accel_error *err), (dataset, images, labels, options, err)) \
    X (accel_generator_choose, (struct accel_generator *generator, const float *logits, size_t count, size_t *chosen, \
       const struct accel_choice_options *options, struct accel_error *err), (generator, logits, count, chosen, \
       options, err)) \
    X (accel_sampler_create, (struct accel_sampler **sampler, enum accel_sampler_kind kind, size_t size, \
       const struct accel_sampler_options *options, struct accel_error *err), (sampler, kind, size, options, err)) \
    X (accel_sampler_create_llmc, (struct accel_sampler **sampler, const struct accel_dataset *dataset, \
       const struct accel_sampler_options *options, struct accel_error *err), (sampler, dataset, options, err)) \
    X (accel_sampler_create_custom, (struct accel_sampler **sampler, const struct accel_sampler_calls *calls, \
       struct accel_error *err), (sampler, calls, err)) \
    X (accel_loader_create, (struct accel_loader **loader, const struct accel_dataset *dataset, \
       const struct accel_loader_options *options, struct accel_error *err), (loader, dataset, options, err)) \
    X (accel_send_to_device, (struct accel_tree **sent, const struct accel_tree *tree, DLDevice device, \
       const struct accel_send_options *options, struct accel_error *err), (sent, tree, device, options, err)) \
    X (accel_safetensors_open, (struct accel_safetensors **file, const char *path, \
       const struct accel_safetensors_options *options, struct accel_error *err), (file, path, options, err)) \
    X (accel_set_project_configuration, (struct accel *acc, \
       const struct accel_project_configuration *configuration, struct accel_error *err), (acc, configuration, \
       err)) \
    X (accel_register_for_checkpointing, (struct accel *acc, const struct accel_checkpoint_object *object, \
       struct accel_error *err), (acc, object, err)) \
    X (accel_init_trackers, (struct accel *acc, const char *project_name, const struct accel_value *config, \
       size_t count, const struct accel_tracker_options *options, struct accel_error *err), (acc, project_name, \
       config, count, options, err)) \
    X (accel_arguments_parse, (char **help, void *into, const struct accel_argument *arguments, size_t count, \
       int argc, char **argv, struct accel_error *err), (help, into, arguments, count, argc, argv, err)) \
    X (accel_arguments_read_json, (void *into, const struct accel_argument *arguments, size_t count, \
       const char *path, struct accel_error *err), (into, arguments, count, path, err)) \
    X (accel_arguments_write_json, (const void *from, const struct accel_argument *arguments, size_t count, \
       const char *path, struct accel_error *err), (from, arguments, count, path, err))

#define X(name, parameters, arguments) ACCEL_API ACCEL_NODISCARD enum accel_status (name) parameters;
ACCEL_PLAIN_MAP (X)
#undef X

ACCEL_END_DECLS

#endif
