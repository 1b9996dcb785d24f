/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a program: a table of names, types and defaults fills in a struct of the program from a command line and
 * from JSON files, like transformers' HfArgumentParser, and writes them.  Any thread; structs are in host memory. */
#ifndef ACCEL_ARGUMENTS_H
#define ACCEL_ARGUMENTS_H

#include <accel/base.h>

ACCEL_BEGIN_DECLS

/** Types of an argument's field. */
enum accel_argument_kind {
    ACCEL_ARGUMENT_TEXT,   /**< const char *: the argument itself or the default, not copied; NULL: there is none */
    ACCEL_ARGUMENT_INT,    /**< int */
    ACCEL_ARGUMENT_DOUBLE, /**< double */
    ACCEL_ARGUMENT_WORD,   /**< int: the place of the argument among `words`, from 0 */
};

/** A row of the table. */
struct accel_argument {
    const char *name;              /**< "steps" is the option --steps, and the key "steps" of a JSON file */
    enum accel_argument_kind kind; /**< the type of the field */
    bool required;                 /**< accel_arguments_read_json(): the file must have it */
    size_t offset;                 /**< of the field, from offsetof(), in bytes */
    const char *value;             /**< the default, as it would be typed; NULL: 0 or no text */
    const char *help;              /**< a noun phrase for --help */
    double min, max;               /**< of numbers; both 0: any that the type can hold */
    const char *words;             /**< separated by spaces: "no fp16 bf16" */
};

/**
 * Fill in all fields of a table: with their defaults, then with the arguments `--name value` or `--name=value`; of
 * equal names, the last one counts.
 *
 * @param[out] help  if there is an argument --help: a line for each row, to be printed and freed with free(); the
 *                   arguments from it on are ignored.  Otherwise NULL
 * @param into       the struct with the fields
 * @param arguments  [count]; the table
 * @param argc       elements of @p argv, whose first one is the program
 * @retval ACCEL_ERR_INVALID  an unknown or invalid argument, or an invalid row
 */
#define accel_arguments_parse(...) accel_arguments_parse_sized (sizeof (struct accel_argument), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_arguments_parse_sized (size_t row_size, char **help, void *into, const struct accel_argument *arguments,
                             size_t count, int argc, char **argv, struct accel_error *err);

/**
 * Fill in the fields whose names are keys of the object in a JSON file, such as the config.json of a model.  Other keys
 * are ignored, and other fields unchanged, also where the file has null; so are rows of ACCEL_ARGUMENT_TEXT.
 *
 * @param into       the struct with the fields
 * @param arguments  [count]; the table, or those of its rows that may be in the file
 * @retval ACCEL_ERR_INVALID  an invalid value or row, or a required key is missing
 * @retval ACCEL_ERR_FORMAT   not a JSON object
 * @retval ACCEL_ERR_SYSTEM   the file cannot be read, or has more than 16 MiB
 */
#define accel_arguments_read_json(...) accel_arguments_read_json_sized (sizeof (struct accel_argument), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_arguments_read_json_sized (size_t row_size, void *into, const struct accel_argument *arguments, size_t count,
                                 const char *path, struct accel_error *err);

/**
 * Write a JSON object that accel_arguments_read_json() reads into the same fields: one key for each row but those of
 * ACCEL_ARGUMENT_TEXT, in the order of the table.  Words are strings, but for "true", "false" and "null".  The
 * file appears complete or not at all.
 *
 * @param from       the struct with the fields
 * @param arguments  [count]; the table, or those of its rows that the file is to have
 * @retval ACCEL_ERR_INVALID  an invalid row, a number that is not finite, or a field that is not a place among `words`
 * @retval ACCEL_ERR_SYSTEM   the file cannot be written
 */
#define accel_arguments_write_json(...) accel_arguments_write_json_sized (sizeof (struct accel_argument), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_arguments_write_json_sized (size_t row_size, const void *from, const struct accel_argument *arguments,
                                  size_t count, const char *path, struct accel_error *err);

ACCEL_END_DECLS

#endif
