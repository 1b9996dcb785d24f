/* SPDX-License-Identifier: Apache-2.0 */
/* The questionnaire as data: the questions, in Hugging Face Accelerate's order, and the answers.  To add a question,
 * add one row to machine_rows.h or sagemaker.c.  A row that names a key of the option table needs
 * nothing else: by that key its answer is checked, written to the file, and taken from an old file or a flag. */
#ifndef CLI_QUESTIONS_QUESTIONS_H
#define CLI_QUESTIONS_QUESTIONS_H

#include "config/values.h"

enum question_kind {
    ASK_MENU,   /* one of `choices` */
    ASK_NUMBERS, /* one of 0 ... num_machines - 1 */
    ASK_YES_NO,
    ASK_VALUE,  /* typed, checked by the option's own type */
    ASK_LOWER,  /* the same, and kept in lower case */
    ASK_WORDS,  /* typed, comma-separated; may be empty */
    ASK_OPTIONAL, /* as ASK_VALUE; may be empty, and is not written then */
    ASK_PATH,   /* typed with completion; "~" at its beginning is the home folder */
    ASK_FULL_PATH, /* the same, made absolute */
    ASK_LINES,  /* typed one by one */
};

struct choice {
    const char *value; /* what is written, and accepted as an answer */
    const char *label; /* what is shown; NULL: the value */
};

struct answers;

/** Another question, and the answer that it must have; all zero: any. */
struct condition {
    const char *id, *value;
};

struct question {
    const char *id;   /* the key in the option table, or if it has none, a name for conditions */
    const char *also; /* another key that gets, and may give, the same value; or NULL */
    enum question_kind kind;
    const char *text; /* one line that ends in '?' or ':' */
    const struct choice *choices; /* of ASK_MENU; ends with { NULL } */
    const char *dflt;             /* NULL: none, an answer is required */
    /* If the default follows from other answers: the number, or 0 for `dflt`; NULL: it never does. */
    int64_t (*propose) (const struct answers *answers);
    struct condition if_answer;   /* it is asked only then, */
    bool (*when) (const struct answers *answers); /* and only if this holds; NULL: always */
    /* What is wrong with an answer that is well-formed, or NULL. */
    const char *(*objection) (const struct answers *answers, const char *text);
    /* Of questions without a key: keys, separated by blanks, whose flags answer it.  Without `recall`, the answer is
     * "yes" if a flag or the old file gives one of them. */
    const char *told_by;
    /* The answer that follows from an old file or flags, if it is not simply the key's value; NULL: the default. */
    const char *(*recall) (const struct config *old);
};

/** A value that is written without a question; later rows and answers override it. */
struct fixed_value {
    const char *key, *text; /* text "" of a list: an empty list */
    struct condition if_answer;                            /* it is written only then, */
    bool (*when) (const struct answers *answers);          /* and only if this holds; NULL: always */
    const char *(*follow) (const struct answers *answers); /* the text, if it follows from answers */
    bool keep;                                            /* a value of the old file overrides it */
};

/** One part of the questionnaire.  The first has one question, which chooses between the other two. */
struct question_list {
    const char *environment; /* value of compute_environment that it belongs to; NULL: always */
    const struct question *rows;
    size_t count;
    const struct fixed_value *fixed;
    size_t fixed_count;
};

enum { QUESTION_LISTS = 3 };
extern const struct question_list *const question_lists[QUESTION_LISTS];
extern const struct question_list questions_machine, questions_sagemaker;

enum answer_source {
    ANSWER_NONE,
    ANSWER_FLAG,    /* not asked */
    ANSWER_DEFAULT, /* taken with --yes */
    ANSWER_PERSON,
};

struct answer {
    const struct question *question;
    const struct question_list *list;
    char *text;     /* yes or no, a menu's value, what was typed; kept even if it no longer applies */
    char *proposal; /* of the old file, else the default; NULL: none */
    bool has_recalled; /* the proposal is the old file's */
    enum answer_source source;
    bool applies;
};

struct answers {
    struct answer *items; /* all questions, in order */
    size_t count;
    int gpus; /* of this machine */
    int cores; /* the same, if a person answers at a terminal; 0: answers come from a script */
};

/** The answer to question @p id, "" if it has none or does not apply. */
const char *answers_get (const struct answers *answers, const char *id);
bool answers_is (const struct answers *answers, const char *id, const char *value);
int64_t answers_number (const struct answers *answers, const char *id);

/** Whether the answers are such that a question is asked, or a value is written. */
bool answers_allow (const struct answers *answers, struct condition if_answer,
                    bool (*when) (const struct answers *answers));

/** All questions, with what flags say as answers, and what the file said as proposals. @{ */
int answers_init (struct answers *answers, const struct config *old, int gpus, struct fail *fail);
void answers_release (struct answers *answers);
/** @} */

/** Find out again which questions apply. */
void answers_refresh (struct answers *answers);

/**
 * Make what the user has typed an answer to @p item: yes for y, the value for a menu's number.
 * @return a new text, or NULL with @p fail saying what is wrong with it
 */
char *answers_read (const struct answers *answers, const struct answer *item, const char *typed, struct fail *fail);

/** The choices of a menu.  @return how many */
size_t answers_choices (const struct answers *answers, const struct answer *item, struct strlist *values,
                        struct strlist *labels);

/** The number of choice @p i in its menu: the value itself if all values are numbers, else i. */
int answers_menu_number (const struct strlist *values, size_t i);

/** The file that the answers mean.  @p file is initialized here.  Keys of @p old that no question is about are kept. */
int answers_apply (const struct answers *answers, const struct config *old, struct config *file, struct fail *fail);

#endif
