/* SPDX-License-Identifier: Apache-2.0 */
/* NULL where an object, or the place for a result, is needed: refused with words, and nothing is sent; getters and what
 * draws from a generator find nothing in it. */
#include <config.h>

#include "tests/tap.h"

#include <accel/accel.h>

static struct accel *acc;
static struct accel_error err;
static float numbers[8];

static void
refused (enum accel_status status, const char *what)
{
    ok (status == ACCEL_ERR_INVALID && err.code == status && strstr (err.text, "NULL"), "%s: %s", what, err.text);
    memset (&err, 0, sizeof err);
}

static void
test_collectives (const struct accel_tree *tree)
{
    struct accel_mesh *mesh;
    struct accel_tree *made = NULL;
    refused (accel_alloc (acc, 8, NULL, &err), "no place for memory");
    refused (accel_check_trigger (acc, NULL, &err), "no place for an answer");
    refused (accel_comm_split (NULL, accel_world (acc), 0, 0, &err), "no place for a group");
    refused (accel_mesh_create (NULL, acc, (const char *[]){ "a" }, (int[]){ 1 }, 1, &err), "no place for a mesh");
    refused (accel_mesh_create (&mesh, acc, NULL, (int[]){ 1 }, 1, &err), "no names");
    refused (accel_tree_gather (NULL, acc, tree, &err), "no place for a gathered tree");
    refused (accel_tree_gather (&made, acc, NULL, &err), "no tree to gather");
    refused (accel_tree_gather_for_metrics (NULL, acc, tree, &err), "no place for a gathered tree");
    refused (accel_tree_reduce (NULL, acc, tree, ACCEL_SUM, 1, &err), "no place for a reduced tree");
    refused (accel_tree_pad_across_processes (NULL, acc, tree, 0, 0, false, &err), "no place for a padded tree");
    refused (accel_synchronize_rng_state (NULL, NULL, &err), "no job with a generator");
    ok (!accel_comm_barrier (accel_world (acc), &err), "and the communicator still works");
}

static void
test_trees (const struct accel_tree *tree)
{
    const struct accel_tree *trees[] = { tree, tree };
    struct accel_tensor tensor = { .owned_bytes = 0 };
    size_t size;
    ok (!accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, (int64_t[]){ 8 }, &err), "a tensor");
    tensor.dl.data = numbers;
    refused (accel_tree_borrow_tensor (NULL, &tensor.dl, &err), "no place for a borrowing leaf");
    refused (accel_tree_copy_tensor (NULL, &tensor.dl, &err), "no place for a copying leaf");
    refused (accel_tree_take_tensor (NULL, &tensor, &err), "no place for an owning leaf");
    refused (accel_tree_create_bytes (NULL, "x", 1, &err), "no place for bytes");
    refused (accel_tree_create (NULL, ACCEL_TREE_LIST, &err), "no place for a list");
    refused (accel_tree_create (NULL, ACCEL_TREE_DICT, &err), "no place for a dict");
    struct accel_tree *made = (struct accel_tree *) (void *) numbers;
    ok (accel_tree_create (&made, ACCEL_TREE_BYTES, &err) == ACCEL_ERR_INVALID && !made, "%s", err.text);
    refused (accel_tree_copy (NULL, tree, &err), "no place for a copy");
    refused (accel_tree_map (NULL, tree, NULL, NULL, &err), "no function");
    refused (accel_tree_find_batch_size (tree, NULL, &err), "no place for a size");
    refused (accel_tree_find_batch_size (NULL, &size, &err), "no tree with a size");
    refused (accel_tree_slice (NULL, tree, 0, 1, &err), "no place for a slice");
    refused (accel_tree_concatenate (NULL, trees, 2, 0, &err), "no place for a long tree");
    refused (accel_tree_pad (NULL, tree, 0, 9, 0, false, &err), "no place for a padded tree");
    refused (accel_pad_input_tensors (NULL, tree, 2, 2, &err), "no place for padded inputs");
    refused (accel_send_to_device (NULL, tree, accel_device (NULL), NULL, &err), "no place for what is sent");
}

static void
test_generators (void)
{
    struct accel_generator *generator;
    int64_t values[4] = { 7, 7, 7, 7 };
    uint8_t state[ACCEL_GENERATOR_STATE_BYTES] = { 1 };
    ok (!accel_generator_create (&generator, 1, &err), "a generator");
    accel_generator_seed (NULL, 1);
    accel_generator_set_kernels (NULL, ACCEL_RANDOM_PORTABLE);
    accel_generator_permutation (NULL, values, 4);
    accel_generator_permutation (generator, NULL, 4);
    accel_generator_get_state (generator, NULL);
    accel_generator_get_state (NULL, state);
    ok (values[0] == 7 && !state[0], "a generator that is NULL permutes nothing, and has no state");
    ok (!accel_generator_initial_seed (NULL) && !accel_generator_next (NULL) && accel_generator_uniform (NULL) == 0
            && accel_generator_randint (NULL, 3, 9) == 3,
        "what it draws is the least");
    refused (accel_generator_fill_uniform (NULL, numbers, 4, ACCEL_FLOAT32, 0, 1, &err), "uniforms of no generator");
    refused (accel_generator_fill_uniform (generator, NULL, 4, ACCEL_FLOAT64, 0, 1, &err), "no place for uniforms");
    refused (accel_generator_fill_normal (NULL, numbers, 4, ACCEL_FLOAT32, 0, 1, &err), "normals of no generator");
    refused (accel_generator_fill_normal (generator, NULL, 4, ACCEL_FLOAT64, 0, 1, &err), "no place for normals");
    refused (accel_generator_set_state (NULL, state, sizeof state, &err), "a state for no generator");
    ok (!accel_generator_fill_uniform (generator, NULL, 0, ACCEL_FLOAT32, 0, 1, &err), "nothing needs no place");
    accel_generator_destroy (generator);
}

static void
test_datasets (void)
{
    static const struct accel_field field = { "x", ACCEL_FLOAT32, 0, { 0 } };
    struct accel_tokens_options tokens = { .sequence_length = 2 };
    refused (accel_dataset_from_arrays (NULL, &field, (const void *[]){ numbers }, 1, 8, &err), "arrays");
    refused (accel_dataset_open_tokens (NULL, (const char *[]){ "none" }, 1, &tokens, &err), "tokens");
    refused (accel_dataset_open_csv (NULL, "none", NULL, &err), "CSV");
    refused (accel_dataset_open_idx (NULL, "none", NULL, NULL, &err), "IDX");
    refused (accel_dataset_open_safetensors (NULL, "none", NULL, 0, &err), "safetensors");
}

int
main (void)
{
    struct accel_tree *tree, *leaf;
    struct accel_tensor tensor;
    bool made = !accel_open (&acc, NULL, &err) && !accel_tree_create (&tree, ACCEL_TREE_LIST, &err)
                && !accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, (int64_t[]){ 8 }, &err);
    tensor.dl.data = numbers;
    made = made && !accel_tree_copy_tensor (&leaf, &tensor.dl, &err) && !accel_tree_append (tree, leaf, &err);
    if (!ok (made, "a job and a tree: %s", err.text))
        return done_testing ();
    test_collectives (tree);
    test_trees (tree);
    test_generators ();
    test_datasets ();
    accel_tree_destroy (tree);
    accel_close (acc);
    return done_testing ();
}
