package timeouts

import (
	"context"
	"fmt"
	"time"
)

// Phase tells which of the [Limits] was over.
type Phase int

const (
	Total Phase = iota
	Header
	Idle
)

// String returns "total", "header" or "idle".
func (p Phase) String() string {
	switch p {
	case Total:
		return "total"
	case Header:
		return "header"
	case Idle:
		return "idle"
	}
	return fmt.Sprintf("Phase(%d)", int(p))
}

// Error says that a limit was over. RoundTrip returns it, and so does each Read of
// the response body from then on. It is a net.Error and a timeout, also in the
// *url.Error of an http.Client, and matches [context.DeadlineExceeded].
type Error struct {
	Phase Phase
	Limit time.Duration // how long it was
}

// Error says what was waited for in vain, and how long.
func (e *Error) Error() string {
	switch e.Phase {
	case Header:
		return fmt.Sprintf("timeouts: no response header within %v", e.Limit)
	case Idle:
		return fmt.Sprintf("timeouts: no data of the response body for %v", e.Limit)
	}
	return fmt.Sprintf("timeouts: request not done within %v", e.Limit)
}

// Timeout reports true.
func (e *Error) Timeout() bool { return true }

// Temporary reports true, as the timeouts of package net do. It makes this a
// net.Error.
func (e *Error) Temporary() bool { return true }

// Is reports whether target is [context.DeadlineExceeded].
func (e *Error) Is(target error) bool { return target == context.DeadlineExceeded }
