/* SPDX-License-Identifier: Apache-2.0 */
/* The XML of AWS's answers: elements and their texts. Strict: what is not well-formed is refused, and so are document
 * types (and with them, entities of the document's own). Attributes are skipped. */
#ifndef AWS_XML_H
#define AWS_XML_H

#include "util/fail.h"

#include <stddef.h>

struct aws_xml;

/** @return for aws_xml_free(); NULL with @p fail set: "not valid XML: byte N: ..." */
struct aws_xml *xml_parse (const char *text, size_t length, struct fail *fail);

/** @return the name of the root element, without namespace */
const char *xml_root (const struct aws_xml *xml);

#endif
