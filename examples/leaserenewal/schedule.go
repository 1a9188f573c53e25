package leaserenewal

import (
	"time"

	"github.com/respitehttp/respite/breaker/backoff"
)

const (
	spread         = 0.1 // of the time between two renewals
	longestRetry   = 30 * time.Second
	longestAttempt = 30 * time.Second
)

// shortest returns the bound of waits and attempts from below: 1 ms, but half of a TTL
// from 1 to 2 ms. So a lease that no network can keep makes no hot loop.
func shortest(ttl time.Duration) time.Duration {
	if ttl < time.Millisecond {
		return time.Millisecond
	}
	return min(time.Millisecond, ttl/2)
}

// schedule says when a lease is renewed.
type schedule struct {
	shortest time.Duration       // wait
	interval time.Duration       // from one renewal to the next
	attempt  time.Duration       // how long one may take
	retry    backoff.Exponential // from a failed attempt to the next
}

func newSchedule(ttl time.Duration) schedule {
	longest := min(longestRetry, max(ttl/20, shortest(ttl)))
	return schedule{
		shortest: shortest(ttl),
		interval: ttl / 2,
		attempt:  attemptTimeout(ttl),
		retry: backoff.Exponential{
			Initial:    min(time.Second, longest),
			Max:        longest,
			Multiplier: 2,
			Jitter:     0.1,
		},
	}
}

// attemptTimeout returns how long an attempt may take: a quarter of the interval, if that
// is neither too long nor too short.
func attemptTimeout(ttl time.Duration) time.Duration {
	return min(longestAttempt, max(ttl/8, shortest(ttl)))
}

// next returns how long to wait for the next attempt, after so many failures since
// the last success.
func (s schedule) next(failures int) time.Duration {
	if failures == 0 {
		return max(s.shortest, backoff.Spread(s.interval, spread))
	}
	return max(s.shortest, s.retry.Delay(failures))
}
