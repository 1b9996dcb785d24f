/* SPDX-License-Identifier: Apache-2.0 */
/* What every other header needs: visibility, status codes and the error object.
 *
 * Rules for the whole API
 *  1. Order of arguments: a new object, or a tensor or list that the call allocates, is stored through the first one;
 *     otherwise the object worked on comes first.  Then inputs, outputs, options, and `err` last.  Buffers and their
 *     types are in the order of MPI: send, recv, count, dtype, op.  Calls that take any number of objects have `err`
 *     before them.  Each header or function says which memory may be a device's.
 *  2. Counts are numbers of elements, never bytes, unless the name ends in _bytes or _ms.
 *  3. Every function that can fail returns enum accel_status and takes a nullable `err`.  On failure, a constructor
 *     sets its object to NULL, other single outputs are unchanged, and the buffers of a collective are undefined.
 *  4. Collectives ("Collective" in their comment) must be called by every process, in the same order.  They are macros
 *     that add the caller's file and line, which appear in error messages and in the launcher's report; the underlying
 *     functions end in _at.
 *  5. An object may be used by one thread at a time.  Different objects are independent, except that everything
 *     prepared with one `struct accel` counts as one object with it.
 *  6. In options, 0 selects each field's default.  If that is another number, ACCEL_ZERO (ACCEL_NONE for counts) means
 *     0.  Choices that are made by default are an enum accel_flag, which ACCEL_NO turns off.
 *  7. The structs that a program fills in may get new fields, always at the end.  Functions that read them are macros
 *     that add the size that each struct had when the program was compiled; the underlying functions end in _sized.
 *     Fields that the program's struct lacks count as 0.  A struct that is larger than the library's is accepted if
 *     the bytes that the library does not know are 0; otherwise the call fails with ACCEL_ERR_UNSUPPORTED.  Bindings
 *     for other languages call the _sized functions with the sizes of their own structs, as C's sizeof gives them.
 *  8. The library never prints (except accel_print, accel_logger..., accel_progress...), never exits and installs no
 *     signal handler.  accel_check() does the first two, accel_should_save() and accel_should_stop() the last, for
 *     programs that call them. */
#ifndef ACCEL_BASE_H
#define ACCEL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define ACCEL_BEGIN_DECLS extern "C" {
#define ACCEL_END_DECLS }
#else
#define ACCEL_BEGIN_DECLS
#define ACCEL_END_DECLS
#endif

#define ACCEL_API __attribute__ ((__visibility__ ("default")))
#define ACCEL_NODISCARD __attribute__ ((__warn_unused_result__))
#define ACCEL_PRINTF(text, first) __attribute__ ((__format__ (__printf__, text, first)))

/** The call site that the macros of collectives pass on: two arguments, `const char *file, int line`. */
#define ACCEL_HERE __FILE__, __LINE__

ACCEL_BEGIN_DECLS

/** Name, value and meaning of every status: the enum, accel_status_string() and accel_check(3) come from this list. */
#define ACCEL_STATUS_MAP(X)                                       \
    X (OK, 0, "success")                                          \
    X (ERR_INVALID, 1, "invalid argument")                        \
    X (ERR_NOMEM, 2, "out of memory")                             \
    X (ERR_SYSTEM, 3, "system call failed")                       \
    X (ERR_TIMEOUT, 4, "timed out waiting for a peer")            \
    X (ERR_PEER, 5, "a peer died, left or made a different call") \
    X (ERR_UNSUPPORTED, 6, "not supported here")                  \
    X (ERR_FORMAT, 7, "malformed file or data")                   \
    X (ERR_CALLBACK, 8, "a callback failed")                      \
    X (ERR_NOT_FOUND, 9, "there is none yet")

/** A choice whose default is not plainly "no": `.even_batches = ACCEL_NO`.  Beware: false is ACCEL_DEFAULT. */
enum accel_flag {
    ACCEL_DEFAULT,
    ACCEL_YES, /**< true is the same */
    ACCEL_NO,
};

/** The result of a call.  ACCEL_OK is zero, so `if (status)` means "if it failed". */
enum accel_status {
#define X(name, value, text) ACCEL_##name = value,
    ACCEL_STATUS_MAP (X)
#undef X
};

#define ACCEL_ERROR_TEXT_SIZE 488

/** Why a call failed.  Set only on failure; has a fixed size and needs no freeing. */
struct accel_error {
    enum accel_status code;
    int sys_errno;                    /**< errno of the failed system call, or 0 */
    char text[ACCEL_ERROR_TEXT_SIZE]; /**< one line without newline: what, where, why */
};

/** @return the meaning of @p status as a static string, never NULL. */
ACCEL_API const char *accel_status_string (enum accel_status status);

/**
 * Exactly zero, for floating-point options where 0 means "the default": `.beta1 = ACCEL_ZERO`.  It is -0.0, which C
 * compares equal to 0; libaccel checks the sign.  If an option's default is 0, both mean the same.
 */
#define ACCEL_ZERO (-0.0)

/** Exactly none, for unsigned 32-bit options where 0 means "the default" and none is allowed. */
#define ACCEL_NONE UINT32_MAX

/**
 * For values that are inputs of the program, such as command-line arguments: `.beta1 = accel_exactly (beta1)`.  Any
 * thread.
 *
 * @return @p value, or ACCEL_ZERO if it is 0
 */
ACCEL_API double accel_exactly (double value);

/**
 * End the program if @p status is a failure: for programs that only need to end with the message.
 *
 *   accel_check (accel_open (&acc, NULL, &err), &err);
 *
 * Prints one line to standard error (program, file and line, text of @p err), writes the text to the file that the
 * launcher reads errors from (variable TORCHELASTIC_ERROR_FILE) if there is one, and calls exit (EXIT_FAILURE).
 * Returns if @p status is ACCEL_OK.  Any thread, but as for exit(), one at a time.
 *
 * A process that failed only because of a peer (ACCEL_ERR_PEER) first waits, up to a second: in that time the launcher
 * sees the peer end, ends this process too, and reports the peer's error as the cause.
 *
 * @param file  NULL for accel_check_at(): no place is printed
 * @param err   the error of the call; if it is NULL, or of a different status, the meaning of @p status is printed
 */
#define accel_check(status, err) accel_check_at (ACCEL_HERE, (status), (err))
ACCEL_API void
accel_check_at (const char *file, int line, enum accel_status status, const struct accel_error *err);

/** @return the library's version, e.g. "0.1.0"; static. */
ACCEL_API const char *accel_version (void);

ACCEL_END_DECLS

#endif
