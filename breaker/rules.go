package breaker

import (
	"math"
	"sort"
	"time"

	"github.com/respitehttp/respite/breaker/backoff"
)

// rules is the state diagram of the package comment and nothing else: no lock,
// no clock, no goroutine. Its methods take the time, as a duration since some
// fixed instant, and never see it go back.
//
// A trial that has run out of time has failed in the past. So that each method
// makes one change at most, settle works that out, and is called for the same
// now before any other method.
type rules struct {
	enough       int // failures within the window
	window       time.Duration
	delays       backoff.Exponential
	trialTimeout time.Duration

	state State // Open also when the pause is over and no call has come yet
	epoch epoch // of the state; a call reports in the one that it was admitted in

	// failures holds the times of the last failures of the closed state, at most
	// as many as it takes to pause. Full, it is a ring that begins at oldest.
	failures []time.Duration
	oldest   int

	cancelled    bool          // the last trial was: the first delay, whatever the growth
	failedTrials int           // in a row: what the pause has grown by
	until        time.Duration // Open: the end of the pause; HalfOpen: when the trial is out of time

	failed, opened, trials uint64 // for Stats
}

// epoch numbers the states that a breaker has been in: positive, or 0 for the
// first one, where calls are admitted freely, negative where they are not.
type epoch int64

func (e epoch) paused() bool { return e < 0 }

func (e epoch) next(paused bool) epoch {
	e = max(e, -e) + 1
	if paused {
		return -e
	}
	return e
}

// change is a step from one state to another; the zero change is none. What it
// led to is in the rules.
type change struct {
	from, to State
	at       time.Duration
	failures int // what did it: failures within the window, or trials failed in a row
}

func newRules(cfg Config) rules { // complete and valid
	return rules{
		enough: cfg.FailuresToEnterRecovery,
		window: cfg.FailuresWindow,
		delays: backoff.Exponential{
			Initial:    cfg.InitialRecoveryDelay,
			Max:        cfg.MaxRecoveryDelay,
			Multiplier: cfg.RecoveryMultiplier,
			Jitter:     cfg.Jitter,
		},
		trialTimeout: cfg.TrialTimeout,
	}
}

// settle ends a trial that has not reported in time: it failed when its time
// was over.
func (r *rules) settle(now time.Duration) change {
	if r.state == HalfOpen && now >= r.until {
		return r.failTrial(r.until)
	}
	return change{}
}

// admit reports whether a call may be made now. The first one after a pause is
// the trial.
func (r *rules) admit(now time.Duration) (bool, change) {
	switch {
	case r.state == Closed:
		return true, change{}
	case r.over(now):
		r.trials++
		r.until = after(now, r.trialTimeout)
		return true, r.enter(HalfOpen, now, 0)
	}
	return false, change{}
}

// fail takes the failure of a call that was admitted in the given epoch.
func (r *rules) fail(now time.Duration, epoch epoch) change {
	switch {
	case epoch != r.epoch:
		return change{}
	case r.state == HalfOpen:
		return r.failTrial(now)
	}
	r.failed++
	if !r.record(now) {
		return change{}
	}
	return r.pause(now, len(r.failures))
}

// failOther takes a failure that is no call of its own: it never decides a trial.
func (r *rules) failOther(now time.Duration) change {
	if r.state != Closed {
		return change{}
	}
	return r.fail(now, r.epoch)
}

// succeed takes the success of a call that was admitted in the given epoch.
func (r *rules) succeed(now time.Duration, epoch epoch) change {
	if epoch != r.epoch || r.state != HalfOpen {
		return change{}
	}
	r.failedTrials = 0
	return r.enter(Closed, now, 0)
}

// cancel takes back a call that was admitted in the given epoch. A trial is
// followed by the first delay again, so that callers in a hurry cannot reach a
// sick server one after the other.
func (r *rules) cancel(now time.Duration, epoch epoch) change {
	if epoch != r.epoch || r.state != HalfOpen {
		return change{}
	}
	r.cancelled = true
	return r.pause(now, 0)
}

func (r *rules) failTrial(at time.Duration) change {
	r.failed++
	r.failedTrials++
	r.cancelled = false
	return r.pause(at, r.failedTrials)
}

func (r *rules) pause(at time.Duration, failures int) change {
	r.opened++
	r.failures, r.oldest = r.failures[:0], 0
	r.until = after(at, r.delays.Delay(r.step()))
	return r.enter(Open, at, failures)
}

func (r *rules) enter(to State, at time.Duration, failures int) change {
	c := change{from: r.state, to: to, at: at, failures: failures}
	r.state, r.epoch = to, r.epoch.next(to != Closed)
	return c
}

// after returns the instant that lies d after the given one, or the last there is.
func after(at, d time.Duration) time.Duration {
	if sum := at + d; sum > at {
		return sum
	}
	return math.MaxInt64
}

// record notes a failure of the closed state, and reports whether there are now
// as many within the window as it takes to pause.
func (r *rules) record(now time.Duration) bool {
	if len(r.failures) < r.enough {
		if r.failures == nil {
			r.failures = make([]time.Duration, 0, r.enough)
		}
		r.failures = append(r.failures, now)
	} else {
		r.failures[r.oldest] = now
		r.oldest = (r.oldest + 1) % r.enough
	}
	return len(r.failures) == r.enough && now-r.failures[r.oldest] <= r.window
}

// inWindow returns how many failures count now.
func (r *rules) inWindow(now time.Duration) int {
	n := len(r.failures)
	return n - sort.Search(n, func(i int) bool {
		return now-r.failures[(r.oldest+i)%n] <= r.window
	})
}

// over reports whether a pause is over and its trial has not begun.
func (r *rules) over(now time.Duration) bool { return r.state == Open && now >= r.until }

// step is how far the delay of the pause, that runs or ran last, has grown.
func (r *rules) step() int {
	if r.cancelled {
		return 1
	}
	return 1 + r.failedTrials
}

// delay is that delay, before jitter shortens it.
func (r *rules) delay() time.Duration {
	unshortened := r.delays
	unshortened.Jitter = 0
	return unshortened.Delay(r.step())
}
