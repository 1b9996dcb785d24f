# SPDX-License-Identifier: Apache-2.0
# ACCEL_FLAGS: our own compiler flags, each tried first; --enable-werror for developers and CI, never by default.
AC_DEFUN([ACCEL_TRY_FLAG], [
    AC_MSG_CHECKING([whether $CC accepts $1])
    accel_saved_cflags=$CFLAGS
    CFLAGS="$1 -Werror"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [accel_flag_ok=yes; ACCEL_CFLAGS="$ACCEL_CFLAGS $1"], [accel_flag_ok=no])
    CFLAGS=$accel_saved_cflags
    AC_MSG_RESULT([$accel_flag_ok])
])
AC_DEFUN([ACCEL_FLAGS], [
    ACCEL_CFLAGS="-std=gnu11 -pthread"
    # Nothing here asks errno about square roots, and loops that set it cannot be made of vectors. A function that nobody
    # declared is no C11, and an error in any build: warnings alone have been overlooked.
    m4_foreach_w([flag], [-fno-math-errno -fvisibility=hidden -Wall -Wextra -Wshadow -Wpointer-arith
        -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wwrite-strings -Wcast-align
        -Wno-missing-field-initializers -Werror=implicit-function-declaration], [ACCEL_TRY_FLAG(flag)])
    AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])],
        [], [enable_werror=no])
    WERROR_FLAG=
    AS_IF([test "x$enable_werror" = xyes], [ACCEL_CFLAGS="$ACCEL_CFLAGS -Werror" WERROR_FLAG=-Werror])
    AC_SUBST([WERROR_FLAG])
    AC_SUBST([ACCEL_CFLAGS])
])
