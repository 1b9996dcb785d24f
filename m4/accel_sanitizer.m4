# SPDX-License-Identifier: Apache-2.0
# ACCEL_SANITIZER, ACCEL_FUZZERS and ACCEL_COVERAGE: instrumented builds, in variables of their own.
AC_DEFUN([ACCEL_SANITIZER], [
    AC_ARG_ENABLE([sanitizer],
        [AS_HELP_STRING([--enable-sanitizer=LIST], [build with sanitizers: address,undefined or thread])], [], [enable_sanitizer=no])
    AS_CASE([$enable_sanitizer],
        [no], [SAN_CFLAGS=],
        [yes], [AC_MSG_ERROR([--enable-sanitizer needs a list: address,undefined or thread])],
        [SAN_CFLAGS="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all"
         accel_saved_cflags=$CFLAGS
         CFLAGS="$CFLAGS $SAN_CFLAGS"
         AC_LINK_IFELSE([AC_LANG_PROGRAM()], [],
             [AC_MSG_ERROR([$CC cannot build with -fsanitize=$enable_sanitizer])])
         CFLAGS=$accel_saved_cflags])
    AC_SUBST([SAN_CFLAGS])
    AM_CONDITIONAL([SANITIZED], [test "x$enable_sanitizer" != xno])
])
# All code is instrumented for the fuzzers, so they have a build of their own; libFuzzer comes with clang.
AC_DEFUN([ACCEL_FUZZERS], [
    AC_ARG_ENABLE([fuzzers],
        [AS_HELP_STRING([--enable-fuzzers], [build fuzzers for the parsers ("make check-fuzz"); needs clang])],
        [], [enable_fuzzers=no])
    AS_IF([test "x$enable_fuzzers" = xyes], [
        SAN_CFLAGS="-fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=all"
        accel_saved_cflags=$CFLAGS
        CFLAGS="$CFLAGS $SAN_CFLAGS -fsanitize=fuzzer"
        AC_LINK_IFELSE([AC_LANG_SOURCE([[
            #include <stddef.h>
            int LLVMFuzzerTestOneInput (const char *data, size_t size);
            int LLVMFuzzerTestOneInput (const char *data, size_t size) { return !data && size; }]])], [],
            [AC_MSG_ERROR([$CC has no libFuzzer: use CC=clang, with libclang-rt-14-dev])])
        CFLAGS=$accel_saved_cflags])
    AM_CONDITIONAL([FUZZERS], [test "x$enable_fuzzers" = xyes])
])
AC_DEFUN([ACCEL_COVERAGE], [
    AC_ARG_ENABLE([coverage],
        [AS_HELP_STRING([--enable-coverage], [measure line coverage; report with "make coverage"])],
        [], [enable_coverage=no])
    AS_IF([test "x$enable_coverage" = xyes], [COVERAGE_CFLAGS="--coverage"], [COVERAGE_CFLAGS=])
    AC_SUBST([COVERAGE_CFLAGS])
    AM_CONDITIONAL([COVERAGE], [test "x$enable_coverage" = xyes])
])
