package breaker

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrOpen is what every refusal matches: errors.Is(err, breaker.ErrOpen).
var ErrOpen = errors.New("breaker: sending is paused")

// OpenError is the refusal of a call: sending is paused, or a trial is under way.
// It is no timeout, and it does not unwrap to its Cause, since the call that got
// it never met that failure. All calls refused between two changes of state get
// the same value: do not modify it.
type OpenError struct {
	// State is Open during a pause, HalfOpen while a trial runs.
	State State
	// Until is when the pause ends or, while a trial runs, the latest time by
	// which it is settled.
	Until time.Time
	// Cause is what opened the breaker: the last error, of those that are not nil,
	// that was given to the Fail of the failure too many or of a trial since, or that
	// says that a trial was out of time. It may be nil.
	Cause error
}

// Remaining returns how long it is until Until. It is never negative. During a
// trial it is an upper bound, TrialTimeout at first: most trials are settled much
// sooner.
func (e *OpenError) Remaining() time.Duration { return max(time.Until(e.Until), 0) }

// Error says in one line what is refused, for how much longer, and why.
func (e *OpenError) Error() string {
	remaining := e.Remaining().Round(time.Millisecond)
	s := fmt.Sprintf("breaker: sending is paused for another %v", remaining)
	if e.State == HalfOpen {
		s = fmt.Sprintf("breaker: sending is paused while a trial runs, for another %v at most", remaining)
	}
	if e.Cause != nil {
		s += ", because of: " + strings.Join(strings.Fields(e.Cause.Error()), " ")
	}
	return s
}

// Is reports whether target is [ErrOpen].
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// trialTimeout is the cause of a change that no Fail made.
type trialTimeout time.Duration

func (d trialTimeout) Error() string {
	return fmt.Sprintf("trial has not reported within %v", time.Duration(d))
}
