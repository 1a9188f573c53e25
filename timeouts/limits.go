package timeouts

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits bounds the time that a request may take. Zero means no limit; a negative
// limit is an error.
type Limits struct {
	// Total runs from the start of RoundTrip to the end of the response body: its
	// EOF, its error or its Close.
	Total time.Duration
	// Header runs from the start of RoundTrip until the response header has
	// arrived. Connecting and sending the request body count.
	Header time.Duration
	// Idle bounds how long one Read of the response body waits. It only runs while
	// a Read is in progress, so a slow reader is not taken for a stalled server,
	// and with each Read it starts anew, so a stream that goes on may do so for
	// days. It is about what Read gives: where net/http decompresses a stream, many
	// bytes may arrive before there is something to read.
	Idle time.Duration
}

// Validate reports every negative limit, joined in one error.
func (l Limits) Validate() error {
	if l.Total >= 0 && l.Header >= 0 && l.Idle >= 0 {
		return nil
	}
	var faults []error
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{{"Total", l.Total}, {"Header", l.Header}, {"Idle", l.Idle}} {
		if limit.value < 0 {
			faults = append(faults, fmt.Errorf("timeouts: Limits.%s is %v; accepted: > 0, or 0 for no limit", limit.name, limit.value))
		}
	}
	return errors.Join(faults...)
}

// before returns the limits without those that cannot end a request that has only
// so much time left.
func (l Limits) before(left time.Duration) Limits {
	for _, limit := range []*time.Duration{&l.Total, &l.Header, &l.Idle} {
		if *limit >= left {
			*limit = 0
		}
	}
	return l
}

func (l Limits) of(p Phase) time.Duration {
	switch p {
	case Header:
		return l.Header
	case Idle:
		return l.Idle
	}
	return l.Total
}

type limitsKey struct{}

// WithLimits returns a context in which l takes the place of the limits of any
// [Transport], as a whole: a zero field means no limit, and a negative one makes
// RoundTrip fail, also Total, which in the Config of package transport means none
// then. So one client serves both short calls and streams.
func WithLimits(ctx context.Context, l Limits) context.Context {
	return context.WithValue(ctx, limitsKey{}, l)
}
