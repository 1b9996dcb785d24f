/* SPDX-License-Identifier: Apache-2.0 */
/* Images as data; see images.h.  The numbers are those of Amazon's Python library, sagemaker 2.257.7 (its file
 * image_uri_config/huggingface.json), for training with PyTorch on GPUs.  There are no others for training. */
#include <config.h>

#include "sagemaker/images.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define REPOSITORY "huggingface-pytorch-training"

static const struct image {
    const char *transformers, *pytorch, *python, *container;
    bool is_old; /* also in regions with `only_old` */
} images[] = {
    { "4.4.2", "1.6.0", "py36", "cu110-ubuntu18.04", true },
    { "4.5.0", "1.6.0", "py36", "cu110-ubuntu18.04", true },
    { "4.6.1", "1.6.0", "py36", "cu110-ubuntu18.04", true },
    { "4.6.1", "1.7.1", "py36", "cu110-ubuntu18.04", true },
    { "4.6.1", "1.8.1", "py36", "cu111-ubuntu18.04", true },
    { "4.10.2", "1.8.1", "py36", "cu110-ubuntu18.04", true },
    { "4.10.2", "1.9.0", "py38", "cu111-ubuntu20.04", true },
    { "4.11.0", "1.9.0", "py38", "cu111-ubuntu20.04", true },
    { "4.12.3", "1.9.1", "py38", "cu111-ubuntu20.04", true },
    { "4.17.0", "1.10.2", "py38", "cu113-ubuntu20.04", true },
    { "4.26.0", "1.13.1", "py39", "cu117-ubuntu20.04", false },
    { "4.28.1", "2.0.0", "py310", "cu118-ubuntu20.04", false },
    { "4.36.0", "2.1.0", "py310", "cu121-ubuntu20.04", false },
    { "4.46.1", "2.3.0", "py311", "cu121-ubuntu20.04", false },
    { "4.48.0", "2.3.0", "py311", "cu121-ubuntu20.04", false },
    { "4.49.0", "2.5.1", "py311", "cu124-ubuntu22.04", false },
    { "4.55.0", "2.7.1", "py312", "cu128-ubuntu22.04", false },
    { "4.56.2", "2.8.0", "py312", "cu129-ubuntu22.04", false },
};

/* The accounts that own the images. */
static const struct registry {
    const char *region, *account;
    bool only_old;
} registries[] = {
    { "af-south-1", "626614931356", false },
    { "ap-east-1", "871362719292", false },
    { "ap-northeast-1", "763104351884", false },
    { "ap-northeast-2", "763104351884", false },
    { "ap-northeast-3", "364406365360", false },
    { "ap-south-1", "763104351884", false },
    { "ap-south-2", "772153158452", true },
    { "ap-southeast-1", "763104351884", false },
    { "ap-southeast-2", "763104351884", false },
    { "ap-southeast-3", "907027046896", false },
    { "ap-southeast-4", "457447274322", true },
    { "ca-central-1", "763104351884", false },
    { "ca-west-1", "204538143572", false },
    { "cn-north-1", "727897471807", false },
    { "cn-northwest-1", "727897471807", false },
    { "eu-central-1", "763104351884", false },
    { "eu-central-2", "380420809688", true },
    { "eu-north-1", "763104351884", false },
    { "eu-south-1", "692866216735", false },
    { "eu-south-2", "503227376785", true },
    { "eu-west-1", "763104351884", false },
    { "eu-west-2", "763104351884", false },
    { "eu-west-3", "763104351884", false },
    { "il-central-1", "780543022126", false },
    { "me-central-1", "914824155844", false },
    { "me-south-1", "217643126080", false },
    { "sa-east-1", "763104351884", false },
    { "us-east-1", "763104351884", false },
    { "us-east-2", "763104351884", false },
    { "us-gov-east-1", "446045086412", false },
    { "us-gov-west-1", "442386744353", false },
    { "us-iso-east-1", "886529160074", false },
    { "us-isob-east-1", "094389454867", false },
    { "us-west-1", "763104351884", false },
    { "us-west-2", "763104351884", false },
};

