# SPDX-License-Identifier: Apache-2.0
# ACCEL_CURL: HTTP requests of the command. Only libcurl's header is needed: the library is loaded when it is used.
AC_DEFUN([ACCEL_CURL], [
    AC_ARG_WITH([curl],
        [AS_HELP_STRING([--with-curl=auto|yes|no], [HTTP requests by libcurl, loaded when needed @<:@auto: if found@:>@])],
        [], [with_curl=auto])
    CURL_CFLAGS= CURL_LIBS= curl_found=no curl_state="no (--with-curl=no)"
    AS_CASE([$with_curl],
        [auto|yes], [
            PKG_CHECK_MODULES([CURL], [libcurl >= 7.75],
                [curl_found=yes curl_state="libcurl, loaded when needed"],
                [AS_IF([test "x$with_curl" = xyes],
                    [AC_MSG_ERROR([--with-curl=yes, but libcurl 7.75 was not found: install libcurl4-openssl-dev])])
                 curl_state="no (libcurl 7.75 not found; libcurl4-openssl-dev)"])],
        [no], [],
        [AC_MSG_ERROR([invalid --with-curl=$with_curl: expected auto, yes or no])])
    AM_CONDITIONAL([WITH_CURL], [test "x$curl_found" = xyes])
])
