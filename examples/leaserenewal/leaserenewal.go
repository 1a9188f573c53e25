package leaserenewal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/respitehttp/respite/examples/internal/apart"
)

// ErrGone says that the leased object does not exist any more. A Config.Renew that
// returns an error that matches it ends the loop.
var ErrGone = errors.New("leaserenewal: the leased object is gone")

var errRanBefore = errors.New("leaserenewal: Run was called before; a Renewal runs once")

// Config says what is to be renewed, and who is to be told.
//
// The functions OnGone, OnLost and OnError may be nil. They are called one at a
// time, on the goroutine of Run, which waits for them: no renewal begins before they
// return. They may end the context of Run. A panic in them is a panic in Run.
type Config struct {
	// TTL is how far ahead of each renewal the expiry is set. Above 0.
	TTL time.Duration

	// Renew sets the expiry of the lease; see [Patch]. It is required. To be told of
	// each success, wrap it.
	//
	// It runs in a goroutine of its own, and should return when its context ends,
	// which is when Run's does, or when the time for this attempt is over. If it
	// does not, it is left behind: that is a failure, and the loop goes on. So a
	// Renew that never returns costs a goroutine for each attempt. What one that
	// was left behind does later, be it success, error or panic, is dropped.
	//
	// A panic in Renew is a panic in Run, with the same value. If it ends its
	// goroutine ([runtime.Goexit]), that is a failure.
	Renew func(ctx context.Context, expiry time.Time) error

	// OnGone is called when Renew has returned an error that matches ErrGone, just
	// before Run returns.
	OnGone func()

	// OnLost is called at the instant when the whole TTL has passed since the start
	// of the last renewal that succeeded (or since the start of Run): the expiry
	// that it set. It is called once for each loss, also in the middle of an
	// attempt.
	OnLost func()

	// OnError is called after each attempt that failed. A refusal by a breaker is
	// one too ([breaker.ErrOpen]); that of an attempt that was left behind matches
	// [context.DeadlineExceeded].
	OnError func(error)
}

// Renewal is the loop that keeps one lease. It is made by [New], and runs once.
type Renewal struct {
	cfg      Config
	schedule schedule
	wall     func() time.Time // the wall clock alone
	began    atomic.Bool

	// What follows belongs to Run.

	expiry  time.Time   // of the lease, by the wall clock
	runsOut *time.Timer // fires at the expiry, by the monotonic clock
	lost    bool        // the lease has run out, and OnLost knows
}

// New returns a Renewal, or one error that lists every field of cfg that is outside
// its range. It starts nothing.
func New(cfg Config) (*Renewal, error) {
	var faults []error
	if cfg.TTL <= 0 {
		faults = append(faults, fmt.Errorf("leaserenewal: TTL is %v; accepted: > 0", cfg.TTL))
	}
	if cfg.Renew == nil {
		faults = append(faults, errors.New("leaserenewal: Renew is nil; accepted: a function"))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return &Renewal{cfg: cfg, schedule: newSchedule(cfg.TTL), wall: wallClock}, nil
}

// wallClock returns the time without its monotonic reading, so that differences are
// those of the wall clock.
func wallClock() time.Time { return time.Now().Round(0) }

// Run keeps the lease. Call it when the lease has just been acquired: the first
// renewal is due half a TTL later. It returns
//
//   - context.Cause(ctx), as soon as ctx ends, also in the middle of a wait or of
//     a renewal, but not of a call of OnError or OnLost; it is reported to nobody
//     else.
//   - [ErrGone], when the object is gone.
//   - another error, at once, if it was called before: what it ended is final.
func (r *Renewal) Run(ctx context.Context) error {
	if r.began.Swap(true) {
		return errRanBefore
	}
	r.runsOut = time.NewTimer(r.cfg.TTL)
	defer r.runsOut.Stop()
	r.hold(time.Now(), r.wall())

	for failures := 0; ; {
		if r.wait(ctx, r.schedule.next(failures)); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch err := r.renew(ctx); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			failures = 0
		case errors.Is(err, ErrGone):
			notify(r.cfg.OnGone)
			return ErrGone
		default:
			failures++
			if r.cfg.OnError != nil {
				r.cfg.OnError(err)
			}
		}
	}
}

// renew makes one attempt, and waits for it no longer than its deadline.
func (r *Renewal) renew(run context.Context) error {
	ctx, cancel := context.WithTimeoutCause(run, r.schedule.attempt, tooLong(r.schedule.attempt))
	defer cancel()
	start, wallStart := time.Now(), r.wall()
	out, settled := r.await(run, ctx, apart.Go(func() error {
		return r.cfg.Renew(ctx, start.Add(r.cfg.TTL))
	}))
	if !settled {
		return context.Cause(ctx)
	}
	err := out.Result()
	if err == nil {
		r.hold(start, wallStart)
	}
	return err
}

// hold notes that the lease was acquired or renewed, as of the given time on either
// clock.
func (r *Renewal) hold(start, wallStart time.Time) {
	r.lost = false
	r.expiry = wallStart.Add(r.cfg.TTL)
	r.runsOut.Reset(time.Until(start.Add(r.cfg.TTL)))
}

// lose reports that the lease has run out.
func (r *Renewal) lose() {
	r.runsOut.Stop()
	r.lost = true
	notify(r.cfg.OnLost)
}

// wait returns after d, by whichever clock is the first, or when ctx ends. A lease that
// runs out meanwhile is reported.
func (r *Renewal) wait(ctx context.Context, d time.Duration) {
	due, wallDue := time.Now().Add(d), r.wall().Add(d)
	for ctx.Err() == nil && time.Until(due) > 0 && r.wall().Before(wallDue) {
		step, cancel := context.WithTimeout(ctx, min(time.Until(due), r.schedule.retry.Max))
		r.await(ctx, step, nil)
		cancel()
		if ctx.Err() == nil && !r.lost && !r.wall().Before(r.expiry) {
			r.lose()
		}
	}
}

// await returns the outcome of an attempt, or false if ctx ends before it is there. A
// lease that runs out meanwhile is reported at that instant, unless run, the context of
// Run, has ended.
func (r *Renewal) await(run, ctx context.Context, settled <-chan apart.Outcome) (apart.Outcome, bool) {
	for {
		select {
		case out := <-settled:
			return out, true
		case <-r.runsOut.C:
			if run.Err() == nil {
				r.lose()
			}
		case <-ctx.Done():
			select {
			case out := <-settled: // while OnLost was busy
				return out, true
			default:
				return apart.Outcome{}, false
			}
		}
	}
}

// tooLong is the error of an attempt that was cut off after the given time.
type tooLong time.Duration

func (d tooLong) Error() string {
	return fmt.Sprintf("leaserenewal: not renewed within %v", time.Duration(d))
}

func (d tooLong) Timeout() bool        { return true }
func (d tooLong) Is(target error) bool { return target == context.DeadlineExceeded }

func notify(f func()) {
	if f != nil {
		f()
	}
}
