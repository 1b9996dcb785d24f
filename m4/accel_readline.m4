# SPDX-License-Identifier: Apache-2.0
# ACCEL_READLINE: line editing for the command's questions.  GNU readline is GPL-3 and then governs the binary
# `accelerate`; a packager who does not want that takes libedit, or none.  The library never links either.
AC_DEFUN([ACCEL_READLINE], [
    AC_ARG_WITH([readline],
        [AS_HELP_STRING([--with-readline=yes|libedit|no], [line editing in prompts @<:@yes if found@:>@])],
        [], [with_readline=auto])
    READLINE_LIBS= READLINE_CFLAGS= readline_state="no (--with-readline=no)"
    AS_CASE([$with_readline],
        [auto|yes], [
            PKG_CHECK_MODULES([READLINE], [readline],
                [readline_state="GNU readline"
                 AC_DEFINE([HAVE_READLINE], [1], [GNU readline])],
                [AS_IF([test "x$with_readline" = xyes],
                    [AC_MSG_ERROR([--with-readline=yes, but readline was not found: install libreadline-dev])])
                 readline_state="no (readline not found; libreadline-dev)"])],
        [libedit], [
            PKG_CHECK_MODULES([READLINE], [libedit],
                [readline_state="libedit"
                 AC_DEFINE([HAVE_LIBEDIT], [1], [BSD libedit])],
                [AC_MSG_ERROR([--with-readline=libedit, but libedit was not found: install libedit-dev])])],
        [no], [],
        [AC_MSG_ERROR([invalid --with-readline=$with_readline: expected yes, libedit or no])])
    AC_DEFINE_UNQUOTED([READLINE_STATE], ["$readline_state"], [What questions are edited with])
])
