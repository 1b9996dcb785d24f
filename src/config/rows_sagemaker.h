/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: SageMaker, keys of files only; options.c includes them. */

    { .key = "ec2_instance_type", OPT_TEXT (ec2_instance_type), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "NAME",
      .help = "EC2 instance type",
      .doc = "SageMaker: the type of the machines, such as ml.p3.2xlarge." },

    { .key = "iam_role_name", OPT_TEXT (iam_role_name), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "NAME",
      .help = "IAM role of the job",
      .doc = "SageMaker: the role (IAM) that the job works as." },

    { .key = "image_uri", OPT_TEXT (image_uri), .group = GROUP_AWS, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "URI",
      .help = "Docker image",
      .doc = "SageMaker: the Docker image to run instead of a standard one." },

    { .key = "profile", OPT_TEXT (profile), .group = GROUP_AWS, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "NAME",
      .help = "AWS profile",
      .doc = "SageMaker: the profile of AWS whose keys are used." },

    { .key = "region", OPT_TEXT (region), .group = GROUP_AWS, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "NAME",
      .help = "AWS region",
      .doc = "SageMaker: the region of AWS." },

    { .key = "base_job_name", OPT_TEXT (base_job_name), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "NAME",
      .help = "prefix of job names",
      .doc = "SageMaker: how names of jobs begin." },

    { .key = "pytorch_version", OPT_TEXT (pytorch_version), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "VERSION",
      .help = "PyTorch version",
      .doc = "SageMaker: the version of PyTorch in the standard image." },

    { .key = "transformers_version", OPT_TEXT (transformers_version), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "VERSION",
      .help = "transformers version",
      .doc = "SageMaker: the version of transformers in the standard image." },

    { .key = "py_version", OPT_TEXT (py_version), .group = GROUP_AWS, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "VERSION",
      .help = "Python version",
      .doc = "SageMaker: the version of Python in the standard image, such as py38." },

    { .key = "sagemaker_inputs_file", OPT_PATH (sagemaker_inputs_file), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "FILE",
      .help = "TSV file of input channels",
      .doc = "SageMaker: a file with a channel and an S3 address in each line, between tabs." },

    { .key = "sagemaker_metrics_file", OPT_PATH (sagemaker_metrics_file), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "FILE",
      .help = "TSV file of metrics",
      .doc = "SageMaker: a file with a name and a regular expression in each line, between tabs." },
