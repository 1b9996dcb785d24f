/* SPDX-License-Identifier: Apache-2.0 */
/* Objects whose lifetime is a part of the job: without averaging, another precision, a span of a profile, an
 * evaluation, local SGD, a progress bar. */
#ifndef ACCEL_HPP_SCOPES_HPP
#define ACCEL_HPP_SCOPES_HPP

#include <accel/hpp/accelerator.hpp>

namespace accelerate {

/** Until the end of this object, backward passes of the model average nothing. */
class no_sync {
  public:
    no_sync (accelerator &acc, model &of) : acc_ (acc.get ()), of_ (of.get ())
    {
        detail::attempt call;
        call (accel_no_sync (acc_, of_, call.err ()));
    }
    ~no_sync () { (void) !accel_no_sync_end (acc_, of_, nullptr); }
    no_sync (const no_sync &) = delete;
    no_sync &operator= (const no_sync &) = delete;

  private:
    accel *acc_;
    accel_model *of_;
};

/** Until the end of this object, accelerator::autocast() is float32, or again what the precision asks for. */
class autocast_guard {
  public:
    explicit autocast_guard (accelerator &acc, bool enabled = false)
        : acc_ (acc.get ()), before_ (accel_autocast_enable (acc_, enabled))
    {
    }
    ~autocast_guard () { accel_autocast_enable (acc_, before_); }
    autocast_guard (const autocast_guard &) = delete;
    autocast_guard &operator= (const autocast_guard &) = delete;

  private:
    accel *acc_;
    bool before_;
};

/** A span of a profile, from here to the end of this object. */
class profile_span {
  public:
    profile_span (accelerator &acc, const char *name) noexcept : acc_ (acc.get ()) { accel_profile_begin (acc_, name); }
    ~profile_span () { accel_profile_end (acc_); }
    profile_span (const profile_span &) = delete;
    profile_span &operator= (const profile_span &) = delete;

  private:
    accel *acc_;
};

/** An evaluation during training: at the end of the object's life, the loader, random numbers and everything else that
 * a pass changes are put back.  See accel_evaluate_begin(). */
class evaluation {
  public:
    evaluation (accelerator &acc, loader &over) { begin (acc.get (), over.get ()); }
    /** Without a loader, for example to generate text. */
    explicit evaluation (accelerator &acc) { begin (acc.get (), nullptr); }
    ~evaluation () { accel_evaluate_end (raw_); }
    evaluation (const evaluation &) = delete;
    evaluation &operator= (const evaluation &) = delete;

  private:
    void
    begin (accel *acc, accel_loader *over)
    {
        detail::attempt call;
        call (accel_evaluate_begin (&raw_, acc, over, call.err ()));
    }

    accel_evaluation *raw_ = nullptr;
};

/** Local SGD.  Call end() at the end, which is collective and averages.  If the program did not, the destructor does,
 * unless an exception is on its way: this process would make the others wait for an average of broken parameters. */
class local_sgd {
  public:
    local_sgd (accelerator &acc, model &of, std::uint32_t steps, bool enabled = true, site at = site::here ())
        : at_ (at)
    {
        detail::attempt call;
        call (accel_local_sgd_begin (&raw_, acc.get (), of.get (), steps, enabled, call.err ()));
    }
    ~local_sgd ()
    {
        if (raw_ && std::uncaught_exceptions () == unwinding_)
            (void) !accel_local_sgd_end_at (at_.file, at_.line, raw_, nullptr);
    }
    local_sgd (const local_sgd &) = delete;
    local_sgd &operator= (const local_sgd &) = delete;

    void
    step (site at = site::here ())
    {
        detail::attempt call;
        call (accel_local_sgd_step_at (at.file, at.line, raw_, call.err ()));
    }
    void
    end (site at = site::here ())
    {
        detail::attempt call;
        call (accel_local_sgd_end_at (at.file, at.line, std::exchange (raw_, nullptr), call.err ()));
    }

  private:
    accel_local_sgd *raw_ = nullptr;
    site at_;
    int unwinding_ = std::uncaught_exceptions ();
};

/** A progress bar on local rank 0 of each host. */
class progress {
  public:
    progress (const accelerator &acc, std::uint64_t total, const char *text = nullptr)
    {
        accel_progress *raw = nullptr;
        detail::attempt call;
        call (accel_progress_create (&raw, acc.get (), total, text, call.err ()));
        own_.reset (raw);
    }
    void update (std::uint64_t steps = 1) noexcept { accel_progress_update (own_.get (), steps); }

  private:
    detail::handle<accel_progress, accel_progress_close> own_;
};

} // namespace accelerate

#endif
