package breaker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// State is one of Closed, Open and HalfOpen.
type State int

const (
	Closed   State = iota // calls are admitted
	Open                  // a pause: calls are refused
	HalfOpen              // a trial runs, or the pause is over and the next call is the trial
)

// String returns "closed", "open" or "half-open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Stats is what a [Breaker] knows of itself. All of it is of one instant, except
// Refused, which is counted without a lock.
type Stats struct {
	State State
	// Failures is how many failures count in the closed state: those within the
	// window. 0 in the other states.
	Failures int
	// Delay is the length of the pause that runs or is just over, before jitter
	// shortened it. 0 in the closed state.
	Delay time.Duration
	// Until is the end of that pause or, while a trial runs, the latest time by
	// which it is settled. Zero in the closed state.
	Until time.Time

	// These count from the start of the Breaker.

	Refused uint64 // calls of Allow that were refused, also if the caller waits and asks again
	Failed  uint64 // failures that counted, trials included
	Opened  uint64 // pauses, the first ones and those after a trial
	Trials  uint64 // calls admitted as a trial
}

// Breaker pauses calls to a server that fails. Make one with [New]; the zero Breaker
// is not usable. It is safe for concurrent use, holds no goroutine and needs no
// closing. All methods return without waiting, except Wait and while they run
// Config.OnChange.
type Breaker struct {
	// These are what calls read without the lock. They are written under it, with
	// each change of the rules: refused, view, epoch, so that a call that sees a
	// refusal finds the counter, and one that sees an epoch finds its view or a newer
	// one. A call that sees an old epoch came before the change.
	epoch   atomic.Int64
	view    atomic.Pointer[view]
	refused atomic.Pointer[counter] // made for the first pause

	mu     sync.Mutex // guards the following, and view.replaced
	rules  rules
	notify *notifier // nil: no OnChange
}

// view is what a change led to. While closed, it is empty.
type view struct {
	refusal  *OpenError    // what calls get
	until    time.Duration // the same instant as refusal.Until
	replaced chan struct{} // made by Wait when needed, closed when another view takes over
}

// start is where the instants of all breakers are counted from. Only differences
// of them have a meaning; in a bubble, where time begins in the year 2000, instants
// may be negative.
var start = time.Now()

// sinceStart reads the monotonic clock.
func sinceStart() time.Duration { return time.Since(start) }

// instant returns the time that lies d after start, with the reading that the
// wall clock has now.
func instant(d time.Duration) time.Time {
	now := time.Now()
	return now.Add(d - now.Sub(start))
}

// closedView is the view of every breaker that is closed. It is never written to.
var closedView view

// New returns a closed Breaker, or an error that lists every field of cfg that
// is outside its range, with its value and what is accepted.
func New(cfg Config) (*Breaker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Breaker{rules: newRules(cfg)}
	if cfg.OnChange != nil {
		b.notify = &notifier{onChange: cfg.OnChange}
	}
	b.view.Store(&closedView)
	return b, nil
}

// Allow asks whether a call may be made now. If so, the caller makes it and
// reports its outcome through the [Call]; if not, the error is an [*OpenError].
func (b *Breaker) Allow() (call Call, err error) {
	// In this form, and hardly in another, it is inlined: go build -gcflags=-m=2.
	if call = (Call{b, epoch(b.epoch.Load())}); call.epoch < 0 {
		err = call.admit()
	}
	return
}

// admit is Allow where it is not plain that calls are admitted.
func (c *Call) admit() error {
	b := c.b
	if v := b.view.Load(); v.refusal != nil && sinceStart() < v.until {
		*c = Call{}
		b.refused.Load().add(c)
		return v.refusal
	}

	b.mu.Lock()
	admitted, change := b.rules.admit(b.settle())
	b.publish(change, nil)
	if !admitted {
		*c = Call{}
		refusal := b.view.Load().refusal
		b.unlock()
		b.refused.Load().add(c)
		return refusal
	}
	c.epoch = b.rules.epoch
	handedOver := false
	defer func() {
		if !handedOver { // OnChange panicked or ended the goroutine
			c.Cancel()
		}
	}()
	b.unlock()
	handedOver = true
	return nil
}

// Fail records a failure that is no call of its own, such as an answer that broke
// off after the call had been reported as a success. It counts in the closed
// state. During a pause or a trial it is dropped: only the trial itself decides.
// The cause may be nil; see [Call.Fail].
func (b *Breaker) Fail(cause error) {
	b.mu.Lock()
	b.publish(b.rules.failOther(b.settle()), cause)
	b.unlock()
}

func (b *Breaker) fail(epoch epoch, cause error) {
	b.mu.Lock()
	b.publish(b.rules.fail(b.settle(), epoch), cause)
	b.unlock()
}

func (b *Breaker) succeed(epoch epoch) {
	b.mu.Lock()
	b.publish(b.rules.succeed(b.settle(), epoch), nil)
	b.unlock()
}

func (b *Breaker) cancel(epoch epoch) {
	b.mu.Lock()
	b.publish(b.rules.cancel(b.settle(), epoch), nil)
	b.unlock()
}

// State returns the state at this instant. It is HalfOpen from the end of a pause,
// also when no call has come since.
func (b *Breaker) State() State {
	if b.view.Load().refusal == nil {
		return Closed
	}
	return b.Stats().State
}

// Stats returns the state and the counts at this instant.
func (b *Breaker) Stats() Stats {
	b.mu.Lock()
	defer b.unlock()
	now := b.settle()
	s := Stats{
		State:    b.rules.state,
		Failures: b.rules.inWindow(now),
		Refused:  b.refused.Load().sum(),
		Failed:   b.rules.failed,
		Opened:   b.rules.opened,
		Trials:   b.rules.trials,
	}
	if s.State != Closed {
		s.Delay, s.Until = b.rules.delay(), b.view.Load().refusal.Until
	}
	if b.rules.over(now) {
		s.State = HalfOpen
	}
	return s
}

// settle reads the clock and ends a trial that is out of time. It is the first
// step of each method that takes the lock: read under it, the time that the rules
// see never goes back. The caller holds mu.
func (b *Breaker) settle() time.Duration {
	now := sinceStart()
	if c := b.rules.settle(now); c != (change{}) {
		b.publish(c, trialTimeout(b.rules.trialTimeout))
	}
	return now
}

// publish makes a change of the rules known: to calls that take no lock, to those
// that wait, and to OnChange. The caller holds mu.
func (b *Breaker) publish(c change, cause error) {
	if c == (change{}) {
		return
	}
	old, v := b.view.Load(), &closedView
	known := Change{From: c.from, To: c.to, At: instant(c.at), Failures: c.failures, Cause: cause}
	if c.to != Closed {
		if cause == nil && old.refusal != nil {
			cause = old.refusal.Cause
		}
		until := b.rules.until
		v = &view{&OpenError{State: c.to, Until: instant(until), Cause: cause}, until, nil}
		known.Until, known.Delay = v.refusal.Until, b.rules.delay()
	}
	if b.refused.Load() == nil {
		b.refused.Store(new(counter))
	}
	b.view.Store(v)
	b.epoch.Store(int64(b.rules.epoch))
	if old.replaced != nil {
		close(old.replaced)
	}
	if b.notify != nil {
		b.notify.pending = append(b.notify.pending, known)
	}
}
