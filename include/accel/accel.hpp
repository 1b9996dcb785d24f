/* SPDX-License-Identifier: Apache-2.0 */
/* libaccel for C++17 and later: header only, over the C functions of accel/accel.h.
 *
 *   #include <accel/accel.hpp>
 *
 *   accelerate::accelerator acc;
 *   accelerate::loader loader (dataset, accelerate::loader_options ().batch_size (32).shuffle (true));
 *   for (const accelerate::batch &batch : loader) ...
 *
 * Everything is in namespace `accelerate`: a namespace `accel` cannot be, because the C API has a `struct accel`.
 *
 * Rules
 *  1. Objects own what their C counterpart's _destroy function frees.  They can be moved, not copied.  get() is the C
 *     object, for any function of the C API.  As in C, what an object is made of must outlive it: declare the
 *     accelerator and the data sets first, and the loaders, optimizers and schedulers after what they work on.
 *  2. Errors are exceptions: accelerate::error carries the status, errno and text of struct accel_error.  Constructors
 *     have no other way to fail, std::expected is C++23, and a program whose collective failed can do little but end:
 *     there an exception unwinds to main() and frees everything on its way.
 *  3. Functions that a program hands in may throw.  The exception never passes through C: the C function sees an error
 *     with its what().  Where the function was called by the thread that waits for it, the caller then gets the
 *     original exception.  What data sets and optimizers of the program throw becomes an accelerate::error.
 *  4. Options are the C API's structs, or their namesakes here, which have a setter for each field.
 *  5. Collectives take the caller's file and line as a last, hidden argument.
 *
 * accel_hpp(3) shows it at work. */
#ifndef ACCEL_ACCEL_HPP
#define ACCEL_ACCEL_HPP

#if __cplusplus < 201703L
#error "accel/accel.hpp needs C++17 or later: compile with -std=c++17"
#else

#include <accel/accel.h>

#include <accel/hpp/base.hpp>
#include <accel/hpp/groups.hpp>
#include <accel/hpp/options.hpp>
#include <accel/hpp/tensor.hpp>
#include <accel/hpp/tree.hpp>
#include <accel/hpp/arguments.hpp>
#include <accel/hpp/data.hpp>
#include <accel/hpp/train.hpp>
#include <accel/hpp/comm.hpp>
#include <accel/hpp/statedict.hpp>
#include <accel/hpp/files.hpp>
#include <accel/hpp/accelerator.hpp>
#include <accel/hpp/scopes.hpp>

#undef ACCEL_CALL_

#endif

#endif
