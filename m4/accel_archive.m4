# SPDX-License-Identifier: Apache-2.0
# ACCEL_ARCHIVE: packing of source code for SageMaker. Only libarchive's headers are needed: the library is loaded when it
# is used.
AC_DEFUN([ACCEL_ARCHIVE], [
    AC_ARG_WITH([archive],
        [AS_HELP_STRING([--with-archive=auto|yes|no],
            [source code for SageMaker by libarchive, loaded when needed @<:@auto: if found@:>@])],
        [], [with_archive=auto])
    ARCHIVE_CFLAGS= ARCHIVE_LIBS= archive_found=no archive_state="no (--with-archive=no)"
    AS_CASE([$with_archive],
        [auto|yes], [
            PKG_CHECK_MODULES([ARCHIVE], [libarchive >= 3.2],
                [archive_found=yes archive_state="libarchive, loaded when needed"],
                [AS_IF([test "x$with_archive" = xyes],
                    [AC_MSG_ERROR([--with-archive=yes, but libarchive 3.2 was not found: install libarchive-dev])])
                 archive_state="no (libarchive 3.2 not found; libarchive-dev)"])],
        [no], [],
        [AC_MSG_ERROR([invalid --with-archive=$with_archive: expected auto, yes or no])])
    AM_CONDITIONAL([WITH_ARCHIVE], [test "x$archive_found" = xyes])
])