size_t
instance_family (const char *instance, const char **family)
{
    *family = instance;
    if (strncmp (instance, "ml.", 3))
        return 0;
    const char *start = instance + 3, *at = start;
    while (islower ((unsigned char) *at) || isdigit ((unsigned char) *at) || *at == '-')
        at++;
    size_t length = (size_t) (at - start);
    if (*at == '.')
        at++;
    while (isalnum ((unsigned char) *at) || *at == '_')
        at++;
    if (*at)
        return 0;
    *family = start;
    return length;
}

int
instance_is (const char *instance, const char *start)
{
    const char *family;
    return instance_family (instance, &family) && !strncmp (family, start, strlen (start));
}

static int
parts_of (const char *version)
{
    int count = 1;
    for (; *version; version++)
        count += *version == '.';
    return count;
}

/* "4.17" is the image of 4.17.0, and is written so in its name. */
static bool
is_version (const char *wanted, const char *whole)
{
    size_t length = strlen (wanted);
    return !strcmp (wanted, whole)
           || (parts_of (wanted) == 2 && !strncmp (wanted, whole, length) && whole[length] == '.');
}

static int
check_instance (const struct image_request *wanted, struct fail *fail)
{
    const char *family;
    if (!instance_family (wanted->instance, &family))
        return fail_set (fail, FAIL_GENERAL, "ec2_instance_type: '%s' is not an instance type such as ml.p3.2xlarge",
                         wanted->instance);
    if (!instance_is (wanted->instance, "g") && !instance_is (wanted->instance, "p"))
        return fail_set (fail, FAIL_GENERAL, "ec2_instance_type: %s has no NVIDIA GPU, and the standard images for "
                         "training need one: choose ml.p... or ml.g..., or set image_uri", wanted->instance);
    return 0;
}

/* The words that would have been possible. */
static int
refuse_versions (const struct image_request *wanted, struct fail *fail)
{
    AUTO_STRBUF struct strbuf known = { 0 };
    bool same_transformers = false;
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        same_transformers = same_transformers || is_version (wanted->transformers, images[i].transformers);
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        if (!same_transformers || is_version (wanted->transformers, images[i].transformers))
            strbuf_printf (&known, "%s%s with PyTorch %s and %s", known.length ? ", " : "", images[i].transformers,
                           images[i].pytorch, images[i].python);
    if (known.failed)
        return fail_nomem (fail);
    return fail_set (fail, FAIL_GENERAL, "there is no standard image of transformers %s with PyTorch %s and %s; set "
                     "image_uri, or choose: %s", wanted->transformers, wanted->pytorch, wanted->python, known.text);
}

static const struct registry *
find_registry (const struct image_request *wanted, const struct image *image, struct fail *fail)
{
    for (size_t i = 0; i < sizeof registries / sizeof *registries; i++)
        if (!strcmp (registries[i].region, wanted->region) && (image->is_old || !registries[i].only_old))
            return &registries[i];
    fail_set (fail, FAIL_GENERAL, "region: there is no standard image of transformers %s in %s; set image_uri",
              wanted->transformers, wanted->region);
    return NULL;
}

int
image_find (const struct image_request *wanted, struct strbuf *uri, struct fail *fail)
{
    const struct image *image = NULL;
    if (check_instance (wanted, fail))
        return -1;
    if (parts_of (wanted->transformers) != parts_of (wanted->pytorch))
        return fail_set (fail, FAIL_GENERAL, "transformers_version %s and pytorch_version %s: write both with two or "
                         "both with three numbers", wanted->transformers, wanted->pytorch);
    for (size_t i = 0; i < sizeof images / sizeof *images && !image; i++)
        if (is_version (wanted->transformers, images[i].transformers) && is_version (wanted->pytorch, images[i].pytorch)
            && !strcmp (wanted->python, images[i].python))
            image = &images[i];
    if (!image)
        return refuse_versions (wanted, fail);
    const struct registry *registry = find_registry (wanted, image, fail);
    if (!registry)
        return -1;
    strbuf_printf (uri, "%s.dkr.ecr.%s.%s/" REPOSITORY ":%s-transformers%s-gpu-%s-%s", registry->account,
                   wanted->region, wanted->domain, wanted->pytorch, wanted->transformers, wanted->python,
                   image->container);
    return uri->failed ? fail_nomem (fail) : 0;
}
