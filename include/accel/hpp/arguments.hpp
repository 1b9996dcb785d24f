/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a program: a table fills in a struct from a command line and from JSON files, and writes
 * these. */
#ifndef ACCEL_HPP_ARGUMENTS_HPP
#define ACCEL_HPP_ARGUMENTS_HPP

#include <accel/hpp/tensor.hpp>

#include <memory>
#include <optional>
#include <string>

namespace accelerate {

/** Fill in @p into, of standard layout, by the table @p rows.  @return the text for --help, if that was asked for */
template <class T>
std::optional<std::string>
parse_arguments (T &into, span<const accel_argument> rows, int argc, char **argv)
{
    char *raw = nullptr;
    detail::attempt call;
    call (accel_arguments_parse (&raw, &into, rows.data (), rows.size (), argc, argv, call.err ()));
    std::unique_ptr<char, decltype (&std::free)> help (raw, std::free);
    return help ? std::optional<std::string> (help.get ()) : std::nullopt;
}

/** Fill in what the JSON file at @p path has of @p into. */
template <class T>
void
read_arguments (T &into, span<const accel_argument> rows, const std::string &path)
{
    detail::attempt call;
    call (accel_arguments_read_json (&into, rows.data (), rows.size (), path.c_str (), call.err ()));
}

/** Write a JSON file that read_arguments() reads into the same fields. */
template <class T>
void
write_arguments (const T &from, span<const accel_argument> rows, const std::string &path)
{
    detail::attempt call;
    call (accel_arguments_write_json (&from, rows.data (), rows.size (), path.c_str (), call.err ()));
}

} // namespace accelerate

#endif
