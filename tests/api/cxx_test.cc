/* SPDX-License-Identifier: Apache-2.0 */
/* accel.hpp: what each class owns, throws and calls, on any number of processes.  The numbers themselves are the
 * business of the C API's tests. */
#include <accel/accel.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <numeric>

using namespace accelerate;

namespace {

int count, failed;

void
ok (bool good, const char *what)
{
    std::printf ("%sok %d - %s\n", good ? "" : "not ", ++count, what);
    failed += !good;
}

/* Whether @function throws an error of that code whose text has @words. */
template <class F>
bool
throws (accel_status code, const char *words, F function)
{
    try {
        function ();
    } catch (const error &e) {
        if (e.code () == code && std::strstr (e.what (), words))
            return true;
        std::printf ("# code %d: %s\n", int (e.code ()), e.what ());
    }
    return false;
}

/* Not an exception of the library. */
struct own_exception : std::logic_error {
    using std::logic_error::logic_error;
};

template <class F>
bool
throws_own (F function)
{
    try {
        function ();
    } catch (const own_exception &e) {
        return !std::strcmp (e.what (), "mine");
    } catch (const std::exception &e) {
        std::printf ("# %s\n", e.what ());
    }
    return false;
}

template <class T>
constexpr bool only_moves = std::is_nothrow_move_constructible_v<T> && !std::is_copy_constructible_v<T>;
static_assert (only_moves<accelerator> && only_moves<tensor> && only_moves<tree> && only_moves<generator>);
static_assert (only_moves<sampler> && only_moves<dataset> && only_moves<loader> && only_moves<model>);
static_assert (only_moves<optimizer> && only_moves<scheduler> && only_moves<group> && only_moves<mesh>);
static_assert (only_moves<work>);
static_assert (only_moves<shared_array<float>> && !std::is_copy_assignable_v<shared_array<float>>);
static_assert (std::is_base_of_v<std::runtime_error, error>);
static_assert (dtype_of<const float> == ACCEL_FLOAT32 && dtype_of<std::int64_t> == ACCEL_INT64);

void
test_tensors (accelerator &acc)
{
    const int size = acc.num_processes (), rank = acc.process_index ();
    std::vector<float> row { float (rank), 1 };
    tensor mine { span<float> (row) }, moved = std::move (mine);
    ok (moved.dl ().shape == moved.get ()->shape && mine.size () == 0 && moved.size () == 2, "a tensor moves");
    tensor all = acc.gather (moved);
    ok (all.shape () == shape_type { 2 * size } && all.values<float> ()[std::size_t (2 * size - 2)] == float (size - 1),
        "gather");
    all = acc.gather (moved);
    acc.reduce (moved);
    ok (row[1] == float (size), "reduce in place");
    acc.broadcast (moved, size - 1);
    ok (acc.reduce (rank + 1.0, ACCEL_MAX) == size && acc.reduce (1) == size, "reduce of a number");
    ok (throws (ACCEL_ERR_INVALID, "float32, not int64", [&] { (void) all.values<std::int64_t> (); }),
        "elements of another type");
    ok (throws (ACCEL_ERR_INVALID, "shape", [&] { tensor bad (span<float> (row), { 3 }); }),
        "a shape that does not fit");
    ok (throws (ACCEL_ERR_INVALID, "negative", [] { tensor bad (ACCEL_INT8, { -1 }); }), "a bad shape");
    ok (throws (ACCEL_ERR_INVALID, "cxx_test.cc:", [&] { acc.broadcast (moved, size); }), "the caller's file is named");
    tensor padded = acc.pad_across_processes (moved, 0, 7);
    tensor exchanged = acc.all_to_all (all), part = acc.reduce_scatter (all);
    ok (padded.size () == 2 && exchanged.size () == std::size_t (2 * size) && part.size () == 2, "parts");
}

void
test_work (accelerator &acc)
{
    communicator world = acc.world ();
    const std::size_t size = std::size_t (world.size ());
    std::vector<std::int64_t> one { 1 }, sum { 1 }, rows (size, 1), all (size), swapped (size), part { 0 }, from { 3 };
    using view = span<std::int64_t>;
    using input = span<const std::int64_t>;
    work reduced = world.all_reduce_start (view (sum)), last = world.barrier_start ();
    std::vector<work> others;
    others.push_back (world.all_reduce_start (input (one), view (part), ACCEL_MAX));
    others.push_back (world.all_gather_start (input (one), view (all)));
    others.push_back (world.broadcast_start (view (from)));
    others.push_back (world.all_to_all_start (input (rows), view (swapped)));
    work moved = std::move (reduced);
    last.wait ();
    moved.wait ();
    others.clear (); // waits
    work scattered = world.reduce_scatter_start (input (rows), view (part));
    world.barrier ();
    ok (scattered.done () && scattered.get (), "work is done after a later call");
    scattered.wait ();
    ok (sum[0] == std::int64_t (size) && part[0] == sum[0] && all[size - 1] == 1 && swapped[0] == 1 && from[0] == 3,
        "work");
    ok (throws (ACCEL_ERR_INVALID, "work is NULL", [&] { scattered.wait (); }), "work is waited for once");
    world.group_begin ();
    work grouped = world.barrier_start ();
    ok (throws (ACCEL_ERR_INVALID, "its group", [&] { (void) grouped.done (); }), "a group of starts");
    world.group_end ();
    grouped.wait ();
    world.set_timeout (60000);
    ok (throws (ACCEL_ERR_INVALID, "the timeout is 0", [&] { world.set_timeout (0); }), "a timeout of 0");
    world.set_stream (nullptr);
    ok (throws (ACCEL_ERR_UNSUPPORTED, "has no streams", [&] { world.set_stream (&acc); }), "no streams on the host");
    ok (throws (ACCEL_ERR_INVALID, "cxx_test.cc:", [&] { (void) world.broadcast_start (view (from), 99); }),
        "the file of a start is named");
}

void
test_trees (accelerator &acc)
{
    std::vector<float> numbers { 1, 2, 3 };
    tree root = tree::dict ();
    root.set ("x", tree::borrow (tensor (span<float> (numbers)))).set ("name", tree::of_bytes ("abc"));
    root.set ("list", std::move (tree::list ().append (tree::copy_of (tensor (span<float> (numbers))))));
    ok (root.kind () == ACCEL_TREE_DICT && root.size () == 3 && root["name"].bytes () == "abc"
            && root["x"].values<float> ().data () == numbers.data () && root["list"][0].values<float> ()[2] == 3,
        "a tree of views, bytes and lists");
    ok (!root["none"] && !root["none"][3]["deeper"], "what is missing is empty");
    ok (throws (ACCEL_ERR_INVALID, "not a tensor", [&] { root["name"].tensor (); }), "bytes are not a tensor");
    std::string places;
    tree mapped = root.map ([&] (std::string_view place, node leaf) {
        places += place;
        return leaf.kind () == ACCEL_TREE_BYTES ? tree::of_bytes ("xyz") : tree ();
    });
    ok (mapped["name"].bytes () == "xyz" && mapped["x"].values<float> ().data () == numbers.data ()
            && places == "tree['x']tree['name']tree['list'][0]",
        "map");
    ok (throws_own ([&] { root.map ([] (std::string_view, node) -> tree { throw own_exception ("mine"); }); }),
        "an exception goes through map");
    tree slice = root["x"].slice (1, 3);
    ok (slice.values<float> ()[0] == 2 && slice.find_batch_size () == 2, "slice");
    const node two[] = { root["x"], slice };
    ok (tree::concatenate (two).find_batch_size () == 5, "concatenate");
    tree gathered = acc.gather (root["x"]);
    ok (gathered.find_batch_size () == 3 * std::size_t (acc.num_processes ()), "gather of a tree");
    ok (throws (ACCEL_ERR_INVALID, "expected a tensor, got bytes", [&] { acc.gather (root); }),
        "bytes cannot be gathered");
    const accelerator::objects names = acc.gather_object ({ "rank " + std::to_string (acc.process_index ()), "" });
    ok (names.size () == 2 * std::size_t (acc.num_processes ()) && names[names.size () - 2].size () == 6
            && names.back ().empty (),
        "objects");
    ok (acc.broadcast_object_list ({ std::to_string (acc.process_index ()) }).at (0) == "0", "objects of rank 0");
}

void
test_communicators (accelerator &acc)
{
    communicator world = acc.world ();
    const int size = world.size (), rank = world.rank ();
    shared_array<double> shared (acc.get (), 3), moved = std::move (shared);
    moved[2] = rank;
    world.all_reduce (span<double> (moved), ACCEL_MAX);
    ok (moved[2] == size - 1 && moved.size () == 3 && shared.size () == 0, "all-reduce of shared memory");
    std::vector<std::int32_t> all (std::size_t (size), -1);
    const std::vector<std::int32_t> mine { rank };
    world.all_gather<std::int32_t> (mine, all);
    std::vector<std::int32_t> wanted (all.size ());
    std::iota (wanted.begin (), wanted.end (), 0);
    ok (all == wanted, "all-gather");
    ok (throws (ACCEL_ERR_INVALID, "do not match", [&] { world.all_gather<std::int32_t> (all, all); }) == (size > 1),
        "spans that do not match");
    group own = world.split (rank % 2), none = world.split (-1);
    ok (own && own.size () == (size + 1 - rank % 2) / 2 && !none, "groups");
    const char *names[] = { "dp" };
    const int sizes[] = { size };
    mesh grid (acc.get (), names, sizes);
    float whole[4], part[] = { 1, 2, 3, 4 }, back[4] = {}, loss[1], logits[] = { 0, 0 };
    DLTensor one { part, { kDLCPU, 0 }, 2, { kDLFloat, 32, 1 }, nullptr, nullptr, 0 }, all_of = one, cut = one;
    std::int64_t shape[] = { 2, 2 };
    one.shape = all_of.shape = cut.shape = shape;
    all_of.data = whole;
    cut.data = back;
    parallel_gather (nullptr, one, all_of, 1);
    parallel_scatter (nullptr, all_of, cut, 1);
    const std::int32_t label[] = { 1 };
    parallel_cross_entropy (nullptr, label, 1, logits, loss);
    ok (back[3] == 4 && std::fabs (loss[0] - std::log (2.0F)) < 1e-6 && logits[1] == -0.5F && !acc.device_mesh (),
        "parts of tensors");
    const float table[] = { 1, 2, 3, 4 };
    float rows[4] = { 0 }, grads[4] = { 0 };
    const std::int32_t tokens[] = { 1, 0 };
    parallel_embedding (nullptr, table, 2, tokens, rows);
    parallel_embedding_backward (nullptr, 2, tokens, rows, grads);
    ok (rows[0] == 3 && rows[3] == 2 && grads[0] == 1 && grads[3] == 4, "embeddings");
    ok (throws (ACCEL_ERR_INVALID, "fit together", [&] { parallel_embedding (nullptr, table, 3, tokens, rows); })
            && throws (ACCEL_ERR_INVALID, "fit together",
                       [&] { parallel_embedding_backward (nullptr, 3, tokens, rows, grads); }),
        "sizes of embeddings");
    accel_parallel_linear layer = {};
    layer.in = layer.out = 2;
    layer.weight = table;
    layer.grad = grads;
    const float input[] = { 1, 2 };
    float output[2], gradient[2];
    parallel_linear (layer, input, output, 1);
    parallel_linear_backward (layer, input, input, gradient, 1);
    ok (output[0] == 7 && output[1] == 10 && gradient[0] == 5 && gradient[1] == 11 && grads[3] == 8, "a linear layer");
    ok (throws (ACCEL_ERR_INVALID, "as many rows", [&] { parallel_cross_entropy (nullptr, {}, 1, logits, loss); }),
        "rows of losses");
    ok (grid["dp"].size () == size && throws (ACCEL_ERR_INVALID, "'tp'", [&] { grid["tp"]; }), "mesh");
}

void
test_control (accelerator &acc)
{
    int ran = 0;
    ok (acc.on_main_process ([&] { ran++; }) == acc.is_main_process () && ran == acc.is_main_process (),
        "on main process");
    acc.main_process_first ([&] { ran += 10; });
    ok (ran >= 10, "main process first");
    acc.set_trigger ();
    ok (acc.check_trigger () && !acc.check_trigger (), "trigger");
    ok (!acc.should_save () && !acc.should_stop (), "nothing was asked for");
    std::raise (SIGUSR1);
    bool saves = acc.should_save ();
    ok (acc.should_save () != saves && !acc.should_stop (), "SIGUSR1 asks to save once");
    std::vector<std::size_t> tried;
    ok (acc.find_executable_batch_size ([&] (std::size_t size) {
            tried.push_back (size);
            if (size > 80)
                throw std::bad_alloc ();
        }, 100) == 72 && tried.size () == 4, "a batch size that fits");
    ok (throws_own ([&] { acc.find_executable_batch_size ([] (std::size_t) { throw own_exception ("mine"); }); }),
        "an exception ends the search");
    ok (throws (ACCEL_ERR_NOMEM, "", [&] { throw error (ACCEL_ERR_NOMEM, "text"); }), "errors of the program");
    progress bar (acc, 2, "bar");
    bar.update (2);
    profile_span span (acc, "span");
}

void
test_random ()
{
    generator a (3), b (4);
    b.set_state (a.state ());
    ok (a () == b () && a.permutation (5) == b.permutation (5) && a.initial_seed () == 3,
        "generators and their states");
    const float logits[] = { 0, 9, 8 };
    ok (a.choose (logits, choice_options ().temperature (0)) == 1 && a.choose (logits, choice_options ().top_k (1)) == 1
            && a.choose (logits) < 3,
        "classes by their logits");
    generator moved = std::move (a);
    std::vector<float> values (20);
    moved.fill_normal (values);
    ok (throws (ACCEL_ERR_INVALID, "", [&] { moved.fill_normal (values, 0, -1); }), "a bad deviation");
    std::vector<int> cards { 1, 2, 3, 4 };
    std::shuffle (cards.begin (), cards.end (), moved);
    ok (std::accumulate (cards.begin (), cards.end (), 0) == 10, "std::shuffle draws from a generator");
    std::int64_t next = 0;
    sampler evens = sampler::custom (3, [&] { return next += 2; },
                                     [&] (std::uint64_t epoch) { next = std::int64_t (epoch); });
    sampler kept = std::move (evens);
    kept.set_epoch (10);
    ok (kept.draw () == std::vector<std::int64_t> { 12, 14, 16 }, "a sampler of the program");
    ok (sampler (ACCEL_SAMPLER_RANDOM, 7).draw ().size () == 7 && sampler (ACCEL_SAMPLER_SEQUENTIAL, 2).size () == 2,
        "samplers");
}

dataset
squares (std::size_t size)
{
    return dataset ({ field ("x", ACCEL_INT64), field ("y", ACCEL_FLOAT32, { 2 }) }, size,
                    [] (std::size_t index, void *const *into) {
                        if (index == 1000)
                            throw std::runtime_error ("sample 1000 is broken");
                        *static_cast<std::int64_t *> (into[0]) = std::int64_t (index * index);
                        static_cast<float *> (into[1])[0] = static_cast<float *> (into[1])[1] = float (index);
                    });
}

void
test_arguments ()
{
    struct {
        int steps;
    } options = { 0 };
    const accel_argument rows[] = { { "steps", ACCEL_ARGUMENT_INT, true, 0, "10", "steps in all", 1, 100, nullptr } };
    char program[] = "program", given[] = "--steps=20", help[] = "--help", unknown[] = "--stops=3";
    char *argv[] = { program, given, help }, *bad[] = { program, unknown };
    ok (!parse_arguments (options, rows, 2, argv) && options.steps == 20, "arguments");
    ok (parse_arguments (options, rows, 3, argv).value ().find ("steps in all [10]") != std::string::npos, "--help");
    ok (throws (ACCEL_ERR_INVALID, "unknown option '--stops=3'", [&] { parse_arguments (options, rows, 2, bad); }),
        "an unknown argument");
    ok (throws (ACCEL_ERR_SYSTEM, "/nowhere", [&] { read_arguments (options, rows, "/nowhere"); }), "a missing file");
    options.steps = 20;
    write_arguments (options, rows, "arguments.json");
    options.steps = 1;
    read_arguments (options, rows, "arguments.json");
    ok (options.steps == 20, "a file of arguments");
    ok (throws (ACCEL_ERR_SYSTEM, "/nowhere/x", [&] { write_arguments (options, rows, "/nowhere/x"); }),
        "a missing folder");
}

void
test_loaders ()
{
    dataset made = squares (10), set = std::move (made);
    loader first (set, loader_options ().batch_size (4)), batches = std::move (first);
    std::vector<std::int64_t> seen;
    for (const batch &now : batches)
        for (std::int64_t x : now.values<std::int64_t> ("x"))
            seen.push_back (x);
    ok (seen.size () == 10 && seen[9] == 81 && batches.size () == 3 && batches.epoch () == 1, "a pass over batches");
    for (const batch &now : batches) {
        ok (now.indices ()[0] == 0 && now.size () == 4 && now.tree ()["y"].values<float> ().size () == 8, "a batch");
        ok (throws (ACCEL_ERR_INVALID, "'z'", [&] { now["z"]; }), "a missing field");
        break;
    }
    ok (batches.epoch () == 2, "leaving a loop ends the pass");
    batch now (nullptr);
    ok (batches.next (now) && now.indices ()[0] == 0 && batches.next (now) && now.indices ()[0] == 4, "next");
    const accel_loader_state state = batches.state ();
    batches.end_pass ();
    batches.set_state (state);
    for (const batch &rest : batches) {
        ok (rest.indices ()[0] == 8, "on from a state");
    }
    dataset broken = squares (1001);
    loader over (broken, loader_options ().batch_size (1000));
    int good = 0;
    auto count_good = [&] {
        for (const batch &one : over)
            good += one.size () == 1000;
    };
    ok (throws (ACCEL_ERR_CALLBACK, "sample 1000 is broken", count_good) && good == 1, "an exception of a data set");
    loader ragged (set, loader_options ().batch_size (3), [] (span<const std::int64_t> indices, collated_batch &into) {
        const std::int64_t rows = std::int64_t (indices.size ());
        for (std::int64_t &x : into.resize<std::int64_t> ("x", { rows }))
            x = 5;
        for (float &y : into.resize<float> ("y", { rows, 2 }))
            y = 6;
    });
    ok (ragged.next (now) && now.values<float> ("y").size () == 6 && now.values<std::int64_t> ("x")[2] == 5, "collate");
    auto doubles = [] (span<const std::int64_t> indices, collated_batch &into) {
        into.resize<double> ("y", { std::int64_t (indices.size ()), 2 });
    };
    loader mistyped (set, loader_options ().batch_size (3), doubles);
    ok (throws (ACCEL_ERR_CALLBACK, "float32, not float64", [&] { mistyped.next (now); }), "collate with a wrong type");
    int left = 0;
    iterable_dataset source;
    source.fields = { field ("n", ACCEL_INT32) };
    source.start = [&] (std::uint64_t) { left = 5; };
    source.next = [&] (void *const *into) { *static_cast<std::int32_t *> (into[0]) = left; return left-- > 0; };
    loader streamed (std::move (source), loader_options ().batch_size (2));
    int samples = 0;
    for (const batch &one : streamed)
        samples += int (one.size ());
    ok (samples == 5, "a stream");
    std::atomic<int> given { 0 };
    iterable_dataset endless;
    endless.fields = { field ("n", ACCEL_INT32) };
    endless.next = [&] (void *const *to) { *static_cast<std::int32_t *> (to[0]) = given++; return true; };
    loader replaced (std::move (endless), loader_options ().batch_size (2).workers (2).timeout_ms (100000));
    ok (replaced.next (now) && now.size () == 2, "a stream that threads read");
    replaced = loader (set, loader_options ().batch_size (4));
    const int last = given;
    ok (replaced.next (now) && now.size () == 4 && given == last, "another loader takes its place while they read");
    dataset first_broken (dataset ({ field ("x", ACCEL_INT64) }, 4, [] (std::size_t, void *const *) {
        throw std::runtime_error ("no sample at all");
    }));
    loader unread (first_broken, loader_options ().batch_size (2));
    ok (throws (ACCEL_ERR_CALLBACK, "no sample at all", [&] { for (const batch &one : unread) (void) one; })
            && unread.epoch () == 1, "a loop that cannot read its first batch has ended its pass");
    ok (throws (ACCEL_ERR_SYSTEM, "missing.csv", [] { dataset::open_csv ("missing.csv"); }),
        "a missing file");
    const std::vector<float> rows { 1, 2, 3 };
    const accel_field fields[] = { field ("v", ACCEL_FLOAT32) };
    const void *const arrays[] = { rows.data () };
    dataset plain = dataset::from_arrays (fields, arrays, 3);
    ok (plain.subset (1, 2).size () == 2, "a part of a data set");
    float into = 0;
    void *const where[] = { &into };
    plain.read (2, where);
    ok (into == 3 && plain.fields ()[0].ndim == 0, "a data set of arrays");
}

/* File @name of the 16-bit tokens from @first on. */
std::string
token_file (const accelerator &acc, const char *name, int first)
{
    std::string path = name + std::to_string (acc.process_index ()) + ".bin", bytes;
    for (int i = first; i < first + 4; i++)
        bytes += { char (i), 0 };
    std::FILE *file = std::fopen (path.c_str (), "wb");
    if (!file || std::fwrite (bytes.data (), 1, bytes.size (), file) != bytes.size () || std::fclose (file))
        throw std::runtime_error (path);
    return path;
}

void
test_token_files (accelerator &acc)
{
    const std::vector<std::string> paths { token_file (acc, "b", 10), token_file (acc, "a", 20) };
    const tokens_options options = tokens_options ().format (ACCEL_TOKENS_UINT16).sequence_length (2);
    dataset listed = dataset::open_tokens (paths, options);
    dataset found = dataset::open_tokens ("[ab]" + std::to_string (acc.process_index ()) + ".bin", options);
    std::int32_t tokens[2];
    void *const into[] = { tokens };
    listed.read (0, into);
    ok (listed.size () == 4 && tokens[1] == 11, "token files by name");
    found.read (0, into);
    ok (found.size () == 4 && tokens[1] == 21, "token files by pattern");
    sampler order = sampler::llmc (listed, sampler_options ().shuffle (false));
    ok (order.draw () == std::vector<std::int64_t> { 0, 1, 2, 3 }, "llm.c's order");
}

void
test_evaluation (accelerator &acc)
{
    dataset set = squares (4);
    loader batches (set, loader_options ().batch_size (2));
    const generator_ref::state_type before = default_generator ().state ();
    try {
        evaluation inner (acc, batches);
        default_generator ().uniform ();
        for (const batch &now : batches)
            if (now.indices ()[0] == 2)
                throw own_exception ("mine");
    } catch (const own_exception &) {
    }
    ok (default_generator ().state () == before && batches.epoch () == 0, "an evaluation that ends by an exception");
    {
        evaluation generate (acc);
        default_generator ().uniform ();
    }
    ok (default_generator ().state () == before, "an evaluation without a loader");
    batch now (nullptr);
    batches.next (now);
    ok (throws (ACCEL_ERR_INVALID, "", [&] { evaluation late (acc, batches); }), "an evaluation in an epoch");
}

struct layer {
    const char *name;
    float *w, *dw;
    std::int64_t size;
};

void
test_segments ()
{
    float drawn = 0;
    segment dropout ([&] { drawn = accel_generator_uniform (accel_default_generator ()); },
                     segment_options ().preserve_rng_state (true));
    dropout.forward ();
    const float first_drawn = drawn;
    dropout.recompute ();
    dropout.end ();
    ok (drawn == first_drawn && dropout.get (), "a segment is computed again");
    segment throwing ([] { throw std::out_of_range ("layer"); });
    try {
        throwing.forward ();
        ok (false, "a segment throws");
    } catch (const std::out_of_range &e) {
        ok (std::string (e.what ()) == "layer", "a segment throws");
    }
}

void
test_training (accelerator &acc)
{
    model net ({ { "w", { 2, 3 } }, { "b", { 3 } }, { "seen", { 1 }, 0, true } });
    net.set_ddp (ddp_options ().bucket_cap_mb (1));
    net.set_sharding (sharding_options ().strategy (ACCEL_SHARDING_NONE).min_num_params (1));
    ok (net.sharding () == ACCEL_SHARDING_NONE, "sharding");
    const accel_partition parts[] = { { "w", 1, 0 } };
    net.set_tensor_parallel (acc.get (), parts);
    const std::size_t read_now[] = { 0, 1 }, wrong[] = { 3 };
    net.layer_begin (read_now);
    net.layer_end (read_now);
    net.summon_full_params ();
    net.summon_full_params_end ();
    ok (throws (ACCEL_ERR_INVALID, "no parameter 3", [&] { net.layer_begin (wrong); }), "layers");
    const accel_file_name names[] = { { "w", "weight", true }, { "v", "value", false } };
    net.set_file_names ({ names, 1 });
    const accel_initializer first[] = { { "w", 2, 0 }, { "v", 1, 0 } };
    net.initialize ({ first, 1 }, default_generator ());
    ok (throws (ACCEL_ERR_INVALID, "'v' matches no trained", [&] { net.initialize (first, default_generator ()); }),
        "first values");
    ok (throws (ACCEL_ERR_INVALID, "'v' matches no parameter", [&] { net.set_file_names (names); }), "names in files");
    ok (throws (ACCEL_ERR_INVALID, "no memory", [&] { (void) net.grad<float> ("w"); }), "a gradient without memory");
    optimizer adam (net, ACCEL_ADAM, optimizer_options ().lr (0.1));
    scheduler half = scheduler::lambda (adam, [] (std::uint64_t step) { return std::pow (0.5, double (step)); },
                                        scheduler_options ().split_batches (true));
    acc.prepare ({ net, adam, half });
    ok (net.size () == 3 && net["b"].data->shape[0] == 3 && net.data<float> ("w").size () == 6
            && net.grad<float> (0).size () == 6 && !net["seen"].grad,
        "parameters and gradients by name and index");
    ok (throws (ACCEL_ERR_INVALID, "'v'", [&] { net["v"]; }) && throws (ACCEL_ERR_INVALID, "", [&] { net[9]; }),
        "parameters that are not there");
    acc.accumulate ({ net });
    acc.backward (net, 1, [&] (float scale) { net.grad<float> ("b")[0] += scale * float (acc.process_index ()); });
    ok (std::fabs (net.grad<float> ("b")[0] - float (acc.num_processes () - 1) / 2) < 1e-6F, "gradients are averaged");
    net.clip_grad_norm (1e-3);
    adam.step ();
    half.step ();
    ok (half.lr () == 0.05 && adam.step_count () == 1 && !adam.step_was_skipped (), "steps");
    ok (acc.num_processes () == 1 || net.data<float> ("b")[0] < 0, "parameters change");
    adam.zero_grad ();
    {
        no_sync quiet (acc, net);
        autocast_guard exact (acc);
        acc.backward (net, 1, [&] (float) { net.grad<float> ("b")[1] = float (acc.process_index ()); });
        ok (net.grad<float> ("b")[1] == float (acc.process_index ()), "no_sync");
    }
    local_sgd local (acc, net, 2);
    local.step ();
    local.end ();
    acc.join_uneven_inputs ([&] {
        for (int i = 0; i < acc.process_index (); i++)
            acc.backward (net, 1, [] (float) {});
    });
    std::vector<float> w { 1, 2 }, dw (2);
    const layer layers[] = { { "l", w.data (), dw.data (), 2 } };
    const struct_layout layout = struct_layout ()
                                     .stride_bytes (sizeof (layer))
                                     .name (offsetof (layer, name))
                                     .data (offsetof (layer, w))
                                     .grad (offsetof (layer, dw))
                                     .shape (offsetof (layer, size))
                                     .ndim (ACCEL_NO_FIELD)
                                     .dims (1);
    model structs = model::from_structs (span<const layer> (layers), layout);
    std::vector<const char *> states { "m" };
    optimizer own = optimizer::custom (structs, { 0.5, states, [] (const accel_update &u) {
        static_cast<float *> (u.parameter->data->data)[0] -= float (u.lr);
        static_cast<float *> (u.states[0]->data)[0] = 9;
    }, {}, {} });
    own.step ();
    ok (w[0] == 0.5F && own.state (0, "m")[0] == 9 && own.state (0, "n").empty (), "an optimizer of the program");
    auto throwing = [] (const accel_update &) { throw own_exception ("mine"); };
    optimizer bad = optimizer::custom (structs, { 0.5, {}, throwing, {}, {} });
    ok (throws (ACCEL_ERR_CALLBACK, "mine", [&] { bad.step (); }), "one that throws");
    ok (throws (ACCEL_ERR_INVALID, "", [&] { optimizer::custom (structs, { 0.5, {}, {}, {}, {} }); }),
        "one without a step");
    acc.end_training ();
}

optimizer_options
options_with_groups ()
{
    std::string pattern = "*.bi";
    optimizer_options made = optimizer_options ().lr (0.5).weight_decay (0.25);
    made.group (param_group ("flat").match (pattern + "as").match ("ln_*").weight_decay (0).beta1 (0));
    optimizer_options copy = made;
    copy.group (param_group ().parameters ({ pattern.replace (0, 4, "fc.weight") }).lr (0).amsgrad ().maximize (false));
    made.groups ({});
    return optimizer_options (std::move (copy));
}

void
test_groups (accelerator &acc)
{
    model net ({ { "fc.weight", { 2 } }, { "fc.bias", { 1 } }, { "ln_1", { 1 } }, { "head", { 1 } } });
    const optimizer_options options = options_with_groups ();
    optimizer opt (net, ACCEL_ADAMW, options);
    ok (opt.group_count () == 3 && !std::strcmp (opt.group (0).name, "flat")
            && !std::strcmp (opt.group (1).name, "1") && opt.find_group ("rest") == 2
            && opt.find_group ("none") == ACCEL_NO_GROUP && opt.group (1).indices[0] == 0,
        "groups by patterns and names");
    const accel_param_group flat = opt.group ("flat"), weight = opt.group (1);
    ok (flat.weight_decay == 0 && flat.beta1 == 0 && flat.lr == 0.5 && weight.lr == 0 && weight.weight_decay == 0.25
            && weight.beta1 == 0.9 && weight.amsgrad == ACCEL_YES && weight.maximize == ACCEL_NO
            && flat.amsgrad == ACCEL_NO && flat.index_count == 2 && flat.indices[1] == 2,
        "zero is zero in a group, and what is not set comes from the options");
    opt.set_group ("flat", param_group ().lr (0).eps (1e-3));
    opt.set_group (std::string ("rest"), param_group ().lr (0.75));
    ok (opt.group (0).lr == 0 && opt.group (0).eps == 1e-3 && opt.group (0).weight_decay == 0
            && opt.group ("rest").lr == 0.75 && opt.group (1).lr == 0,
        "numbers of a group change");
    ok (throws (ACCEL_ERR_INVALID, "'none'", [&] { (void) opt.group ("none"); })
            && throws (ACCEL_ERR_INVALID, "groups", [&] { (void) opt.group (3).lr; })
            && throws (ACCEL_ERR_INVALID, "beta1 is 2", [&] { opt.set_group (0, param_group ().beta1 (2)); })
            && throws (ACCEL_ERR_INVALID, "none.*",
                       [&] { optimizer (net, ACCEL_SGD,
                                        optimizer_options ().lr (1).group (param_group ().match ("none.*"))); }),
        "groups that cannot be");
    acc.prepare ({ net, opt });
    for (std::size_t i = 0; i < net.size (); i++)
        for (float &g : net.grad<float> (i))
            g = 1;
    opt.step ();
    ok (opt.state (0, "exp_avg")[0] != 0 && opt.state (0, "exp_avg").size () == 2
            && opt.state (0, "none").empty () && net.data<float> ("fc.weight")[0] == 0
            && net.data<float> ("head")[0] < 0,
        "states by name, and a step with the rates of the groups");

    std::vector<double> seen;
    custom_optimizer own { 0, { "m" }, [&] (const accel_update &u) { seen.push_back (u.group->lr + u.lr); }, {}, {} };
    own.groups = { param_group ("last").indices ({ 3 }).lr (2), param_group ("skipped").match ("fc.*").skip () };
    optimizer mine = optimizer::custom (net, std::move (own));
    mine.step ();
    ok (seen == std::vector<double> { 0, 4 } && mine.find_group ("skipped") == 1,
        "groups of an optimizer of the program");

    model other ({ { "w", { 1 } } });
    acc.prepare ({ other });
    other.grad<float> (0)[0] = 2;
    accel_model *const others[] = { other.get () };
    const float before = net.clip_grad_norm (0.5, clip_options ().others (others).other_count (1));
    ok (std::fabs (before - 3) < 1e-5F && std::fabs (other.grad<float> (0)[0] - 1.0F / 3) < 1e-4F,
        "one norm of two models");
    ok (throws (ACCEL_ERR_INVALID, "given twice", [&] {
            other.clip_grad_norm (1, clip_options ().others (others).other_count (1));
        }), "a model twice");
}

void
test_schedulers (accelerator &acc)
{
    model net ({ { "a", { 1 } }, { "b", { 1 } } });
    optimizer opt (net, ACCEL_SGD,
                   optimizer_options ().lr (1).momentum (0.9).group (param_group ("b").match ("b").lr (4)));
    const auto step = [] (double gamma) {
        return scheduler_options ().schedule (ACCEL_SCHEDULE_STEP).step_size (1).gamma (gamma);
    };
    scheduler parts = scheduler::sequential (opt, { step (0.5), step (0.25) }, { 2 });
    parts.step ();
    parts.step ();
    parts.step ();
    ok (opt.group ("b").lr == 1 && parts.lr () == opt.lr () && parts.states ().size () > 1, "schedules in sequence");
    const std::vector<accel_scheduler_state> states = parts.states ();
    parts.step ();
    parts.set_state (states);
    ok (opt.group ("b").lr == 1
            && throws (ACCEL_ERR_FORMAT, "", [&] { parts.set_state ({ states.data (), states.size () - 1 }); }),
        "states of a sequence");
    ok (throws (ACCEL_ERR_INVALID, "one milestone", [&] { scheduler::sequential (opt, { step (1) }, { 2 }); }),
        "milestones that do not match");
    opt.set_lr (8);
    scheduler both = scheduler::chained (opt, { step (0.5).group ("b"), step (0.25) });
    both.step ();
    ok (opt.group ("rest").lr == 8 && opt.group ("b").lr == 1, "schedules at the same time");
    const scheduler_options cycle = scheduler_options ().schedule (ACCEL_SCHEDULE_ONE_CYCLE).total_steps (10);
    scheduler one (opt, scheduler_options (cycle).max_lr (1).group ("b"));
    ok (std::fabs (one.lr () - 0.04) < 1e-9 && opt.group ("b").momentum == 0.95, "momentum");
    const scheduler_options decay = scheduler_options ()
                                        .schedule (ACCEL_SCHEDULE_WARMUP_STABLE_DECAY)
                                        .stable_steps (1)
                                        .decay_steps (2)
                                        .decay_shape (ACCEL_SHAPE_LINEAR)
                                        .final_fraction (0.5);
    opt.set_lr (1);
    scheduler falls (opt, decay);
    falls.step ();
    falls.step ();
    ok (falls.lr () == 0.75, "stable, then down to a fraction");
    ok (acc.loss_scale () == 1, "the factor of the loss");
}

static accel_status
count_values (void *user, const accel_value *, std::size_t count, std::int64_t, double, accel_error *)
{
    *static_cast<std::size_t *> (user) += count;
    return ACCEL_OK;
}

static void
test_trackers (accelerator &acc)
{
    std::size_t values = 0;
    accel_tracker_calls calls = {};
    calls.name = "mine";
    calls.user = &values;
    calls.log = count_values;
    acc.init_trackers ("project", {}, tracker_options ().trackers (&calls).tracker_count (1).throughput (false));
    accel_value value = {};
    value.key = "loss";
    acc.log ({ value, value }, 3);
    acc.log ("loss", 0.5);
    acc.get_tracker ("mine").log ({ value });
    if (acc.is_main_process ())
        ok (throws (ACCEL_ERR_INVALID, "no tracker 'yours'", [&] { acc.get_tracker ("yours"); }), "an unknown tracker");
    acc.end_training ();
    ok (values == (acc.is_main_process () ? 4U : 0U), "values of trackers");
}

/* The exception comes out as it is, and only after everything has been freed. */
void
test_exceptions (accelerator &acc)
{
    if (acc.num_processes () > 1)
        return;
    model net ({ { "w", { 1 } } });
    acc.prepare ({ net });
    ok (throws_own ([&] { acc.backward (net, 1, [] (float) { throw own_exception ("mine"); }); }),
        "an exception goes through a backward pass");
    auto failing = [] (float) { throw error (ACCEL_ERR_FORMAT, "own text"); };
    ok (throws (ACCEL_ERR_FORMAT, "own text", [&] { acc.backward (net, 1, failing); }), "and an error");
    ok (throws (ACCEL_ERR_UNSUPPORTED, "tcp", [] { accelerator other (open_options ().engine ("tcp")); }),
        "a job that cannot be opened");
}

} // namespace

int
main (int argc, char **argv)
{
    try {
        accelerator opened, acc = std::move (opened);
        if (argc > 1 && !std::strcmp (argv[1], "fail")) {
            model net ({ { "w", { 1 } } });
            acc.prepare ({ net });
            acc.backward (net, 1, [&] (float) {
                if (acc.is_last_process ())
                    throw error (ACCEL_ERR_FORMAT, "this rank cannot");
            });
        }
        test_tensors (acc);
        test_work (acc);
    test_trees (acc);
        test_communicators (acc);
        test_control (acc);
        test_random ();
        test_arguments ();
        test_loaders ();
        test_token_files (acc);
        test_evaluation (acc);
        test_groups (acc);
        test_schedulers (acc);
        test_segments ();
        test_training (acc);
        test_trackers (acc);
        test_exceptions (acc);
        acc.print ("%s", "");
    } catch (const error &e) {
        end_program (e);
    } catch (const std::exception &e) {
        std::printf ("Bail out! %s\n", e.what ());
        return 1;
    }
    std::printf ("1..%d\n", count);
    return failed != 0;
}
