package breaker

import "time"

// Change is one change of state, as [Config.OnChange] gets it: Closed to Open,
// Open to HalfOpen (a trial was admitted), HalfOpen to Open (the trial failed, or
// was cancelled) or HalfOpen to Closed.
type Change struct {
	From, To State
	// At is when it happened. A trial that was out of time failed at that time,
	// though it may be noticed much later.
	At time.Time
	// Until is the end of the pause or, to HalfOpen, when the trial is out of
	// time; zero to Closed.
	Until time.Time
	// Delay is the length of the pause that begins or, to HalfOpen, of the one
	// that is over, in both cases before jitter shortened it; 0 to Closed.
	Delay time.Duration
	// Failures is what paused sending: from Closed, the failures within the
	// window; from HalfOpen, the trials that failed in a row. It is 0 for all
	// other changes, a cancelled trial among them.
	Failures int
	// Cause is the error that was given to the Fail that did it, or one that
	// says that the trial was out of time; nil where no failure did it.
	Cause error
}

// notifier is the queue between the changes, which are made under the lock of
// the Breaker, and OnChange, which is called without it. That lock guards it.
type notifier struct {
	onChange   func(Change)
	pending    []Change
	delivering bool // some call is: the others leave their changes to it
}

// unlock releases b.mu and then delivers the changes that were made under it,
// unless another call is at it already.
func (b *Breaker) unlock() {
	n := b.notify
	mine := n != nil && len(n.pending) > 0 && !n.delivering
	if mine {
		n.delivering = true
	}
	b.mu.Unlock()
	if mine {
		b.deliver()
	}
}

// deliver calls OnChange for each pending change, in spite of an OnChange that
// panics or ends its goroutine: the next ones are delivered on the way out.
func (b *Breaker) deliver() {
	finished := false
	defer func() {
		if !finished {
			b.deliver()
		}
	}()
	for c, ok := b.nextChange(); ok; c, ok = b.nextChange() {
		b.notify.onChange(c)
	}
	finished = true
}

func (b *Breaker) nextChange() (Change, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.notify
	if len(n.pending) == 0 {
		n.pending, n.delivering = nil, false
		return Change{}, false
	}
	c := n.pending[0]
	n.pending = n.pending[1:]
	return c, true
}
